"""Retrying failed runs, and reading lineages and failures: one function a question, over an ordinary
connection.

The SQL is in `functions/33_lineage.sql`, `34_failures.sql` and `36_retention.sql`; the rows are the
dataclasses of `lineage_records`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.rows import class_row, tuple_row

from workbench.errors import DatabaseError, NotFound, StateError, UsageError
from workbench.store.lineage_records import DiffRow, FailureRow, LineageRow, UnresolvedRow

__all__ = ["failures", "lineage", "retention", "retry_run", "run_diff", "unresolved_failures"]

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


def lineage(conn: Connection, run_id: str) -> list[LineageRow]:
    """The whole tree of restarts that a run is in, the same from each of its members.

    Raises
    ------
    NotFound
        There is no such run, or it is not visible to this role.
    """
    with _refusals(run_id):
        return _rows(conn, LineageRow, "SELECT * FROM df.lineage(%s)", run_id)


def run_diff(conn: Connection, run_id: str) -> list[DiffRow]:
    """What differs between a run and the one it was made from; nothing for a run that was started.

    Raises
    ------
    NotFound
        There is no such run, or it is not visible to this role.
    """
    with _refusals(run_id):
        return _rows(conn, DiffRow, "SELECT * FROM df.run_diff(%s)", run_id)


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
