"""Running one statement of a user on a session, so that nothing of it leaks and nobody else's lock
is held meanwhile.

In a transaction, the statement and everything after it up to the engine's own checkpoint travel in
one pipeline: the user's statement, the tail that brings deferred work of the user forward (still
the user's to blame), the return to the engine's own role and settings, and only then the run's
lock. What the checkpoint writes is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import psycopg
from psycopg import pq

from workbench.errors import StepError
from workbench.store import verbs
from workbench.store.verbs import Leaf, LockedRow
from workbench.store.wire import Session, Statement, error, rows

__all__ = ["SESSION_OPTIONS", "Ran", "reset", "run_alone", "run_in_transaction"]

#: Settings that every reset of a step's session returns to. The timeout frees a run's lock when an
#: engine freezes between its step's statement and the commit.
SESSION_OPTIONS = (
    "-c df.in_workflow=true -c client_connection_check_interval=2s"
    " -c idle_in_transaction_session_timeout=60s"
)

_TAIL = tuple(
    Statement(sql)
    for sql in (
        b"SET CONSTRAINTS ALL IMMEDIATE",
        b"CLOSE ALL",
        # Qualified, and nothing of ours: the user's statement may have changed the role and the path.
        b"SELECT pg_catalog.current_setting('df.attempt', true),"
        b" pg_catalog.current_setting('transaction_read_only'),"
        b" pg_catalog.current_setting('df.cancel', true)",
        b"RESET SESSION AUTHORIZATION",
        b"RESET ROLE",
        b"RESET ALL",
        b"SELECT pg_catalog.set_config('statement_timeout', '0', true),"
        b" pg_catalog.set_config('lock_timeout', '0', true)",
    )
)
#: What DISCARD ALL does, except DISCARD PLANS: the plans of our own functions are no state that a
#: step could see, and making them anew costs more than a commit (measured: 0.5 ms of a 1.2 ms
#: step).
_RESET = tuple(
    Statement(sql)
    for sql in (
        b"CLOSE ALL",
        b"RESET SESSION AUTHORIZATION",
        b"RESET ALL",
        b"DEALLOCATE ALL",
        b"UNLISTEN *",
        b"SELECT pg_catalog.pg_advisory_unlock_all()",
        b"DISCARD TEMP",
        b"DISCARD SEQUENCES",
    )
)
_NOW = verbs.NOW._replace(prepared=False)
_USER = 2  # BEGIN and the settings come before it
_READ_BACK = _USER + 3
_LOCK = _USER + 1 + len(_TAIL)


@dataclass
class Ran:
    """What came of a statement.

    `blame` is the error that is the statement's own; `infrastructure` one that is not, and after
    which the whole transaction may be repeated. With neither, the run is locked and the transaction
    open.
    """

    final: pq.abc.PGresult | None = None
    blame: psycopg.Error | StepError | None = None
    infrastructure: psycopg.Error | None = None
    cancel: str | None = None
    locked: list[LockedRow] = field(default_factory=list)
    now: datetime | None = None


async def run_in_transaction(
    session: Session,
    sql: str,
    leaf: Leaf,
    version: int,
    on_chunk: Callable[[pq.abc.PGresult], None],
) -> Ran:
    """Run a statement up to the point where its checkpoint may be written; the transaction stays
    open.

    `version` is that of the caller's copy of the run. OperationalError: the connection was lost on
    the way.
    """
    results = await session.pipeline(
        verbs.BEGIN,
        _enter(leaf),
        Statement(sql.encode()),
        *_TAIL,
        verbs.lock_one(leaf.run, version),
        _NOW,
        stream=_USER,
        on_chunk=on_chunk,
    )
    for index, result in enumerate(results):
        if failed := error(result):
            if _USER <= index < _LOCK:
                return Ran(blame=failed)
            return Ran(infrastructure=failed)
    marker, read_only, cancel = rows(results[_READ_BACK])[0]
    ran = Ran(
        final=results[_USER],
        cancel=cancel or None,
        locked=verbs.read_locked(results[_LOCK]),
        now=verbs.read_now(results[_LOCK + 1]),
    )
    if marker != leaf.token:
        ran.blame = StepError(
            "the statement changed the setting df.attempt, which marks the engine's transaction: it was rolled back. "
            "Do not end or replace the transaction of a step."
        )
    elif read_only == "on":
        ran.blame = StepError(
            "the statement left its transaction read-only, so its result could not be recorded: it was rolled back. "
            "Drop SET TRANSACTION READ ONLY from the step."
        )
    return ran


async def run_alone(
    session: Session, sql: str, leaf: Leaf, on_chunk: Callable[[pq.abc.PGresult], None]
) -> Ran:
    """Run a statement in autocommit, for those that cannot run in a transaction block."""
    await session.run(
        Statement(
            b"SELECT set_config('application_name', $1, false), set_config('datestyle', 'ISO', false)",
            (_application_name(leaf),),
        )
    )
    results = await session.pipeline(Statement(sql.encode()), stream=0, on_chunk=on_chunk)
    if failed := error(results[0]):
        return Ran(blame=failed)
    return Ran(final=results[0])


async def reset(session: Session) -> None:
    """Leave nothing of a step for the next one: settings, role, temporary tables, locks, LISTENs,
    prepared statements.
    """
    await session.run(*_RESET)


def _enter(leaf: Leaf) -> Statement:
    return Statement(
        b"SELECT df._enter_step($1, $2, $3)",
        (leaf.token.encode(), leaf.run.encode(), _application_name(leaf)),
    )


def _application_name(leaf: Leaf) -> bytes:
    return f"workbench {leaf.run} #{leaf.node}".encode()
