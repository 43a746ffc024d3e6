"""One libpq connection driven by an event loop, in pipelines of extended-protocol statements.

An engine's hot path sends a dozen statements per step; a pipeline makes them one round trip.
psycopg's own cursors cannot do that and at the same time read one result in bounded chunks, so this
uses its libpq wrapper (`psycopg.pq`) directly. What the statements mean is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

__all__ = ["KEEPALIVE", "Session", "Statement", "error", "raise_first", "rows"]

#: Rows a chunk when streaming: libpq keeps a whole chunk in memory, and rows may be megabytes each. Small ones cost
#: little (300,000 rows: 0.3 s in chunks of 16, 0.2 s in chunks of 1,000).
_CHUNK = 16
_STREAMS_IN_CHUNKS = psycopg.capabilities.has_stream_chunked()
_OK = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)
_SYNC = pq.ExecStatus.PIPELINE_SYNC
_PARTIAL = (pq.ExecStatus.SINGLE_TUPLE, pq.ExecStatus.TUPLES_CHUNK)
#: A peer that is gone is noticed within half a minute.
KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "connect_timeout": 30,
}


class Statement(NamedTuple):
    """SQL for the extended protocol and its parameters in text format."""

    sql: bytes
    params: tuple[bytes | None, ...] = ()
    prepared: bool = False


def rows(result: pq.abc.PGresult) -> list[list[str | None]]:
    """The rows of a text-format result."""
    get = result.get_value
    columns = range(result.nfields)
    return [
        [None if (v := get(r, c)) is None else bytes(v).decode() for c in columns]
        for r in range(result.ntuples)
    ]


_open: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """A connection that runs pipelines. Not for concurrent use; once `broken`, only `close` is
    left.
    """

    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self.connection = connection
        self.pgconn = connection.pgconn
        self.pid = self.pgconn.backend_pid
        self._prepared: dict[bytes, bytes] = {}
        self._names = 0
        self._busy = False
        self._cancelled = False
        _open.add(self)

    @classmethod
    async def connect(cls, dsn: str, *, application_name: str, options: str = "") -> Session:
        """Open a connection; `options` are libpq command-line options that survive every reset of
        the session.
        """
        connection = await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, application_name=application_name, options=options, **KEEPALIVE
        )
        connection.pgconn.nonblocking = 1
        connection.pgconn.enter_pipeline_mode()
        return cls(connection)

    @property
    def broken(self) -> bool:
        """Whether the connection is lost, or was left in the middle of something."""
        return self._busy or self.pgconn.status != pq.ConnStatus.OK

    @property
    def reusable(self) -> bool:
        """Whether the next user may have it: not broken, no transaction left open, and no cancel is
        under way that could hit the wrong statement.
        """
        idle = self.pgconn.transaction_status == pq.TransactionStatus.IDLE
        return idle and not (self._cancelled or self.broken)

    def lost_while_idle(self) -> bool:
        """Whether the server has hung up since the last pipeline; a look, without waiting."""
        try:
            self.pgconn.consume_input()
            self.pgconn.consume_input()  # the first may have read the server's farewell only
        except psycopg.OperationalError:
            return True
        return self.broken

    async def close(self) -> None:
        """Close the connection, whatever state it is in."""
        self._busy = True
        await self.connection.close()

    async def cancel(self) -> None:
        """Ask the server to interrupt what this session is executing."""
        self._cancelled = True
        await self.connection.cancel_safe(timeout=5)

    async def pipeline(
        self,
        *statements: Statement,
        stream: int | None = None,
        on_chunk: Callable[[pq.abc.PGresult], None] | None = None,
    ) -> list[pq.abc.PGresult]:
        """Run statements in one round trip; the result of each, in order.

        A failed statement has a result of status FATAL_ERROR, those after it PIPELINE_ABORTED: see
        `error`. The rows of the statement numbered `stream` are handed to `on_chunk` as they arrive
        and are not kept.

        Raises
        ------
        psycopg.OperationalError
            The connection was lost; the session is `broken`.
        """
        if self.broken:
            raise psycopg.OperationalError("the connection is closed")
        self._busy = True
        prepares = self._send(statements)
        results = await self._receive(len(statements) + len(prepares), stream, on_chunk)
        self._busy = False
        return self._without(prepares, results) if prepares else results

    async def run(self, *statements: Statement) -> list[pq.abc.PGresult]:
        """`pipeline`, raising the first error."""
        results = await self.pipeline(*statements)
        raise_first(results)
        return results

    def _send(self, statements: Sequence[Statement]) -> dict[int, bytes]:
        """Queue the statements; where a PREPARE had to come first, and of what."""
        pgconn = self.pgconn
        prepares: dict[int, bytes] = {}
        for index, (sql, params, prepared) in enumerate(statements):
            if not prepared:
                pgconn.send_query_params(sql, params or None)
                continue
            if (name := self._prepared.get(sql)) is None:
                name = self._prepared[sql] = b"w%d" % self._names
                self._names += 1
                prepares[index + len(prepares)] = sql
                pgconn.send_prepare(name, sql)
            pgconn.send_query_prepared(name, params or None)
        pgconn.pipeline_sync()
        return prepares

    def _without(
        self, prepares: dict[int, bytes], results: list[pq.abc.PGresult]
    ) -> list[pq.abc.PGresult]:
        """The results of the statements alone; the error of a PREPARE is that of its statement."""
        for index, sql in prepares.items():
            if results[index].status not in _OK:
                del self._prepared[sql]  # in an aborted transaction nothing is prepared
                results[index + 1] = results[index]
        return [result for index, result in enumerate(results) if index not in prepares]

    async def _receive(
        self, expected: int, stream: int | None, on_chunk: Callable[[pq.abc.PGresult], None] | None
    ) -> list[pq.abc.PGresult]:
        pgconn = self.pgconn
        results: list[pq.abc.PGresult] = []
        ended = 0
        unsent = pgconn.flush()
        while True:
            if ended == stream:
                stream = None
                self._read_in_chunks()
            if pgconn.is_busy():
                unsent = await self._until_result(unsent)
            result = pgconn.get_result()
            if result is None:
                ended += 1
                if ended > expected:
                    raise psycopg.OperationalError("the connection was lost")
                continue
            status = result.status
            if status == _SYNC:
                return results
            if status in _PARTIAL:
                if on_chunk is not None:
                    on_chunk(result)
                continue
            results.append(result)
            if pgconn.status != pq.ConnStatus.OK:
                raise error_from_result(result)

    def _read_in_chunks(self) -> None:
        if _STREAMS_IN_CHUNKS:
            self.pgconn.set_chunked_rows_mode(_CHUNK)
        else:
            self.pgconn.set_single_row_mode()

    async def _until_result(self, unsent: int) -> int:
        """Wait until `get_result` will not block; sends on what is still `unsent`."""
        pgconn = self.pgconn
        while pgconn.is_busy():
            await self._ready(write=unsent == 1)
            pgconn.consume_input()
            if unsent:
                unsent = pgconn.flush()
        return unsent

    async def _ready(self, *, write: bool) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        socket = self.pgconn.socket
        loop.add_reader(socket, _settle, ready)
        if write:
            loop.add_writer(socket, _settle, ready)
        try:
            await ready
        finally:
            loop.remove_reader(socket)
            if write:
                loop.remove_writer(socket)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _close_in_child() -> None:
    """In a forked child: let go of the sockets, which would keep the sessions and their locks alive
    for as long as the child lives, even when the parent was killed.

    Their numbers are not freed, since libpq objects of the child still bear them.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for session in _open:
        with contextlib.suppress(psycopg.Error, OSError):
            os.dup2(null, session.pgconn.socket, inheritable=False)
    os.close(null)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def error(result: pq.abc.PGresult) -> psycopg.Error | None:
    """The error of a failed statement; None when it succeeded or was never reached."""
    if result.status == pq.ExecStatus.FATAL_ERROR:
        return error_from_result(result)
    return None


def raise_first(results: Sequence[pq.abc.PGresult]) -> None:
    """Raise the error of the first failed statement, if one failed."""
    for result in results:
        if failed := error(result):
            raise failed
