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
from psycopg.conninfo import conninfo_to_dict

from workbench.errors import StepError
from workbench.store import verbs
from workbench.store.verbs import Leaf, LockedRow
from workbench.store.wire import Session, Statement, error, rows

__all__ = [
    "OWN_PATH",
    "RESET",
    "RESET_AFTER_TAIL",
    "Ran",
    "lock_run",
    "mark_alone",
    "on_own_path",
    "run_alone",
    "run_in_transaction",
    "session_options",
]

#: Settings that every reset of a step's session returns to. The timeout frees a run's lock when an
#: engine freezes between its step's statement and the commit. Values are put into statements as
#: standard strings: where a role's or a database's default is another, they would be code.
_OPTIONS = (
    "-c df.in_workflow=true -c client_connection_check_interval=2s"
    " -c standard_conforming_strings=on"
    " -c idle_in_transaction_session_timeout=60s"
)

#: Where the names in the engine's own statements and functions are found, whatever path the role has
#: for its own: nobody can put something else before them.
OWN_PATH = "pg_catalog,df,pg_temp"

_TAIL = tuple(
    Statement(sql)
    for sql in (
        b"SET CONSTRAINTS ALL IMMEDIATE",
        b"CLOSE ALL",
        b"SHOW df.attempt",
        b"SHOW df.cancel",
        b"SHOW transaction_read_only",
        b"RESET SESSION AUTHORIZATION",
        b"RESET ROLE",
        b"RESET ALL",
        b"SET LOCAL statement_timeout = 0",
        b"SET LOCAL lock_timeout = 0",
        b"SET LOCAL search_path = " + OWN_PATH.encode(),
    )
)
#: Leaves nothing of a step for the next one: settings, role, temporary tables, locks, LISTENs,
#: prepared statements. What DISCARD ALL does, except DISCARD PLANS: the plans of our own functions
#: are no state that a step could see, and making them anew costs more than a commit (measured: 0.5
#: ms of a 1.2 ms step).
RESET = tuple(
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
#: The same after a transaction's tail, which has closed cursors and reset role and settings.
RESET_AFTER_TAIL = RESET[3:]
_ENTER = 6  # statements before the user's
_SHOWN = _ENTER + 3  # where the tail reads back
_LOCK = _ENTER + 1 + len(_TAIL)


def on_own_path(statement: Statement) -> tuple[Statement, ...]:
    """A statement of the engine's for a step's session, as a transaction that the role's path does
    not reach.
    """
    path = Statement(b"SET LOCAL search_path = " + OWN_PATH.encode())
    return (verbs.BEGIN, path, statement, verbs.COMMIT)


def session_options(dsn: str) -> str:
    """The `options` that a step's session connects with: those of the DSN, such as its search_path,
    and ours.
    """
    return f"{conninfo_to_dict(dsn).get('options') or ''} {_OPTIONS}".strip()


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
    asked: int = -1  # the version since which `locked` tells what has changed
    locked: list[LockedRow] = field(default_factory=list)
    now: datetime | None = None


async def run_in_transaction(
    session: Session,
    statement: Statement,
    leaf: Leaf,
    version: int | None,
    on_chunk: Callable[[pq.abc.PGresult], None],
) -> Ran:
    """Run a statement up to the point where its checkpoint may be written; the transaction stays
    open.

    `version` is that of the caller's copy of the run; with None the run is not locked yet, see
    `lock_run`. OperationalError: the connection was lost on the way.
    """
    results = await session.pipeline(
        *_enter(leaf),
        statement,
        *_TAIL,
        *(() if version is None else (verbs.lock_one(leaf.run, version),)),
        stream=_ENTER,
        on_chunk=on_chunk,
    )
    for index, result in enumerate(results):
        if failed := error(result):
            if _ENTER <= index < _LOCK:
                return Ran(blame=failed)
            return Ran(infrastructure=failed)
    marker, cancel, read_only = (rows(result)[0][0] for result in results[_SHOWN : _SHOWN + 3])
    ran = Ran(final=results[_ENTER], cancel=cancel or None)
    if version is not None:
        ran.asked = version
        ran.locked, ran.now = verbs.read_locked_one(results[_LOCK])
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


async def lock_run(session: Session, leaf: Leaf, version: int, ran: Ran) -> None:
    """Lock the run of a statement that has run, in its transaction."""
    (locked,) = await session.run(verbs.lock_one(leaf.run, version))
    ran.asked = version
    ran.locked, ran.now = verbs.read_locked_one(locked)


def mark_alone(leaf: Leaf) -> Statement:
    """To be sent before `run_alone`, whose statement must be alone in its pipeline."""
    return Statement(
        b"SELECT set_config('application_name', $1, false), set_config('datestyle', 'ISO', false),"
        b" set_config('df.in_workflow', 'true', false)",
        (_application_name(leaf),),
    )


async def run_alone(
    session: Session, statement: Statement, on_chunk: Callable[[pq.abc.PGresult], None]
) -> Ran:
    """Run a statement in autocommit, for those that cannot run in a transaction block."""
    results = await session.pipeline(statement, stream=0, on_chunk=on_chunk)
    if failed := error(results[0]):
        return Ran(blame=failed)
    return Ran(final=results[0])


def _enter(leaf: Leaf) -> list[Statement]:
    """Open the transaction and mark it, for df.cancel and others in it, and for pg_stat_activity.

    Utility statements: each costs a tenth of what a SELECT of set_config does.
    """
    return [
        verbs.BEGIN,
        Statement(b"SET LOCAL df.attempt = '%s'" % leaf.token.encode()),
        Statement(b"SET LOCAL df.run = '%s'" % leaf.run.encode()),
        Statement(b"SET LOCAL df.cancel = ''"),
        Statement(b"SET LOCAL application_name = '%s'" % _application_name(leaf)),
        Statement(b"SET LOCAL datestyle = 'ISO'"),
    ]


def _application_name(leaf: Leaf) -> bytes:
    return f"workbench {leaf.run} #{leaf.node}".encode()
