"""LOOP: body first, then the condition; pace from start to start; how it ends and what it leaves."""

from __future__ import annotations

import pytest

from tests.unit.playing import (
    FALSE,
    TRUE,
    at,
    end,
    message,
    no,
    ok,
    play,
    result,
    seconds,
    started,
    statuses,
    tried,
)
from workbench.engine.model import Decision, IterationEnd, Wake
from workbench.engine.policy import Policy
from workbench.engine.simulate import Outcome, Simulation, Succeeds
from workbench.graph import Node, break_, if_, join, loop, race, seq, sleep

# How it ends.


def test_the_body_runs_before_the_condition_is_asked() -> None:
    simulation = play(loop("a", while_="c"), c=FALSE)
    assert tried(simulation) == [("a", 0), ("c", 0)]


def test_a_while_loop_goes_on_as_long_as_its_condition_is_true() -> None:
    simulation = play(loop("a", while_="c"), a=[ok(1), ok(2), ok(3)], c=[TRUE, TRUE, FALSE])
    assert result(simulation) == 3
    assert [text for text, _ in tried(simulation)] == ["a", "c"] * 3


def test_an_until_loop_goes_on_as_long_as_its_condition_is_false() -> None:
    simulation = play(loop("a", until="c"), a=[ok(1), ok(2), ok(3)], c=[FALSE, FALSE, TRUE])
    assert result(simulation) == 3
    assert [text for text, _ in tried(simulation)] == ["a", "c"] * 3


def test_a_loop_without_condition_ends_by_a_break_only() -> None:
    graph = loop(if_("c", break_("enough"), "a"))
    simulation = play(graph, c=[FALSE] * 20 + [TRUE])
    assert (result(simulation), len(tried(simulation))) == ("enough", 41)


def test_the_value_is_that_of_the_last_body_not_of_the_condition() -> None:
    assert result(play(loop(seq("a", "b"), while_="c"), b=ok([1]), c=ok(0))) == [1]


@pytest.mark.parametrize(
    "body",
    [
        break_("out"),
        seq("a", break_("out"), "never"),
        if_("a", break_("out"), "never"),
        if_(break_("out"), "never", "never"),
        join("a", seq("b", break_("out"))),
        race(seq(sleep(5), "never"), seq("a", break_("out"))),
        seq(if_("a", join("b", race(sleep(5), break_("out"))), "never"), "never"),
    ],
)
def test_a_break_ends_the_loop_from_anywhere_inside(body: Node) -> None:
    simulation = play(seq(loop(body), "after").named("x"))
    assert simulation.status == "completed"
    assert "never" not in [text for text, _ in tried(simulation)]
    assert tried(simulation)[-1][0] == "after"
    assert "out" in [value.json.strip('"') for value in simulation.values.values()]


def test_a_break_ends_the_loop_from_its_condition() -> None:
    assert result(play(loop("a", while_=break_("out")))) == "out"
    assert result(play(loop("a", while_=seq("b", break_("out"))))) == "out"


def test_a_break_ends_the_innermost_loop_only() -> None:
    simulation = play(loop(seq(loop(break_("inner")), "a"), while_="c"), c=[TRUE, FALSE])
    assert (result(simulation), tried(simulation)) == (
        "a",
        [("a", 0), ("c", 0), ("a", 1), ("c", 1)],
    )


def test_a_failing_body_fails_the_loop() -> None:
    simulation = play(loop(seq("a", "b"), while_="c"), a=[ok(1), no("second time")])
    assert (simulation.status, message(simulation)) == ("failed", "second time")


def test_a_failing_condition_fails_the_loop() -> None:
    simulation = play(loop("a", while_="c"), c=no("no answer"))
    assert (simulation.status, message(simulation)) == ("failed", "no answer")
    assert statuses(simulation) == ["failed", "completed", "failed"]


def test_prefix_once_body_often_suffix_once() -> None:
    simulation = play(seq("a", loop("b", while_="c"), "d"), c=[TRUE, TRUE, FALSE])
    assert [text for text, _ in tried(simulation)] == ["a", *["b", "c"] * 3, "d"]


def test_an_inner_loop_runs_anew_in_each_outer_iteration() -> None:
    graph = loop(loop("a", while_="c"), while_="d")
    simulation = play(graph, c=[TRUE, FALSE, TRUE, FALSE], d=[TRUE, FALSE])
    assert [text for text, _ in tried(simulation)] == [*"acac", "d", *"acac", "d"]
    assert simulation.run.nodes[1].iteration == 2


def test_loops_side_by_side_go_at_their_own_pace() -> None:
    graph = join(loop("a", while_="c"), loop("b", while_="d", min_interval=10))
    simulation = play(graph, c=[TRUE] * 4 + [FALSE], d=[TRUE, FALSE])
    times = tried(simulation)
    assert [t for text, t in times if text == "a"] == [0, 1, 2, 3, 4]
    assert [t for text, t in times if text == "b"] == [0, 10]
    assert result(simulation) == ["a", "b"]


# Pace.


def starts(interval: object, body: float, times: int = 4) -> list[float]:
    graph = loop("a", while_="c", min_interval=interval)
    simulation = play(graph, a=ok(1, body), c=[TRUE] * (times - 1) + [FALSE])
    return [start for text, start in tried(simulation) if text == "a"]


