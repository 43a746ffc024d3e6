"""A LISTEN that proves itself: it hears its own probe, again and again, or it does not count as working.

Through a transaction pooler LISTEN succeeds and nothing ever arrives; a half-dead connection looks
alive. Who only polls is correct all the same; this makes the other engines' wake-ups prompt.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

import psycopg
from psycopg import sql

from workbench.store.wire import KEEPALIVE

__all__ = ["Listener"]

log = logging.getLogger("workbench")

ANSWER = 2.0  # seconds within which a probe must be heard
HEARTBEAT = 20.0  # seconds between probes
RETRY = (1.0, 5.0, 30.0)  # seconds until the next try after one that failed; the last repeats


class Listener:
    """Listens to the channel of this role, on a session that is never in a transaction.

    `working` says whether the last probe was heard, None before the first. `on_news` is called for
    every notification, and once after each LISTEN, since something may have been missed before it.
    """

    def __init__(self, dsn: str, on_news: Callable[[], None]) -> None:
        self._dsn = dsn
        self._on_news = on_news
        self.working: bool | None = None

    async def run(self) -> None:
        """Listen until cancelled."""
        tries = 0
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError, TimeoutError) as failed:
                tries = 0 if self.working else tries + 1
                if tries <= 1:
                    log.info("no notifications (%s): polling only", str(failed).strip())
            finally:
                self.working = False
            await asyncio.sleep(RETRY[min(tries, len(RETRY) - 1)])

    async def _listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            self._dsn, autocommit=True, application_name="workbench engine listen", **KEEPALIVE
        )
        try:
            cursor = await connection.execute("SELECT df._channel(df._me())")
            row = await cursor.fetchone()
            channel = str(row[0]) if row else ""
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            self._on_news()
            while True:
                await self._probe(connection, channel)
                self.working = True
                async for _ in connection.notifies(timeout=HEARTBEAT):
                    self._on_news()
        finally:
            await connection.close()

    async def _probe(self, connection: psycopg.AsyncConnection, channel: str) -> None:
        """TimeoutError unless a notification of our own comes back."""
        token = secrets.token_hex(8)
        await connection.execute("SELECT pg_notify(%s, %s)", (channel, token))
        async for notification in connection.notifies(timeout=ANSWER):
            if notification.payload == token:
                return
            self._on_news()
        raise TimeoutError("the server accepts LISTEN and delivers nothing, as a pooler does")
