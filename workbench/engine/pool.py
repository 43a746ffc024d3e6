"""Sessions in which users' statements run, kept for the next one, by database.

One that is in any odd state is closed, never reused; one that a step may have left something in is
reset first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import psycopg

from workbench.store import step
from workbench.store.results import TypeCatalog
from workbench.store.wire import Session

__all__ = ["Connect", "Pool", "Pools"]

#: Opens a session of steps, on the database of this name or the one that holds the runs.
Connect = Callable[[str | None], Awaitable[Session]]


class Pool:
    """Sessions for users' statements on one database, and what is known of its types."""

    def __init__(self, connect: Connect, database: str | None) -> None:
        self._connect = connect
        self._database = database
        self.catalog = TypeCatalog()
        self._idle: list[Session] = []
        self._resets: set[asyncio.Task[None]] = set()

    async def take(self) -> Session:
        while self._idle:
            session = self._idle.pop()
            if session.reusable and not session.lost_while_idle():
                return session
            await session.close()
        return await self._connect(self._database)

    def give_back(self, session: Session, *, clean: bool) -> None:
        """Take a session in; one that is not clean is reset first, in the background."""
        if clean:
            self._idle.append(session)
            return
        task = asyncio.create_task(self._reset(session))
        self._resets.add(task)
        task.add_done_callback(self._resets.discard)

    async def _reset(self, session: Session) -> None:
        clean = False
        try:
            with contextlib.suppress(psycopg.Error):
                if session.reusable:
                    await session.run(*step.RESET)
                    clean = session.reusable
        finally:
            if clean:
                self._idle.append(session)
            else:
                await session.close()

    async def close(self) -> None:
        for reset in self._resets:
            reset.cancel()  # the database may be silent
        await asyncio.gather(*self._resets, return_exceptions=True)
        while self._idle:
            await self._idle.pop().close()


class Pools:
    """A pool for each database that steps have asked for."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._pools: dict[str | None, Pool] = {}

    def of(self, database: str | None) -> Pool:
        """The pool of this database; None is the one that holds the runs."""
        if database not in self._pools:
            self._pools[database] = Pool(self._connect, database)
        return self._pools[database]

    async def close(self) -> None:
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
