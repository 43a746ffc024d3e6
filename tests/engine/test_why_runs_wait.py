"""Which of several runs work, wait, try again or are wedged, told while real engines execute them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.engine import step_handlers as handlers
from tests.engine.conftest import Role, SpawnEngine, StartEngine
from tests.engine.support import Database, start, wait_until
from workbench.engine.worker import Engine
from workbench.graph.build import py, sql
from workbench.graph.control import join, loop
from workbench.graph.waiting import sleep, wait_for_schedule, wait_for_signal


def activity(db: Database, idle_for: str = "0") -> dict[str, dict[str, Any]]:
    """The rows of `df.instance_activity`, by run."""
    with db.conn.cursor(row_factory=dict_row) as cursor:
        query = "SELECT * FROM df.instance_activity(%s::interval)"
        return {row["instance_id"]: row for row in cursor.execute(query, (idle_for,))}


def state(db: Database, run: str) -> str | None:
    row = activity(db).get(run)
    return None if row is None else str(row["state"])


def wait_for_state(db: Database, run: str, wanted: str, timeout: float = 20.0) -> dict[str, Any]:
    wait_until(
        lambda: state(db, run) == wanted,
        timeout,
        f"{run} is {wanted}: {activity(db).get(run)}",
    )
    return activity(db)[run]


def test_runs_that_work_wait_try_again_and_are_wedged_are_told_apart(
    db: Database, engine: Engine, spawn_engine: SpawnEngine, roles: tuple[Role, Role]
) -> None:
    role = roles[0]
    with psycopg.connect(role.dsn, autocommit=True) as conn, db.gate(7):
        db.execute("GRANT ALL ON seen TO PUBLIC")
        worker = spawn_engine(dsn=role.dsn)
        works = db.start(py(handlers.pass_gate, gate=7), label="works")
        waits = db.start(wait_for_signal("approval"), label="waits")
        tries = db.start(
            loop(sql("SELECT 1 / 0")),
            label="tries",
            max_attempts=10,
            max_backoff="0.3 seconds",
            on_failure="continue",
        )
        wedged = start(conn, sql("SELECT pg_sleep(60)").to_json(), label="wedged")
        db.wait_running(wedged)
        wait_until(lambda: db.node(tries, 1)["attempt"] == 4, what="the fifth attempt is next")
        worker.kill()
        wait_until(lambda: state(db, wedged) == "wedged", what="the killed engine is missed")
        finished = db.start("SELECT 1")
        db.wait(finished)
        seen = activity(db)
        assert finished not in seen
        states = {run: seen[run]["state"] for run in (works, waits, wedged)}
        assert states == {works: "working", waits: "waiting", wedged: "wedged"}
        assert seen[works]["reason"].startswith("runs for ")
        assert seen[works]["running_node_count"] == 1
        assert seen[waits]["reason"].startswith("waits for signal approval since ")
        assert seen[wedged]["reason"] == "no engine alive"
        assert not seen[wedged]["engine_alive"]
        third = wait_for_state(db, tries, "retrying")
        assert "of 10 attempts in " in third["reason"]
        assert third["attempt"] >= 5
        assert third["failed_node_count"] == 1
        assert third["last_error"] == "division by zero"


def test_idle_seconds_count_from_the_last_transition_and_the_filter_keeps_those_past_it(
    db: Database, engine: Engine
) -> None:
    old = db.start(wait_for_signal("go"))
    wait_until(lambda: db.statuses(old) == ["waiting"])
    db.execute(
        "UPDATE df.instances SET updated_at = updated_at - interval '11 minutes' WHERE id = %s", old
    )
    young = db.start(wait_for_signal("go"))
    wait_until(lambda: db.statuses(young) == ["waiting"])
    assert set(activity(db, "10 minutes")) == {old}
    assert set(activity(db)) == {old, young}
    assert activity(db)[old]["idle_for_seconds"] == pytest.approx(660, abs=1.5)
    assert activity(db)[young]["idle_for_seconds"] == pytest.approx(0, abs=1.5)


def test_a_claim_is_activity_though_it_is_no_transition_of_the_run(
    db: Database, engine: Engine
) -> None:
    with db.gate(7):
        run = db.start(py(handlers.pass_gate, gate=7))
        db.wait_running(run)
        db.execute("UPDATE df.instances SET updated_at = updated_at - interval '1 hour'")
        assert activity(db, "10 minutes") == {}
        assert activity(db)[run]["idle_for_seconds"] < 10


def test_a_statement_that_waits_for_a_lock_names_who_holds_it(db: Database, engine: Engine) -> None:
    db.execute("CREATE TABLE orders (n integer)")
    db.execute("INSERT INTO orders VALUES (1)")
    with db.transaction() as other:
        other.execute("UPDATE orders SET n = 2")
        run = db.start("UPDATE orders SET n = 3")
        row = wait_for_state(db, run, "wedged")
        pid = other.info.backend_pid
        assert row["reason"].startswith(
            f"lock wait: blocked by pid {pid} (UPDATE orders SET n = 2) for "
        )
        assert row["waiting_node_id"] == 0
    db.wait(run)


def test_a_handler_that_no_live_engine_has_is_named(db: Database, engine: Engine) -> None:
    graph = py(handlers.echo, value=1).to_json()
    run = db.start(graph.replace(f"{handlers.__name__}:echo", "elsewhere:fetch"))
    row = wait_for_state(db, run, "wedged")
    assert row["reason"] == "no live engine has handler fetch"
    assert row["engine_alive"]


def test_ready_steps_that_the_ceiling_holds_back_wait(
    db: Database, start_engine: StartEngine
) -> None:
    db.set(max_activity_concurrency=1)
    start_engine(ceiling=None)
    with db.gate(7):
        first = db.start(py(handlers.pass_gate, gate=7))
        db.wait_running(first)
        second = db.start("SELECT 1")
        row = wait_for_state(db, second, "waiting")
        assert row["reason"] == "activity ceiling 1 of 1 (setting max_activity_concurrency)"
        assert state(db, first) == "working"
    db.wait(second)


def test_a_loop_whose_last_five_iterations_were_abandoned_is_wedged(
    db: Database, engine: Engine
) -> None:
    run = db.start(loop(sql("SELECT 1 / 0")), on_failure="continue")
    again = wait_for_state(db, run, "retrying")
    assert "abandoned; the next begins at " in again["reason"]
    row = wait_for_state(db, run, "wedged")
    assert row["reason"] == f"loop abandoned {row['abandoned_iterations']} iterations in a row"
    assert row["abandoned_iterations"] >= 5
    assert row["last_error"] == "division by zero"
    assert row["status"] == "running"


def test_a_join_that_holds_a_failed_branch_says_so(db: Database, engine: Engine) -> None:
    run = db.start(join(sql("SELECT 1"), sql("SELECT 1 / 0"), wait_for_signal("go")))
    wait_until(lambda: "failed" in db.statuses(run))
    row = wait_for_state(db, run, "waiting")
    assert row["reason"].startswith("branch 2 failed; JOIN waits for 1 more; waits for signal go")
    assert row["failed_node_count"] == 1


def test_waits_say_when_they_end_and_need_an_engine_then(
    db: Database, start_engine: StartEngine
) -> None:
    engine = start_engine()
    runs = [
        db.start(graph)
        for graph in (
            sleep(3600),
            wait_for_schedule("0 0 1 1 *"),
            wait_for_signal("go", timeout=7200),
            loop(sql("SELECT 1"), min_interval=900),
        )
    ]
    wait_until(lambda: all("waiting" in db.statuses(run) for run in runs), what="all wait")
    seen = activity(db)
    reasons = [seen[run]["reason"] for run in runs]
    for reason, begin in zip(
        reasons,
        ("wakes at ", "fires at ", "waits for signal go since ", "iteration 2 begins at "),
        strict=True,
    ):
        assert reason.startswith(begin)
    assert "; needs" not in " ".join(reasons)
    assert all(seen[run]["next_wake_at"] for run in runs)
    engine.stop()
    wait_until(lambda: not activity(db)[runs[0]]["engine_alive"])
    seen = activity(db)
    assert {seen[run]["state"] for run in runs} == {"waiting"}
    assert all(seen[run]["reason"].endswith("; needs an engine then") for run in runs)


def test_a_run_that_nobody_begins_needs_an_engine(db: Database) -> None:
    run = db.start("SELECT 1")
    assert activity(db)[run]["state"] == "wedged"
    assert activity(db)[run]["reason"] == "no engine alive"


def test_attempts_and_their_waits_survive_a_restart(
    db: Database, start_engine: StartEngine
) -> None:
    first = start_engine()
    run = db.start(py(handlers.fail_first, failures=2), max_attempts=3)
    wait_until(lambda: len(db.attempts(run)) == 1)
    first.stop()
    start_engine()
    db.wait(run)
    rows = [(a.attempt, a.outcome, a.delay, a.source) for a in db.attempts(run)]
    assert rows == [
        (1, "failed", 1.0, "backoff"),
        (2, "failed", 2.0, "backoff"),
        (3, "completed", None, None),
    ]
    assert [a.error and a.error["message"] for a in db.attempts(run)] == ["e1", "e2", None]
