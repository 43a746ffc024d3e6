"""What `bench.simulate` tells: the attempts that a run would have, without a database."""

from __future__ import annotations

from typing import Any

import pandas
import pytest

from workbench import RetryAfter, loop, sleep, sql, wait_for_signal
from workbench.errors import UsageError
from workbench.graph.node import Node
from workbench.simulated import Crashes, Fails, Outcomes, Succeeds, checked_policy, simulate
from workbench.views.simulation_view import SimulationView, attempts_frame
from workbench.views.timeline_data import lines

FETCH = sql("SELECT 1").named("fetch")


def simulated(graph: Node, outcomes: Outcomes, most: int = 1000, **policy: Any) -> SimulationView:
    given: dict[str, Any] = {"max_attempts": 3, "max_backoff": 16, "on_failure": "fail"} | policy
    return simulate(graph, outcomes, checked_policy(**given), None, most)


def table(view: SimulationView) -> list[tuple[Any, ...]]:
    frame = view.df[["name", "attempt", "outcome", "started", "delay", "delay_source"]]
    return [
        tuple(None if pandas.isna(v) else v for v in row) for row in frame.itertuples(index=False)
    ]


def test_failing_twice_and_passing_waits_one_second_and_two() -> None:
    view = simulated(FETCH, {"fetch": [Fails(sqlstate="40001"), Fails(), Succeeds()]})
    assert view.status == "completed"
    assert table(view) == [
        ("fetch", 1, "failed", 0.0, 1.0, "backoff"),
        ("fetch", 2, "failed", 1.0, 2.0, "backoff"),
        ("fetch", 3, "completed", 3.0, None, None),
    ]
    waits = [s.word for line in lines(view.data) for s in line.spans if s.kind == "wait"]
    assert waits == ["backoff", "backoff"]


def test_an_error_that_no_retry_mends_fails_at_once() -> None:
    view = simulated(FETCH, {"#0": Fails(sqlstate="42P01", message="no such table")})
    assert view.status == "failed"
    assert view.error is not None
    assert view.error["message"] == "no such table"
    assert len(view.df) == 1


def test_a_delay_that_the_step_asks_for_is_exact() -> None:
    view = simulated(FETCH, {"fetch": [RetryAfter(30)]}, max_backoff=2)
    assert table(view)[0] == ("fetch", 1, "failed", 0.0, 30.0, "retry_after")
    assert table(view)[1][3] == 30.0


def test_a_crash_uses_up_no_attempt() -> None:
    view = simulated(FETCH, {"fetch": [Crashes(seconds=5), Succeeds(seconds=1)]})
    assert [row[1:3] for row in table(view)] == [(1, "worker_lost"), (1, "completed")]


def test_exceptions_are_failures() -> None:
    view = simulated(FETCH, {"fetch": ValueError("e1")}, max_attempts=1)
    assert view.error is not None
    assert (view.error["type"], view.error["message"]) == ("ValueError", "e1")


def test_waits_take_virtual_time_only_and_are_drawn() -> None:
    view = simulated(FETCH >> sleep(86400) >> sql("SELECT 2").named("last"), {})
    assert table(view)[-1][3] == 86400.0
    words = [s.word for line in lines(view.data) for s in line.spans]
    assert words == ["completed", "sleep", "completed"]


def test_a_wait_for_a_signal_leaves_it_running() -> None:
    view = simulated(FETCH >> wait_for_signal("go"), {})
    assert view.status == "running"


def test_a_loop_that_goes_on_is_cut_off_and_shows_its_iterations() -> None:
    body = sql("SELECT 1").named("tick")
    view = simulated(
        loop(body), {"tick": [Fails(sqlstate="42P01"), Succeeds()]}, most=20, on_failure="continue"
    )
    assert view.status == "running"
    iterations = [s.word for line in lines(view.data) for s in line.spans if s.kind == "iteration"]
    assert iterations[:2] == ["abandoned", "completed"]


def test_a_name_that_is_not_there_is_refused_with_a_guess() -> None:
    with pytest.raises(UsageError, match="did you mean 'fetch'\\? Its names: fetch"):
        simulated(FETCH, {"fetsh": Fails()})
    with pytest.raises(UsageError, match="no outcome"):
        simulated(FETCH, {"fetch": [None]})  # type: ignore[list-item]


@pytest.mark.parametrize(
    "policy",
    [{"max_attempts": 0}, {"max_backoff": 0}, {"on_failure": "ignore"}, {"max_attempts": True}],
)
def test_what_start_refuses_is_refused(policy: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        simulated(FETCH, {}, **policy)


def test_the_frame_has_fixed_columns_and_dtypes_also_when_it_is_empty() -> None:
    text = str(pandas.Series(["text"]).dtype)
    expected = {
        "node_id": "int64", "name": text, "attempt": "int64", "outcome": text, "started": "float64",
        "ended": "float64", "error": text, "sqlstate": text, "delay": "float64",
        "delay_source": text,
    }  # fmt: skip
    for data in (simulated(FETCH, {}).data, simulated(wait_for_signal("go"), {}).data):
        frame = attempts_frame(data)
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == expected
