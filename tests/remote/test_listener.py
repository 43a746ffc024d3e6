"""Engines hear what other processes do. Without notifications they poll, and say so.

Where a test proves that a notification was heard, the looks that would find the same are put off by
an hour (`only_notified`).
"""

from __future__ import annotations

import pytest

from tests.engine import step_handlers as handlers
from tests.engine.conftest import SpawnEngine, StartEngine
from tests.engine.support import Database, start, wait_until
from tests.remote.conftest import Connect
from workbench.bench import Bench
from workbench.engine import life, liveness
from workbench.engine.worker import Engine
from workbench.graph.build import py
from workbench.store import listen

HOUR = 3600.0
LISTENERS = (
    "FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'workbench engine listen'"
)


@pytest.fixture
def only_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "POLL", HOUR)
    monkeypatch.setattr(life, "LISTENING_POLL", HOUR)
    monkeypatch.setattr(liveness, "COMPARE", HOUR)


@pytest.fixture
def listening(db: Database, start_engine: StartEngine) -> Engine:
    """An engine that has heard its probe."""
    engine = start_engine()
    wait_until(lambda: engine.listening, what="the engine hears its probe")
    return engine


@pytest.fixture
def mute(db: Database) -> None:
    """A database that lets no listener in."""
    if db.conn.info.server_version < 170000:
        pytest.skip("needs login event triggers: PostgreSQL 17")
    db.execute(
        """CREATE FUNCTION refuse_listeners() RETURNS event_trigger LANGUAGE plpgsql AS $$
           BEGIN
               IF current_setting('application_name') = 'workbench engine listen' THEN
                   RAISE EXCEPTION 'no listeners here';
               END IF;
           END $$"""
    )
    db.execute("CREATE EVENT TRIGGER mute ON login EXECUTE FUNCTION refuse_listeners()")


def listener(db: Database) -> int:
    """The backend of the only listener; 0 while there is none."""
    return int(db.value(f"SELECT coalesce(max(pid), 0) {LISTENERS}"))


def beats(db: Database, engine: Engine) -> int:
    """Whole seconds between the engine's entry and its last heartbeat."""
    query = (
        "SELECT floor(extract(epoch FROM last_seen_at - started_at))::int FROM df.engines"
        " WHERE id = %s"
    )
    return int(db.value(query, engine.id))


@pytest.mark.usefixtures("only_notified")
def test_a_start_by_another_process_is_heard(db: Database, listening: Engine) -> None:
    for _ in range(3):
        db.wait(db.start("SELECT 1"))


@pytest.mark.usefixtures("only_notified")
def test_a_cancel_by_another_process_interrupts_a_running_statement(
    db: Database, listening: Engine
) -> None:
    run = db.start("SELECT pg_sleep(600)")
    db.wait_running(run)
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%%(600)%%'"
    wait_until(lambda: db.value(sleeping) == 1)
    db.execute("SELECT df.cancel(%s)", run)
    wait_until(lambda: db.value(sleeping) == 0, timeout=2)


@pytest.mark.usefixtures("only_notified")
def test_a_cancel_by_another_process_reaches_a_handler(db: Database, listening: Engine) -> None:
    run = db.start(py(handlers.until_cancelled))
    wait_until(lambda: db.values("SELECT what FROM seen") == ["begun"])
    db.execute("SELECT df.cancel(%s)", run)
    wait_until(lambda: db.values("SELECT what FROM seen") == ["begun", "cancelled"], timeout=2)
    assert db.status(run) == "cancelled"


@pytest.mark.usefixtures("only_notified")
def test_a_killed_listener_is_made_again_and_nothing_was_missed(
    db: Database, listening: Engine
) -> None:
    killed = listener(db)
    db.execute("SELECT pg_terminate_backend(%s, 5000)", killed)
    wait_until(lambda: not listening.listening, what="the engine notices")
    missed = db.start("SELECT 1")
    wait_until(lambda: listener(db) not in (0, killed), what="a new listener")
    db.wait(missed)
    wait_until(lambda: listening.listening, what="the new one hears its probe")
    db.wait(db.start("SELECT 2"))


