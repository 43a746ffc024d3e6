"""Nearer policies, delays that steps ask for, and what an attempt's row says it executed."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.engine import step_handlers as handlers
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph import join, loop, py, ref, seq, sql, wait_for_schedule
from workbench.graph.policies import with_retry

FLAKY = "SELECT 1 / (nextval('calls') - {n})"


def test_a_nearer_policy_wins(db: Database, engine: Engine) -> None:
    near = with_retry("SELECT 1/0", max_attempts=3, base_delay=0.05)
    run = db.start(near, max_attempts=1)
    db.wait(run, "failed")
    assert [(a.attempt, a.delay) for a in db.attempts(run)] == [(1, 0.05), (2, 0.1), (3, None)]
    assert db.error(run)["attempt"] == 3


def test_the_innermost_policy_wins_key_by_key(db: Database, engine: Engine) -> None:
    inner = with_retry("SELECT 1/0", max_attempts=2)
    run = db.start(with_retry(seq("SELECT 1", inner), max_attempts=9, base_delay="100 ms"))
    db.wait(run, "failed")
    assert [(a.node, a.attempt, a.delay) for a in db.attempts(run)] == [
        (1, 1, None),
        (2, 1, 0.1),
        (2, 2, None),
    ]
    assert [n["max_attempts"] for n in db.nodes(run)] == [9, 9, 2]


def test_sql_builds_the_same_policy(db: Database) -> None:
    built = db.value(
        "SELECT df.with_retry(df.with_retry('SELECT 1', max_attempts => 3), max_attempts => 5,"
        " base_delay => '1.5 seconds', max_backoff => '1 minute')"
    )
    here = with_retry(
        with_retry("SELECT 1", max_attempts=3), max_attempts=5, base_delay=1.5, max_backoff=60
    )
    assert built == here.to_json()
    assert json.loads(built)["retry"] == {"max_attempts": 3, "max_backoff": 60, "base_delay": 1.5}


@pytest.mark.parametrize(
    "arguments",
    ["max_attempts => 0", "max_backoff => '0'", "base_delay => '-1 s'", "max_attempts => NULL"],
)
def test_a_policy_that_makes_no_sense_is_refused(db: Database, arguments: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"df\.with_retry"):
        db.execute(f"SELECT df.with_retry('SELECT 1', {arguments})")


def test_a_handler_chooses_the_next_delay(db: Database, engine: Engine) -> None:
    run = db.start(py(handlers.asks_for_later, seconds=0.2), max_attempts=2)
    db.wait(run)
    first, second = db.attempts(run)
    assert (first.outcome, first.delay, first.source) == ("failed", 0.2, "retry_after")
    assert (first.error["type"], first.error["message"]) == ("OSError", "busy")
    assert second.outcome == "completed"


def test_a_delay_asked_for_at_the_last_attempt_is_not_used_and_said_so(
    db: Database, engine: Engine
) -> None:
    run = db.start(py(handlers.asks_for_later, seconds=30))
    db.wait(run, "failed")
    assert db.error(run)["message"] == "busy (RetryAfter(30) not used: attempt 1 of 1)"
    assert db.attempts(run)[0].delay is None


def test_a_sql_step_chooses_the_next_delay(db: Database, engine: Engine) -> None:
    step = "SELECT CASE WHEN nextval('calls') < 2 THEN df.retry_after('0.3 seconds', 'not yet') END"
    run = db.start(step, max_attempts=3, max_backoff="0.1 seconds")
    db.wait(run)
    first, second = db.attempts(run)
    assert (first.delay, first.source, first.error["message"]) == (0.3, "retry_after", "not yet")
    assert second.outcome == "completed"


@pytest.mark.parametrize("delay", ["NULL", "interval '-1 second'", "interval '31 days'"])
def test_a_delay_that_makes_no_sense_is_refused(db: Database, delay: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="expected 0 to 30 days"):
        db.execute(f"SELECT df.retry_after({delay})")


def test_retry_now_ends_the_wait(db: Database, engine: Engine) -> None:
    run = db.start(
        sql(FLAKY.format(n=1)).named("flaky"), max_attempts=2, max_backoff="1 hour", input=None
    )
    wait_until(lambda: db.node(run)["attempt"] == 1)
    db.execute(
        "UPDATE df.nodes SET ready_at = ready_at + interval '1 hour' WHERE instance_id = %s", run
    )
    assert db.value("SELECT df.retry_now(%s, 'flaky')", run) == 1
    db.wait(run)


@pytest.mark.parametrize("node", ["'#0'", "NULL"])
def test_retry_now_says_when_nothing_waits(db: Database, engine: Engine, node: str) -> None:
    run = db.start("SELECT 1")
    db.wait(run)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is completed"):
        db.execute(f"SELECT df.retry_now(%s, {node})", run)


def test_retry_now_names_a_node_that_is_not_there(db: Database) -> None:
    run = db.start("SELECT 1")
    with pytest.raises(psycopg.Error, match="has no node nothing"):
        db.execute("SELECT df.retry_now(%s, 'nothing')", run)


def test_an_attempts_row_has_the_statement_that_was_executed(db: Database, engine: Engine) -> None:
    run = db.start(sql("SELECT 1 AS n").named("x") >> sql("SELECT $x / 0"))
    db.wait(run, "failed")
    executed = db.values("SELECT executed FROM df.instance_attempts(%s)", run)
    assert executed == ["SELECT 1 AS n", "SELECT 1 / 0"]
    assert (
        db.values("SELECT executed FROM df.attempts WHERE instance_id = %s ORDER BY rev", run)[0]
        is None
    )


def test_an_attempts_row_has_what_the_handler_was_given(db: Database, engine: Engine) -> None:
    run = db.start(sql("SELECT 7 AS n").named("x") >> py(handlers.echo, value=ref("x")["n"]))
    db.wait(run)
    assert json.loads(db.values("SELECT executed FROM df.attempts WHERE node_id = 2")[0]) == {
        "value": 7
    }


def test_an_attempts_row_says_in_which_iteration_it_was(db: Database, engine: Engine) -> None:
    body = sql("SELECT nextval('calls') AS n").named("x")
    run = db.start(
        loop(
            join(body, "SELECT 1"),
            while_="SELECT last_value < 2 FROM calls",
            min_interval=0,
        )
    )
    db.wait(run)
    assert db.values(
        "SELECT iterations FROM df.attempts WHERE instance_id = %s AND node_id = 2 ORDER BY rev",
        run,
    ) == [[1], [2]]


@pytest.mark.parametrize(("first", "told"), [(True, 0), (False, 1)])
def test_a_start_says_when_a_loop_would_not_wait_after_a_failure(
    db: Database, *, first: bool, told: int
) -> None:
    wait, work = wait_for_schedule("0 * * * *"), sql("SELECT 1")
    notices: list[str] = []
    db.conn.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    db.start(loop(wait >> work if first else work >> wait), on_failure="continue")
    assert len(notices) == told
    assert all("followed by the next one after a second" in notice for notice in notices)
