"""Reading runs for people: one function a question, over an ordinary connection.

Nothing is decided or written here, and nothing is SQL beyond a call: the bodies are in
`functions/60_monitoring.sql`. The rows are the dataclasses of `records`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple, TypeVar

import psycopg
from psycopg.rows import class_row, tuple_row

from workbench.errors import NotFound, UsageError
from workbench.store.records import (
    RUN_STATUSES,
    AttemptRow,
    EngineRow,
    Explained,
    FlowRow,
    IterationRow,
    NodeResult,
    NodeRow,
    RunMatch,
    RunRow,
    RunsRow,
    UnreadRow,
)

__all__ = [
    "Definition",
    "Unfinished",
    "definition",
    "explained",
    "list_engines",
    "list_runs",
    "node_result",
    "resolve_prefix",
    "run_attempts",
    "run_iterations",
    "run_nodes",
    "run_row",
    "run_status",
    "unfinished",
    "unread_signals",
]

_SHOWN = 8  # matches of an ambiguous prefix that its error lists

Connection = psycopg.Connection[Any]
Row = TypeVar("Row")


class Definition(NamedTuple):
    """What a run is made of, as JSON text."""

    graph: str
    input: str
    variables: str


class Unfinished(NamedTuple):
    """The caller's live runs, and the live engines of its role."""

    runs: int
    engines: int


def run_row(conn: Connection, run_id: str) -> RunRow:
    """One run.

    Raises
    ------
    NotFound
        There is no such run, or it is another role's.
    """
    rows = _rows(conn, RunRow, "SELECT * FROM df._run(%s)", run_id)
    if not rows:
        raise _no_run(run_id)
    return rows[0]


def run_status(conn: Connection, run_id: str) -> str:
    """The status of a run.

    Raises
    ------
    NotFound
        There is no such run, or it is another role's.
    """
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT df.status(%s)", (run_id,)).fetchone()
    if row is None or row[0] is None:
        raise _no_run(run_id)
    return str(row[0])


def run_nodes(conn: Connection, run_id: str) -> list[NodeRow]:
    """All nodes of a run in pre-order; empty for a run that is not there."""
    return _rows(conn, NodeRow, "SELECT * FROM df._run_nodes(%s)", run_id)


def run_attempts(conn: Connection, run_id: str, most: int | None = None) -> list[AttemptRow]:
    """The ended attempts of a run, all or the last so many, in the order of their ends."""
    return _rows(conn, AttemptRow, "SELECT * FROM df._run_attempts(%s, %s)", run_id, most)


def run_iterations(conn: Connection, run_id: str, most: int) -> list[IterationRow]:
    """The last so many ended iterations of each loop of a run, in the order of their ends."""
    return _rows(conn, IterationRow, "SELECT * FROM df._run_iterations(%s, %s)", run_id, most)


def unread_signals(conn: Connection, run_id: str) -> list[UnreadRow]:
    """Signals that no wait of a run has taken yet, by name."""
    return _rows(conn, UnreadRow, "SELECT * FROM df._unread_signals(%s)", run_id)


def explained(conn: Connection, text: str) -> Explained:
    """What `df.explain` says of a text, and of what; an expression is evaluated once.

    Raises
    ------
    psycopg.Error
        The expression itself failed.
    """
    return _rows(conn, Explained, "SELECT * FROM df._explained(%s)", text)[0]


def list_runs(
    conn: Connection,
    status: str | None = None,
    label: str | None = None,
    since: datetime | timedelta | None = None,
    limit: int = 100,
) -> list[RunsRow]:
    """Runs, newest first.

    Parameters
    ----------
    status, label:
        Only runs with exactly this one.
    since:
        Only runs created since then; a timedelta counts back from the database's clock.
    limit:
        At most so many; 100 as in `df.list_instances`.

    Raises
    ------
    UsageError
        An unknown status, a time without a zone, a limit below 1.
    """
    if status is not None and status not in RUN_STATUSES:
        raise UsageError(
            f"no run has the status {status!r}; choose one of {', '.join(RUN_STATUSES)}"
        )
    _check_filters(label, since, limit)
    if isinstance(since, datetime) and since.tzinfo is None:
        raise UsageError(f"since={since} has no time zone; add one: since.astimezone()")
    if isinstance(since, timedelta):
        sql: LiteralString = "SELECT * FROM df._runs(%s, %s, df.now() - %s, %s)"
    else:
        sql = "SELECT * FROM df._runs(%s, %s, %s, %s)"
    return _rows(conn, RunsRow, sql, status, label, since, limit)


