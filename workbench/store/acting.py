"""What people do to a run from outside: cancel it, signal it, have it try again. Refusals become the workbench's own
errors; what the acts mean is in `functions/30_control.sql`.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from workbench.errors import DatabaseError, NotFound, StateError, UsageError

__all__ = ["cancel", "retry_now", "signal"]

Connection = psycopg.Connection[Any]


def cancel(conn: Connection, run_id: str, reason: str) -> bool:
    """Cancel a run; False when it had ended otherwise.

    Raises
    ------
    UsageError
        The reason contains NUL.
    NotFound
        There is no such run, or it is another role's.
    """
    if "\x00" in reason:
        raise UsageError(
            "the reason contains NUL (\\x00), which Postgres cannot store: nothing was cancelled"
        )
    try:
        conn.execute("SELECT df.cancel(%s, %s)", (run_id, reason))
    except psycopg.errors.ObjectNotInPrerequisiteState:
        return False
    except psycopg.errors.NoData as missing:
        raise NotFound(str(missing.diag.message_primary)) from None
    return True


def retry_now(conn: Connection, run_id: str, node: str | None = None) -> int:
    """End a run's waits for another attempt, or that of one node; how many there were.

    Parameters
    ----------
    node:
        Its name, or its number as `#3`.

    Raises
    ------
    NotFound
        There is no such run or node, or it is another role's.
    StateError
        Nothing waits for another attempt.
    DatabaseError
        This role may look at the run and no more.
    """
    try:
        with conn.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute("SELECT df.retry_now(%s, %s)", (run_id, node)).fetchone()
    except psycopg.errors.NoData as missing:
        raise NotFound(str(missing.diag.message_primary)) from None
    except psycopg.errors.ObjectNotInPrerequisiteState as refused:
        raise StateError(_said(refused)) from None
    except psycopg.errors.InsufficientPrivilege as refused:
        raise DatabaseError(_said(refused)) from None
    assert row is not None  # one value, always
    return int(row[0])


def signal(conn: Connection, run_id: str, name: object, data: str) -> None:
    """Send a signal to a run; `data` is JSON text, and other text becomes a JSON string.

    Raises
    ------
    UsageError
        The name is no text, is empty or contains NUL.
    NotFound
        There is no such run, or it is another role's.
    StateError
        The run has ended, or too many signals of that name are unread.
    DatabaseError
        This role may look at the run and no more.
    """
    if not isinstance(name, str) or "\x00" in name or "\x00" in data:
        raise UsageError(f"a signal's name is text without NUL, not {name!r:.80}: nothing was sent")
    try:
        conn.execute("SELECT df.signal(%s, %s, %s)", (run_id, name, data))
    except psycopg.errors.InvalidParameterValue as wrong:
        raise UsageError(f"{wrong.diag.message_primary}: nothing was sent") from None
    except psycopg.errors.NoData as missing:
        raise NotFound(str(missing.diag.message_primary)) from None
    except (
        psycopg.errors.ObjectNotInPrerequisiteState,
        psycopg.errors.ProgramLimitExceeded,
    ) as refused:
        raise StateError(_said(refused)) from None
    except psycopg.errors.InsufficientPrivilege as refused:
        raise DatabaseError(_said(refused)) from None


def _said(refused: psycopg.Error) -> str:
    hint = f". {refused.diag.message_hint}" if refused.diag.message_hint else ""
    return f"{refused.diag.message_primary}{hint}"
