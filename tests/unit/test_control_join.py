"""JOIN: everything side by side, all of it awaited, the first branch in order decides."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from tests.unit.playing import (
    claim,
    end,
    message,
    no,
    ok,
    play,
    report_of,
    result,
    seconds,
    started,
    statuses,
    tried,
)
from workbench.engine.machine import decide
from workbench.engine.model import Completed, Start, Value
from workbench.engine.simulate import Simulation, Succeeds
from workbench.graph import break_, join, loop, seq, sleep, sql


def test_branches_begin_together_and_the_join_ends_with_the_last() -> None:
    simulation = play(join("a", "b", "c"), a=ok(1, 3), b=ok(2, 1), c=ok(3, 2))
    assert sorted(tried(simulation)) == [("a", 0), ("b", 0), ("c", 0)]
    assert seconds(simulation) == 3


def test_the_value_is_the_list_of_the_branches_values_in_their_order() -> None:
    simulation = play(join("a", "b", "c"), a=ok(1, 3), b=ok([2], 1), c=ok({"x": 3}, 2))
    assert result(simulation) == [1, [2], {"x": 3}]


def test_nested_joins_have_nested_values() -> None:
    assert result(play(sql("a") & "b" & "c")) == [["a", "b"], "c"]


def test_a_composite_branch_has_the_value_it_would_have_alone() -> None:
    assert result(play(join(seq("a", "b"), loop("c", while_="d")), d=ok(0))) == ["b", "c"]


def test_a_failing_branch_does_not_stop_the_others() -> None:
    simulation = started(join("a", seq("b", "c")))
    end(simulation, "a", no())
    assert simulation.status == "running"
    end(simulation, "b")
    assert end(simulation, "c").status == "failed"
    assert statuses(simulation) == ["failed", "failed", "completed", "completed", "completed"]


def test_the_first_failing_branch_in_order_gives_the_error_with_its_number() -> None:
    simulation = play(join("a", "b", "c"), b=no("of b", 9), c=no("of c", 1))
    assert simulation.status == "failed"
    assert message(simulation) == "JOIN branch 2 failed: of b"
    assert simulation.error is not None
    assert (simulation.error["type"], simulation.error["node"]) == ("ValueError", 2)


def test_nested_joins_prefix_from_the_outside_in() -> None:
    simulation = play(join("a", join("b", "c")), c=no("of c"))
    assert message(simulation) == "JOIN branch 2 failed: JOIN branch 2 failed: of c"


def test_a_break_in_a_branch_waits_for_the_others() -> None:
    simulation = play(loop(join(break_("out"), "b")), b=ok(1, 5))
    assert (result(simulation), seconds(simulation)) == ("out", 5)


def test_a_break_in_an_earlier_branch_beats_a_failure_in_a_later_one() -> None:
    simulation = play(loop(join("a", seq("b", break_("out")), "c")), c=no())
    assert (simulation.status, result(simulation)) == ("completed", "out")


def test_a_failure_in_an_earlier_branch_beats_a_break_in_a_later_one() -> None:
    simulation = play(loop(join("a", break_("out"))), a=no("first"))
    assert message(simulation) == "JOIN branch 1 failed: first"


def test_a_break_goes_through_nested_joins() -> None:
    simulation = play(loop(join("a", join("b", seq("c", break_(7))))))
    assert result(simulation) == 7
    assert statuses(simulation) == ["completed"] * 8


def test_what_comes_after_a_break_in_a_branch_is_skipped() -> None:
    simulation = play(loop(seq(join(seq(break_(1), "never"), "b"), "nor this")))
    assert [text for text, _ in tried(simulation)] == ["b"]


def test_a_broken_loop_inside_a_branch_is_no_break_of_the_join() -> None:
    simulation = play(loop(join(loop(break_("inner")), "b"), while_="c"), c=ok(0))
    assert result(simulation) == ["inner", "b"]


def test_what_is_left_by_a_break_is_completed_with_its_value() -> None:
    simulation = play(loop(join(break_("out"), "b")))
    assert statuses(simulation) == ["completed"] * 4
    # The loop and the join point at the BREAK.
    assert [state.result_node for state in simulation.run.nodes] == [2, 2, None, None]


def test_a_branch_may_wait_while_another_works() -> None:
    simulation = play(join(sleep(2), "b"), b=ok(1, 3))
    assert result(simulation) == [{"slept": True, "seconds": 2}, 1]
    assert seconds(simulation) == 3


def test_duplicate_reports_of_a_branch_do_not_count_twice() -> None:
    simulation = started(join("a", "b"))
    report = report_of(claim(simulation, "a"))
    simulation.report(report)
    assert simulation.report(report).refused
    assert simulation.run.ended == {0: 1}
    assert simulation.status == "running"


def test_two_branches_that_end_in_one_transition_end_the_join_once() -> None:
    simulation = started(join("a", "b").named("both"))
    a, b = claim(simulation, "a"), claim(simulation, "b")
    first = decide(simulation.run, Completed(a.node, a.token, Value("1")), simulation.now)
    second = Completed(b.node, b.token, Value("2"))
    both = decide(simulation.run, second, simulation.now, after=first)
    assert (both.status, both.gathered, both.version) == ("completed", {0: (1, 2)}, 2)


def operations(branches: int) -> int:
    """Calls inside the decider while a JOIN of so many branches runs."""
    graph = join(*["SELECT 1"] * branches)
    simulation = Simulation.of(graph)
    calls = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_globals["__name__"] in (
            "workbench.engine.machine",
            "workbench.engine.control",
            "workbench.engine.turn",
            "workbench.engine.model",
        )

    sys.setprofile(count)
    try:
        simulation.report(Start())
        for node in list(simulation.ready):
            simulation.report(report_of(simulation.claim(node), Succeeds()))
    finally:
        sys.setprofile(None)
    assert simulation.status == "completed"
    return calls


def test_the_work_for_a_join_grows_with_its_branches_and_not_with_their_square() -> None:
    assert operations(1000) == pytest.approx(4 * operations(250), rel=0.02)
