"""What a node is called: its kind and one line of what it does."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from workbench.graph.node import Node
from workbench.graph.tree import label
from workbench.store.records import NodeRow
from workbench.views.words import count, one_line, shorten

__all__ = ["Title", "config", "headings", "title"]

_LONGEST = 160  # characters; a row shows what fits, and the whole is a click away
_COMPOSITES = {"JOIN": "branch", "RACE": "branch", "FLOW": "step"}
_HEADINGS = {
    ("IF", 3): "condition",
    ("IF", 1): "then",
    ("IF", 2): "else",
    ("LOOP", 1): "body",
    ("LOOP", 3): "while",
    ("MAP", 1): "each element",
}


class Title(NamedTuple):
    """`kind` is a word such as SQL; `is_code` tells code from prose."""

    kind: str
    text: str
    is_code: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.text}".rstrip()


def title(node: NodeRow, children: int = 0) -> Title:
    """Name a node; `children` is how many it directs."""
    kind = node.node_type
    if kind == "SQL":
        return Title(kind, shorten(one_line(node.query or ""), _LONGEST))
    if kind == "PYTHON":
        handler = node.handler or str(config(node).get("handler", "?"))
        return Title(kind, handler.rpartition(":")[2])
    if kind in ("HTTP", "HTTP_MULTIPART"):
        request = config(node)
        text = f"{request.get('method', 'POST')} {request.get('url', '?')}"
        return Title("HTTP", shorten(one_line(text), _LONGEST))
    if kind in _COMPOSITES:
        noun = _COMPOSITES[kind]
        plural = f"{children} branches" if noun == "branch" else count(children, noun)
        return Title(kind, plural, is_code=False)
    if kind in ("IF", "LOOP", "MAP"):
        return Title(kind, "", is_code=False)
    # The words of `df.explain` without the kind that they begin with.
    line = label(Node(kind, query=node.query))
    return Title(kind, shorten(one_line(line.removeprefix(kind)), _LONGEST), is_code=False)


def headings(node: NodeRow, children: list[NodeRow]) -> list[tuple[str, NodeRow]]:
    """Return a composite's children in the order in which they run, each with what it is for."""
    ordered = sorted(children, key=lambda child: child.ord or 0)
    if node.node_type == "IF":
        ordered.sort(key=lambda child: child.ord != 3)
    noun = _COMPOSITES.get(node.node_type, "part")
    return [
        (_HEADINGS.get((node.node_type, child.ord or 0), f"{noun} {number}"), child)
        for number, child in enumerate(ordered, 1)
    ]


def config(node: NodeRow) -> dict[str, Any]:
    """Return the JSON object that a node's query is; empty when it is none."""
    try:
        value = json.loads(node.query or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
