"""Cancelling: a transition in the database, whoever executes what at that moment."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine import step_handlers as handlers
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph.build import py, sql

SEEN = "SELECT array_agg(what ORDER BY at) FROM seen"


def cancel(db: Database, run: str) -> None:
    db.execute("SELECT df.cancel(%s, 'enough')", run)


def test_a_cancel_needs_no_engine(db: Database) -> None:
    run = db.start(sql("SELECT 1") >> sql("SELECT 2"))
    cancel(db, run)
    assert db.status(run) == "cancelled"
    assert db.statuses(run) == ["cancelled"] * 3
    assert db.error(run) == {"type": "Cancelled", "message": "enough"}
    assert db.attempts(run) == []


def test_cancelling_twice_is_no_error_and_changes_nothing(db: Database) -> None:
    run = db.start("SELECT 1")
    cancel(db, run)
    row = "SELECT to_jsonb(i) FROM df.instances i WHERE id = %s"
    before = db.value(row, run)
    assert db.value("SELECT df.cancel(%s)", run) == f"Instance {run} cancelled: Cancelled by user"
    assert db.value(row, run) == before


def test_a_completed_run_refuses_to_be_cancelled(db: Database, engine: Engine) -> None:
    run = db.start("SELECT 1 AS one")
    db.wait(run)
    with pytest.raises(psycopg.DatabaseError, match=f"run {run} is already completed"):
        cancel(db, run)
    assert db.rows(run) == [{"one": 1}]


def test_a_cancel_that_is_rolled_back_has_no_effect(db: Database, engine: Engine) -> None:
    with db.gate(1):
        run = db.start("SELECT pg_advisory_xact_lock_shared(1)")
        db.wait_at_gate(1)
        with db.transaction() as conn:
            conn.execute("SELECT df.cancel(%s)", (run,))
            conn.rollback()
    db.wait(run)


def test_a_running_statement_is_interrupted_and_rolled_back(db: Database, engine: Engine) -> None:
    db.execute("CREATE TABLE effects (x int)")
    insert = "INSERT INTO effects SELECT 1 FROM (SELECT pg_advisory_xact_lock_shared(1)) s"
    with db.gate(1):
        run = db.start(sql(insert) >> sql("SELECT 1"))
        db.wait_at_gate(1)
        cancel(db, run)
        assert db.statuses(run) == ["cancelled"] * 3
        shown = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE %s"
        wait_until(lambda: db.value(shown, f"workbench {run}%") == 0, timeout=5)
    assert db.values("SELECT x FROM effects") == []
    assert db.outcomes(run) == [(1, "cancelled")]
    db.wait(db.start("SELECT 1"))


def test_a_running_handler_sees_it_and_its_late_return_changes_nothing(
    db: Database, engine: Engine
) -> None:
    run = db.start(py(handlers.until_cancelled) >> sql("SELECT 1"))
    wait_until(lambda: db.value(SEEN) == ["begun"])
    cancel(db, run)
    assert db.status(run) == "cancelled"
    before = db.nodes(run)
    wait_until(lambda: db.value(SEEN) == ["begun", "cancelled"], timeout=5)
    db.wait(db.start("SELECT 1"))
    assert db.nodes(run) == before
    assert db.outcomes(run) == [(1, "cancelled")]


def test_a_run_that_waits_for_its_next_attempt_is_cancelled_at_once(
    db: Database, engine: Engine
) -> None:
    run = db.start("SELECT 1 / 0", max_attempts=9)
    wait_until(lambda: db.outcomes(run) == [(0, "failed")])
    cancel(db, run)
    assert db.statuses(run) == ["cancelled"]
    assert db.outcomes(run) == [(0, "failed")]


def test_a_step_that_waits_for_its_handler_is_cancelled_at_once(
    db: Database, engine: Engine
) -> None:
    run = db.start(py("nobodys.handler"))
    wait_until(lambda: db.statuses(run) == ["ready"])
    cancel(db, run)
    assert db.statuses(run) == ["cancelled"]


def test_a_step_that_cancels_its_own_run_keeps_its_effects_and_is_the_last(
    db: Database, engine: Engine
) -> None:
    db.execute("CREATE TABLE effects (x text)")
    run = db.start(
        sql("INSERT INTO effects SELECT df.cancel(current_setting('df.run'), 'my own wish')")
        >> sql("INSERT INTO effects VALUES ('never')")
    )
    db.wait(run, "cancelled")
    assert db.values("SELECT x FROM effects") == [f"Instance {run} cancelled: my own wish"]
    assert db.error(run) == {"type": "Cancelled", "message": "my own wish"}
    assert db.statuses(run) == ["cancelled", "completed", "cancelled"]
    assert db.outcomes(run) == [(1, "completed")]


def test_a_step_that_cancels_another_run_does_so_with_its_own_commit(
    db: Database, engine: Engine
) -> None:
    other = db.start(py("nobodys.handler"))
    wait_until(lambda: db.statuses(other) == ["ready"])
    failing = db.start(f"SELECT df.cancel('{other}'), 1 / (SELECT 0)")
    db.wait(failing, "failed")
    assert db.status(other) == "running"
    db.wait(db.start(f"SELECT df.cancel('{other}')"))
    assert db.status(other) == "cancelled"


def test_a_failed_step_leaves_no_live_node(db: Database, engine: Engine) -> None:
    run = db.start(sql("SELECT 1") >> sql("SELECT 1 / 0") >> sql("SELECT 2"))
    db.wait(run, "failed")
    assert db.statuses(run) == ["failed", "failed", "completed", "failed", "cancelled"]
