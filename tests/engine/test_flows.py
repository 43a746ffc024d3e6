"""Flows and maps on a real engine: their values, their names, and elements that survive a kill."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.engine import step_handlers as handlers
from tests.engine.conftest import SpawnEngine, StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.flow import Flow
from workbench.graph.build import py, ref, sql
from workbench.graph.control import each, if_, join, loop
from workbench.graph.waiting import sleep, wait_for_signal

SQUARES = "SELECT n FROM generate_series(1, {}) AS n"


def start(db: Database, flow: Flow, given: str | None = None) -> str:
    return db.start(flow.graph(), input=given)


def test_steps_get_what_they_depend_on(db: Database, engine: Engine) -> None:
    flow = Flow("f")
    flow.add("numbers", SQUARES.format(3))
    flow.add("doubled", each("numbers", "SELECT $item.n * 2 AS d"), after=["numbers"])
    flow.add("kept", py(handlers.echo, value=ref("doubled")), after=["doubled"])
    flow.add(
        "total",
        "SELECT sum((e #>> '{rows,0,d}')::int) AS t FROM jsonb_array_elements($doubled) e",
        after=["kept", "doubled"],
    )
    run = start(db, flow)
    db.wait(run)
    assert db.result(run)["total"]["rows"] == [{"t": 12}]
    assert (
        db.values("SELECT name FROM df.values WHERE instance_id = %s AND name = 'item'", run) == []
    )


def test_a_skipped_step_is_null_in_sql_and_absent_in_python(db: Database, engine: Engine) -> None:
    flow = Flow("f")
    flow.add("no", "SELECT 1 AS n", if_={"go": True})
    flow.add("said", "SELECT $no IS NULL AS is_null, $no.n IS NULL AS field_is_null", after=["no"])
    flow.add("seen", py(handlers.default, value=ref("no")), after=["no"])
    run = start(db, flow, '{"go": false}')
    db.wait(run)
    result = db.result(run)
    assert result["said"]["rows"] == [{"is_null": True, "field_is_null": True}]
    assert result["seen"] == "default"


def test_conditions_ask_rows_of_sql_steps(db: Database, engine: Engine) -> None:
    flow = Flow("f")
    flow.add("rows", SQUARES.format(3))
    flow.add("yes", "SELECT 1", after=["rows"], if_={"rows": [{"n": 2}]})
    flow.add("no", "SELECT 1", after=["rows"], if_={"rows": [{"n": 4}]})
    run = start(db, flow)
    db.wait(run)
    assert db.statuses(run) == ["completed", "completed", "completed", "skipped"]


def test_2_a_failed_step_cancels_its_siblings(db: Database, start_engine: StartEngine) -> None:
    start_engine(ceiling=2)
    flow = Flow("f", max_attempts=1)
    with db.gate(1):
        flow.add("bad", "SELECT 1 / length(pg_advisory_xact_lock_shared(2)::text)")
        flow.add("long", "SELECT pg_advisory_xact_lock_shared(1)")
        flow.add("late", "SELECT 1")
        with db.gate(2):
            run = start(db, flow)
            db.wait_at_gate(1)
            db.wait_at_gate(2)
        db.wait(run, "failed")
        assert db.statuses(run)[1:] == ["failed", "cancelled", "cancelled"]


@pytest.mark.parametrize("given", ['{"x": 1}', '"s"', "42", "true", None])
def test_11_a_map_over_no_list_is_refused_at_the_start(db: Database, given: str | None) -> None:
    flow = Flow("f")
    flow.add("m", each("input", "SELECT 1"))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match='map "m" goes over'):
        start(db, flow, given)
    assert db.value("SELECT count(*) FROM df.instances") == 0
    assert db.status(start(db, flow, "[]")) == "pending"


def test_every_element_is_executed_once_however_often_engines_are_killed(
    db: Database, spawn_engine: SpawnEngine
) -> None:
    db.set(max_lost=50)
    db.execute("CREATE TABLE effects (n int)")
    flow = Flow("f")
    flow.add("numbers", SQUARES.format(300))
    body = "INSERT INTO effects SELECT $item.n FROM (SELECT pg_sleep(0.005)) s RETURNING n"
    flow.add("inserted", each("numbers", sql(body)), after=["numbers"])
    flow.add("count", "SELECT jsonb_array_length($inserted) AS n", after=["inserted"])
    done = "SELECT count(*) FROM effects"
    run = start(db, flow)
    for kill in range(1, 4):
        engine = spawn_engine(ceiling=4)
        _wait_for_count(db, done, kill * 60)
        engine.kill()
    spawn_engine()
    db.wait(run, timeout=30)
    assert db.result(run) == {"count": {"rows": [{"n": 300}], "row_count": 1}}
    assert db.execute("SELECT count(*), count(DISTINCT n) FROM effects").fetchone() == (300, 300)


def _wait_for_count(db: Database, query: str, least: int) -> None:
    wait_until(lambda: db.value(query) >= least, what=f"{query} gives {least}")


def test_two_engines_share_the_elements(db: Database, start_engine: StartEngine) -> None:
    start_engine(ceiling=4)
    start_engine(ceiling=4)
    flow = Flow("f")
    flow.add("numbers", SQUARES.format(200))
    flow.add("m", each("numbers", "SELECT $item.n AS n, pg_sleep(0.02)"), after=["numbers"])
    run = start(db, flow)
    db.wait(run, timeout=30)
    assert [part["rows"][0]["n"] for part in db.result(run)["m"]] == list(range(1, 201))
    assert len({each.engine for each in db.attempts(run)}) == 2


def test_a_map_outside_of_flows_runs_any_graph(db: Database, engine: Engine) -> None:
    branch = join("SELECT $row.n AS a", sql("SELECT $row.n * 10 AS b") >> sleep(0.1))
    body = sql("SELECT $row.n % 2 = 0 AS even").named("is") >> if_(
        "SELECT $is", branch, "SELECT 'odd' AS s"
    )
    graph = sql(SQUARES.format(3)).named("rows") >> each("rows", body, as_="row").named("all")
    run = db.start(graph >> "SELECT jsonb_array_length($all) AS n")
    db.wait(run)
    assert db.rows(run) == [{"n": 3}]
    assert db.value("SELECT value FROM df.values WHERE name = 'all'")[1][0]["rows"] == [{"a": 2}]


def test_maps_in_maps(db: Database, engine: Engine) -> None:
    inner = sql("SELECT n FROM generate_series(1, $x.n) AS n").named("ns") >> each(
        "ns", "SELECT $x.n * 100 + $y.n AS v", as_="y"
    )
    run = db.start(sql(SQUARES.format(3)).named("xs") >> each("xs", inner, as_="x"))
    db.wait(run)
    found = [[v["rows"][0]["v"] for v in part] for part in db.result(run)]
    assert found == [[101], [201, 202], [301, 302, 303]]


def test_a_map_in_a_loop_leaves_nothing_behind(db: Database, engine: Engine) -> None:
    body = sql(SQUARES.format(5)).named("rows") >> each(
        "rows", sql("SELECT $item.n") >> sql("SELECT nextval('calls')")
    )
    run = db.start(loop(body, while_="SELECT last_value < 200 FROM calls", min_interval=0))
    db.wait(run, timeout=40)
    assert (
        db.value("SELECT count(*) FROM df.nodes WHERE pattern IS NOT NULL AND status <> 'pattern'")
        == 15
    )
    assert db.value("SELECT max(node_id) FROM df.nodes") < 50
    assert db.value("SELECT count(*) FROM df.values WHERE instance_id = %s", run) <= 2


def test_elements_wait_for_signals_and_can_be_cancelled(db: Database, engine: Engine) -> None:
    graph = sql(SQUARES.format(3)).named("rows") >> each("rows", wait_for_signal("go"))
    run = db.start(graph)
    waits = "SELECT count(*) FROM df.nodes WHERE node_type = 'SIGNAL' AND status = 'waiting'"
    wait_until(lambda: db.value(waits) == 3)
    db.execute("SELECT df.signal(%s, 'go', '1')", run)
    db.wait(run)
    assert [part["data"] for part in db.result(run)] == [1, 1, 1]
    other = db.start(graph)
    wait_until(lambda: db.value(waits) == 3)
    db.execute("SELECT df.cancel(%s)", other)
    assert (
        db.value(
            "SELECT count(*) FROM df.nodes WHERE status IN ('ready', 'waiting', 'running', 'pending')"
        )
        == 0
    )


def test_a_map_over_what_is_no_list_says_so(db: Database, engine: Engine) -> None:
    run = db.start(py(handlers.echo, value={"a": 1}).named("x") >> each("x", "SELECT 1"))
    db.wait(run, "failed")
    assert "neither rows of a SQL step nor a list" in db.error(run)["message"]


@pytest.mark.parametrize("leaf", [py(handlers.until_cancelled), sql("SELECT pg_sleep(20)")])
def test_an_attempt_that_takes_too_long_fails_and_is_tried_again(
    db: Database, engine: Engine, leaf: Any
) -> None:
    flow = Flow("f", max_attempts=2, base_delay=0, timeout=0.2)
    flow.add("slow", leaf)
    run = start(db, flow)
    db.wait(run, "failed")
    attempts = db.attempts(run)
    assert [each.outcome for each in attempts] == ["failed", "failed"]
    assert {each.error["type"] for each in attempts} == {"TimeoutError"}


def test_a_handler_says_how_far_it_is(db: Database, engine: Engine) -> None:
    with db.gate(7):
        run = db.start(py(handlers.progress, gate=7))
        said = "SELECT progress FROM df.nodes WHERE instance_id = %s"
        wait_until(lambda: db.value(said, run) == {"fraction": 0.4, "note": "page 4"})
        reason = "SELECT reason FROM df.instance_activity() WHERE instance_id = %s"
        assert db.value(reason, run).endswith(": 40 %, page 4")
    db.wait(run)
    assert db.value(said, run) is None
    assert db.result(run) == ["TypeError", "TypeError", "ValueError", "ValueError"]


def test_elements_are_seen_by_name_and_place(db: Database, engine: Engine) -> None:
    flow = Flow("f", max_attempts=1)
    flow.add("m", each("input", "SELECT 10 / $item"))
    run = start(db, flow, "[1, 0]")
    db.wait(run, "failed")
    assert "element 1 failed" in db.error(run)["message"]
    seen = db.execute(
        "SELECT node_id, parent_id, element, status FROM df._run_nodes(%s)", run
    ).fetchall()
    assert seen[:2] == [(0, None, None, "failed"), (1, 0, None, "failed")]
    assert [row[1:3] for row in seen[2:]] == [(1, [0]), (1, [1])]
    assert db.value("SELECT node FROM df.failures() LIMIT 1") == "m"
    names = db.values("SELECT result_name FROM df._run_nodes(%s)", run)
    assert names == [None, "m", "m[0]", "m[1]"]


def test_a_run_that_fails_leaves_other_runs_of_its_flow_alone(db: Database, engine: Engine) -> None:
    flow = Flow("f", max_attempts=1)
    flow.add("a", "SELECT 1 / $input AS one")
    flow.add("b", "SELECT $a.one + 1 AS two", after=["a"])
    bad, good = start(db, flow, "0"), start(db, flow, "1")
    db.wait(bad, "failed")
    db.wait(good)
    assert db.result(good) == {"b": {"rows": [{"two": 2}], "row_count": 1}}
    assert [node["status"] for node in db.nodes(bad)] == ["failed", "failed", "cancelled"]
    assert [node["status"] for node in db.nodes(good)] == ["completed"] * 3
