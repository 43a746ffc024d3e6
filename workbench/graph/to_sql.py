"""A graph as a SQL expression: the `df.*` calls that build the same JSON.

For people who move a workflow from a notebook into a script or a migration. Functions are used,
not operators: what belongs together is then plain whatever the precedence, and no `search_path`
matters. How one node is written is in `to_sql_calls`; what `df.*` has no constructor for stays JSON
text, which every constructor takes.
"""

from __future__ import annotations

from itertools import takewhile

from workbench.graph.codec import dumps
from workbench.graph.literals import quote
from workbench.graph.node import Node
from workbench.graph.to_sql_calls import Call, Gap, call

_WIDTH = 88
_NEW_LINE = "\n    "
_OPENING = ("", "df.seq(", 'df."as"(')


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
    pending: Call = [node]
    while pending:
        piece = pending.pop()
        if isinstance(piece, Gap):
            parts.append(f",{space}")
        elif isinstance(piece, str):
            parts.append(piece)
        else:
            pending.extend(reversed(call(piece) or [quote(dumps(piece))]))
    return parts
