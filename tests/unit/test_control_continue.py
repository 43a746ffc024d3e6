"""`on_failure => 'continue'`: a failure abandons the rest of the innermost loop's iteration."""

from __future__ import annotations

from tests.unit.playing import (
    CONTINUE,
    FALSE,
    TRUE,
    at,
    end,
    message,
    no,
    ok,
    play,
    result,
    started,
    statuses,
    tried,
)
from workbench.engine.model import IterationEnd
from workbench.engine.policy import Policy
from workbench.engine.simulate import Crashes, Fails, Outcome
from workbench.graph import break_, if_, join, loop, race, seq, sql


def test_the_rest_of_the_iteration_and_the_condition_are_left_out() -> None:
    graph = loop(seq("a", "b"), while_="c")
    simulation = play(graph, CONTINUE, a=[no(), ok(1), no(), ok(2)], c=[TRUE, FALSE])
    assert simulation.status == "completed"
    assert tried(simulation) == [
        ("a", 0), ("a", 1), ("b", 1), ("c", 1), ("a", 2), ("a", 3), ("b", 3), ("c", 3),
    ]  # fmt: skip


def test_without_a_loop_the_run_fails() -> None:
    assert play(seq("a", "b"), CONTINUE, a=no("broken")).status == "failed"
    assert play(seq(loop("a", while_="c"), "b"), CONTINUE, b=no(), c=FALSE).status == "failed"


def test_attempts_are_spent_before_an_iteration_is_abandoned() -> None:
    policy = Policy(max_attempts=2, on_failure="continue")
    simulation = play(loop("a", while_="c"), policy, a=[no(), no(), ok(1)], c=FALSE)
    assert [(row.number, row.outcome) for row in simulation.attempts] == [
        (1, "failed"), (2, "failed"), (1, "completed"), (1, "completed"),
    ]  # fmt: skip


def test_a_permanent_error_counts_as_attempts_spent() -> None:
    policy = Policy(max_attempts=9, on_failure="continue")
    never = Fails({"type": "StepError", "message": "never", "permanent": True})
    simulation = play(loop("a", while_="c"), policy, a=[never, ok(1)], c=FALSE)
    assert tried(simulation) == [("a", 0), ("a", 1), ("c", 1)]


def test_at_least_a_second_passes_after_an_abandoned_iteration_whatever_the_interval() -> None:
    graph = loop("a", while_="c", min_interval=0)
    simulation = play(graph, CONTINUE, a=[no(after=5), no(after=0), ok(1)], c=FALSE)
    assert tried(simulation) == [("a", 0), ("a", 6), ("a", 7), ("c", 7)]


def test_a_longer_interval_is_kept_from_start_to_start() -> None:
    graph = loop("a", while_="c", min_interval=10)
    simulation = play(graph, CONTINUE, a=[no(after=2), no(after=9.5), ok(1)], c=FALSE)
    assert tried(simulation) == [("a", 0), ("a", 10), ("a", 20.5), ("c", 20.5)]


def test_iterations_abandoned_one_after_the_other_are_counted() -> None:
    simulation = started(loop("a"), CONTINUE)
    counts: list[int] = []
    outcomes: list[Outcome] = [no(), no(), no(), ok(1), no()]
    for outcome in outcomes:
        end(simulation, "a", outcome)
        counts.append(simulation.run.nodes[0].abandoned)
        simulation.advance()
    assert counts == [1, 2, 3, 0, 1]


def test_a_loop_that_ends_well_has_nothing_abandoned_at_its_end() -> None:
    simulation = play(loop("a", while_="c"), CONTINUE, a=[no(), ok(1)], c=FALSE)
    assert simulation.run.nodes[0].abandoned == 0


def test_the_error_stands_at_the_loop_until_the_next_iteration() -> None:
    simulation = started(loop("a"), CONTINUE)
    decision = end(simulation, "a", no("today"))
    error = {"type": "ValueError", "message": "today", "node": 1, "attempt": 1}
    assert simulation.run.nodes[0].error == error
    assert decision.iterations == [IterationEnd(0, 1, 1, at(0), error)]
    assert decision.error is None
    simulation.advance()
    assert simulation.run.nodes[0].error is None


