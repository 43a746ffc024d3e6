"""Statements that cannot run in a transaction block: told by their error, run alone, and said so."""

from __future__ import annotations

import pytest

from tests.engine.conftest import StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph.build import seq, sql


@pytest.fixture(autouse=True)
def effects(db: Database) -> None:
    db.execute("CREATE TABLE effects (x int)")
    db.execute(
        """CREATE PROCEDURE in_two(first int) LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO effects VALUES (first); COMMIT; INSERT INTO effects VALUES (first + 1); END $$"""
    )


@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM effects",
        "CREATE INDEX CONCURRENTLY effects_x ON effects (x)",
        "CALL in_two(1)",
        "DO $$ BEGIN INSERT INTO effects VALUES (1); COMMIT; END $$",
    ],
)
def test_a_statement_that_refuses_a_transaction_block_runs_alone_and_the_attempt_says_so(
    db: Database, engine: Engine, statement: str
) -> None:
    run = db.start(statement)
    db.wait(run)
    (attempt,) = db.attempts(run)
    assert (attempt.outcome, attempt.exactly_once) == ("completed", False)
    assert db.node(run)["autocommit"] is True


def test_an_ordinary_statement_is_exactly_once_and_the_attempt_says_so(
    db: Database, engine: Engine
) -> None:
    run = db.start("INSERT INTO effects VALUES (1)")
    db.wait(run)
    assert [attempt.exactly_once for attempt in db.attempts(run)] == [True]


def test_a_procedure_that_commits_has_each_effect_once(db: Database, engine: Engine) -> None:
    db.wait(db.start("CALL in_two(1)"))
    assert db.values("SELECT x FROM effects ORDER BY x") == [1, 2]


def test_many_such_steps_follow_each_other_on_one_session(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine(ceiling=1)
    run = db.start(seq(*[sql("VACUUM effects"), sql("CALL in_two(1)"), sql("SELECT 1")] * 3))
    db.wait(run)
    assert {outcome for _, outcome in db.outcomes(run)} == {"completed"}
    assert db.value("SELECT count(*) FROM effects") == 6


def test_the_fallback_is_remembered_for_the_next_attempt(db: Database, engine: Engine) -> None:
    db.execute(
        """CREATE PROCEDURE fails_once() LANGUAGE plpgsql AS $$ BEGIN
               PERFORM nextval('calls');
               COMMIT;
               IF (SELECT last_value FROM calls) < 3 THEN RAISE EXCEPTION 'first' USING ERRCODE = '22012'; END IF;
           END $$"""
    )
    run = db.start("CALL fails_once()", max_attempts=2)
    db.wait(run)
    # One try inside a transaction, one alone that failed, and the second attempt alone from the start.
    assert db.value("SELECT last_value FROM calls") == 3
    assert [attempt.exactly_once for attempt in db.attempts(run)] == [False, False]


def test_that_it_may_run_twice_is_committed_before_it_runs_alone(
    db: Database, engine: Engine
) -> None:
    with db.gate(1):
        run = db.start("DO $$ BEGIN COMMIT; PERFORM pg_advisory_xact_lock_shared(1); END $$")
        db.wait_at_gate(1)
        assert db.node(run)["autocommit"] is True
    db.wait(run)


def test_without_a_transaction_the_first_try_is_skipped(db: Database, engine: Engine) -> None:
    db.execute(
        """CREATE PROCEDURE counts() LANGUAGE plpgsql AS $$ BEGIN
               PERFORM nextval('calls'); COMMIT; END $$"""
    )
    run = db.start(sql("CALL counts()", transaction=False))
    db.wait(run)
    assert db.value("SELECT last_value FROM calls") == 1
    assert [attempt.exactly_once for attempt in db.attempts(run)] == [False]


def test_25001_raised_inside_a_function_is_no_reason_to_run_it_alone(
    db: Database, engine: Engine
) -> None:
    db.execute(
        """CREATE FUNCTION pretends() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
               PERFORM nextval('calls'); RAISE EXCEPTION 'no block' USING ERRCODE = '25001'; END $$"""
    )
    run = db.start("SELECT pretends()")
    db.wait(run, "failed")
    assert db.value("SELECT last_value FROM calls") == 1


def test_settings_of_a_statement_that_ran_alone_do_not_leak(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine(ceiling=1)
    run = db.start(
        sql("SET work_mem = '77MB'", transaction=False)
        >> sql("SELECT current_setting('work_mem') AS work_mem")
    )
    db.wait(run)
    assert db.rows(run) != [{"work_mem": "77MB"}]


def test_a_run_cancelled_before_the_fallback_does_not_execute_the_statement(
    db: Database, engine: Engine
) -> None:
    db.execute(
        """CREATE PROCEDURE slow() LANGUAGE plpgsql AS $$ BEGIN
               PERFORM pg_advisory_xact_lock_shared(1);
               COMMIT;
               INSERT INTO effects VALUES (1);
           END $$"""
    )
    with db.gate(1):
        run = db.start("CALL slow()")
        db.wait_at_gate(1)
        db.execute("SELECT df.cancel(%s)", run)
    db.wait(db.start("SELECT 1"))
    busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE %s"
    wait_until(lambda: db.value(busy, f"workbench {run}%") == 0)
    assert db.values("SELECT x FROM effects") == []
