"""Where a benchmark runs: a temporary embedded server with real durability, a database of its own
on it, an engine in this process.

`Site.drain` is how a batch of waiting runs is timed. That every step had its effect exactly once is
checked after the clock has stopped.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import workbench as wb
from benchmarks import effects, raw
from workbench.store import embedded

__all__ = ["Server", "Site", "server"]

CEILINGS = {"max_activity_concurrency": "32", "max_http_concurrency": "8"}
_LOOK = 0.005  # seconds between looks at whether all runs have ended
_LOOK_AT_MANY = 0.1  # seconds between counts of rows
_PATIENCE = 300.0  # seconds until a batch counts as stuck
_LIVE = "SELECT EXISTS (SELECT FROM df.instances WHERE status IN ('pending', 'running'))"
_PENDING = "SELECT count(*) FROM df.instances WHERE status = 'pending'"
_COMPLETED = "SELECT count(*) FROM df.instances WHERE status = 'completed'"
_ASLEEP = "SELECT count(*) FROM df.nodes WHERE status = 'waiting'"


class Site:
    """One database: `bench` with its engine, and `conn`, an autocommit connection beside it."""

    def __init__(self, dsn: str, bench: wb.Bench, conn: psycopg.Connection) -> None:
        self.dsn = dsn
        self.bench = bench
        self.conn = conn

    def warm_up(self, runs: int) -> None:
        """Open sessions, make plans, load handlers."""
        self.drain(effects.sql_step(), runs)
        self.drain(effects.python_step(), runs)

    def drain(self, graph: wb.Node, runs: int) -> float:
        """Have so many runs of a graph wait at once; the seconds until the last one has ended.

        They become visible by one commit. The last one is started by itself, which wakes the engine
        as it does in a notebook.
        """
        with self.conn.transaction():
            for _ in range(runs - 1):
                self.bench.start(graph, connection=self.conn)
            began = time.perf_counter()
        self.bench.start(graph)
        self.until_all_ended()
        return time.perf_counter() - began

    def until_all_ended(self) -> None:
        """Return when no run is live.

        Raises
        ------
        TimeoutError
            Some still are: nothing can be said.
        """
        deadline = time.perf_counter() + _PATIENCE
        while self.conn.execute(_LIVE).fetchone() == (True,):
            if time.perf_counter() > deadline:
                raise TimeoutError(
                    f"runs are still live after {_PATIENCE:g} s: no figure. See the log on stderr."
                )
            time.sleep(_LOOK)

    def until_waiting(self, nodes: int) -> None:
        """Return when so many nodes wait for a time or a signal. TimeoutError: they do not."""
        self.until(_ASLEEP, nodes)

    def until(self, counted: LiteralString, nodes: int, *values: object) -> None:
        """Return when a query counts so many nodes that wait. TimeoutError: it does not."""
        deadline = time.perf_counter() + _PATIENCE
        while (found := self._count(counted, *values)) < nodes:
            if time.perf_counter() > deadline:
                raise TimeoutError(
                    f"{found} of {nodes} nodes wait after {_PATIENCE:g} s: no figure"
                )
            time.sleep(_LOOK_AT_MANY)

    @contextmanager
    def expecting_inserts(self, count: int) -> Iterator[None]:
        """Refuse the measurement unless SQL steps have exactly so many effects meanwhile."""
        with _expecting(lambda: effects.inserted(self.conn), count):
            yield

    @contextmanager
    def expecting_notes(self, count: int) -> Iterator[None]:
        """The same for Python steps, which are at-least-once; with no engine lost it is once."""
        with _expecting(effects.noted, count):
            yield

    @contextmanager
    def expecting_starts(self, count: int) -> Iterator[None]:
        """The same for runs that are started and left to wait."""
        with _expecting(lambda: self._count(_PENDING), count, "waiting runs"):
            yield

    @contextmanager
    def expecting_completions(self, count: int) -> Iterator[None]:
        """The same for runs that complete meanwhile."""
        with _expecting(lambda: self._count(_COMPLETED), count, "completed runs"):
            yield

    def _count(self, query: LiteralString, *values: object) -> int:
        row = self.conn.execute(query, values or None).fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def _expecting(counted: Callable[[], int], count: int, what: str = "effects") -> Iterator[None]:
    before = counted()
    yield
    if (found := counted() - before) != count:
        raise RuntimeError(
            f"{found} {what} instead of {count}: the measurement is void. "
            "See the log on stderr for steps that failed."
        )


class Server:
    """The server of one invocation; `version` is its own word for itself."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._numbers = itertools.count(1)
        with psycopg.connect(dsn, autocommit=True) as conn:
            _require_durability(conn)
            self.version = _setting(conn, "server_version")

    @contextmanager
    def site(self, *, engine: bool = True) -> Iterator[Site]:
        """A fresh database with the schema, a workstation's ceilings and the tables for effects.

        Parameters
        ----------
        engine:
            False for scripts that do an engine's work themselves.
        """
        name = f"benchmark_{next(self._numbers)}"
        dsn = make_conninfo(self._dsn, dbname=name)
        self._run("CREATE DATABASE {}", name)
        try:
            wb.migrate(dsn)
            with psycopg.connect(dsn, autocommit=True) as conn:
                _furnish(conn)
                with wb.connect(dsn, engine=engine) as bench:
                    yield Site(dsn, bench, conn)
        finally:
            self._run("DROP DATABASE {} WITH (FORCE)", name)

    def _run(self, statement: LiteralString, name: str) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            conn.execute(sql.SQL(statement).format(sql.Identifier(name)))


@contextmanager
def server() -> Iterator[Server]:
    """Start a server in a temporary directory (TMPDIR chooses the disk); remove both afterwards."""
    home = Path(tempfile.mkdtemp(prefix="workbench-benchmarks-"))
    try:
        yield Server(embedded.ensure(home, settings={"max_connections": "200"}))
    finally:
        embedded.stop(home)
        shutil.rmtree(home, ignore_errors=True)


def _require_durability(conn: psycopg.Connection) -> None:
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        if (value := _setting(conn, name)) != "on":
            raise RuntimeError(f"{name} is {value} on this server: figures need real durability")


def _setting(conn: psycopg.Connection, name: str) -> str:
    row = conn.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def _furnish(conn: psycopg.Connection) -> None:
    conn.execute(raw.TABLE)
    conn.execute(effects.TABLE)
    for name, value in CEILINGS.items():
        conn.execute("SELECT df.set_setting(%s, %s)", (name, value))
