"""`Run`: a handle like `concurrent.futures.Future`, for runs that complete, fail, wait and are cancelled."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

import workbench as wb
from tests.engine import step_handlers as handlers
from tests.engine.support import Database, wait_until
from tests.remote.conftest import Connect
from workbench.bench import Bench
from workbench.errors import NotFound, RunCancelled, RunFailed, StateError, UsageError
from workbench.graph.build import py, ref, seq, sql
from workbench.run import Run


@pytest.fixture
def completed(bench: Bench) -> Run:
    """A run whose steps are named."""
    graph = seq(
        sql("SELECT n AS id, n * 1.5 AS price FROM generate_series(1, 2) n").named("staged"),
        py(handlers.echo, value=ref("staged")).named("echoed"),
        sql("SELECT count(*) AS n FROM jsonb_array_elements('[1, 2, 3]')"),
    )
    return bench.start(graph, input={"day": "2026-11-30"}, label="nightly").wait(20)


@pytest.fixture
def failed(bench: Bench) -> Run:
    """A run whose second try failed, too."""
    step = py(handlers.fail_first, failures=5).named("flaky")
    return bench.start(step, max_attempts=2, max_backoff=0.01).wait(20)


@pytest.fixture
def held(bench: Bench) -> Run:
    """A run that nobody executes."""
    return bench.hold().start(sql("SELECT 1").named("x"))


def test_a_completed_run_has_its_last_steps_result(completed: Run) -> None:
    assert completed.done()
    assert completed.status == "completed"
    assert completed.result() == {"rows": [{"n": 3}], "row_count": 1}
    assert completed.exception() is None
    assert (completed.failure, completed.error) == (None, None)


def test_it_keeps_what_it_was_started_with(completed: Run) -> None:
    assert (completed.label, completed.input) == ("nightly", {"day": "2026-11-30"})
    assert "generate_series" in completed.definition.to_json()


def test_its_definition_starts_an_equal_run(bench: Bench, completed: Run) -> None:
    again = bench.start(completed.definition, input=completed.input)
    assert again.definition == completed.definition
    assert again.definition.to_json() == completed.definition.to_json()
    assert again.result(timeout=20) == completed.result()


def test_a_named_steps_rows_are_a_typed_frame(completed: Run) -> None:
    frame = completed["staged"].df
    assert frame.to_dict("list") == {"id": [1, 2], "price": [1.5, 3.0]}
    assert [str(dtype) for dtype in frame.dtypes] == ["int64", "float64"]
    assert completed["staged"].columns == (("id", "integer"), ("price", "numeric"))
    exact = completed["staged"].frame(decimal=True)
    assert [str(price) for price in exact["price"]] == ["1.5", "3.0"]
    assert completed["echoed"].df["id"].tolist() == [1, 2]


def test_a_node_is_found_by_name_and_number(completed: Run) -> None:
    node = completed.node("staged")
    assert node.node_type == "SQL"
    assert completed.node(node.node_id) == completed.node(f"#{node.node_id}") == node
    assert completed[node.node_id] == completed["staged"]
    assert [n.status for n in completed.nodes] == ["completed"] * len(completed.nodes)


@pytest.mark.parametrize("name", ["stagd", "#99", 99, -1, "", "#", "#x"])
def test_an_unknown_node_lists_what_there_is(completed: Run, name: str | int) -> None:
    with pytest.raises(
        NotFound,
        match=rf"run {completed.id} has no node .*names: echoed, staged; its numbers: #0 to #4",
    ):
        completed.node(name)
    with pytest.raises(NotFound):
        completed[name]


def test_a_node_without_a_result_says_why(held: Run) -> None:
    with pytest.raises(
        StateError, match=rf"node 'x' of run {held.id} is pending and has no result"
    ):
        held["x"]


def test_a_node_without_a_result_of_a_failed_run_points_to_the_failure(failed: Run) -> None:
    with pytest.raises(StateError, match=r"run\.failure has the error"):
        failed[failed.nodes[-1].node_id]


def test_attempts_come_in_order(failed: Run) -> None:
    seen = [(a.attempt, a.outcome, a.delay_source) for a in failed.attempts]
    assert seen == [(1, "failed", "backoff"), (2, "failed", None)]


def test_a_failed_run_raises_what_failed_and_where(failed: Run) -> None:
    raised = failed.exception()
    assert isinstance(raised, RunFailed)
    assert str(raised) == (
        f"run {failed.id} failed at step 'flaky' (#0), attempt 2 of 2: RuntimeError: e2. "
        "Next: run.failure has the whole error, run.attempts every try."
    )
    with pytest.raises(RunFailed, match="RuntimeError: e2"):
        failed.result()
    assert failed.done()
    assert failed.status == "failed"


def test_the_failure_is_the_attempt_that_decided(failed: Run) -> None:
    failure = failed.failure
    assert failure is not None
    assert (failure.attempt, failure.outcome) == (2, "failed")
    assert failure.error is not None
    assert failure.error["message"] == "e2"
    assert "fail_first" in failure.error["traceback"]


def test_a_cancelled_run_raises_its_reason(held: Run) -> None:
    assert held.cancel("not needed") is True
    assert held.cancel() is True
    assert held.status == "cancelled"
    raised = held.exception(timeout=1)
    assert isinstance(raised, RunCancelled)
    assert f"run {held.id} was cancelled: not needed" in str(raised)
    with pytest.raises(RunCancelled, match=r"bench.start\(run.definition\)"):
        held.result(timeout=1)
    assert held.error == {"type": "Cancelled", "message": "not needed"}
    assert held.failure is None


def test_what_has_ended_is_not_cancelled(completed: Run, failed: Run) -> None:
    assert (completed.cancel(), failed.cancel()) == (False, False)
    assert (completed.status, failed.status) == ("completed", "failed")


def test_a_reason_that_cannot_be_stored_cancels_nothing(held: Run) -> None:
    with pytest.raises(UsageError, match="NUL"):
        held.cancel("a\0b")
    assert held.status == "pending"


def test_waiting_says_when_nobody_works(held: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TimeoutError):
        held.wait(0.01)
    assert capsys.readouterr().out == f"run {held.id} waits, no engine alive: bench.work()\n"


@pytest.mark.parametrize("timeout", [0, 0.05, 0.3])
def test_a_timeout_leaves_the_run_alone(held: Run, timeout: float) -> None:
    for wait in (held.wait, held.result, held.exception):
        with pytest.raises(
            TimeoutError, match=f"run {held.id} is still pending after {timeout:g} s; it goes on"
        ):
            wait(timeout)
    assert not held.done()


def test_waiting_for_what_has_ended_takes_no_time(completed: Run) -> None:
    assert completed.wait(0) is completed
    assert completed.result(0)["row_count"] == 1


def test_a_wait_returns_when_another_engine_ends_the_run(db: Database, open_bench: Connect) -> None:
    run = open_bench(engine=False).start("SELECT 1")
    other = wb.Bench(db.dsn)
    try:
        other.work()
        assert run.wait(15).status == "completed"
    finally:
        other.close()


def test_runs_are_equal_by_id(bench: Bench, completed: Run, failed: Run) -> None:
    assert bench.get(completed.id) == completed
    assert len({completed, bench.get(completed.id), failed}) == 2
    assert completed != completed.id
    assert repr(completed) == f"<Run {completed.id} completed>"


def test_a_beginning_of_an_id_is_enough(bench: Bench, held: Run) -> None:
    assert bench.get(held.id[:5]) == held
    assert bench.get(f" {held.id.upper()} ") == held
    assert bench.get(held) is held


def test_an_ambiguous_beginning_lists_the_runs(bench: Bench) -> None:
    bench.hold()
    runs: dict[str, Run] = {}
    while True:  # 17 runs share a first digit
        run = bench.start("SELECT 1", label=f"run {len(runs)}")
        if (other := runs.get(run.id[0])) is not None:
            break
        runs[run.id[0]] = run
    with pytest.raises(NotFound, match="begins the ids of several runs; add digits") as refused:
        bench.get(run.id[0])
    assert run.id in str(refused.value)
    assert other.id in str(refused.value)


@pytest.mark.parametrize("text", ["", "zz", "0123456789", "%", "'"])
def test_what_cannot_be_an_id_is_not_found(bench: Bench, text: str) -> None:
    with pytest.raises(NotFound, match="is no run's id"):
        bench.get(text)


@pytest.mark.parametrize("given", [None, 7, b"ab"])
def test_what_is_no_id_at_all_is_refused(bench: Bench, given: object) -> None:
    with pytest.raises(UsageError, match=r"a Run or an id"):
        bench.get(given)  # type: ignore[arg-type]


def test_a_run_that_is_not_there_is_not_found(bench: Bench, held: Run) -> None:
    missing = f"{(int(held.id, 16) + 1) % 2**32:08x}"
    with pytest.raises(NotFound, match=f"no run '{missing}' in this database"):
        bench.get(missing)


def test_a_running_run_is_cancelled_while_somebody_waits(db: Database, bench: Bench) -> None:
    run = bench.start("SELECT pg_sleep(600)")
    db.wait_running(run.id)
    run.cancel("enough")
    with pytest.raises(RunCancelled, match="enough"):
        run.result(timeout=10)
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    wait_until(lambda: db.value(sleeping) == 0)


def test_a_missing_handler_is_named_while_waiting(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    run = bench.start(py("nowhere_at_all:fetch"))
    with pytest.raises(TimeoutError, match="no live engine has the handler nowhere_at_all:fetch"):
        run.wait(timedelta(seconds=8))
    assert "run the cell that defines it" in capsys.readouterr().out
    assert "nowhere_at_all:fetch" in str(run.view())


def test_a_misspelt_name_in_a_failed_statement_is_guessed(bench: Bench) -> None:
    graph = sql("SELECT 1 AS a").named("numbers") >> sql("SELECT $nubmers.a")
    assert "Did you mean 'numbers'?" in str(bench.start(graph).exception())


@pytest.mark.parametrize("timeout", ["5", True, math.nan])
def test_a_timeout_that_is_no_length_of_time_is_refused(held: Run, timeout: Any) -> None:
    with pytest.raises(UsageError, match="timeout takes seconds or a timedelta"):
        held.wait(timeout)
