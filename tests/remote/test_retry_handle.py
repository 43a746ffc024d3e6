"""Retry, resume, lineages and failures from a bench; attempts that are executed once more."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.support import Database
from tests.remote import retry_handlers as handlers
from tests.remote.conftest import Connect, MakeRole
from workbench.bench import Bench
from workbench.errors import DatabaseError, GraphError, NotFound, StateError, UsageError
from workbench.graph import loop, py, ref, seq, sql
from workbench.graph.node import Node
from workbench.run import Run

ROWS = sql("SELECT n FROM generate_series(1, 2) AS n").named("numbers")


@pytest.fixture(autouse=True)
def _fresh_handlers() -> Iterator[None]:
    handlers.calls.clear()
    handlers.mended = False
    yield
    handlers.mended = False


def graph() -> Node:
    return seq(
        ROWS,
        py(handlers.doubled, rows=ref("numbers")).named("doubled"),
        sql("SELECT sum(n) AS total FROM $doubled.*"),
    )


@pytest.fixture
def failed(bench: Bench) -> Run:
    return bench.start(graph(), label="prices", input={"day": 1}).wait(20)


def test_a_retry_is_a_new_run_of_the_same_and_completes_when_mended(
    bench: Bench, failed: Run
) -> None:
    handlers.mended = True
    again = failed.retry()
    assert again.result(timeout=20) == {"rows": [{"total": 6}], "row_count": 1}
    assert (again.id != failed.id, again.label, again.input) == (True, "prices", {"day": 1})
    assert (failed.status, again.definition == failed.definition) == ("failed", True)


def test_a_resumed_run_takes_over_what_had_succeeded(bench: Bench, failed: Run) -> None:
    assert failed.resume_plan().df["what"].tolist() == ["reused", "runs", "runs"]
    handlers.mended = True
    again = failed.resume().wait(20)
    assert again.status == "completed"
    assert [(n.result_name, n.reused_run) for n in again.nodes if n.result_name] == [
        ("numbers", failed.id),
        ("doubled", None),
    ]
    assert [a.node_id for a in again.attempts] == [3, 4]
    picture = str(again.view())
    assert f"reused from {failed.id}" in picture
    assert f"resumed from <b>{failed.id}</b>" in again.view().html()


def test_a_repaired_graph_is_resumed_up_to_the_first_difference(bench: Bench, failed: Run) -> None:
    repaired = seq(ROWS, sql("SELECT sum(n) AS total FROM $numbers.*"))
    plan = failed.resume_plan(repaired)
    assert plan.df[["what", "reused_node"]].fillna(-1).to_numpy().tolist() == [
        ["reused", 2],
        ["runs", -1],
    ]
    assert "reused from #2" in str(plan)
    assert "reused from #2" in plan.html()
    assert failed.resume(repaired).result(timeout=20)["rows"] == [{"total": 3}]
    with pytest.raises(GraphError):
        failed.resume(py(handlers.doubled, rows=ref("nothing")))


def test_what_has_not_failed_is_refused(bench: Bench) -> None:
    done = bench.start("SELECT 1").wait(20)
    for act in (done.retry, done.resume, done.resume_plan):
        with pytest.raises(StateError, match=r"is completed, and only a failed run"):
            act()
    assert len(bench.runs().rows) == 1


def test_an_unknown_run_is_not_found(bench: Bench, failed: Run) -> None:
    gone = Run("00000000", failed._database, bench)
    for act in (gone.retry, gone.resume, gone.lineage, gone.diff):
        with pytest.raises(NotFound, match="no run '00000000'"):
            act()


def test_another_roles_run_is_not_retried(
    open_bench: Connect, failed: Run, make_role: MakeRole, dsn: str, bench: Bench
) -> None:
    other = make_role(dsn)
    name = other.split("user=")[1].split()[0]
    bench.grant(name)
    role = open_bench(other)
    theirs = role.start(sql("SELECT 1 / 0")).wait(20)
    with pytest.raises(DatabaseError, match="only that role can retry it"):
        bench.get(theirs.id).retry()


def test_a_held_bench_stores_a_retry_and_starts_no_engine(bench: Bench, failed: Run) -> None:
    bench.hold()
    again = failed.retry()
    assert (again.status, bench.status().engine) == ("pending", None)


def test_retry_works_inside_a_running_loop(bench: Bench, failed: Run) -> None:
    handlers.mended = True

    async def retried() -> Any:
        return await failed.retry()

    assert asyncio.run(retried())["rows"] == [{"total": 6}]


def test_the_lineage_is_the_same_from_each_member(bench: Bench, failed: Run) -> None:
    again = failed.retry().wait(20)
    handlers.mended = True
    last = again.resume().wait(20)
    view = last.lineage()
    frame = view.df
    assert frame.index.tolist() == [failed.id, again.id, last.id]
    assert frame["kind"].tolist() == ["start", "retry", "resume"]
    assert frame["status"].tolist() == ["failed", "failed", "completed"]
    assert frame["depth"].tolist() == [0, 1, 2]
    assert frame["is_current"].tolist() == [False, False, True]
    assert "LookupError: no price for 1" in frame["error"].iloc[0]
    assert bench.lineage(failed.id[:6]).df.index.tolist() == frame.index.tolist()
    assert "← this run" in str(view)


def test_failures_are_unresolved_until_a_descendant_completes(bench: Bench, failed: Run) -> None:
    again = failed.retry().wait(20)
    frame = bench.unresolved_failures("1 hour").df
    assert frame.index.tolist() == [again.id, failed.id]
    assert frame.loc[failed.id, "newest_retry"] == again.id
    handlers.mended = True
    again.retry().wait(20)
    assert bench.unresolved_failures().df.empty


def test_failures_are_grouped_and_open_an_example(bench: Bench, failed: Run) -> None:
    failed.retry().wait(20)
    view = bench.failures()
    assert view.df[["node", "code", "attempts", "runs"]].to_numpy().tolist() == [
        ["doubled", "LookupError", 2, 2]
    ]
    attempt = view.attempt(view.df.index[0][:4])
    assert (attempt.node_id, attempt.outcome) == (3, "failed")
    assert view.attempt(0) == attempt
    assert "LookupError" in view.html()
    with pytest.raises(NotFound, match="is not one of these 1 failure"):
        view.attempt("zzz")
    with pytest.raises(UsageError):
        bench.failures("soon")


def test_runs_are_compared_with_their_source_and_with_any_other(bench: Bench, failed: Run) -> None:
    other = bench.start("SELECT 1", max_attempts=4).wait(20)
    assert failed.diff().df.empty
    found = failed.diff(other).df
    assert ["policy", "max_attempts", "4", "1"] in found.to_numpy().tolist()
    assert "policy max_attempts: 4 → 1" in str(failed.diff(other.id))


def test_an_attempt_has_the_statement_that_was_executed(bench: Bench) -> None:
    run = bench.start(
        seq(sql("SELECT 7 AS n").named("x"), sql("SELECT $x AS n,\n\t1 +  nothing FROM pg_class"))
    ).wait(20)
    attempt = run.failure
    assert attempt is not None
    assert attempt.sql == "SELECT 7 AS n,\n\t1 +  nothing FROM pg_class"
    assert (attempt.request, attempt.input) == (None, None)
    assert "\t1 +  nothing FROM pg_class\n\t     ^\n" in str(attempt.view())
    assert run.attempts[0].sql == "SELECT 7 AS n"
    with pytest.raises(StateError, match="SQL step, and only a handler can be called again"):
        attempt.rerun()


def test_a_rerun_calls_the_handler_with_the_stored_input_and_touches_no_run(
    bench: Bench, failed: Run
) -> None:
    attempt = failed.failure
    assert attempt is not None
    assert attempt.input == {"rows": [{"n": 1}, {"n": 2}]}
    handlers.mended = True
    assert attempt.rerun() == [{"n": 2}, {"n": 4}]
    assert handlers.calls == [[{"n": 1}, {"n": 2}]] * 2
    assert (failed.status, len(failed.attempts)) == ("failed", 2)


def test_what_a_rerun_raises_ends_in_the_handler(bench: Bench, failed: Run) -> None:
    attempt = failed.failure
    assert attempt is not None
    with pytest.raises(LookupError, match="no price for 1") as raised:
        attempt.rerun()
    assert traceback.extract_tb(raised.tb)[-1].name == "doubled"


def test_a_rerun_gives_frames_their_types(bench: Bench) -> None:
    rows = sql("SELECT 1 AS n, now() AS at, 1.5::numeric AS price").named("rows")
    run = bench.start(rows >> py(handlers.typed, frame=ref("rows"))).wait(20)
    attempt = run.failure
    assert attempt is not None
    with pytest.raises(LookupError):
        attempt.rerun()
    assert handlers.calls[0] == handlers.calls[1]
    assert handlers.calls[0]["price"] == "float64"


def test_coroutines_are_rerun_also_inside_a_loop(bench: Bench) -> None:
    attempt = bench.start(py(handlers.later, value=41)).wait(20).failure
    assert attempt is not None
    handlers.mended = True
    assert attempt.rerun() == 42

    async def cell() -> Any:
        return attempt.rerun()

    assert asyncio.run(cell()) == 42


def looped(size: int) -> Node:
    """Its handler fails in every iteration, each of which overwrites what it is given."""
    value = sql(f"SELECT repeat(nextval('counted')::text, {size}) AS v").named("v")
    step = value >> py(handlers.broken, value=ref("v")["v"])
    return loop(step, until="SELECT last_value >= 3 FROM counted", min_interval=0)


def test_what_a_later_iteration_overwrote_comes_from_the_attempts_own_copy(
    bench: Bench, db: Database
) -> None:
    db.execute("CREATE SEQUENCE counted")
    run = bench.start(looped(1), on_failure="continue")
    _wait_for_iterations(run, 3)
    attempts = [a for a in run.attempts if a.outcome == "failed"]
    assert [a.input for a in attempts[:2]] == [{"value": "1"}, {"value": "2"}]
    with pytest.raises(LookupError, match="broken by 1"):
        attempts[0].rerun()


def test_what_is_nowhere_any_more_is_said(bench: Bench, db: Database) -> None:
    db.execute("CREATE SEQUENCE counted")
    run = bench.start(looped(70_000), on_failure="continue")
    _wait_for_iterations(run, 3)
    attempt = next(a for a in run.attempts if a.outcome == "failed")
    with pytest.raises(StateError, match=r"\$v has been overwritten by a later iteration"):
        attempt.rerun()


def _wait_for_iterations(run: Run, number: int) -> None:
    from tests.engine.support import wait_until

    wait_until(lambda: sum(a.outcome == "failed" for a in run.attempts) >= number, 20)
    run.cancel()