def test_a_failing_condition_abandons_the_iteration_too() -> None:
    simulation = play(loop("a", while_="c"), CONTINUE, c=[no(), no(), FALSE])
    assert simulation.status == "completed"
    assert tried(simulation) == [
        ("a", 0), ("c", 0), ("a", 1), ("c", 1), ("a", 2), ("c", 2),
    ]  # fmt: skip


def test_the_innermost_loop_goes_on_and_the_outer_one_learns_nothing() -> None:
    graph = loop(seq(loop("a", while_="c"), "b"), while_="d")
    simulation = play(graph, CONTINUE, a=[no(), ok(1)], c=FALSE, d=FALSE)
    assert [text for text, _ in tried(simulation)] == [*"aac", "b", "d"]


def test_a_failure_beside_an_inner_loop_abandons_the_outer_iteration() -> None:
    graph = loop(seq(loop("a", while_="c"), "b"), while_="d")
    simulation = play(graph, CONTINUE, b=[no(), ok(1)], c=FALSE, d=FALSE)
    assert [text for text, _ in tried(simulation)] == [*"acb", *"acb", "d"]


def test_a_join_first_waits_for_its_other_branches() -> None:
    graph = loop(join("a", "b"), while_="c")
    simulation = play(graph, CONTINUE, a=[no(), ok(1)], b=ok(2, 5), c=FALSE)
    assert tried(simulation) == [("a", 0), ("b", 0), ("a", 6), ("b", 6), ("c", 11)]


def test_the_error_of_an_abandoned_join_names_the_branch() -> None:
    simulation = started(loop(join("a", "b")), CONTINUE)
    end(simulation, "a")
    decision = end(simulation, "b", no("of b"))
    [abandoned] = decision.iterations
    assert abandoned.error is not None
    assert abandoned.error["message"] == "JOIN branch 2 failed: of b"


def test_a_race_won_by_a_failure_abandons_and_cancels_the_other() -> None:
    graph = loop(race("a", "b"), while_="c")
    simulation = play(graph, CONTINUE, a=[no(), ok("a")], b=ok("b", 5), c=FALSE)
    assert result(simulation) == "a"
    assert [row.outcome for row in simulation.attempts] == [
        "failed", "cancelled", "completed", "cancelled", "completed",
    ]  # fmt: skip


def test_a_break_outside_of_the_loops_still_fails_the_run() -> None:
    simulation = play(seq(loop("a", while_="c"), break_(1)), CONTINUE, c=FALSE)
    assert message(simulation).startswith("df.break() was called outside of a loop.")


def test_a_step_that_kills_its_worker_abandons_the_iteration_when_its_losses_are_spent() -> None:
    crashes = [Crashes("killed")] * 3
    simulation = play(loop("a", while_="c"), CONTINUE, a=[*crashes, ok(1)], c=FALSE)
    assert simulation.status == "completed"
    assert [row.outcome for row in simulation.attempts] == [
        "worker_lost", "worker_lost", "worker_lost", "completed", "completed",
    ]  # fmt: skip


def test_an_abandoned_iteration_leaves_nothing_alive_while_the_loop_waits() -> None:
    simulation = started(loop(seq(if_("c", "a", "b"), "d")), CONTINUE)
    end(simulation, "c", TRUE)
    end(simulation, "a", no())
    assert (simulation.ready, simulation.running) == ([], {})
    assert statuses(simulation) == [
        "waiting", "failed", "failed", "failed", "skipped", "completed", "pending",
    ]  # fmt: skip


def test_an_abandoned_iteration_keeps_the_name_given_before_the_failure() -> None:
    graph = seq("z", loop(seq(sql("a").named("x"), sql("b").named("y")), while_="c"))
    simulation = started(graph, CONTINUE)
    end(simulation, "z")
    end(simulation, "a", ok(1))
    end(simulation, "b", no())
    assert simulation.names["x"].json == "1"
