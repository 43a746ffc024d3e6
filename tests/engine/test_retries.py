"""Failures and when they are tried again; handlers that are not here; the clock."""

from __future__ import annotations

import pytest

from tests.engine import step_handlers as handlers
from tests.engine.conftest import SpawnEngine, StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph.build import py, sql
from workbench.graph.handlers import handler


def test_each_failed_attempt_has_a_row_with_its_error_and_the_delay_that_followed(
    db: Database, engine: Engine
) -> None:
    run = db.start(py(handlers.fail_first, failures=2), max_attempts=3)
    db.wait(run)
    rows = [(a.attempt, a.outcome, a.delay, a.source) for a in db.attempts(run)]
    assert rows == [
        (1, "failed", 1.0, "backoff"),
        (2, "failed", 2.0, "backoff"),
        (3, "completed", None, None),
    ]
    assert [a.error and a.error["message"] for a in db.attempts(run)] == ["e1", "e2", None]
    gaps = db.values(
        "SELECT extract(epoch FROM started_at - lag(finished_at) OVER (ORDER BY rev))::float8"
        " FROM df.attempts WHERE instance_id = %s ORDER BY rev",
        run,
    )
    assert 1.0 <= gaps[1] < 1.5
    assert 2.0 <= gaps[2] < 2.5
    assert db.result(run) == 3


def test_max_backoff_caps_the_delay(db: Database, engine: Engine) -> None:
    run = db.start("SELECT 1 / 0", max_attempts=3, max_backoff="200 milliseconds")
    db.wait(run, "failed")
    assert [attempt.delay for attempt in db.attempts(run)] == [0.2, 0.2, None]
    assert db.error(run)["attempt"] == 3


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("SELECT * FROM nowhere", "42P01"),
        ("INSERT INTO seen (what) VALUES (NULL)", "23502"),
        ("SELECT nonsense(", "42601"),
        ("CREATE TABLE nowhere.t ()", "3F000"),
    ],
)
def test_a_permanent_error_uses_one_attempt(
    db: Database, engine: Engine, statement: str, sqlstate: str
) -> None:
    run = db.start(statement, max_attempts=5)
    db.wait(run, "failed")
    assert db.error(run)["sqlstate"] == sqlstate
    assert db.outcomes(run) == [(0, "failed")]


def test_the_wait_for_a_retry_survives_a_restart(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    killed = spawn_engine()
    run = db.start(py(handlers.fail_first, failures=1), max_attempts=2)
    wait_until(lambda: db.outcomes(run) == [(0, "failed")])
    killed.kill()
    ready_at = db.node(run)["ready_at"]
    start_engine()
    db.wait(run)
    assert db.outcomes(run) == [(0, "failed"), (0, "completed")]
    started = db.value("SELECT max(started_at) FROM df.attempts WHERE instance_id = %s", run)
    assert started >= ready_at


def test_a_step_whose_handler_nobody_has_waits_and_uses_no_attempt(
    db: Database, engine: Engine
) -> None:
    run = db.start(sql("SELECT 1") >> py("defined.later") >> sql("SELECT 2"))
    wait_until(lambda: db.node(run, 3)["status"] == "ready")
    db.wait(db.start(py(handlers.echo, value=1)))  # it holds up nobody
    assert db.node(run, 3)["status"] == "ready"
    handler("defined.later")(handlers.interim)
    db.wait(run)
    assert db.outcomes(run) == [(2, "completed"), (3, "completed"), (4, "completed")]
    assert db.node(run, 3)["attempt"] == 1


def test_a_step_goes_to_the_engine_that_has_its_handler(
    db: Database, engine: Engine, spawn_engine: SpawnEngine
) -> None:
    handler("only.here")(handlers.only_here)
    other = spawn_engine()
    runs = [db.start(sql("SELECT 1") >> py("only.here") >> sql("SELECT 2")) for _ in range(10)]
    for run in runs:
        db.wait(run)
    engines = "SELECT DISTINCT engine_id FROM df.attempts WHERE node_id = 3"
    assert db.values(engines) == [engine.id]
    assert other.id in db.engines()


def test_runs_see_the_clock_that_the_owner_set(db: Database, start_engine: StartEngine) -> None:
    db.execute("""SELECT df.set_setting('clock', '{"at": "2030-01-01T00:00:00Z"}')""")
    start_engine()
    run = db.start("SELECT 1 / (nextval('calls') - 1)", max_attempts=2, max_backoff="1 day")
    wait_until(lambda: db.outcomes(run) == [(0, "failed")])
    assert db.node(run)["ready_at"].isoformat() == "2030-01-01T00:00:01+00:00"
    db.wait(db.start("SELECT 1"))
    assert db.status(run) == "running"
    db.execute("""SELECT df.set_setting('clock', '{"at": "2030-01-01T00:00:01Z"}')""")
    db.wait(run)
    finished = db.value("SELECT finished_at FROM df.instances WHERE id = %s", run)
    assert finished.isoformat() == "2030-01-01T00:00:01+00:00"


def test_liveness_never_uses_the_clock_that_the_owner_set(
    db: Database, engine: Engine, start_engine: StartEngine
) -> None:
    start_engine()
    identities = db.engines()
    beats = "SELECT min(last_seen_at) FROM df.engines"
    for clock in ('{"at": "2001-01-01T00:00:00Z"}', '{"offset": 100000}'):
        db.execute("SELECT df.set_setting('clock', %s)", clock)
        seen = db.value(beats)
        wait_until(lambda seen=seen: db.value(beats) > seen)  # type: ignore[misc]
    assert db.engines() == identities
    assert db.value(
        "SELECT abs(extract(epoch FROM max(last_seen_at) - clock_timestamp())) < 60 FROM df.engines"
    )


def test_a_callback_that_raises_does_not_end_the_engine(db: Database, engine: Engine) -> None:
    told: list[str] = []

    def broken(run: str, ended: bool) -> None:
        if ended:
            told.append(run)
        raise RuntimeError("not my day")

    engine.on_change(broken)
    run = db.start("SELECT 1")
    db.wait(run)
    wait_until(lambda: told == [run])
    db.wait(db.start(py(handlers.echo, value=1)))
    assert engine.alive
