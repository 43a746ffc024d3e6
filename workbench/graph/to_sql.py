"""A graph as a SQL expression: the `df.*` calls that build the same JSON.

For people who move a workflow from a notebook into a script or a migration. Functions are used,
not operators: what belongs together is then plain whatever the precedence, and no `search_path`
matters. What `df.*` has no constructor for stays JSON text, which every constructor takes.
"""

from __future__ import annotations

from itertools import takewhile

from workbench.graph.codec import dumps
from workbench.graph.literals import quote
from workbench.graph.node import Node
from workbench.graph.shapes import name_fault

_WIDTH = 88
_NEW_LINE = "\n    "
_SEQ, _AS = "df.seq(", 'df."as"('
_OPENING = ("", _SEQ, _AS)


def to_sql(node: Node) -> str:
    """Write a graph as one SQL expression of type text.

    Returns:
        `df.seq(df.sql('…'), df.sql('…'))`; one step a line when that is longer than 88
        characters. Quotes in strings are doubled and backslashes are not, so
        `standard_conforming_strings` must be on, as it is by default.

    Raises:
        GraphError: more than 10,000 nodes, or a text that Postgres cannot hold.
    """
    dumps(node)  # refuses what no form of a graph may hold
    line = "".join(_parts(node, " "))
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    parts = _parts(node, _NEW_LINE)
    opening = list(takewhile(lambda part: part in _OPENING, parts))
    return "".join([*opening, _NEW_LINE if opening else "", *parts[len(opening) :]])


def _parts(node: Node, space: str) -> list[str]:
    """Return the expression in pieces; `space` is what follows the comma between two steps."""
    parts: list[str] = []
    pending: list[str | Node] = [node]
    while pending:
        piece = pending.pop()
        if isinstance(piece, str):
            parts.append(piece)
        else:
            pending.extend(reversed(_pieces(piece, space)))
    return parts


def _pieces(node: Node, space: str) -> list[str | Node]:
    """Split one node into text and child nodes still to be written."""
    opening, closing = "", ""
    if node.result_name is not None:
        opening, closing = _AS, f", {quote(node.result_name)})"
    if _is_plain(node):
        if node.node_type == "SQL" and node.query is not None and _has(node, 0):
            return [f"{opening}df.sql({quote(node.query)}){closing}"]
        if node.node_type == "THEN" and node.query is None and _has(node, 2):
            left, right = node.children()
            return [opening, _SEQ, left, f",{space}", right, f"){closing}"]
    return [quote(dumps(node))]


def _is_plain(node: Node) -> bool:
    """Whether the node has nothing that only JSON can say."""
    if node.retry or node.policy or node.options or node.extra or node.condition is not None:
        return False
    return node.result_name is None or name_fault(node.result_name) is None


def _has(node: Node, children: int) -> bool:
    return sum(child is not None for child in (node.left, node.right)) == children
