"""The server goes away and comes back: engines wait for it, nobody is declared dead, work goes on."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.engine import step_handlers as handlers
from tests.engine.conftest import SpawnEngine
from tests.engine.http_server import Answer, http_server
from tests.engine.support import Database, wait_until
from workbench.graph import http
from workbench.graph.build import py, sql
from workbench.store import embedded
from workbench.store.migrate import migrate


class OwnServer:
    """A private server that can be killed and started again."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.dsn = embedded.ensure(home, settings={"fsync": "off"})

    def kill(self) -> None:
        """As a crash of the machine would: no goodbye to anybody."""
        pid = embedded.status(self._home).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not embedded.status(self._home).running)

    def start(self) -> None:
        assert embedded.ensure(self._home, settings={"fsync": "off"}) == self.dsn


@pytest.fixture
def own_server(home: Path) -> OwnServer:
    server = OwnServer(home)
    migrate(server.dsn)
    return server


@pytest.fixture
def own(own_server: OwnServer) -> Iterator[Database]:
    with connected(own_server) as database:
        database.execute(handlers.SEEN)
        yield database


@contextlib.contextmanager
def connected(server: OwnServer) -> Iterator[Database]:
    with contextlib.closing(Database(server.dsn)) as database:
        yield database


def test_a_restarted_server_finds_its_engines_alive_and_their_work_going_on(
    own_server: OwnServer, own: Database, spawn_engine: SpawnEngine
) -> None:
    first, second = spawn_engine(own_server.dsn), spawn_engine(own_server.dsn)
    # Committed just before the crash, and running while it happens.
    done = own.start("SELECT 1")
    own.wait(done)
    sleeping = own.start(py(handlers.sleep_blocking, seconds=2) >> sql("SELECT 2 AS two"))
    wait_until(lambda: own.value("SELECT count(*) FROM seen") == 1)
    own_server.kill()
    own_server.start()
    with connected(own_server) as after:
        after.wait(sleeping)
        expected = [(1, "completed"), (2, "completed")]
        assert after.outcomes(sleeping) == expected, after.attempts(sleeping)
        assert after.outcomes(done) == [(0, "completed")]
        after.wait(after.start("SELECT 1"))
        assert sorted(after.engines()) == sorted([first.id, second.id])
        assert after.engines("died_at IS NOT NULL") == []
    assert first.alive
    assert second.alive


def test_a_statement_that_the_crash_interrupted_runs_again_and_counts_once(
    own_server: OwnServer, own: Database, spawn_engine: SpawnEngine
) -> None:
    own.execute("CREATE TABLE effects (x int)")
    spawn_engine(own_server.dsn)
    with contextlib.suppress(psycopg.OperationalError), own.gate(1):
        run = own.start(
            "INSERT INTO effects SELECT 1 FROM (SELECT pg_advisory_xact_lock_shared(1)) s"
        )
        own.wait_at_gate(1)
        own_server.kill()
        own_server.start()
    with connected(own_server) as after:
        after.wait(run)
        assert after.value("SELECT count(*) FROM effects") == 1
        assert after.node(run)["attempt"] == 1


def test_the_crash_of_one_backend_declares_nobody_dead(
    own_server: OwnServer, own: Database, spawn_engine: SpawnEngine
) -> None:
    own.set(heartbeat_limit=3)
    age = "SELECT clock_timestamp() - pg_postmaster_start_time() > interval '3 seconds'"
    wait_until(lambda: own.value(age))
    engines = [spawn_engine(own_server.dsn), spawn_engine(own_server.dsn)]
    sleeping = own.start(py(handlers.sleep_blocking, seconds=2))
    wait_until(lambda: own.value("SELECT count(*) FROM seen") == 1)
    before = _statistics_reset(own_server)
    os.kill(own.conn.info.backend_pid, signal.SIGKILL)  # the postmaster ends every session
    wait_until(lambda: _statistics_reset(own_server) not in (None, before))
    with connected(own_server) as after:
        after.wait(sleeping)
        assert after.outcomes(sleeping) == [(0, "completed")]
        after.wait(after.start("SELECT 1"))
        assert sorted(after.engines()) == sorted(engine.id for engine in engines)


def _statistics_reset(server: OwnServer) -> object:
    """Changes when the server has recovered from a crash; None while it does not answer."""
    try:
        with psycopg.connect(server.dsn) as conn:
            row = conn.execute("SELECT stats_reset FROM pg_stat_bgwriter").fetchone()
    except psycopg.OperationalError:
        return None
    return row[0] if row else None


def test_no_permit_is_lost_or_taken_twice_when_the_server_restarts(
    own_server: OwnServer, own: Database, spawn_engine: SpawnEngine
) -> None:
    own.execute("SELECT df.set_setting('http_allow', '[\"127.0.0.1\"]')")
    own.set(max_http_concurrency=1)
    with http_server() as web:
        gate = web.gate()
        web.answer("/held", Answer(body=[gate, b"ok"]))
        engines = [spawn_engine(own_server.dsn), spawn_engine(own_server.dsn)]
        held = own.start(http(web.url + "/held"))
        wait_until(lambda: len(web.requests) == 1)
        own_server.kill()
        own_server.start()
        with connected(own_server) as after:
            following = after.start(http(web.url + "/next"))
            after.wait(after.start("SELECT 1"))
            assert after.value("SELECT http FROM df._in_use()") == 1
            gate.set()
            for run in (held, following):
                after.wait(run)
            assert (len(web.requests), web.most) == (2, 1)
            assert after.value("SELECT (u.activity, u.http)::text FROM df._in_use() u") == "(0,0)"
    assert all(engine.alive for engine in engines)
