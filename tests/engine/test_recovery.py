"""Engines that are killed, frozen or found dead: their steps go on elsewhere, counted as losses only."""

from __future__ import annotations

import os
import signal
from uuid import uuid4

import pytest

from tests.engine import step_handlers as handlers
from tests.engine.conftest import SpawnEngine, StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph.build import py, sql

AT_GATE = py(handlers.pass_gate, gate=1)


@pytest.fixture(autouse=True)
def settled_server(db: Database) -> None:
    """A lock that is gone means something once the server is older than the heartbeat limit."""
    db.set(heartbeat_limit=2)
    age = "SELECT clock_timestamp() - pg_postmaster_start_time() > interval '2 seconds'"
    wait_until(lambda: db.value(age))


def seen(db: Database) -> int:
    return int(db.value("SELECT count(*) FROM seen"))


def seconds_since(db: Database, moment: object) -> float:
    return float(db.value("SELECT extract(epoch FROM clock_timestamp() - %s)", moment))


def test_a_killed_engines_step_starts_elsewhere_within_about_a_second(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    killed = spawn_engine()
    with db.gate(1):
        run = db.start(AT_GATE)
        wait_until(lambda: seen(db) == 1)
        survivor = start_engine()
        moment = db.value("SELECT clock_timestamp()")
        killed.kill()
        wait_until(lambda: seen(db) == 2)
        assert seconds_since(db, moment) < 1.5
    db.wait(run)
    lost, completed = db.attempts(run)
    assert (lost.outcome, lost.engine, lost.delay, lost.source) == (
        "worker_lost",
        killed.id,
        0.0,
        "worker_lost",
    )
    assert (completed.outcome, completed.engine) == ("completed", survivor.id)
    assert (db.node(run)["attempt"], db.node(run)["losses"]) == (1, 1)
    assert db.result(run) == 1  # the handler was told attempt 1 of 1 both times


def test_an_engine_that_starts_later_takes_over_within_about_a_second(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    killed = spawn_engine()
    with db.gate(1):
        run = db.start(AT_GATE)
        wait_until(lambda: seen(db) == 1)
        killed.kill()
        start_engine()
        moment = db.value("SELECT clock_timestamp()")
        wait_until(lambda: seen(db) == 2)
        assert seconds_since(db, moment) < 1.5
    db.wait(run)
    assert db.outcomes(run) == [(0, "worker_lost"), (0, "completed")]


def test_a_handler_that_blocks_for_five_heartbeat_limits_is_never_reclaimed(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    db.set(heartbeat_limit=1)
    spawn_engine()
    run = db.start(py(handlers.sleep_blocking, seconds=5.2))
    wait_until(lambda: seen(db) == 1)
    start_engine()
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]
    assert seen(db) == 1
    assert db.engines("died_at IS NOT NULL") == []


def test_a_frozen_engine_is_dead_after_the_limit_and_its_late_report_changes_nothing(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    frozen = spawn_engine()
    with db.gate(1):
        run = db.start(AT_GATE)
        wait_until(lambda: seen(db) == 1)
        frozen.freeze()
        survivor = start_engine()
        wait_until(lambda: seen(db) == 2)
    db.wait(run)
    survivor.stop()
    before = db.nodes(run), db.attempts(run)
    frozen.thaw()
    (identity,) = wait_until(db.engines)
    assert identity != frozen.id
    after = db.start("SELECT 1")  # only the thawed one is there to execute it
    db.wait(after)
    assert db.attempts(after)[0].engine == identity
    assert (db.nodes(run), db.attempts(run)) == before
    assert [attempt.outcome for attempt in before[1]] == ["worker_lost", "completed"]


def test_a_frozen_engines_statement_is_rolled_back_before_the_step_runs_again(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    db.execute("CREATE TABLE effects (x bigint)")
    frozen = spawn_engine()
    with db.gate(1):
        run = db.start(
            "INSERT INTO effects SELECT nextval('calls') FROM (SELECT pg_advisory_xact_lock_shared(1)) s"
        )
        db.wait_at_gate(1)
        frozen.freeze()
        start_engine()
        wait_until(lambda: db.outcomes(run) == [(0, "worker_lost")])
    db.wait(run)
    frozen.thaw()
    wait_until(lambda: len(db.engines()) == 2)
    assert db.outcomes(run) == [(0, "worker_lost"), (0, "completed")]
    assert db.value("SELECT count(*) FROM effects") == 1


def test_the_backend_of_a_killed_client_is_gone_before_the_step_runs_again(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    killed = spawn_engine()
    others = (
        "SELECT CASE nextval('calls') WHEN 1 THEN (SELECT pg_advisory_xact_lock_shared(1)::text) ELSE ("
        " SELECT count(*)::text FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND application_name LIKE 'workbench ' || current_setting('df.run') || '%') END AS others"
    )
    with db.gate(1):
        run = db.start(others)
        db.wait_at_gate(1)
        for _ in range(3):  # each of them may be the first to find the step without an engine
            start_engine()
        killed.kill()
        db.wait(run)
    assert db.rows(run) == [{"others": "0"}]
    assert db.outcomes(run) == [(0, "worker_lost"), (0, "completed")]


@pytest.mark.parametrize("how", ["exit", "signal"])
def test_a_step_that_kills_its_worker_fails_after_max_lost_and_innocents_are_unharmed(
    db: Database, spawn_engine: SpawnEngine, how: str
) -> None:
    first = spawn_engine(ceiling=8)
    with db.gate(1):
        innocents = [db.start(AT_GATE) for _ in range(7)]
        wait_until(lambda: seen(db) == 7)
        poison = db.start(py(handlers.kill_worker, how=how), max_attempts=5)
        first.wait()
    for _ in range(3):
        spawn_engine(ceiling=8)
    db.wait(poison, "failed")
    for run in innocents:
        db.wait(run)
    assert db.outcomes(poison) == [(0, "worker_lost")] * 3
    assert "lost 3 times" in db.error(poison)["message"]
    assert db.node(poison)["attempt"] == 0
    assert {db.node(run)["losses"] for run in innocents} == {1}


def test_an_engine_runs_one_suspect_at_a_time(db: Database, start_engine: StartEngine) -> None:
    with db.gate(1):
        runs = [db.start(sql("SELECT pg_advisory_xact_lock_shared(1)")) for _ in range(4)]
        engine = start_engine()
        db.wait_at_gate(1, many=4)
        engine.stop()
        # As after the loss of an engine that executed all four; some found by one sweep, some by another.
        db.execute("UPDATE df.nodes SET losses = 1")
        stray = (
            "UPDATE df.nodes SET status = 'running', token = gen_random_uuid(), engine_id = 'gone'"
        )
        db.execute(f"{stray} WHERE instance_id = ANY (%s)", runs[:2])
        db.set(max_lost=9)
        start_engine()
        db.wait_at_gate(1)
        wait_until(
            lambda: db.values("SELECT engine_id FROM df.nodes WHERE engine_id = 'gone'") == []
        )
        running = "SELECT count(*) FROM df.nodes WHERE status = 'running'"
        assert db.value(running) == 1
        run = db.start("SELECT 1")  # a suspect holds up no innocent
        db.wait(run)
        assert db.value(running) == 1
    for run in runs:
        db.wait(run)


def test_a_statement_that_kills_its_own_backend_counts_as_a_loss(
    db: Database, start_engine: StartEngine
) -> None:
    engine = start_engine()
    run = db.start("SELECT pg_terminate_backend(pg_backend_pid())", max_attempts=5)
    db.wait(run, "failed")
    assert db.outcomes(run) == [(0, "worker_lost")] * 3
    assert db.node(run)["attempt"] == 0
    db.wait(db.start("SELECT 1"))
    assert db.engines() == [engine.id]


@pytest.mark.parametrize("leaf", [AT_GATE, sql("SELECT pg_advisory_xact_lock_shared(1)")])
def test_an_orderly_stop_gives_claims_back_uncounted(
    db: Database, start_engine: StartEngine, leaf: object
) -> None:
    engine = start_engine()
    with db.gate(1):
        run = db.start(leaf.to_json())  # type: ignore[attr-defined]
        db.wait_at_gate(1)
        engine.stop()
        node = db.node(run)
        assert (node["status"], node["losses"], node["attempt"]) == ("ready", 0, 0)
        assert db.attempts(run) == []
        assert db.engines() == []
    start_engine()
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]


def test_an_orderly_stop_takes_no_half_done_result_for_the_whole(
    db: Database, start_engine: StartEngine
) -> None:
    engine = start_engine()
    run = db.start(py(handlers.first_until_cancelled))
    wait_until(lambda: seen(db) == 1)
    engine.stop()
    assert db.node(run)["status"] == "ready"
    start_engine()
    db.wait(run)
    assert db.result(run) == "whole"
    assert db.outcomes(run) == [(0, "completed")]


def test_a_stop_while_somebody_holds_the_runs_lock_counts_no_loss(
    db: Database, start_engine: StartEngine
) -> None:
    engine = start_engine()
    with db.gate(1):
        run = db.start(AT_GATE)
        db.wait_at_gate(1)
        with db.transaction() as conn:
            conn.execute("SELECT FROM df.instances WHERE id = %s FOR NO KEY UPDATE", (run,))
            engine.stop()
    start_engine()
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]
    assert db.node(run)["losses"] == 0


def test_a_forked_child_does_not_keep_the_engines_lock(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    db.set(heartbeat_limit=8)
    age = "SELECT clock_timestamp() - pg_postmaster_start_time() > interval '8 seconds'"
    wait_until(lambda: db.value(age))
    killed = spawn_engine()
    with db.gate(1):
        run = db.start(py(handlers.fork_child, gate=1))
        wait_until(lambda: seen(db) == 2)
        child = int(db.value("SELECT what FROM seen LIMIT 1"))
        start_engine()
        killed.kill()
        os.kill(child, 0)  # it lives
        try:
            wait_until(lambda: db.outcomes(run) == [(0, "worker_lost")], timeout=4)
        finally:
            os.kill(child, signal.SIGKILL)
            db.execute("SELECT df.cancel(%s)", run)


def test_an_engine_that_was_declared_dead_takes_a_new_identity_first(
    db: Database, engine: Engine
) -> None:
    old = engine.id
    with db.gate(1):
        run = db.start(AT_GATE)
        wait_until(lambda: seen(db) == 1)
        db.execute("UPDATE df.engines SET died_at = clock_timestamp(), ready = false")
        wait_until(lambda: db.engines() not in ([], [old]))
        wait_until(lambda: seen(db) == 2)
        assert db.outcomes(run) == [(0, "worker_lost")]
    db.wait(run)
    assert engine.id != old
    assert [attempt.engine for attempt in db.attempts(run)] == [old, engine.id]


def test_a_lost_control_session_is_made_anew_and_nobody_is_declared_dead(
    db: Database, engine: Engine, start_engine: StartEngine
) -> None:
    start_engine()
    identities = db.engines()
    with db.gate(1):
        run = db.start(AT_GATE)
        wait_until(lambda: seen(db) == 1)
        killed = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s"
        db.execute(killed, "workbench engine control")
        running = "SELECT count(*) FROM pg_locks l JOIN df.engines e ON l.pid = e.backend_pid AND l.objid = e.lock_key"
        wait_until(lambda: db.value(running) == 2)
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]
    assert db.engines() == identities


def test_a_dead_engines_name_in_a_node_is_found_by_any_sweep(
    db: Database, start_engine: StartEngine
) -> None:
    with db.gate(1):
        engine = start_engine()
        run = db.start(sql("SELECT pg_advisory_xact_lock_shared(1)"))
        db.wait_at_gate(1)
        engine.stop()
    stray = "UPDATE df.nodes SET status = 'running', token = %s, engine_id = 'gone' WHERE instance_id = %s"
    db.execute(stray, uuid4(), run)
    start_engine()
    db.wait(run)
    assert db.outcomes(run) == [(0, "worker_lost"), (0, "completed")]