def test_a_second_passes_from_start_to_start_unless_the_loop_says_otherwise() -> None:
    assert starts(1, 0.25) == [0, 1, 2, 3]
    assert starts("1 minute", 0.25) == [0, 60, 120, 180]
    assert starts(0.5, 0.25) == [0, 0.5, 1, 1.5]


def test_an_iteration_that_took_longer_is_followed_at_once() -> None:
    assert starts(1, 2.5) == [0, 2.5, 5, 7.5]


def test_without_an_interval_iterations_follow_each_other_at_once() -> None:
    assert starts(0, 0.25) == [0, 0.25, 0.5, 0.75]
    assert starts(0, 0) == [0, 0, 0, 0]


def test_there_is_no_wait_after_the_last_iteration() -> None:
    simulation = play(loop("a", while_="c", min_interval=60), c=[TRUE, FALSE])
    assert seconds(simulation) == 60


def test_an_iteration_that_took_longer_ends_in_the_transition_that_begins_the_next() -> None:
    simulation = started(loop("a"))
    simulation.advance(at(0))
    claimed = simulation.claim(1)
    simulation.advance(at(5))
    decision = simulation.report(ok(1).event(1, claimed.token))
    assert decision.ready == [1]
    assert (simulation.run.nodes[0].status, simulation.run.nodes[0].iteration) == ("running", 2)
    assert simulation.run.nodes[0].started_at == at(5)


def test_an_iteration_that_took_no_time_never_begins_another_in_its_own_transition() -> None:
    """Else a loop of nothing would never let go of its transition."""
    simulation = started(loop(seq("a", sleep(0)), min_interval=0))
    end(simulation, "a")
    simulation.report(Wake())
    assert statuses(simulation)[0] == "waiting"
    assert simulation.next_due == at(0)


def test_between_iterations_a_loop_waits_as_a_row_with_its_time() -> None:
    simulation = started(loop("a", min_interval=30))
    decision = end(simulation, "a", ok(1))
    assert decision.wake_at == at(30)
    state = simulation.run.nodes[0]
    assert (state.status, state.ready_at, state.iteration) == ("waiting", at(30), 1)


def test_after_downtime_a_loop_goes_on_once_and_not_once_for_each_interval_missed() -> None:
    simulation = started(loop("a", min_interval=10))
    end(simulation, "a")
    simulation.advance(at(1000))
    assert simulation.run.nodes[0].iteration == 2
    end(simulation, "a")
    assert simulation.next_due == at(1010)


def test_waking_twice_begins_one_iteration() -> None:
    simulation = started(loop("a"))
    end(simulation, "a")
    simulation.advance(at(1))
    version = simulation.run.version
    assert simulation.report(Wake()) == Decision(version + 1, "running", at(1), woken=True)
    assert simulation.run.nodes[0].iteration == 2


# What it leaves.


def test_the_loops_value_is_the_last_bodys_while_the_condition_runs() -> None:
    simulation = started(loop(seq("a", "b"), while_="c"))
    end(simulation, "a")
    assert simulation.run.nodes[0].result_node is None
    end(simulation, "b")
    assert simulation.run.nodes[0].result_node == 3


def test_the_next_iteration_finds_every_node_of_body_and_condition_as_new() -> None:
    simulation = started(loop(seq("a", "b"), while_=if_("c", "d", "e")))
    for text in "ab":
        end(simulation, text)
    end(simulation, "c", TRUE)
    end(simulation, "d", TRUE)
    simulation.advance()
    loop_, body, first, *others = simulation.run.nodes
    assert (loop_.iteration, body.status, first.status) == (2, "running", "ready")
    assert (first.attempt, first.started_at, first.result_node) == (0, None, None)
    assert [state.status for state in others] == ["pending"] * 5
    assert {state.rev for state in simulation.run.nodes} == {simulation.run.version}


def test_iterations_that_another_one_follows_are_told() -> None:
    simulation = started(loop("a", while_="c"))
    end(simulation, "a")
    first = end(simulation, "c", TRUE)
    simulation.advance(at(1))
    end(simulation, "a")
    last = end(simulation, "c", FALSE)
    assert first.iterations == [IterationEnd(0, 2, 1, at(0))]
    assert last.iterations == []


def test_attempts_begin_anew_in_each_iteration() -> None:
    graph = loop("a", while_="c")
    outcomes: list[Outcome] = [no(), ok(1), no(), no(), ok(2)]
    simulation = play(graph, Policy(max_attempts=3), a=outcomes, c=[TRUE, FALSE])
    assert [row.number for row in simulation.attempts if row.node == 1] == [1, 2, 1, 2, 3]


def test_many_iterations_leave_the_run_no_larger() -> None:
    simulation = Simulation.of(loop("a", while_="c"))
    left = iter(range(2000))
    simulation.run_to_end(lambda each: Succeeds("true" if next(left) < 1990 else "false"))
    assert simulation.run.nodes[0].iteration > 900
    assert (len(simulation.run.nodes), simulation.run.timers, simulation.names) == (3, [], {})
