"""RACE: the first branch to end decides, also by failing; the other one is cancelled."""

from __future__ import annotations

import pytest

from tests.unit.playing import (
    Script,
    at,
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
from workbench.engine.model import Start
from workbench.engine.policy import Policy
from workbench.engine.simulate import Attempt, Simulation
from workbench.graph import break_, join, loop, race, seq, sleep, sql, wait_for_signal


def test_the_first_branch_to_end_wins_and_gives_the_value() -> None:
    simulation = play(race("a", "b"), a=ok("slow", 5), b=ok("fast", 2))
    assert (result(simulation), seconds(simulation)) == ("fast", 2)
    assert simulation.run.nodes[0].result_node == 2


@pytest.mark.parametrize(("loser", "winner", "side"), [("a", "b", "right"), ("b", "a", "left")])
def test_the_first_branch_to_end_wins_also_when_it_ends_by_failing(
    loser: str, winner: str, side: str
) -> None:
    outcomes: dict[str, Script] = {loser: ok(1, 5), winner: no("too bad", 2)}
    simulation = play(race("a", "b"), Policy(), **outcomes)
    assert simulation.status == "failed"
    assert message(simulation) == f"RACE {side} branch failed: too bad"


def test_of_branches_that_end_together_the_left_one_wins() -> None:
    assert result(play(race("a", "b"), a=ok("left", 2), b=ok("right", 2))) == "left"
    assert result(play(race(sleep(2), seq(sleep(2), "b")))) == {"slept": True, "seconds": 2}
    assert result(play(race(sleep(2), sleep(2.0)).named("x"))) == {"slept": True, "seconds": 2}


def test_a_running_loser_is_cancelled_with_its_attempt() -> None:
    simulation = started(race("a", "b"))
    lost = claim(simulation, "a")
    simulation.advance(at(3))
    end(simulation, "b")
    assert statuses(simulation) == ["completed", "cancelled", "completed"]
    assert simulation.attempts[1] == Attempt(1, 1, at(0), at(3), "cancelled", lost.token)
    assert simulation.running == {}


def test_the_late_report_of_a_loser_is_refused() -> None:
    simulation = started(seq(race("a", "b"), "c"))
    lost = claim(simulation, "a")
    end(simulation, "b")
    assert simulation.report(report_of(lost)).refused
    assert simulation.status == "running"


def test_what_a_loser_had_not_begun_is_skipped_and_what_it_completed_stays() -> None:
    simulation = started(race(seq("a", "b", "c"), "d"))
    end(simulation, "a")
    end(simulation, "d")
    # RACE, THEN, THEN, a, b (which was ready), c, d
    assert statuses(simulation) == [
        "completed", "cancelled", "cancelled", "completed", "cancelled", "skipped", "completed",
    ]  # fmt: skip


def test_a_losers_timers_and_waits_go_away() -> None:
    simulation = started(race(join(sleep(60), wait_for_signal("s", 90)), "b"))
    assert [node for _, node in simulation.run.timers] == [2, 3]
    end(simulation, "b")
    assert simulation.run.timers == []
    assert statuses(simulation) == [
        "completed", "cancelled", "cancelled", "cancelled", "completed",
    ]  # fmt: skip


def test_a_loser_that_waits_for_its_retry_is_not_tried_again() -> None:
    simulation = play(race("a", "b"), Policy(max_attempts=9), a=no(), b=ok(1, 2.5))
    assert tried(simulation) == [("a", 0), ("a", 1), ("b", 0)]


def test_a_losing_loop_does_not_go_on() -> None:
    simulation = play(race(loop("a"), "b"), b=ok("done", 2.5))
    assert [text for text, _ in tried(simulation)] == ["a", "a", "a", "b"]
    assert statuses(simulation) == ["completed", "cancelled", "completed", "completed"]


def test_a_break_in_the_winning_branch_leaves_the_loop() -> None:
    simulation = play(loop(seq(race(seq("a", break_("out")), "b"), "never")), b=ok(1, 5))
    assert (result(simulation), seconds(simulation)) == ("out", 0)
    assert ("never", 0) not in tried(simulation)


def test_a_break_in_a_losing_branch_is_ignored() -> None:
    graph = loop(race("a", seq("b", break_("out"))), while_="c")
    assert result(play(graph, a=ok("won", 1), b=ok(1, 5), c=ok(False))) == "won"


def test_a_break_that_is_a_branch_itself_wins_before_the_others_begin() -> None:
    simulation = play(loop(race(break_("out"), "b")))
    assert (result(simulation), tried(simulation)) == ("out", [])
    assert statuses(simulation) == ["completed", "completed", "completed", "skipped"]


def test_a_break_on_the_right_wins_over_what_began_on_the_left_in_the_same_moment() -> None:
    simulation = Simulation.of(loop(race("a", break_("out"))))
    decision = simulation.report(Start())
    assert (decision.status, decision.ready) == ("completed", [])
    assert statuses(simulation) == ["completed", "completed", "cancelled", "completed"]


def test_of_three_the_first_to_end_wins() -> None:
    simulation = play(race("a", "b", "c"), a=ok(1, 3), b=ok(2, 1), c=ok(3, 2))
    assert result(simulation) == 2


def test_a_race_may_have_a_join_in_it_that_fails_before_it_ends() -> None:
    simulation = play(race(join("a", "b"), "c"), a=no("early", 1), b=ok(1, 9), c=ok("c", 5))
    assert result(simulation) == "c"


def test_two_ends_in_one_transition_have_one_winner() -> None:
    simulation = started(sql("a") | "b")
    a, b = claim(simulation, "a"), claim(simulation, "b")
    first = decide(simulation.run, report_of(a, ok(1)), simulation.now)
    assert decide(simulation.run, report_of(b, no()), simulation.now, after=first).refused
    assert (first.status, [row.outcome for row in first.attempts]) == (
        "completed",
        ["completed", "cancelled"],
    )
