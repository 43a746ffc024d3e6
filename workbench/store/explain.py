"""Reading the picture of a graph or run: the text of `df.explain`, and the rows it is printed from.

The bodies are in `functions/62_explain.sql`. The picture of a graph that is still a `Node` needs
no database: that is `graph.tree`, whose lines are the same. Pictures for cells are in the views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row, tuple_row

__all__ = ["ExplainRow", "explain", "graph_rows", "run_rows"]

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class ExplainRow:
    """One node and its place in the picture.

    Attributes:
        line: from 1 in the order of drawing; None for a THEN, whose steps stand one below the
            other instead.
        node_id, parent_id, depth: as everywhere, in pre-order from 0; the root's parent is None.
        prefix, connector: what stands before the label on its line.
        heading: text above the node's line, such as `? condition:`; it begins two columns
            left of the node.
        status, mark, iteration: of a run's node; None where only a graph was given.
    """

    line: int | None
    node_id: int
    parent_id: int | None
    depth: int
    node_type: str
    result_name: str | None
    prefix: str
    connector: str
    heading: str | None
    label: str
    status: str | None
    mark: str | None
    iteration: int | None


def explain(conn: Connection, text: str) -> str:
    """The picture of a graph (JSON or SQL), of an expression, or of a run by its id, as text.

    An expression such as `'a' ~> 'b'` is evaluated on the server with this connection's rights.
    What is no valid graph, and a run that this role cannot see, give a text that says so.

    Raises:
        psycopg.Error: the expression itself failed.
    """
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT df.explain(%s)", (text,)).fetchone()
    assert row is not None  # one text for every text
    return str(row[0])


def graph_rows(conn: Connection, graph: str) -> list[ExplainRow]:
    """The nodes of a valid graph (JSON text) in the order of their numbers."""
    return _rows(conn, graph, None)


def run_rows(conn: Connection, run_id: str) -> list[ExplainRow]:
    """The nodes of a run with their states; none when there is no such run for this role."""
    return _rows(conn, None, run_id)


def _rows(conn: Connection, graph: str | None, run_id: str | None) -> list[ExplainRow]:
    with conn.cursor(row_factory=class_row(ExplainRow)) as cursor:
        return cursor.execute(
            "SELECT * FROM df._explain_rows(%s::jsonb, %s) ORDER BY node_id", (graph, run_id)
        ).fetchall()
