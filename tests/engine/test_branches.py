"""JOIN, RACE, IF on a real engine: values and names in the database, losers that roll back."""

from __future__ import annotations

import pytest

from tests.engine import step_handlers as handlers
from tests.engine.conftest import StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph import if_, if_rows, join, py, race, seq, sleep, sql, wait_for_signal


def number(value: int) -> dict[str, object]:
    return {"rows": [{"n": value}], "row_count": 1}


def test_a_join_gives_the_values_of_its_branches_in_order(db: Database, engine: Engine) -> None:
    run = db.start(join("SELECT 1 AS n", sleep(0), py(handlers.echo, value=[3])))
    db.wait(run)
    assert db.result(run) == [number(1), {"slept": True, "seconds": 0}, [3]]


def test_nested_joins_stay_nested(db: Database, engine: Engine) -> None:
    run = db.start((sql("SELECT 1 AS n") & "SELECT 2 AS n") & "SELECT 3 AS n")
    db.wait(run)
    assert db.result(run) == [[number(1), number(2)], number(3)]


def test_a_named_join_is_an_array_for_later_steps(db: Database, engine: Engine) -> None:
    both = join("SELECT 1 AS n", "SELECT 2 AS n").named("both")
    run = db.start(both >> sql("SELECT jsonb_array_length($both::jsonb) AS n"))
    db.wait(run)
    assert db.rows(run) == [{"n": 2}]


def test_branches_see_what_came_before_and_not_each_other(db: Database, engine: Engine) -> None:
    before = sql("SELECT 1 AS n").named("x")
    left = sql("SELECT $x + 10 AS n").named("x") >> sql("SELECT $x AS n").named("left")
    right = sleep(0.2) >> sql("SELECT $x + 100 AS n").named("right")
    after = sql("SELECT $x AS x, $left AS l, $right AS r")
    run = db.start(seq(before, left & right, after))
    db.wait(run)
    assert db.rows(run) == [{"x": 11, "l": 11, "r": 101}]


def test_a_later_branch_that_names_nothing_leaves_an_earlier_ones_name(
    db: Database, engine: Engine
) -> None:
    run = db.start(
        seq(
            sql("SELECT 1 AS n").named("x"),
            sql("SELECT 2 AS n").named("x") & "SELECT 3",
            sql("SELECT $x AS n"),
        )
    )
    db.wait(run)
    assert db.rows(run) == [{"n": 2}]


def test_a_join_waits_for_all_its_branches_before_it_fails(db: Database, engine: Engine) -> None:
    slow = sleep(0.4) >> sql("INSERT INTO seen VALUES (7)")
    run = db.start(join("SELECT 1/0", slow, "SELECT nothing"))
    db.wait(run, "failed")
    assert db.error(run)["message"] == "JOIN branch 1 failed: division by zero"
    assert db.values("SELECT count(*) FROM seen") == [1]


def test_a_thousand_branches_all_end(db: Database, engine: Engine) -> None:
    run = db.start(join(*[sql(f"INSERT INTO seen VALUES ({n}) RETURNING 1") for n in range(1000)]))
    db.wait(run, timeout=60)
    assert db.value("SELECT count(*) FROM seen") == 1000
    assert len(db.result(run)) == 1000


