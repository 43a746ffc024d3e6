"""Retrying and resuming failed runs, and reading lineages and failures: one function a question, over an ordinary
connection.

The SQL is in `functions/33_lineage.sql`, `34_failures.sql`, `36_retention.sql` and `37_resume.sql`; the
rows are the dataclasses of `lineage_records`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.rows import class_row, tuple_row

from workbench.errors import DatabaseError, GraphError, NotFound, StateError, UsageError
from workbench.store.lineage_records import DiffRow, FailureRow, LineageRow, UnresolvedRow

__all__ = [
    "failures",
    "finished_leaves",
    "lineage",
    "now",
    "resume_run",
    "retention",
    "retry_run",
    "run_diff",
    "run_diffs",
    "unresolved_failures",
]

Connection = psycopg.Connection[Any]
Row = TypeVar("Row")


def retry_run(conn: Connection, run_id: str, *, tell: bool = True) -> str:
    """Start a failed run of this role once more; the new run's id.

    Parameters
    ----------
    run_id:
        The failed run; it is not changed.
    tell:
        Notify the engines of this role, since none is called up directly.

    Raises
    ------
    NotFound
        There is no such run, or it is not visible to this role.
    StateError
        It has not failed.
    DatabaseError
        It is another role's, or this role may no longer run anything.
    UsageError
        The database it ran in is gone.
    """
    with _refusals(run_id):
        return str(_value(conn, "SELECT df._retry(%s, %s)", run_id, tell))


def resume_run(
    conn: Connection,
    run_id: str,
    *,
    graph: str | None = None,
    pairs: Mapping[int, int] | None = None,
    tell: bool = True,
) -> str:
    """Start a failed run once more with the results that it has; the new run's id.

    Parameters
    ----------
    graph:
        A repaired graph as JSON text; None is the run's own.
    pairs:
        Of a repaired graph: number of a leaf → number of the leaf of the run that it is.
    tell:
        As in `retry_run`.

    Raises
    ------
    GraphError
        The graph was refused.
    NotFound, StateError, DatabaseError, UsageError
        As `retry_run`.
    """
    ours, theirs = (None, None) if pairs is None else (list(pairs), list(pairs.values()))
    sql: LiteralString = "SELECT df._resume(%s, %s, %s::integer[], %s::integer[], %s)"
    with _refusals(run_id):
        try:
            return str(_value(conn, sql, run_id, graph, ours, theirs, tell))
        except psycopg.errors.InvalidParameterValue as refused:
            raise GraphError(f"{_sentence(refused)} Nothing was started.") from None


def finished_leaves(conn: Connection, run_id: str) -> list[int]:
    """Numbers of the leaves whose results a resumed run would take over."""
    return [int(row[0]) for row in conn.execute("SELECT df._finished_leaves(%s)", (run_id,))]


def lineage(conn: Connection, run_id: str) -> list[LineageRow]:
    """The whole tree of restarts that a run is in, the same from each of its members.

    Raises
    ------
    NotFound
        There is no such run, or it is not visible to this role.
    """
    with _refusals(run_id):
        return _rows(conn, LineageRow, "SELECT * FROM df.lineage(%s)", run_id)


def run_diff(conn: Connection, run_id: str, source: str | None = None) -> list[DiffRow]:
    """What differs between a run and another, or the one it was made from.

    Parameters
    ----------
    source:
        The other run; None is the one that this was made from: no rows for a run that was started.

    Raises
    ------
    NotFound
        There is no such run, or it is not visible to this role.
    """
    with _refusals(run_id):
        return _rows(conn, DiffRow, "SELECT * FROM df._run_diff(%s, %s)", run_id, source)


def run_diffs(conn: Connection, run_ids: Sequence[str]) -> dict[str, list[DiffRow]]:
    """What differs between each of some runs and the one it was made from."""
    found: dict[str, list[DiffRow]] = {run_id: [] for run_id in run_ids}
    with conn.cursor(row_factory=tuple_row) as cursor:
        for run_id, *rest in cursor.execute("SELECT * FROM df._run_diffs(%s)", (list(run_ids),)):
            found[run_id].append(DiffRow(*rest))
    return found


def now(conn: Connection) -> datetime:
    """The database's clock."""
    moment = _value(conn, "SELECT df.now()")
    assert isinstance(moment, datetime)
    return moment


def unresolved_failures(
    conn: Connection, since: datetime | timedelta | None = None
) -> list[UnresolvedRow]:
    """Failed runs without a completed descendant, the newest failure first.

    Parameters
    ----------
    since:
        Only runs that failed since then; a timedelta counts back from the database's clock.

    Raises
    ------
    UsageError
        A time without a zone.
    """
    if isinstance(since, timedelta):
        sql: LiteralString = "SELECT * FROM df.unresolved_failures(df.now() - %s)"
    else:
        sql = "SELECT * FROM df.unresolved_failures(%s)"
    return _rows(conn, UnresolvedRow, sql, _moment(since))


def failures(
    conn: Connection, since: datetime | timedelta | None = None, limit: int = 100
) -> list[FailureRow]:
    """What failed and how often, the failure seen last first.

    Parameters
    ----------
    since:
        Only attempts that failed since then; a timedelta counts back from the database's clock.
    limit:
        At most so many failures.

    Raises
    ------
    UsageError
        A time without a zone, a limit below 1.
    """
    if limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    if isinstance(since, timedelta):
        sql: LiteralString = "SELECT * FROM df.failures(df.now() - %s, %s)"
    else:
        sql = "SELECT * FROM df.failures(%s, %s)"
    return _rows(conn, FailureRow, sql, _moment(since), limit)


def retention(conn: Connection) -> timedelta | None:
    """How long ended lineages are kept; None: for ever. A month counts as 30 days, a year as 365.25."""
    seconds = _value(conn, "SELECT extract(epoch FROM df._retention())::float8")
    return None if seconds is None else timedelta(seconds=seconds)


def _moment(since: datetime | timedelta | None) -> datetime | timedelta | None:
    if isinstance(since, datetime) and since.tzinfo is None:
        raise UsageError(f"since={since} has no time zone; add one: since.astimezone()")
    return since


@contextmanager
def _refusals(run_id: str) -> Iterator[None]:
    """The server's refusals as the workbench's errors."""
    try:
        yield
    except psycopg.errors.NoData:
        raise NotFound(
            f"no run {run_id!r} in this database, or it is another role's; bench.runs() lists the runs"
        ) from None
    except psycopg.errors.ObjectNotInPrerequisiteState as refused:
        raise StateError(_sentence(refused)) from None
    except psycopg.errors.InsufficientPrivilege as refused:
        raise DatabaseError(_sentence(refused)) from None
    except psycopg.errors.InvalidCatalogName as refused:
        raise UsageError(f"{_sentence(refused)} Nothing was started.") from None


def _sentence(refused: psycopg.Error) -> str:
    message = (refused.diag.message_primary or str(refused)).rstrip(".")
    hint = f" {refused.diag.message_hint}" if refused.diag.message_hint else ""
    return f"{message}.{hint}"


def _rows(conn: Connection, kind: type[Row], sql: LiteralString, *values: object) -> list[Row]:
    with conn.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(sql, values).fetchall()


def _value(conn: Connection, sql: LiteralString, *values: object) -> Any:
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(sql, values).fetchone()
    assert row is not None  # one row, always
    return row[0]
