"""Loops on a real engine: pace, values, what is kept of old iterations."""

from __future__ import annotations

import pytest

from tests.engine import step_handlers as handlers
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph import break_, if_, join, loop, py, seq, sleep, sql, wait_for_signal

NEXT = "SELECT nextval('calls') AS n"


def test_a_loop_asks_after_its_body(db: Database, engine: Engine) -> None:
    run = db.start(loop(sql(NEXT).named("x"), while_="SELECT $x < 3", min_interval=0))
    db.wait(run)
    assert db.rows(run) == [{"n": 3}]
    assert db.node(run)["iteration"] == 3


def test_an_until_is_the_opposite_of_a_while(db: Database, engine: Engine) -> None:
    run = db.start(loop(sql(NEXT).named("x"), until="SELECT $x >= 3", min_interval=0))
    db.wait(run)
    assert db.rows(run) == [{"n": 3}]


def test_iterations_are_a_second_apart_from_start_to_start(db: Database, engine: Engine) -> None:
    body = seq("INSERT INTO seen VALUES (1)", "SELECT pg_sleep(0.5)", sql(NEXT).named("x"))
    run = db.start(loop(body, while_="SELECT $x < 3"))
    db.wait(run)
    took = db.value("SELECT extract(epoch FROM finished_at - started_at)::float8 FROM df.instances")
    assert 2.5 < took < 3.4


def test_a_break_ends_the_loop_with_its_value(db: Database, engine: Engine) -> None:
    body = seq(
        sql(NEXT).named("x"),
        if_("SELECT $x = 2", break_('{"last": $x}'), "SELECT 0"),
        "INSERT INTO seen VALUES (1)",
    )
    after = sql("SELECT $done.last AS n")
    run = db.start(loop(body, min_interval=0).named("done") >> after)
    db.wait(run)
    assert db.rows(run) == [{"n": 2}]
    assert db.value("SELECT count(*) FROM seen") == 1


def test_a_break_in_a_branch_waits_for_the_others(db: Database, engine: Engine) -> None:
    slow = seq(sleep(0.3), "INSERT INTO seen VALUES (1)")
    run = db.start(loop(join(break_("done"), slow)))
    db.wait(run)
    assert db.result(run) == "done"
    assert db.value("SELECT count(*) FROM seen") == 1


def test_names_stay_from_one_iteration_to_the_next(db: Database, engine: Engine) -> None:
    counted = py(handlers.echo, value=0).named("sum") >> loop(
        sql("SELECT $sum + 1 AS n").named("sum"), while_="SELECT $sum < 4", min_interval=0
    )
    run = db.start(counted)
    db.wait(run)
    assert db.rows(run) == [{"n": 4}]


def test_the_names_of_a_root_loop_start_empty(db: Database, engine: Engine) -> None:
    body = seq(
        sql("SELECT '$late' AS text, nextval('calls') AS n").named("x"),
        sql("SELECT 1").named("late"),
    )
    run = db.start(loop(body, while_="SELECT $x.n < 3", min_interval=0))
    db.wait(run)
    assert db.node(run)["iteration"] == 3
    assert sorted(db.values("SELECT name FROM df.values WHERE instance_id = %s", run)) == [
        "late",
        "x",
    ]


def test_a_named_join_in_a_fast_loop_keeps_its_value(db: Database, engine: Engine) -> None:
    both = join(sql(NEXT).named("x"), "SELECT 5 AS n").named("both")
    run = db.start(
        seq(
            "SELECT 1",
            loop(both, while_="SELECT $x < 3", min_interval=0),
            sql("SELECT $both::jsonb -> 0 -> 'rows' -> 0 -> 'n' AS n"),
        )
    )
    db.wait(run)
    assert db.rows(run) == [{"n": 3}]