def test_never_more_leaves_run_than_the_ceiling_allows(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine(ceiling=4)
    handlers.largest_crowd()
    steps = [seq(py(handlers.crowd), "SELECT 1", py(handlers.crowd)) for _ in range(40)]
    runs = [db.start(join(*steps[:20])), db.start(join(*steps[20:]))]
    runs += [db.start(py(handlers.crowd)) for _ in range(20)]
    for run in runs:
        db.wait(run, timeout=60)
    assert handlers.largest_crowd() <= 4


def test_several_engines_share_the_branches_of_a_join(
    db: Database, start_engine: StartEngine
) -> None:
    engines = [start_engine(ceiling=2) for _ in range(3)]
    run = db.start(join(*[sql("INSERT INTO seen VALUES (1) RETURNING 1")] * 200))
    db.wait(run, timeout=60)
    assert db.value("SELECT count(*) FROM seen") == 200
    used = db.values("SELECT DISTINCT engine_id FROM df.attempts WHERE instance_id = %s", run)
    assert set(used) <= {engine.id for engine in engines}
    assert db.value("SELECT count(*) FROM df.attempts WHERE outcome <> 'completed'") == 0


def test_the_first_to_end_wins_a_race(db: Database, engine: Engine) -> None:
    run = db.start(race(sleep(30), "SELECT 1 AS n"))
    db.wait(run)
    assert db.result(run) == number(1)
    assert db.statuses(run) == ["completed", "cancelled", "completed"]


def test_a_race_is_lost_by_failing_first(db: Database, engine: Engine) -> None:
    run = db.start(race(sleep(30), "SELECT 1/0"))
    db.wait(run, "failed")
    assert db.error(run)["message"] == "RACE right branch failed: division by zero"


def test_the_losers_statement_is_interrupted_and_rolls_back(db: Database, engine: Engine) -> None:
    loser = sql("WITH i AS (INSERT INTO seen VALUES (1)) SELECT pg_sleep(30)")
    run = db.start(race(loser, seq(sleep(0.3), "SELECT 1 AS n", "SELECT 2 AS n")))
    db.wait(run, timeout=10)
    still_there = (
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(30)%%'"
        " AND state = 'active' AND pid <> pg_backend_pid()"
    )
    wait_until(lambda: db.value(still_there) == 0, what="the statement is gone")
    assert db.value("SELECT count(*) FROM seen") == 0
    assert db.outcomes(run)[0] == (5, "completed")
    assert (1, "cancelled") in db.outcomes(run)


def test_a_losers_handler_is_told_and_its_result_refused(db: Database, engine: Engine) -> None:
    run = db.start(race(py(handlers.until_cancelled), seq(sleep(0.3), "SELECT 1 AS n")))
    db.wait(run, timeout=10)
    assert db.result(run) == number(1)
    assert (1, "cancelled") in db.outcomes(run)


def test_a_loser_on_another_engine_is_told(db: Database, start_engine: StartEngine) -> None:
    for _ in range(2):
        start_engine(ceiling=1)
    both = race("SELECT pg_sleep(60)", seq("SELECT 1 AS n", "SELECT pg_sleep(0.2)"))
    run = db.start(both)
    db.wait(run, timeout=10)
    follow_up = [db.start("SELECT 1") for _ in range(2)]  # both engines have room again
    for each in follow_up:
        db.wait(each, timeout=10)


def test_only_the_winners_names_are_known(db: Database, engine: Engine) -> None:
    winner = sql("SELECT 2 AS n").named("y")
    loser = sql("SELECT 1 AS n").named("x") >> sleep(30)
    last = sql("SELECT $y AS n, '$x' AS text")
    run = db.start(race(loser, sleep(0.5) >> winner) >> last)
    db.wait(run)
    assert db.rows(run) == [{"n": 2, "text": "$x"}]
    assert db.values("SELECT name FROM df.values WHERE instance_id = %s", run) == ["y"]


@pytest.mark.parametrize(
    ("condition", "taken"), [("SELECT 1", 1), ("SELECT 0", 2), ("SELECT 1 WHERE false", 2)]
)
def test_the_condition_decides(db: Database, engine: Engine, condition: str, taken: int) -> None:
    run = db.start(if_(condition, "SELECT 1 AS n", "SELECT 2 AS n"))
    db.wait(run)
    assert db.result(run) == number(taken)
    arms = db.statuses(run)[1:3]
    assert arms == (["completed", "skipped"] if taken == 1 else ["skipped", "completed"])


def test_a_conditions_name_is_known_in_the_arms(db: Database, engine: Engine) -> None:
    run = db.start(if_(sql("SELECT 5 AS n").named("c"), "SELECT $c + 1 AS n", "SELECT 0"))
    db.wait(run)
    assert db.result(run) == number(6)


@pytest.mark.parametrize(("rows", "taken"), [(0, 2), (3, 1)])
def test_if_rows_asks_whether_a_result_has_rows(
    db: Database, engine: Engine, rows: int, taken: int
) -> None:
    query = sql(f"SELECT 0 AS n FROM generate_series(1, {rows})").named("found")
    run = db.start(query >> if_rows("found", "SELECT 1 AS n", "SELECT 2 AS n"))
    db.wait(run)
    assert db.result(run) == number(taken)


def test_if_rows_refuses_what_is_no_sql_result(db: Database, engine: Engine) -> None:
    run = db.start(
        py(handlers.echo, value=[1]).named("x") >> if_rows("x", "SELECT 1", "SELECT 2"),
        max_attempts=3,
    )
    db.wait(run, "failed")
    assert "df.if_rows: result 'x' is not that of a SQL step" in db.error(run)["message"]


def test_a_signal_in_a_branch_that_lost_is_no_longer_waited_for(
    db: Database, engine: Engine
) -> None:
    run = db.start(race(wait_for_signal("go"), "SELECT 1") >> wait_for_signal("go"))
    wait_until(lambda: db.node(run, 4)["status"] == "waiting")
    db.execute("SELECT df.signal(%s, 'go', '1')", run)
    db.wait(run)
    assert db.result(run)["data"] == 1


def test_a_join_too_large_to_store_fails_and_the_engine_goes_on(
    db: Database, engine: Engine
) -> None:
    half = sql("SELECT repeat('x', 9 * 1024 * 1024) AS text")
    run = db.start(join(half, half))
    db.wait(run, "failed")
    assert "JOIN #0 are larger than 16 MiB together" in db.error(run)["message"]
    db.wait(db.start("SELECT 1"))


def test_a_transition_of_a_due_run_that_cannot_be_written_parks_that_run_alone(
    db: Database, engine: Engine
) -> None:
    """A wait ends by the clock, and there is no report to blame."""
    half = sql("SELECT repeat('x', 9 * 1024 * 1024) AS text")
    large = db.start(join(half, half, sleep(1)))
    others = [db.start(sleep(1)) for _ in range(5)]
    for run in others:
        db.wait(run)
    wait_until(lambda: db.value("SELECT parked IS NOT NULL FROM df.instances WHERE id = %s", large))
    assert db.value("SELECT count(*) FROM df.instances WHERE parked IS NOT NULL") == 1