def test_a_listener_that_dies_disturbs_no_running_step(db: Database, listening: Engine) -> None:
    with db.gate(1):
        run = db.start(py(handlers.pass_gate, gate=1))
        db.wait_at_gate(1)
        db.execute("SELECT pg_terminate_backend(%s, 5000)", listener(db))
        wait_until(lambda: not listening.listening)
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]
    assert db.engines() == [listening.id]


@pytest.mark.usefixtures("mute")
def test_without_notifications_an_engine_polls_and_says_so(db: Database, bench: Bench) -> None:
    bench.work()
    wait_until(lambda: bench.status().listening is False)
    assert "polling only, LISTEN does not work here" in str(bench.status())
    db.wait(db.start("SELECT 1"))
    run = db.start(py(handlers.until_cancelled))
    wait_until(lambda: db.values("SELECT what FROM seen") == ["begun"])
    db.execute("SELECT df.cancel(%s)", run)
    wait_until(lambda: db.values("SELECT what FROM seen") == ["begun", "cancelled"])


@pytest.mark.usefixtures("mute")
def test_listening_begins_when_the_server_allows_it(
    db: Database, start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "RETRY", (0.05,))
    engine = start_engine()
    wait_until(lambda: engine.listening is False)
    db.execute("DROP EVENT TRIGGER mute")
    wait_until(lambda: engine.listening)


def test_a_bench_says_that_it_is_woken(bench: Bench) -> None:
    assert bench.status().listening is None
    bench.work()
    wait_until(lambda: bench.status().listening)
    assert "woken by LISTEN" in str(bench.status())
    bench.hold()
    assert (bench.status().engine, bench.status().listening) == (None, None)


@pytest.mark.parametrize("hears", [True, False], ids=["listening", "polling"])
def test_a_start_in_a_transaction_that_stays_open_runs_when_it_commits(
    db: Database, request: pytest.FixtureRequest, start_engine: StartEngine, hears: bool
) -> None:
    if not hears:
        request.getfixturevalue("mute")
    engine = start_engine()
    wait_until(lambda: engine.listening is hears)
    with db.transaction() as conn:
        run = start(conn, "SELECT 1")
        begun = beats(db, engine)
        wait_until(lambda: beats(db, engine) >= begun + 3, what="several polls have passed")
        assert db.values("SELECT id FROM df.instances") == []
        conn.commit()
    db.wait(run)


def test_a_start_that_is_rolled_back_leaves_nothing(db: Database, listening: Engine) -> None:
    with db.transaction() as conn:
        start(conn, "SELECT 1")
        conn.rollback()
    db.wait(run := db.start("SELECT 2"))
    for table in ("instances", "definitions", "nodes"):
        key = "id" if table == "instances" else "instance_id"
        assert db.values(f"SELECT DISTINCT {key} FROM df.{table}") == [run]


@pytest.mark.usefixtures("only_notified")
def test_a_bench_starts_inside_a_connections_transaction(db: Database, bench: Bench) -> None:
    bench.work()
    wait_until(lambda: bench.status().listening)
    with db.transaction() as conn:
        run = bench.start("SELECT 1 AS x", connection=conn)
        assert db.values("SELECT id FROM df.instances") == []
        conn.commit()
    assert run.result(timeout=15) == {"rows": [{"x": 1}], "row_count": 1}


def test_runs_of_a_held_bench_are_executed_by_the_other(
    db: Database, open_bench: Connect, spawn_engine: SpawnEngine
) -> None:
    held = open_bench().hold()
    run = held.start("SELECT 1 AS x")
    assert held.status().live_engines == 0
    other = spawn_engine()
    assert run.result(timeout=15) == {"rows": [{"x": 1}], "row_count": 1}
    assert [attempt.engine for attempt in db.attempts(run.id)] == [other.id]
    assert list(held.engines().df.index) == [other.id]