def _check_filters(label: object, since: object, limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise UsageError(f"limit must be a whole number of at least 1, not {limit!r}")
    if not isinstance(label, str | None):
        raise UsageError(f"label must be text, not {label!r}")
    if not isinstance(since, datetime | timedelta | None):
        raise UsageError(f"since takes a datetime or a timedelta, not {since!r}")


def resolve_prefix(conn: Connection, id_or_prefix: str) -> str:
    """The id of the one run whose id begins so.

    Raises
    ------
    NotFound
        No run that this role may see, or several; then the text lists them.
    """
    prefix = id_or_prefix.strip().lower()
    if not re.fullmatch("[0-9a-f]{1,8}", prefix):
        raise NotFound(
            f"{id_or_prefix!r} is no run's id: an id is 8 hex digits, and any beginning of it "
            "will do; bench.runs() lists the runs"
        )
    found = _rows(conn, RunMatch, "SELECT * FROM df._runs_like(%s, %s)", prefix, _SHOWN + 1)
    if not found:
        raise _no_run(prefix)
    if len(found) > 1:
        listed = "\n".join(map(_match_line, found[:_SHOWN]))
        more = "\n  …" if len(found) > _SHOWN else ""
        raise NotFound(f"{prefix!r} begins the ids of several runs; add digits:\n{listed}{more}")
    return found[0].run_id


def node_result(conn: Connection, run_id: str, node_id: int) -> NodeResult:
    """The value of a node; a composite's is that of the node that decided it.

    Raises
    ------
    NotFound
        There is no such run or node, or it is another role's.
    """
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT * FROM df._node_result(%s, %s)", (run_id, node_id)).fetchone()
    if row is None:
        raise NotFound(
            f"run {run_id} has no node #{node_id}, or is not visible to this role; run.nodes "
            "lists the nodes"
        )
    status, found, json, columns = row
    return NodeResult(
        status,
        json if found else None,
        None if columns is None else tuple((name, kind) for name, kind in columns),
    )


def definition(conn: Connection, run_id: str) -> Definition:
    """The graph, input and variables of a run, to the byte as stored.

    Raises
    ------
    NotFound
        There is no such run, or it is another role's.
    """
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT * FROM df._definition(%s)", (run_id,)).fetchone()
    if row is None:
        raise _no_run(run_id)
    return Definition(*row)


def list_engines(conn: Connection, *, ended: bool = False) -> list[EngineRow]:
    """Engines of all roles, the youngest first; with `ended` also those that stopped or died."""
    return _rows(conn, EngineRow, "SELECT * FROM df._engines(%s)", ended)


def list_flows(conn: Connection, slug: str | None = None) -> list[FlowRow]:
    """Versions of flows, those of a flow together, the newest first."""
    return _rows(conn, FlowRow, "SELECT * FROM df.list_flows(%s)", slug)


def unfinished(conn: Connection) -> Unfinished:
    """How many runs of this role are not finished, and how many engines are alive for it."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT * FROM df._unfinished()").fetchone()
    assert row is not None  # one row of two counts, always
    return Unfinished(*row)


def _rows(conn: Connection, kind: type[Row], sql: LiteralString, *values: object) -> list[Row]:
    with conn.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(sql, values).fetchall()


def _no_run(run_id: str) -> NotFound:
    return NotFound(
        f"no run {run_id!r} in this database, or it is another role's; bench.runs() lists the runs"
    )


def _match_line(match: RunMatch) -> str:
    label = f"  {match.label}" if match.label else ""
    return f"  {match.run_id}  {match.status}  {match.created_at:%Y-%m-%d %H:%M:%S%z}{label}"
