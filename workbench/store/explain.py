"""Reading the picture of a graph or run: the text of `df.explain`, and the rows it is printed from.

The bodies are in `functions/62_explain.sql`. The picture of a graph that is still a `Node` needs
no database: that is `graph.tree`, whose lines are the same. Pictures for cells are in the views.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import class_row, tuple_row

from workbench.store.explain_records import ExplainRow, HeldRow, ScopeRow

__all__ = ["explain", "graph_rows", "held_rows", "run_rows", "scope_rows"]

Connection = psycopg.Connection[Any]


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


def scope_rows(conn: Connection, run_id: str) -> list[ScopeRow]:
    """The policies' scopes of a run, outer ones first."""
    with conn.cursor(row_factory=class_row(ScopeRow)) as cursor:
        return cursor.execute("SELECT * FROM df.policy_scopes(%s)", (run_id,)).fetchall()


def held_rows(conn: Connection, run_id: str) -> list[HeldRow]:
    """The HTTP steps of a run that have no room."""
    with conn.cursor(row_factory=class_row(HeldRow)) as cursor:
        return cursor.execute(
            "SELECT * FROM df._held_back(%s) ORDER BY node_id", (run_id,)
        ).fetchall()


def _rows(conn: Connection, graph: str | None, run_id: str | None) -> list[ExplainRow]:
    with conn.cursor(row_factory=class_row(ExplainRow)) as cursor:
        return cursor.execute(
            "SELECT * FROM df._explain_rows(%s::jsonb, %s) ORDER BY node_id", (graph, run_id)
        ).fetchall()
