"""Retrying failed runs on a real engine: the new run goes the ordinary way, the old one stays as it ended."""

from __future__ import annotations

from tests.engine import step_handlers as handlers
from tests.engine.conftest import StartEngine
from tests.engine.support import Database, wait_until
from tests.sql.lineages import retry, rows_of
from workbench.engine.worker import Engine
from workbench.graph import loop, py, seq, sleep, sql

NEXT = "SELECT nextval('calls') AS n"
FIRST_TWO_FAIL = "SELECT 1 / (nextval('calls') > 2)::integer AS n"


def test_case_8_on_an_engine(db: Database, engine: Engine) -> None:
    graph = seq(sql("SELECT 7 AS n").named("x"), sql(FIRST_TWO_FAIL), sql("SELECT $x AS n"))
    a = db.start(graph, input="7")
    db.wait(a, "failed")
    before = rows_of(db, a)
    b = retry(db, a)
    db.wait(b, "failed")
    c = retry(db, b)
    db.wait(c)
    d = retry(db, a)
    db.wait(d)
    assert db.rows(c) == db.rows(d) == [{"n": 7}]
    assert rows_of(db, a) == before
    trees = [db.values("SELECT run_id FROM df.lineage(%s)", run) for run in (a, b, c, d)]
    assert trees == [[a, b, c, d]] * 4
    assert db.value("SELECT count(*) FROM df.unresolved_failures()") == 0


def test_a_retry_reuses_no_work(db: Database, engine: Engine) -> None:
    graph = seq(sql(NEXT).named("x"), sql("SELECT 1 / ($x > 1)::integer AS n"))
    a = db.start(graph)
    db.wait(a, "failed")
    b = retry(db, a)
    db.wait(b)
    assert db.value("SELECT last_value FROM calls") == 2
    assert [each.attempt for each in db.attempts(b)] == [1, 1]


def test_a_retry_has_its_own_attempts(db: Database, engine: Engine) -> None:
    run = db.start("SELECT 1 / 0", max_attempts=2, max_backoff="0.05 s")
    db.wait(run, "failed")
    again = retry(db, run)
    db.wait(again, "failed")
    assert [len(db.attempts(each)) for each in (run, again)] == [2, 2]


def test_input_and_variables_of_a_retry_are_the_sources(db: Database, engine: Engine) -> None:
    db.execute("SELECT df.setvar('place', 'Bonn')")
    graph = seq(
        sql("SELECT $input.day::text AS day, '{place}' AS place").named("x"),
        sql("SELECT 1 / (nextval('calls') > 1)::integer"),
        sql("SELECT $x.day AS day, $x.place AS place"),
    )
    run = db.start(graph, input='{"day": "monday"}')
    db.wait(run, "failed")
    db.execute("SELECT df.setvar('place', 'Rom')")
    again = retry(db, run)
    db.wait(again)
    assert db.rows(again) == [{"day": "monday", "place": "Bonn"}]


def test_a_loop_begins_with_its_first_iteration(db: Database, engine: Engine) -> None:
    body = sql("SELECT 1 / (nextval('calls') <> 3)::integer AS n").named("x")
    run = db.start(loop(body, while_="SELECT (SELECT last_value FROM calls) < 5", min_interval=0))
    db.wait(run, "failed")
    assert db.node(run)["iteration"] == 3
    again = retry(db, run)
    db.wait(again)
    assert db.node(again)["iteration"] == 2


def test_a_handler_gets_another_idempotency_key(db: Database, engine: Engine) -> None:
    graph = seq(
        py(handlers.idempotency_key).named("key"),
        sql("SELECT 1 / (nextval('calls') > 1)::integer"),
    )
    run = db.start(graph)
    db.wait(run, "failed")
    db.wait(retry(db, run))
    keys = "SELECT result #>> '{}' FROM df.nodes WHERE node_type = 'PYTHON'"
    assert len(set(db.values(keys))) == 2


def test_an_idle_engine_takes_a_retry_at_once(db: Database, start_engine: StartEngine) -> None:
    run = db.start("SELECT 1 / (nextval('calls') > 1)::integer")
    start_engine()
    db.wait(run, "failed")
    again = retry(db, run)
    db.wait(again)
    took = (
        "SELECT extract(epoch FROM started_at - created_at)::float8 FROM df.instances WHERE id = %s"
    )
    assert db.value(took, again) < 1.0


def test_a_step_retries_a_failed_run(db: Database, engine: Engine) -> None:
    failed = db.start("SELECT 1 / (nextval('calls') > 1)::integer AS n")
    db.wait(failed, "failed")
    run = db.start(sql(f"SELECT id FROM df.retry_run('{failed}')"))
    db.wait(run)
    again = db.rows(run)[0]["id"]
    db.wait(again)
    assert db.value("SELECT restart_of_run_id FROM df.instances WHERE id = %s", again) == failed


def test_a_step_that_retries_its_own_run_is_refused(db: Database, engine: Engine) -> None:
    run = db.start("SELECT df.retry_run(current_setting('df.run'))")
    db.wait(run, "failed")
    assert db.error(run)["message"] == (
        f"run {run} is running, and only a failed run can be retried: nothing was started"
    )
    assert db.value("SELECT count(*) FROM df.instances") == 1


def test_a_failed_branch_that_left_others_cancelled_is_retried_whole(
    db: Database, engine: Engine
) -> None:
    graph = sql("SELECT 1 / (nextval('calls') > 1)::integer AS n") & seq(
        sleep(0.2), "SELECT 2 AS n"
    )
    run = db.start(graph)
    db.wait(run, "failed")
    again = retry(db, run)
    db.wait(again)
    assert set(db.statuses(again)) == {"completed"}


def test_what_changed_is_known_after_the_retry(db: Database, engine: Engine) -> None:
    run = db.start(seq(py(handlers.echo, value=1), sql(FIRST_TWO_FAIL)))
    db.wait(run, "failed")
    db.set(max_lost=9)
    again = retry(db, run)
    wait_until(lambda: db.status(again) == "failed", what="the retry fails")
    assert db.execute("SELECT * FROM df.run_diff(%s)", again).fetchall() == [
        ("setting", "max_lost", None, "9")
    ]


def test_failures_are_grouped_over_runs(db: Database, engine: Engine) -> None:
    for number in (1, 2, 3):
        db.start(
            sql(f"SELECT 'no{number}'::integer").named("parse"),
            label="load",
            max_attempts=2,
            max_backoff="0.05 s",
        )
    db.wait_all("failed")
    seen = "SELECT label, node, code, message, attempts, runs FROM df.failures()"
    assert db.execute(seen).fetchall() == [
        ("load", "parse", "22P02", "invalid input syntax for type integer: ?", 6, 3)
    ]