def test_inner_loops_run_anew_in_each_outer_iteration(db: Database, engine: Engine) -> None:
    inner = loop(
        sql("INSERT INTO seen VALUES (1)") >> sql(NEXT).named("i"),
        while_="SELECT $i % 3 <> 0",
        min_interval=0,
    )
    outer = loop(inner, while_="SELECT $i < 9", min_interval=0)
    run = db.start(seq("SELECT 1", outer))
    db.wait(run)
    assert db.value("SELECT count(*) FROM seen") == 9


def test_a_failing_body_fails_the_loop(db: Database, engine: Engine) -> None:
    run = db.start(loop("SELECT 1/0"))
    db.wait(run, "failed")
    assert db.statuses(run) == ["failed", "failed"]


def test_a_loop_that_goes_on_abandons_what_failed(db: Database, engine: Engine) -> None:
    body = seq(sql(NEXT).named("x"), "SELECT 1 / ($x - 1)", "INSERT INTO seen VALUES (1)", break_())
    run = db.start(loop(body, min_interval=0), on_failure="continue")
    db.wait(run)
    assert db.value("SELECT count(*) FROM seen") == 1
    assert db.node(run)["iteration"] == 2
    (kept,) = db.values(
        "SELECT error ->> 'sqlstate' FROM df.iterations WHERE instance_id = %s", run
    )
    assert kept == "22012"


def test_history_is_bounded_however_many_iterations_pass(db: Database, engine: Engine) -> None:
    run = db.start(loop(sql(NEXT).named("x"), while_="SELECT $x < 260", min_interval=0))
    db.wait(run, timeout=60)
    counts = "SELECT count(*) FROM df.iterations WHERE instance_id = %s"
    assert db.value(counts, run) == 100
    assert db.value("SELECT count(*) FROM df.attempts WHERE instance_id = %s", run) <= 2 * 121
    assert db.value("SELECT min(iteration) FROM df.iterations") == 160


def test_every_iteration_has_its_own_idempotency_key(db: Database, engine: Engine) -> None:
    body = py(handlers.idempotency_key).named("key") >> sql(
        "INSERT INTO notes VALUES ($key) RETURNING nextval('calls') AS n"
    ).named("x")
    db.execute("CREATE TABLE notes (text text)")
    run = db.start(loop(body, while_="SELECT $x.n < 3", min_interval=0))
    db.wait(run)
    assert db.values("SELECT text FROM notes ORDER BY 1") == [f"{run}/2/{n}" for n in (1, 2, 3)]


@pytest.mark.parametrize("value", ["done", '{"a": [1, null]}', "12", "null"])
def test_a_breaks_value_is_json_if_it_is_json(db: Database, engine: Engine, value: str) -> None:
    run = db.start(loop(break_(value)))
    db.wait(run)
    expected = {"done": "done", '{"a": [1, null]}': {"a": [1, None]}, "12": 12, "null": None}
    assert db.result(run) == expected[value]


def test_a_break_outside_of_a_loop_fails_the_run(db: Database, engine: Engine) -> None:
    run = db.start(seq("SELECT 1", break_()), max_attempts=3)
    db.wait(run, "failed")
    assert db.error(run)["message"].startswith("df.break() was called outside of a loop.")


def test_a_cancelled_loop_stops_between_its_iterations(db: Database, engine: Engine) -> None:
    run = db.start(loop("SELECT 1", min_interval=3600))
    wait_until(lambda: db.node(run)["status"] == "waiting")
    db.execute("SELECT df.cancel(%s)", run)
    assert db.statuses(run)[0] == "cancelled"


def test_a_signal_each_iteration_takes_the_oldest(db: Database, engine: Engine) -> None:
    body = wait_for_signal("item").named("s") >> sql("INSERT INTO seen VALUES ($s.data)")
    run = db.start(loop(body, while_="SELECT $s.data < 3", min_interval=0))
    for n in (1, 2, 3):
        db.execute("SELECT df.signal(%s, 'item', %s)", run, str(n))
    db.wait(run)
    assert db.values("SELECT * FROM seen ORDER BY 1") == ["1", "2", "3"]
