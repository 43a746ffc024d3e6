"""The SQL step and its checkpoint are one transaction: both happen or neither, and nothing leaks."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.conftest import StartEngine
from tests.engine.proxy import Proxy
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph.build import seq, sql

STEP = "workbench step"  # the application_name of a step's session


@pytest.fixture(autouse=True)
def effects(db: Database) -> None:
    db.execute("CREATE TABLE effects (x int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")


def inserted(db: Database) -> list[int]:
    return db.values("SELECT x FROM effects ORDER BY x")


def test_a_step_and_its_checkpoint_have_one_transaction_id(db: Database, engine: Engine) -> None:
    run = db.start("INSERT INTO effects VALUES (1) RETURNING xmin::text AS step")
    db.wait(run)
    checkpoint = "SELECT xmin::text FROM df.nodes WHERE instance_id = %s"
    assert db.rows(run) == [{"step": db.value(checkpoint, run)}]


def test_a_violated_deferred_constraint_fails_the_step_and_rolls_back(
    db: Database, engine: Engine
) -> None:
    db.execute("INSERT INTO effects VALUES (1)")
    run = db.start("INSERT INTO effects VALUES (1), (2)", max_attempts=3)
    db.wait(run, "failed")
    assert inserted(db) == [1]
    assert db.error(run)["sqlstate"] == "23505"
    assert db.outcomes(run) == [(0, "failed")]
    assert db.node(run)["faults"] == 0


def test_a_deferred_trigger_runs_before_the_runs_lock_is_taken(
    db: Database, engine: Engine
) -> None:
    db.execute(
        """CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$"""
    )
    db.execute(
        "CREATE CONSTRAINT TRIGGER waiting AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION wait()"
    )
    with db.gate(1):
        run = db.start("INSERT INTO effects VALUES (1)")
        db.wait_at_gate(1)
        lock = "SELECT count(*) FROM (SELECT FROM df.instances WHERE id = %s FOR UPDATE NOWAIT) s"
        assert db.value(lock, run) == 1
    db.wait(run)


def test_a_cursor_with_hold_is_closed_before_the_commit(db: Database, engine: Engine) -> None:
    db.execute(
        """CREATE FUNCTION touch() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO effects VALUES (1); RETURN 1; END $$"""
    )
    run = db.start(
        sql("DECLARE held CURSOR WITH HOLD FOR SELECT touch()")
        >> sql("SELECT count(*) FROM pg_cursors WHERE name = 'held'")
    )
    db.wait(run)
    assert db.rows(run) == [{"count": 0}]
    assert inserted(db) == []


LEAKS = {
    "role": ("SET ROLE pg_monitor", "SELECT current_user = session_user AS clean"),
    "session authorization": (
        "SET SESSION AUTHORIZATION pg_monitor",
        "SELECT session_user = 'postgres' AS clean",
    ),
    "search_path": (
        "SET search_path = nowhere",
        "SELECT current_setting('search_path') LIKE '%public%' AS clean",
    ),
    "settings by function": (
        "SELECT set_config('work_mem', '77MB', false), set_config('df.in_workflow', 'no', false)",
        "SELECT current_setting('work_mem') <> '77MB' AND current_setting('df.in_workflow') = 'true' AS clean",
    ),
    "timeout": ("SET statement_timeout = '20ms'", "SELECT pg_sleep(0.1) IS NOT NULL AS clean"),
    "temporary table": (
        "CREATE TEMP TABLE effects AS SELECT 99 AS x",
        "SELECT NOT EXISTS (SELECT FROM effects WHERE x = 99) AS clean",
    ),
    "advisory lock": (
        "SELECT pg_advisory_lock(4711)",
        "SELECT count(*) = 0 AS clean FROM pg_locks WHERE objid = 4711",
    ),
    "listen": (
        "LISTEN gossip",
        "SELECT count(*) = 0 AS clean FROM pg_listening_channels()",
    ),
    "prepared statement": (
        "PREPARE mine AS SELECT 1",
        "SELECT count(*) = 0 AS clean FROM pg_prepared_statements WHERE name = 'mine'",
    ),
    "sequence": (
        "SELECT nextval('calls')",
        "SELECT lastval()",
    ),
}


@pytest.mark.parametrize("what", LEAKS)
def test_nothing_of_a_steps_session_leaks_into_the_next(
    db: Database, start_engine: StartEngine, what: str
) -> None:
    start_engine(ceiling=1)  # so that all steps have the same session
    first, second = LEAKS[what]
    run = db.start(seq(sql(first), sql("SELECT pg_backend_pid() AS pid"), sql(second)))
    if what == "sequence":
        db.wait(run, "failed")
        assert db.error(run)["message"] == "lastval is not yet defined in this session"
        return
    db.wait(run)
    assert db.rows(run) == [{"clean": True}]


def test_a_role_or_path_of_the_steps_own_does_not_hinder_its_checkpoint(
    db: Database, engine: Engine
) -> None:
    run = db.start(
        "SELECT set_config('role', 'pg_monitor', true), set_config('search_path', '', true)"
    )
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]


def test_a_wrong_marker_is_a_permanent_error_and_rolls_back(db: Database, engine: Engine) -> None:
    run = db.start(
        "WITH gone AS (SELECT set_config('df.attempt', '', true)) INSERT INTO effects SELECT 1 FROM gone",
        max_attempts=3,
    )
    db.wait(run, "failed")
    assert inserted(db) == []
    assert db.error(run)["message"].startswith("the statement changed the setting df.attempt")
    assert db.outcomes(run) == [(0, "failed")]


def test_a_transaction_left_read_only_is_a_permanent_error(db: Database, engine: Engine) -> None:
    run = db.start("SELECT set_config('transaction_read_only', 'on', true)", max_attempts=3)
    db.wait(run, "failed")
    assert "read-only" in db.error(run)["message"]
    assert db.outcomes(run) == [(0, "failed")]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("COMMIT", "COMMIT cannot be a step"),
        ("ROLLBACK AND CHAIN", "ROLLBACK"),
        ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION cannot be a step"),
        ("SAVEPOINT s", "SAVEPOINT cannot be a step"),
        ("SET TRANSACTION READ ONLY", "SET TRANSACTION cannot be a step"),
        ("/* now */ BEGIN", "BEGIN cannot be a step"),
        ("COPY effects FROM STDIN", "COPY FROM STDIN cannot be a step"),
        ("COPY effects TO STDOUT", "COPY TO STDOUT cannot be a step"),
        ("INSERT INTO effects VALUES (1); SELECT 1", "a SQL step is one statement"),
    ],
)
def test_what_cannot_be_a_step_is_refused_before_it_runs(
    db: Database, engine: Engine, statement: str, says: str
) -> None:
    run = db.start(statement, max_attempts=3)
    db.wait(run, "failed")
    assert db.error(run)["message"].startswith(says)
    assert db.outcomes(run) == [(0, "failed")]
    assert inserted(db) == []
    db.wait(db.start("SELECT 1"))


def test_a_commit_inside_a_function_rolls_everything_back(db: Database, engine: Engine) -> None:
    db.execute(
        """CREATE FUNCTION sneak() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO effects VALUES (1); COMMIT; END $$"""
    )
    run = db.start("SELECT sneak()")
    db.wait(run, "failed")
    assert db.error(run)["sqlstate"] == "2D000"
    assert inserted(db) == []


def test_a_commit_whose_answer_was_lost_counts_once(
    db: Database, start_engine: StartEngine, proxy: Proxy
) -> None:
    start_engine(proxy.dsn)
    trap = proxy.lose_answer(STEP, b"df._checkpoint")
    run = db.start("INSERT INTO effects SELECT nextval('calls')")
    assert trap.sprung.wait(10)
    wait_until(lambda: db.status(run) == "completed")
    proxy.cut(STEP)
    db.wait(db.start("SELECT 1"))
    assert inserted(db) == [1]
    assert db.outcomes(run) == [(0, "completed")]


def test_a_step_goes_on_after_a_commit_whose_answer_was_lost(
    db: Database, start_engine: StartEngine, proxy: Proxy
) -> None:
    start_engine(proxy.dsn)
    trap = proxy.lose_answer(STEP, b"df._checkpoint")
    run = db.start(sql("INSERT INTO effects VALUES (1)") >> sql("INSERT INTO effects VALUES (2)"))
    assert trap.sprung.wait(10)
    wait_until(lambda: db.outcomes(run) == [(1, "completed")])
    proxy.cut(STEP)
    db.wait(run)
    assert inserted(db) == [1, 2]
    assert db.outcomes(run) == [(1, "completed"), (2, "completed")]
    assert [node["losses"] for node in db.nodes(run)] == [0, 0, 0]


def test_a_checkpoint_that_never_arrived_rolls_the_step_back_and_is_repeated_uncounted(
    db: Database, start_engine: StartEngine, proxy: Proxy
) -> None:
    start_engine(proxy.dsn)
    trap = proxy.lose_question(STEP, b"df._checkpoint")
    run = db.start("INSERT INTO effects SELECT nextval('calls')")
    assert trap.sprung.wait(10)
    db.wait(run)
    assert inserted(db) == [2]
    assert db.outcomes(run) == [(0, "completed")]
    assert db.node(run)["faults"] == 1


def test_a_failing_checkpoint_is_repeated_within_a_bound_and_then_named(
    db: Database, engine: Engine
) -> None:
    db.execute(
        """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF NEW.outcome = 'completed' THEN RAISE EXCEPTION 'not now' USING ERRCODE = '40001'; END IF;
               RETURN NEW; END $$"""
    )
    db.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON df.attempts FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    run = db.start("INSERT INTO effects SELECT nextval('calls')", max_attempts=3)
    db.wait(run, "failed")
    assert db.error(run)["type"] == "CheckpointFailed"
    assert db.outcomes(run) == [(0, "failed")]
    assert (
        db.value("SELECT last_value FROM calls") == 6
    )  # max_faults is 5, and the one that was too many
    assert inserted(db) == []


def test_a_deadlock_of_the_users_own_rows_is_the_steps_failure(
    db: Database, engine: Engine
) -> None:
    db.execute("INSERT INTO effects VALUES (1), (2)")
    with psycopg.connect(db.dsn) as conn:
        conn.execute("SET deadlock_timeout = '10s'")  # the step's own check comes first
        conn.execute("SELECT FROM effects WHERE x = 2 FOR UPDATE")
        run = db.start(
            """DO $$ BEGIN
                   PERFORM FROM effects WHERE x = 1 FOR UPDATE;
                   PERFORM FROM effects WHERE x = 2 FOR UPDATE;
               END $$""",
            max_attempts=2,
        )
        blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        wait_until(lambda: db.value(blocked, conn.info.backend_pid) == 1)
        conn.execute("SELECT FROM effects WHERE x = 1 FOR UPDATE")
        conn.rollback()
    db.wait(run)
    assert db.outcomes(run) == [(0, "failed"), (0, "completed")]
    assert db.attempts(run)[0].error["sqlstate"] == "40P01"
    assert db.node(run)["faults"] == 0
