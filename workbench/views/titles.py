"""What a node is called: its kind and one line of what it does; and what its parts are for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from workbench.graph.node import Node
from workbench.graph.tree import label
from workbench.store.records import NodeRow
from workbench.views.words import count, duration, one_line, shorten

__all__ = ["Part", "Title", "config", "handler_of", "is_until", "parts", "title", "url_of"]

_COMPOSITES = frozenset({"THEN", "IF", "JOIN", "LOOP", "RACE", "FLOW", "MAP"})
_LONGEST = 160  # characters; a row shows what fits, and the whole is a click away
_PASSWORD = re.compile(r"(?<=//)[^/?#@]*@")


class Title(NamedTuple):
    """`kind` is a word such as SQL; `is_code` tells code from prose."""

    kind: str
    text: str
    is_code: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.text}".rstrip()


class Part(NamedTuple):
    """A child of a composite: what it is for, and what came of that, such as `not taken`."""

    heading: str
    child: NodeRow
    note: str = ""


def title(node: NodeRow, children: int = 0) -> Title:
    """Name a node; `children` is how many it directs."""
    describe = _TITLES.get(node.node_type)
    if describe is not None:
        return describe(node)
    if node.node_type in ("JOIN", "RACE"):
        return Title(node.node_type, f"{children} branches", is_code=False)
    if node.node_type == "FLOW":
        slug = config(node).get("slug", "?")
        return Title("FLOW", f"{slug}, {count(children, 'step')}", is_code=False)
    # The words of `df.explain` without the kind that they begin with.
    line = label(Node(node.node_type, query=node.query))
    text = one_line(line.removeprefix(node.node_type))
    return Title(node.node_type, shorten(text, _LONGEST), is_code=False)


def parts(node: NodeRow, children: Sequence[NodeRow]) -> list[Part]:
    """Return a composite's children in the order in which they run."""
    ordered = sorted(children, key=lambda child: child.ord or 0)
    if node.node_type == "IF":
        ordered.sort(key=lambda child: child.ord != 3)
    return [
        Part(_heading(node, child, number), child, _note(node, child))
        for number, child in enumerate(ordered, 1)
    ]


def config(node: NodeRow) -> dict[str, Any]:
    """Return the JSON object that a node's query is; empty when it is none."""
    try:
        value = json.loads(node.query or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def is_until(node: NodeRow) -> bool:
    """Whether a LOOP ends when its condition is true."""
    return bool((node.options or {}).get("until"))


def url_of(request: dict[str, Any]) -> str:
    """Return a request's URL; a name and a password in it are not shown."""
    return _PASSWORD.sub("…@", str(request.get("url", "?")))


def _heading(node: NodeRow, child: NodeRow, number: int) -> str:
    match node.node_type, child.ord:
        case "IF", order:
            return {1: "then", 2: "else"}.get(order or 0, "condition")
        case "LOOP", 3:
            return "until" if is_until(node) else "while"
        case "LOOP", _:
            return "body"
        case "MAP", order:
            if child.element is None:
                return "each element"
            # A leaf is called after its place: `price[3]`.
            return f"element {(order or 1) - 1}" if child.node_type in _COMPOSITES else ""
        case (("JOIN" | "RACE"), _):
            return f"branch {number}"
        case "FLOW", _:
            return ""  # a step is named by its result
    return f"part {number}"


def _note(node: NodeRow, child: NodeRow) -> str:
    if node.node_type == "IF" and child.ord != 3 and child.status == "skipped":
        return "not taken"
    if node.node_type == "RACE" and node.status in ("completed", "failed"):
        return "first" if child.status in ("completed", "failed") else "too late"
    return ""


def _sql(node: NodeRow) -> Title:
    return Title("SQL", shorten(one_line(node.query or ""), _LONGEST))


def handler_of(node: NodeRow) -> str:
    """What executes a PYTHON or EXTERNAL step."""
    return node.handler or str(config(node).get("handler", "?"))


def _python(node: NodeRow) -> Title:
    return Title("PYTHON", handler_of(node).rpartition(":")[2])


def _external(node: NodeRow) -> Title:
    return Title("EXTERNAL", handler_of(node))


def _http(node: NodeRow) -> Title:
    request = config(node)
    text = f"{request.get('method', 'POST')} {url_of(request)}"
    return Title("HTTP", shorten(one_line(text), _LONGEST))


def _sleep(node: NodeRow) -> Title:
    try:
        text = _length(float(node.query or ""))
    except ValueError:
        text = node.query or "?"
    return Title("SLEEP", text, is_code=False)


def _length(seconds: float) -> str:
    """Say a duration that somebody gave: `5 s`, not the `5.0 s` of one that was measured."""
    return f"{seconds:g} s" if 1 <= seconds < 10 else duration(seconds)


def _schedule(node: NodeRow) -> Title:
    wait = config(node)
    text = f"{wait.get('cron_expr', '?')} {wait.get('timezone', 'UTC')}"
    return Title("WAIT", shorten(text, _LONGEST))


def _signal(node: NodeRow) -> Title:
    wait = config(node)
    timeout = wait.get("timeout_seconds")
    limit = "" if not isinstance(timeout, int | float) else f", at most {_length(timeout)}"
    text = f"{one_line(str(wait.get('signal_name', '?')))}{limit}"
    return Title("SIGNAL", shorten(text, _LONGEST), is_code=False)


def _break(node: NodeRow) -> Title:
    value = config(node).get("break_value")
    return Title("BREAK", "" if value is None else shorten(one_line(str(value)), _LONGEST))


def _if(node: NodeRow) -> Title:
    asked = config(node).get("result_name")
    return Title("IF", f"{asked} has rows" if asked else "", is_code=False)


def _loop(node: NodeRow) -> Title:
    pace = (node.options or {}).get("min_interval", 1)
    often = f"at most every {_length(pace)}" if isinstance(pace, int | float) and pace > 1 else ""
    return Title("LOOP", often, is_code=False)


def _map(node: NodeRow) -> Title:
    many = "" if node.size is None else f", {count(node.size, 'element')}"
    return Title("MAP", f"over {config(node).get('over', '?')}{many}", is_code=False)


_TITLES: Final[dict[str, Callable[[NodeRow], Title]]] = {
    "SQL": _sql,
    "PYTHON": _python,
    "EXTERNAL": _external,
    "HTTP": _http,
    "HTTP_MULTIPART": _http,
    "SLEEP": _sleep,
    "WAIT_SCHEDULE": _schedule,
    "SIGNAL": _signal,
    "BREAK": _break,
    "IF": _if,
    "LOOP": _loop,
    "MAP": _map,
}
