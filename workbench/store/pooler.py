"""Is there a transaction pooler between us and the server?

An engine needs sessions of its own: advisory locks, LISTEN and settings of a session mean nothing
when every statement may reach another one. Looking works through a pooler all the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

import psycopg

from workbench.errors import DatabaseError
from workbench.store import verbs
from workbench.store.wire import Session, Statement, rows

__all__ = ["explain_refusal", "refuse_pooler"]

_WHO = Statement(
    b"SELECT pg_backend_pid(), current_setting('df.session', true), current_setting('port')"
)


async def refuse_pooler(session: Session, connect: Callable[[], Awaitable[Session]]) -> None:
    """Raise unless the statements of a session always reach one and the same server session.

    Parameters
    ----------
    session:
        An idle session.
    connect:
        Opens another one.

    Raises
    ------
    DatabaseError
        A transaction pooler; the text names the server's own port.
    """
    ((pid, _, port),) = await _who(session)
    if pid == str(session.pid):
        return  # the key that the server itself gave us: nothing is in between
    mark = secrets.token_hex(8)
    await session.run(Statement(b"SELECT set_config('df.session', $1, false)", (mark.encode(),)))
    other = await connect()
    try:
        pooled = (await _who(other))[0][1] == mark
        if not pooled:
            # In a transaction, `other` holds a server session: ours, unless each client has its own.
            _, answer = await other.run(verbs.BEGIN, _WHO)
            pooled = rows(answer)[0][1] == mark
        if not pooled:
            # A pool that takes its sessions in turn: `other` has one, and we have got another one.
            pooled = (await _who(session))[0][:2] != [pid, mark]
    finally:
        await other.close()
    if pooled:
        raise DatabaseError(_text(f"port {port}"))


def explain_refusal(refused: psycopg.OperationalError) -> DatabaseError | None:
    """The error to show when a pooler did not even accept the settings that an engine connects with."""
    if "unsupported startup parameter" in str(refused):
        return DatabaseError(
            f"{_text('5432 by default')} (This pooler refuses the settings that an engine connects with, in "
            "session mode, too, unless its ignore_startup_parameters has options.)"
        )
    return None


async def _who(session: Session) -> list[list[str | None]]:
    (answer,) = await session.run(_WHO)
    return rows(answer)


def _text(port: str) -> str:
    return (
        "this DSN leads through a connection pooler in transaction mode, and an engine needs sessions of "
        f"its own: it was not started. Use the server's own port ({port}), or a pool in session mode. "
        "Looking works through the pooler: connect(dsn, engine=False)."
    )
