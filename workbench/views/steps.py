"""The steps of a run as nested lists: sequences flat, everything else with what it directs inside.

One row a step: status, title, size of the result, when it ran within the run, attempt, duration.
A row opens to what `step_detail` shows. Built from the leaves upwards, because graphs nest deeper
than Python recurses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from workbench.store.records import AttemptRow, NodeRow, RunRow
from workbench.views import preview
from workbench.views.clock import countdown, lasting
from workbench.views.markup import Safe, join, tag
from workbench.views.status import badge, of_node
from workbench.views.step_detail import detail, error_line
from workbench.views.titles import Title, headings, title
from workbench.views.words import count, duration

__all__ = ["RunData", "step_list", "step_title", "visible"]

_FOLD_FROM = 60  # steps in a run before settled ones are folded
_FOLD_KEEPS = 3  # of a folded row of equals, so many at either end stay
_BARS = 20  # attempts drawn in a step's bar


@dataclass(frozen=True)
class RunData:
    """Everything that a run's view shows."""

    run: RunRow
    nodes: Sequence[NodeRow]
    attempts: Sequence[AttemptRow] = ()
    children: dict[int, list[NodeRow]] = field(init=False, repr=False)
    attempts_of: dict[int, list[AttemptRow]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        children, attempts_of = defaultdict(list), defaultdict(list)
        for node in self.nodes:
            if node.parent_id is not None:
                children[node.parent_id].append(node)
        for attempt in self.attempts:
            attempts_of[attempt.node_id].append(attempt)
        object.__setattr__(self, "children", dict(children))
        object.__setattr__(self, "attempts_of", dict(attempts_of))

    @property
    def ended(self) -> bool:
        """Whether the run has ended, so that nothing here changes any more."""
        return self.run.status in ("completed", "failed", "cancelled")

    def same_as(self, other: RunData) -> bool:
        """Whether the other shows the same, but for the moment at which it was read."""
        run = replace(other.run, as_of=self.run.as_of)
        return (self.run, self.nodes, self.attempts) == (run, other.nodes, other.attempts)


class _Item(NamedTuple):
    """A rendered step of a sequence."""

    number: int
    status: str
    html: Safe

    def shown(self, role: str | None) -> Safe:
        return tag("li", self.html, data_key=f"#{self.number}", role=role)


def step_title(data: RunData, node: NodeRow) -> Title:
    """Name a node of a run."""
    return title(node, len(data.children.get(node.node_id, ())))


def visible(data: RunData) -> list[tuple[int, NodeRow]]:
    """Return every node but the THENs, which only hold others together, and its indentation."""
    levels: dict[int, int] = {}
    found = []
    for node in data.nodes:
        level = 0 if node.parent_id is None else levels[node.parent_id]
        flat = node.node_type == "THEN"
        levels[node.node_id] = level if flat else level + 1
        if not flat:
            found.append((level, node))
    return found


def step_list(data: RunData) -> Safe:
    """Return all steps of a run: a list, or a tree when steps are nested."""
    items: dict[int, list[_Item]] = {}
    fold = len(data.nodes) > _FOLD_FROM
    tree = any(level for level, _ in visible(data))
    levels = {node.node_id: level for level, node in visible(data)} if tree else {}
    for node in reversed(data.nodes):
        below = headings(node, data.children.get(node.node_id, []))
        if node.node_type == "THEN":
            items[node.node_id] = [item for _, child in below for item in items.pop(child.node_id)]
            continue
        inner = [
            (heading, _list(items.pop(child.node_id), fold, "group")) for heading, child in below
        ]
        status = of_node(node)
        step = _step(data, node, status, inner, levels.get(node.node_id))
        items[node.node_id] = [_Item(node.node_id, status, step)]
    return _list(items[0], fold, "tree" if tree else None) if items else Safe()


def _list(items: list[_Item], fold: bool, role: str | None) -> Safe:
    own = None if role is None else "none"  # in a tree the row is the item
    shown = _folded(items, own) if fold else [item.shown(own) for item in items]
    return tag("ol", shown, class_="wb-steps", role=role, aria_label=role == "tree" and "steps")


def _folded(items: list[_Item], role: str | None) -> Iterable[Safe]:
    """Leave out the middle of long rows of settled or untouched steps."""
    for status, group in groupby(items, key=lambda item: item.status):
        same = list(group)
        middle = same[_FOLD_KEEPS:-_FOLD_KEEPS]
        if status not in ("completed", "pending", "skipped", "cancelled") or len(middle) < 5:
            yield from (item.shown(role) for item in same)
            continue
        yield from (item.shown(role) for item in same[:_FOLD_KEEPS])
        text = f"{count(len(middle), 'more step')}, #{middle[0].number} to #{middle[-1].number}"
        row = tag(
            "div",
            badge(status),
            tag("span", text, class_="wb-title wb-fold"),
            class_=f"wb-row wb-is-{status}",
        )
        yield tag("li", row, role=role)
        yield from (item.shown(role) for item in same[-_FOLD_KEEPS:])


def _step(
    data: RunData, node: NodeRow, status: str, inner: list[tuple[str, Safe]], level: int | None
) -> Safe:
    more = detail(node, data.attempts_of.get(node.node_id, []))
    row = [
        badge(status),
        _title(step_title(data, node), node),
        tag("span", preview.summary(node), class_="wb-meta"),
        _bar(data, node, status),
        _attempt(data.run, node, status),
        _time(data.run, node, status),
        tag("span", class_="wb-more" if more else None, aria_hidden="true"),
        tag("span", line, class_="wb-line") if (line := error_line(node)) else None,
    ]
    item: dict[str, str | int | None] = {"class_": f"wb-row wb-is-{status}"}
    if level is not None:
        item |= {"role": "treeitem", "aria_level": level + 1, "tabindex": None if more else 0}
    shown = tag("details", tag("summary", row, **item), more) if more else tag("div", row, **item)
    return join(shown, _inner(inner))


def _inner(parts: list[tuple[str, Safe]]) -> Safe | None:
    if not parts:
        return None
    shown = [(tag("div", heading, class_="wb-heading"), steps) for heading, steps in parts]
    return tag("div", shown, class_="wb-inner")


def _title(named: Title, node: NodeRow) -> Safe:
    text = tag("code" if named.is_code else "span", named.text, class_="wb-text", title=named.text)
    name = node.result_name
    return tag(
        "span",
        tag("span", named.kind, class_="wb-kind"),
        text if named.text else None,
        tag("span", "→ ", tag("b", name), class_="wb-name", title=name) if name else None,
        class_="wb-title",
    )


def _time(run: RunRow, node: NodeRow, status: str) -> Safe:
    seconds = lasted(run, node, status)
    if seconds is None:
        return tag("span", class_="wb-time")
    return lasting(seconds, None if node.finished_at else node.started_at, "wb-time")


def _attempt(run: RunRow, node: NodeRow, status: str) -> Safe:
    words = _which_attempt(run, node, status)
    wait = None
    if until := _next_attempt(run, node, status):
        wait = join(" in ", countdown(run.as_of, until))
    return tag("span", words, wait, class_="wb-meta wb-attempt", title=words or None)


def lasted(run: RunRow, node: NodeRow, status: str) -> float | None:
    """Return the seconds that a node's last attempt took, or has taken so far."""
    if node.started_at is None or status == "retrying":
        return None
    end = node.finished_at or (run.as_of if status in ("running", "waiting") else None)
    return None if end is None else (end - node.started_at).total_seconds()


def attempt_words(run: RunRow, node: NodeRow, status: str) -> str:
    """Say which attempt a step is at, when that tells something, and when the next one is."""
    said = _which_attempt(run, node, status)
    if until := _next_attempt(run, node, status):
        said += f" in {duration((until - run.as_of).total_seconds())}"
    return said


def _which_attempt(run: RunRow, node: NodeRow, status: str) -> str:
    number = node.attempt + (1 if status in ("running", "retrying") else 0)
    lost = f"lost {node.losses}×" if node.losses else ""
    if node.attempt < 1 or number < 2:
        return lost if number else ""
    of = f" of {run.max_attempts}" if run.max_attempts >= number else ""
    return f"attempt {number}{of}"


def _next_attempt(run: RunRow, node: NodeRow, status: str) -> datetime | None:
    waits = status == "retrying" and node.attempt and node.ready_at and node.ready_at > run.as_of
    return node.ready_at if waits else None


def _bar(data: RunData, node: NodeRow, status: str) -> Safe:
    """Draw when a step's attempts ran, from the run's start to its end or to now."""
    run = data.run
    start = run.started_at or run.created_at
    whole = ((run.finished_at or run.as_of) - start).total_seconds()
    ended = [
        (a.started_at, a.finished_at, "completed" if a.outcome == "completed" else "failed")
        for a in data.attempts_of.get(node.node_id, [])[-_BARS:]
    ]
    if status in ("running", "waiting") or not ended:
        ended.append((node.started_at, node.finished_at or run.as_of, status))
    marks = [_mark(start, whole, *span) for span in ended if span[0] is not None]
    return tag("span", marks, class_="wb-bar" if marks else "wb-no-bar", aria_hidden="true")


def _mark(
    start: datetime, whole: float, began: datetime | None, ended: datetime, status: str
) -> Safe:
    """Draw one attempt. A live picture draws it again from its data as the whole grows."""
    if began is None or whole <= 0:
        return Safe()
    since, until = ((at - start).total_seconds() for at in (began, ended))
    left = min(max(since / whole, 0), 0.98) * 100
    width = min(max((until - since) / whole, 0) * 100, 100 - left)
    return tag(
        "i",
        class_=f"wb-is-{status}",
        style=f"left:{left:.1f}%;width:{width:.1f}%",
        data_from=round(since, 3),
        data_to=None if status in ("running", "waiting") else round(until, 3),
    )
