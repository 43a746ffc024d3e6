"""Resuming on a real engine: what had succeeded is taken over, the rest is executed."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.engine.support import Database
from workbench.engine.worker import Engine
from workbench.flow import Flow
from workbench.graph import Node, if_, join, loads, loop, race, seq, sleep, sql, wait_for_signal
from workbench.graph.control import each
from workbench.graph.resume import unchanged

NOTE = "INSERT INTO seen VALUES ('{}') RETURNING nextval('calls') AS n"
BREAKS = "SELECT 1 / (SELECT count(*) FROM mended)"


def note(what: str) -> Node:
    return sql(NOTE.format(what))


def failed(db: Database, graph: Node, **options: Any) -> str:
    db.execute("CREATE TABLE mended (x int)")
    run = db.start(graph, **options)
    db.wait(run, "failed")
    return run


def resume(db: Database, run: str, graph: Node | None = None) -> str:
    """Mend what was broken, and resume."""
    db.execute("INSERT INTO mended VALUES (1)")
    if graph is None:
        return str(db.value("SELECT id FROM df.resume_run(%s)", run))
    before = db.value("SELECT graph::text FROM df.definitions WHERE instance_id = %s", run)
    pairs = unchanged(loads(before), graph)
    return str(
        db.value(
            "SELECT df._resume(%s, %s, %s::int[], %s::int[], true)",
            run,
            graph.to_json(),
            list(pairs),
            list(pairs.values()),
        )
    )


def notes(db: Database) -> list[str]:
    return db.values("SELECT what FROM seen ORDER BY at")


def test_only_what_had_not_succeeded_runs(db: Database, engine: Engine) -> None:
    run = failed(db, seq(note("a").named("x"), BREAKS, sql("SELECT $x + 100 AS n")))
    following = resume(db, run)
    db.wait(following)
    assert notes(db) == ["a"]
    assert db.rows(following) == [{"n": 101}]
    assert [a.node for a in db.attempts(following)] == [3, 4]
    node = db.node(following, 2)
    assert (node["status"], node["reused_run"], node["reused_node"], node["attempt"]) == (
        "completed",
        run,
        2,
        0,
    )
    assert db.value("SELECT kind FROM df.definitions WHERE instance_id = %s", following) == "resume"


def test_completed_branches_of_a_join_are_taken_over(db: Database, engine: Engine) -> None:
    both = join(note("a").named("a"), seq(note("b").named("b"), BREAKS), sleep(0)).named("all")
    run = failed(db, both >> sql("SELECT $a AS a, $b AS b, jsonb_array_length($all::jsonb) AS n"))
    following = resume(db, run)
    db.wait(following)
    assert sorted(notes(db)) == ["a", "b"]
    assert (
        sorted(db.rows(following)[0].items()) == [("a", 1), ("b", 2), ("n", 3)]
        or db.rows(following)[0]["n"] == 3
    )


def test_a_taken_over_condition_decides_as_before(db: Database, engine: Engine) -> None:
    run = failed(
        db,
        if_(sql("SELECT nextval('calls') > 1"), "SELECT 'then'", seq(BREAKS, "SELECT 'else' AS t")),
    )
    following = resume(db, run)
    db.wait(following)
    assert db.rows(following) == [{"t": "else"}]
    assert db.statuses(following)[1] == "skipped"


def test_a_loop_goes_on_inside_its_iteration(db: Database, engine: Engine) -> None:
    body = seq(note("body").named("x"), "SELECT 1 / ((SELECT 10 * count(*) FROM mended) + 2 - $x)")
    run = failed(db, seq("SELECT 1", loop(body, while_="SELECT $x < 3", min_interval=0)))
    assert notes(db) == ["body", "body"]
    following = resume(db, run)
    db.wait(following)
    assert notes(db) == ["body"] * 3


def test_signals_and_sleeps_are_not_waited_for_again(db: Database, engine: Engine) -> None:
    db.execute("CREATE TABLE mended (x int)")
    run = db.start(
        seq(wait_for_signal("go").named("s"), sleep(0), BREAKS, sql("SELECT $s.data AS d"))
    )
    db.execute("SELECT df.signal(%s, 'go', '7')", run)
    db.wait(run, "failed")
    following = resume(db, run)
    db.wait(following)
    assert db.rows(following) == [{"d": 7}]


def test_the_winner_of_a_race_stays_the_winner(db: Database, engine: Engine) -> None:
    run = failed(db, race(sleep(60), note("won")) >> sql(BREAKS))
    following = resume(db, run)
    db.wait(following)
    assert notes(db) == ["won"]


def test_a_repaired_graph_runs_from_the_change_on(db: Database, engine: Engine) -> None:
    run = failed(db, seq(note("a").named("x"), note("b"), "SELECT no_such_column", note("c")))
    following = resume(db, run, seq(note("a").named("x"), note("b"), "SELECT $x", note("d")))
    db.wait(following)
    assert notes(db) == ["a", "b", "d"]


def test_what_follows_a_changed_step_runs_again(db: Database, engine: Engine) -> None:
    run = failed(db, seq(note("a"), note("b"), BREAKS))
    following = resume(db, run, seq(note("z"), note("b"), sql("SELECT 1")))
    db.wait(following)
    assert notes(db) == ["a", "b", "z", "b"]


def test_a_resumed_run_can_be_resumed(db: Database, engine: Engine) -> None:
    run = failed(
        db, seq(note("a"), BREAKS, "SELECT 1 / ((SELECT count(*) FROM mended) - 1)", note("c"))
    )
    second = resume(db, run)
    db.wait(second, "failed")
    third = resume(db, second)
    db.wait(third)
    assert notes(db) == ["a", "c"]
    assert [n["reused_run"] for n in db.nodes(third) if n["reused_run"]] == [run, second]


def test_a_graph_that_cannot_be_started_is_refused(db: Database, engine: Engine) -> None:
    run = failed(db, sql(BREAKS))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="Invalid durable function"):
        db.execute("SELECT df._resume(%s, '{\"node_type\":\"THEN\"}', '{}', '{}', true)", run)
    assert db.value("SELECT count(*) FROM df.instances") == 1


@pytest.mark.parametrize("verb", ["resume_run", "retry_run"])
def test_only_a_failed_run_can_be_taken_up_again(db: Database, engine: Engine, verb: str) -> None:
    run = db.start("SELECT 1")
    db.wait(run)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is completed"):
        db.execute(f"SELECT df.{verb}(%s)", run)


def test_steps_of_a_flow_and_elements_of_its_map_are_taken_over(
    db: Database, engine: Engine
) -> None:
    flow = Flow("f", max_attempts=1)
    flow.add("numbers", "SELECT n FROM generate_series(1, 4) n")
    flow.add("asked", note("asked"), after=["numbers"], if_={"numbers": [{"n": 4}]})
    breaks = (
        f"SELECT $item.n * 10 AS d, CASE WHEN $item.n = 3 THEN ({BREAKS}) END, nextval('calls')"
    )
    flow.add("m", each("numbers", breaks), after=["asked", "numbers"])
    flow.add(
        "last",
        "SELECT sum((e #>> '{rows,0,d}')::int) AS s FROM jsonb_array_elements($m) e",
        after=["m"],
    )
    run = failed(db, flow.graph())
    done = db.value(
        "SELECT count(*) FROM df.nodes WHERE element IS NOT NULL AND status = 'completed'"
    )
    following = resume(db, run)
    db.wait(following)
    assert db.result(following)["last"]["rows"] == [{"s": 100}]
    assert notes(db) == ["asked"]
    executed = [a for a in db.attempts(following) if a.outcome == "completed"]
    assert len(executed) == 4 - done + 1


def test_elements_of_a_map_with_longer_bodies_are_taken_over_whole(
    db: Database, engine: Engine
) -> None:
    body = sql("INSERT INTO seen VALUES ('first') RETURNING $item.n AS n").named("x") >> (
        f"SELECT $x + 100 AS y, CASE WHEN $item.n = 2 THEN ({BREAKS}) END"
    )
    graph = sql("SELECT n FROM generate_series(1, 3) n").named("rows") >> each("rows", body)
    run = failed(db, graph)
    following = resume(db, run)
    db.wait(following)
    assert [part["rows"][0]["y"] for part in db.result(following)] == [101, 102, 103]
    taken = "SELECT count(*) FROM df.nodes WHERE instance_id = %s AND reused_run IS NOT NULL AND pattern IS NOT NULL"
    completed = (
        "SELECT count(*) FROM df.nodes WHERE instance_id = %s AND node_type = 'THEN'"
        " AND pattern IS NOT NULL AND status = 'completed'"
    )
    assert db.value(taken, following) == 2 * db.value(completed, run)


def test_a_changed_step_of_a_flow_and_what_depends_on_it_run_again(
    db: Database, engine: Engine
) -> None:
    def flow(change: str) -> Node:
        found = Flow("f", max_attempts=1)
        found.add("a", note("a"))
        found.add("b", note(f"b{change}"))
        found.add("m", each("b", note("m")), after=["b"])
        found.add("c", note("c"), after=["a"])
        found.add("last", BREAKS, after=["m", "c"])
        return found.graph()

    run = failed(db, flow(""))
    following = resume(db, run, flow("!"))
    db.wait(following)
    assert sorted(notes(db)) == sorted(["a", "b", "m", "c", "b!", "m"])
