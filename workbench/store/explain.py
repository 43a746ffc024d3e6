"""Reading the picture of a graph or run: the text of `df.explain`, and the rows it is printed from.

The bodies are in `functions/62_explain.sql`. The picture of a graph that is still a `Node` needs
no database: that is `graph.tree`, whose lines are the same. Pictures for cells are in the views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row, tuple_row

__all__ = [
    "ExplainRow",
    "HeldRow",
    "ScopeRow",
    "explain",
    "graph_rows",
    "held_rows",
    "run_rows",
    "scope_rows",
]

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
        policy: the limits of HTTP steps that begin here, such as `[http ≤ 2]`.
        waits_for: of a run's HTTP step that has no room: its place in line.
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
    policy: str | None
    waits_for: str | None


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """A policy's scope in a run: its id, its node, its limit, requests under way and waiting."""

    scope: str
    node_id: int
    max_concurrency: int
    in_use: int
    waiting: int


@dataclass(frozen=True, slots=True)
class HeldRow:
    """An HTTP step that is due and has no room.

    Attributes:
        barrier: the id of the full scope, `http ceiling` or `activity ceiling`.
        scope: the scope's node; None at a ceiling.
        max_concurrency, in_use: of the scope or ceiling.
        place: in the scope's line, from 1; None at a ceiling, where runs take turns.
        holders: who is in: run, node, engine (`host:pid`), since (text); or `{"others": n}` for
            runs of other roles.
    """

    node_id: int
    barrier: str
    scope: int | None
    max_concurrency: int
    in_use: int
    place: int | None
    holders: list[dict[str, Any]]


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
