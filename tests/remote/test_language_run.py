"""Runs of the whole language through a bench: signalling, explaining, what their views tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.support import Database, wait_until
from tests.remote.conftest import Connect, MakeRole, user_of
from workbench.bench import Bench
from workbench.errors import DatabaseError, NotFound, StateError, UsageError, ValueRefused
from workbench.graph import (
    break_,
    if_,
    if_rows,
    join,
    loop,
    race,
    seq,
    sleep,
    sql,
    wait_for_schedule,
    wait_for_signal,
)
from workbench.run import Run

COUNT = "SELECT nextval('calls') AS i"


def reached(run: Run, says: str) -> None:
    wait_until(lambda: says in str(run.view()), what=f"the view says {says!r}")


def state(bench: Bench, run: Run) -> Any:
    return bench.runs().df.loc[run.id, "state"]


@pytest.fixture
def waiting(bench: Bench) -> Run:
    """A run that waits for a signal."""
    run = bench.start(wait_for_signal("approval").named("s") >> sql("SELECT $s.data.by AS by"))
    reached(run, "waits for signal approval since")
    return run


@pytest.mark.parametrize("data", [None, True, 7, "text", [1, {"a": None}], {"by": "ann"}])
def test_a_signal_carries_any_json_value(bench: Bench, data: Any) -> None:
    run = bench.start(wait_for_signal("go").named("s"))
    run.signal("go", data)
    assert run.result(20) == {"signal_name": "go", "timed_out": False, "data": data}


def test_a_signal_lets_a_run_go_on(bench: Bench, waiting: Run) -> None:
    assert (state(bench, waiting), waiting.status) == ("waiting", "running")
    waiting.signal("approval", {"by": "ann"})
    assert waiting.result(20)["rows"] == [{"by": "ann"}]


def test_signals_that_nobody_took_are_shown(waiting: Run) -> None:
    for _ in range(2):
        waiting.signal("note")
    assert "unread signals: note (2)" in str(waiting.view())


@pytest.mark.parametrize(
    ("name", "data", "error", "text"),
    [
        ("", None, UsageError, "Signal name cannot be empty: nothing was sent"),
        ("a\0", None, UsageError, "a signal's name is text without NUL"),
        (7, None, UsageError, "a signal's name is text"),
        ("approval", float("nan"), ValueRefused, "data"),
        ("approval", object(), ValueRefused, "data"),
    ],
)
def test_what_is_no_signal_is_refused(
    waiting: Run, name: Any, data: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        waiting.signal(name, data)


def test_a_run_that_has_ended_takes_no_signal(bench: Bench) -> None:
    run = bench.start("SELECT 1").wait(20)
    with pytest.raises(
        StateError, match=f'run {run.id} is already completed: the signal "go" was not sent'
    ):
        run.signal("go")


def test_a_run_of_another_role_takes_no_signal(
    db: Database, make_role: MakeRole, open_bench: Connect, waiting: Run
) -> None:
    role = make_role(db.dsn)
    db.execute("SELECT df.grant_usage(%s)", user_of(role))
    other = Run(waiting.id, open_bench(role, engine=False)._database, waiting._waiter)
    with pytest.raises(NotFound, match="Instance not found or access denied"):
        other.signal("approval")


def test_a_view_says_what_every_wait_is_for(bench: Bench) -> None:
    graph = join(
        sleep("10 minutes"),
        wait_for_schedule("0 6 * * *", timezone="Europe/Berlin"),
        wait_for_signal("go", timeout="1 hour"),
        loop("SELECT 1", min_interval="1 hour"),
        sql("SELECT 1/0"),
    )
    run = bench.start(graph)
    reached(run, "branch 5 failed; waits for 4 more")
    reached(run, "iteration 2 begins at ")
    text = str(run.view())
    for says in (
        r"SLEEP 10 min +waiting .*  wakes at .*, in (10 min|9 min \d+ s)",
        r"WAIT 0 6 \* \* \* Europe/Berlin +waiting .* fires at .*06:00 in Europe/Berlin",
        r"SIGNAL go, at most 1 h +waiting .* waits for signal go since .*, times out at",
        r"LOOP at most every 1 h +waiting  iteration 1 ",
    ):
        assert re.search(says, text), text
    frame = run.view().df
    assert frame["waits_for"].notna().tolist() == [True, True, True, True, True, False, False]
    assert frame["due_at"].notna().sum() == 4
    run.cancel()


def test_all_that_waits_makes_a_run_wait_until_something_works(bench: Bench, db: Database) -> None:
    run = bench.start(loop(sleep(0) >> sql("SELECT 1"), min_interval="1 hour"))
    wait_until(lambda: db.node(run.id)["status"] == "waiting", what="the loop waits for its time")
    assert state(bench, run) == "waiting"
    assert str(run.view()).splitlines()[1].startswith("⏾ waiting")
    assert run.status == "running"
    with db.gate(7):
        busy = bench.start(join("SELECT pg_advisory_xact_lock_shared(7)", sleep("1 hour")))
        db.wait_at_gate(7)
        assert state(bench, busy) == "running"
    wait_until(lambda: state(bench, busy) == "waiting", what="only the sleep is left")


def test_a_long_history_is_folded_to_the_current_iteration(bench: Bench, db: Database) -> None:
    body = sql(COUNT).named("x") >> if_("SELECT $x.i >= 60", break_("$x.i"), "SELECT 1")
    run = bench.start(seq("SELECT 1", loop(body, min_interval=0).named("n"))).wait(60)
    assert run.result() == 60
    data = run.view().data
    assert [len(data.attempts_of.get(node.node_id, ())) for node in data.nodes] == [
        *(0, 1, 0, 0, 1, 0, 1, 0, 1),
    ]
    html = str(run.view().html())
    assert "+ 59 earlier iterations" in html
    assert "4 of 181 shown" in re.sub("<[^>]+>", "", html)
    assert len(data.iterations) == 20


def test_an_abandoned_iteration_is_told_with_its_error(bench: Bench) -> None:
    run = bench.start(loop("SELECT 1/0", min_interval="1 hour"), on_failure="continue")
    reached(run, "the last iteration was abandoned: division by zero; iteration 2 begins at")
    assert "policy 1 attempt, then the loop goes on" in re.sub("<[^>]+>", "", run.view().html())


def test_the_value_of_a_loop_and_a_race_is_that_of_the_step_that_decided(bench: Bench) -> None:
    run = bench.start(race(sql("SELECT 42 AS n"), sleep(60)).named("r")).wait(20)
    assert run["r"].df["n"].tolist() == [42]
    assert ">42</td>" in str(run.view().html())


def test_rows_decide_without_a_step(bench: Bench) -> None:
    graph = sql("SELECT 1 WHERE false").named("orders") >> if_rows(
        "orders", "SELECT 'some'", sql("SELECT 'none' AS found")
    )
    run = bench.start(graph).wait(20)
    assert run.result()["rows"] == [{"found": "none"}]
    text = str(run.view())
    assert re.search(r"⤼ +then: SQL SELECT 'some' +skipped", text)
    assert "IF orders has rows" in text


# Explaining.


EXPRESSION = "'SELECT 1' |=> 'a' ~> ('SELECT 2' & df.sleep(5))"


def graph_json(db: Database) -> str:
    return str(db.value(f"SELECT {EXPRESSION}"))


@pytest.mark.parametrize(
    ("given", "nodes"),
    [
        (lambda db: EXPRESSION, 5),
        (graph_json, 5),
        (lambda db: "SELECT count(*) FROM t", 1),
        (lambda db: "nothing of the kind", 0),
        (lambda db: "deadbeef", 0),
        (lambda db: '{"node_type": "THEN"}', 0),
        (lambda db: "df.getvar('nothing')", 0),
        (lambda db: "df.version()", 0),
    ],
)
def test_text_is_explained_as_sql_does_it(
    db: Database, bench: Bench, given: Callable[[Database], str], nodes: int
) -> None:
    text = given(db)
    view = bench.explain(text)
    assert str(view) == db.value("SELECT df.explain(%s)", text)
    assert len(view.df) == nodes
    assert view.html()


def test_a_graph_is_explained_before_it_has_started(db: Database, bench: Bench) -> None:
    graph = sql("SELECT 1") >> (sleep(5) | wait_for_signal("go"))
    view = bench.explain(graph)
    assert str(view) == db.value("SELECT df.explain(%s)", graph.to_json()) == str(graph)
    assert view.df["label"].tolist() == ["THEN", "SQL: SELECT 1", "RACE", "SLEEP 5s", "SIGNAL 'go'"]
    assert view.df.index.name == "node_id"
    assert {str(kind) for kind in view.df.dtypes} <= {"Int64", "str", "object"}


def test_a_run_is_explained_from_its_id_too(db: Database, bench: Bench, waiting: Run) -> None:
    for view in (waiting.explain(), bench.explain(waiting), bench.explain(f" {waiting.id} ")):
        assert str(view) == db.value("SELECT df.explain(%s)", waiting.id)
        assert view.df.loc[1, "status"] == "waiting"
        assert "waits for signal approval since" in view.html()


def test_an_expression_is_evaluated_once(db: Database, bench: Bench) -> None:
    bench.hold()
    view = bench.explain("df.start('SELECT 1')")
    assert "the expression gives no graph but" in str(view)
    assert db.value("SELECT count(*) FROM df.instances") == 1


def test_what_cannot_be_explained_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"explain\(\) takes a graph, text or a Run, not int"):
        bench.explain(7)  # type: ignore[arg-type]


# Letting in.


def test_a_role_is_let_in_and_let_look_and_both_end(
    db: Database, make_role: MakeRole, bench: Bench
) -> None:
    role = user_of(make_role(db.dsn))
    may = "SELECT has_schema_privilege(%s, 'df', 'USAGE')"
    http = "SELECT has_function_privilege(%s, 'df.http(text,text,text,jsonb,integer)', 'EXECUTE')"
    bench.grant(role)
    assert (db.value(may, role), db.value(http, role)) == (True, False)
    bench.grant(role, http=True)
    assert db.value(http, role)
    bench.grant_read(role)
    bench.revoke_read(role)
    bench.revoke(role)
    assert not db.value(may, role)
    with pytest.raises(DatabaseError, match="it could not look: nothing was granted"):
        bench.grant_read(role)
    with pytest.raises(UsageError, match='role "nobody here" does not exist'):
        bench.grant("nobody here")
