"""What the engine's tests share: a database with short names for what they ask, engine processes.

Nothing here waits a fixed time: `wait_until` looks again and again. `proxy.py` breaks connections,
`step_handlers.py` has the handlers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from workbench.graph.node import Node

__all__ = ["Attempt", "Database", "EngineProcess", "Nursery", "start", "wait_until"]

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
LOOK = 0.01  # seconds between two looks at what a test waits for


def wait_until(condition: Callable[[], T], timeout: float = 15.0, what: str = "") -> T:
    """Look until the condition is true and return what it gave; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (seen := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what or condition}")
        time.sleep(LOOK)
    return seen


class Attempt(NamedTuple):
    """A row of `df.attempts`, as far as tests ask."""

    node: int
    attempt: int
    outcome: str
    error: Any
    delay: float | None
    source: str | None
    engine: str
    exactly_once: bool


class Database:
    """One database with the schema, over one autocommit connection."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)

    def close(self) -> None:
        self.conn.close()

    def execute(self, query: str, *params: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.conn.execute(query, params or None)

    def value(self, query: str, *params: Any) -> Any:
        """The first column of the first row."""
        row = self.execute(query, *params).fetchone()
        assert row is not None
        return row[0]

    def values(self, query: str, *params: Any) -> list[Any]:
        """The first column."""
        return [row[0] for row in self.execute(query, *params)]

    def set(self, **settings: float) -> None:
        """Change settings; engines read them when they start."""
        for name, value in settings.items():
            self.execute("SELECT df.set_setting(%s, %s::text::jsonb)", name, str(value))

    def start(self, graph: Node | str, **options: Any) -> str:
        text = graph if isinstance(graph, str) else graph.to_json()
        return start(self.conn, text, **options)

    def status(self, run: str) -> str:
        return str(self.value("SELECT df.status(%s)", run))

    def wait(self, run: str, status: str = "completed", timeout: float = 20.0) -> None:
        """Wait for a run to end, and require that it ends so."""
        ended = ("completed", "failed", "cancelled")
        wait_until(lambda: self.status(run) in ended, timeout, f"run {run} ends: {self.nodes(run)}")
        assert self.status(run) == status, self.error(run)

    def wait_all(self, status: str = "completed", timeout: float = 30.0) -> None:
        """Wait until no run is alive, and require that all have ended so."""
        alive = "SELECT count(*) FROM df.instances WHERE status IN ('pending', 'running')"
        wait_until(lambda: self.value(alive) == 0, timeout, "all runs end")
        assert self.values("SELECT DISTINCT status FROM df.instances") == [status]

    def result(self, run: str) -> Any:
        return self.value("SELECT df.result(%s)::jsonb", run)

    def rows(self, run: str) -> Any:
        """The rows of a run whose last step is SQL."""
        return self.result(run)["rows"]

    def error(self, run: str) -> Any:
        return self.value("SELECT df.error(%s)", run)

    def nodes(self, run: str) -> list[dict[str, Any]]:
        with self.conn.cursor(row_factory=dict_row) as cursor:
            query = "SELECT * FROM df.nodes WHERE instance_id = %s ORDER BY node_id"
            return cursor.execute(query, (run,)).fetchall()

    def node(self, run: str, number: int = 0) -> dict[str, Any]:
        return self.nodes(run)[number]

    def statuses(self, run: str) -> list[str]:
        return [node["status"] for node in self.nodes(run)]

    def attempts(self, run: str) -> list[Attempt]:
        """In the order of their ends."""
        return [
            Attempt(*row)
            for row in self.execute(
                "SELECT node_id, attempt, outcome, error, extract(epoch FROM delay)::float8, delay_source, engine_id,"
                " exactly_once FROM df.attempts WHERE instance_id = %s ORDER BY rev, node_id",
                run,
            )
        ]

    def outcomes(self, run: str) -> list[tuple[int, str]]:
        return [(each.node, each.outcome) for each in self.attempts(run)]

    def wait_running(self, run: str, number: int = 0) -> dict[str, Any]:
        """Wait until a leaf executes."""
        wait_until(
            lambda: self.node(run, number)["status"] == "running",
            what=f"node {number} of {run} runs",
        )
        return self.node(run, number)

    def wait_at_gate(self, gate: int, many: int = 1) -> None:
        """Wait until so many steps stand before a gate."""
        query = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        wait_until(lambda: self.value(query, gate) >= many, what=f"{many} steps at gate {gate}")

    @contextmanager
    def gate(self, number: int) -> Iterator[None]:
        """Hold up every step that wants `pg_advisory_xact_lock_shared(number)`."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute("SELECT pg_advisory_lock(%s)", (number,))
            yield

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """Another session with an open transaction, rolled back at the end unless committed."""
        with psycopg.connect(self.dsn) as conn:
            yield conn
            conn.rollback()

    def engines(self, where: str = "stopped_at IS NULL AND died_at IS NULL") -> list[str]:
        return self.values(f"SELECT id FROM df.engines WHERE {where} ORDER BY started_at")


def start(conn: psycopg.Connection[Any], graph: str, **options: Any) -> str:
    """`df.start` over any connection."""
    named = sql.SQL("").join(
        sql.SQL(", {} => {}").format(sql.Identifier(name), sql.Literal(value))
        for name, value in options.items()
    )
    row = conn.execute(
        sql.SQL("SELECT df.start({}{})").format(sql.Literal(graph), named)
    ).fetchone()
    assert row is not None
    return str(row[0])


class Nursery:
    """Bears engines in processes of their own, quickly; they live until killed."""

    def __init__(self, dsn: str, ceiling: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.engine_process", dsn, str(ceiling), "nursery"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def bear(self) -> int:
        """The process id of a new engine, which has entered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class EngineProcess:
    """A real engine in a process of its own, which can be killed and frozen."""

    def __init__(self, dsn: str, ceiling: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.engine_process", dsn, str(ceiling)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._id = ""

    @property
    def id(self) -> str:
        """Its first identity; waits until it has one."""
        if not self._id:
            assert self._process.stdout is not None
            self._id = self._process.stdout.readline().strip()
            assert self._id, "the engine's process ended before it entered"
        return self._id

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._process.kill()
        self.wait()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """An orderly end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.wait()

    def wait(self, timeout: float = 20.0) -> None:
        self._process.wait(timeout)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
