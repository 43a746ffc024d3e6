"""Reading one attempt: what it executed, and what the names that it was given mean now.

The lists of attempts (`monitor.run_attempts`) leave this out, since it may be long. The SQL is in
`functions/64_attempts.sql`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import tuple_row

from workbench.errors import NotFound

__all__ = ["Executed", "Seen", "executed", "values"]

Connection = psycopg.Connection[Any]


class Executed(NamedTuple):
    """What an attempt executed.

    `text` is the substituted statement, the request or the handler's input as JSON, at most 64,000
    characters and a remark after them; None: exactly what the graph says. `iterations` are those of
    the loops around the node, the outermost first. `logs` is the end of what a handler printed and
    logged, None when that was nothing.
    """

    text: str | None
    iterations: tuple[int, ...]
    max_attempts: int
    logs: str | None


class Seen(NamedTuple):
    """The value of a name as JSON text, and the columns of a SQL result."""

    json: str
    columns: list[tuple[str, str]] | None


def executed(conn: Connection, run_id: str, node: int, rev: int) -> Executed:
    """What an attempt executed.

    Raises
    ------
    NotFound
        The attempt is not there any more: it belonged to an old iteration, or its run is gone.
    """
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(
            "SELECT * FROM df._attempt(%s, %s, %s)", (run_id, node, rev)
        ).fetchone()
    if row is None:
        raise NotFound(
            f"this attempt of node #{node} of run {run_id} is not kept any more: it was of an old "
            "iteration, or the run was deleted; run.attempts lists those that are"
        )
    return Executed(row[0], tuple(row[1] or ()), row[2], row[3])


def values(
    conn: Connection, run_id: str, scopes: Sequence[int], names: Sequence[str]
) -> dict[str, Seen]:
    """What names mean in a run as it stands, by the innermost of `scopes` that knows each."""
    sql = "SELECT * FROM df._values_seen(%s, %s, %s)"
    with conn.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(sql, (run_id, list(scopes), list(names))).fetchall()
    return {
        name: Seen(json, None if columns is None else [(column, kind) for column, kind in columns])
        for name, json, columns in rows
    }
