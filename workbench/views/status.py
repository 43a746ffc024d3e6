"""How a status looks everywhere: icon, word and colour; and which one a node or run shows.

Colours are Okabe and Ito's (2008), told apart by colour-blind people, in the tone that the theme
needs; grey for what is not going on. Never colour alone: each comes with its icon and word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from workbench.store.records import NodeRow, RunRow
from workbench.views.markup import Safe, tag

__all__ = ["STATUSES", "Status", "badge", "colours", "of_node", "of_run", "status_css"]


@dataclass(frozen=True, slots=True)
class Status:
    """Look of a status. `drawing` is the inside of a 16 × 16 SVG in strokes."""

    word: str
    icon: str
    light: str
    dark: str
    drawing: str


_GREY, _LIGHT_GREY = "#5f6770", "#9aa4af"
_RING = '<circle cx="8" cy="8" r="6"/>'

STATUSES: Final = {
    status.word: status
    for status in (
        Status(
            "pending",
            "○",
            _GREY,
            _LIGHT_GREY,
            '<circle cx="8" cy="8" r="6" stroke-dasharray="2.4 2.3"/>',
        ),
        Status(
            "ready",
            "◔",
            "#1d6f9c",
            "#56b4e9",
            f'{_RING}<path d="M8 8V3.6A4.4 4.4 0 0 1 12.4 8z" fill="black" stroke="none"/>',
        ),
        Status(
            "running",
            "◉",
            "#0068a3",
            "#56b4e9",
            f'{_RING}<circle cx="8" cy="8" r="2.8" fill="black" stroke="none"/>',
        ),
        Status(
            "waiting",
            "⏾",
            "#96457a",
            "#cc79a7",
            '<path d="M13 9.8A5.6 5.6 0 1 1 6.4 2.9 4.6 4.6 0 0 0 13 9.8z"/>',
        ),
        Status(
            "retrying",
            "↻",
            "#8a5800",
            "#e69f00",
            '<path d="M13.2 8.4A5.3 5.3 0 1 1 11.6 4.2M12.4 1.4v3.4H9"/>',
        ),
        Status(
            "completed",
            "✓",
            "#00704f",
            "#2bbf91",
            '<path d="M3 8.6l3.4 3.5L13 4.6" stroke-width="2"/>',
        ),
        Status(
            "failed",
            "✗",
            "#ad4500",
            "#f0803c",
            '<path d="M4 4l8 8M12 4l-8 8" stroke-width="2"/>',
        ),
        Status("cancelled", "⊘", _GREY, _LIGHT_GREY, f'{_RING}<path d="M4 12l8-8"/>'),
        Status(
            "skipped",
            "⤼",
            _GREY,
            _LIGHT_GREY,
            '<path d="M2 10.6a5.4 5.4 0 0 1 10.6-.6M13.6 6.8l-.9 3.6-3.5-1"/>',
        ),
    )
}


def of_node(node: NodeRow) -> str:
    """Tell which status a node shows: as stored, but `retrying` between two attempts."""
    return "retrying" if node.status == "ready" and node.attempt + node.losses else node.status


def of_run(run: RunRow, nodes: Iterable[NodeRow]) -> str:
    """Tell which status a run shows: of a running one, what most describes what is alive in it.

    It is `waiting` only when nothing is about to be executed.
    """
    if run.status != "running":
        return run.status
    nodes = list(nodes)
    above = {node.parent_id for node in nodes}  # they run as long as anything below does
    live = {
        of_node(node) for node in nodes if node.node_id not in above or node.status == "waiting"
    }
    seen = (word for word in ("running", "retrying", "ready", "waiting") if word in live)
    word = next(seen, "running")
    return "running" if word == "ready" else word


def badge(status: str, word: str | None = None, class_: str = "wb-status") -> Safe:
    """Return a status as icon and word, or with another `word` under the same look."""
    look = STATUSES.get(status, STATUSES["pending"])
    return tag(
        "span",
        tag("span", look.icon, class_="wb-icon", aria_hidden="true"),
        tag("span", word or status, class_="wb-word"),
        class_=f"{class_} wb-is-{look.word}",
    )


def colours(tone: str) -> str:
    """Return the CSS variables of all statuses for `light` or `dark`."""
    return "".join(f"--wb-{s.word}:{getattr(s, tone)};" for s in STATUSES.values())


def status_css() -> str:
    """Return one CSS class a status: its colour, and its icon as a mask."""
    return "\n".join(
        f".wb-is-{s.word}{{--wb-c:var(--wb-{s.word});--wb-i:url(\"{_image(s.drawing)}\")}}"
        for s in STATUSES.values()
    )  # fmt: skip


def _image(drawing: str) -> str:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="none" stroke="black" '
        f'stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">{drawing}</svg>'
    )
    return f"data:image/svg+xml,{quote(svg, safe=' =:/')}"
