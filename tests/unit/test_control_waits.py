"""SLEEP and WAIT_SCHEDULE: rows with a time. And what being due means, whoever wakes the run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.unit.playing import at, end, names, ok, play, result, seconds, started, statuses, tried
from workbench.engine.machine import decide
from workbench.engine.model import Decision, NodeState, Start, Value, Wake
from workbench.engine.simulate import Simulation
from workbench.graph import join, loop, race, seq, sleep, sql, wait_for_schedule


def test_a_sleep_is_a_row_with_its_end_and_no_claim() -> None:
    simulation = Simulation.of(sleep(90))
    decision = simulation.report(Start())
    assert decision.nodes == {0: NodeState("waiting", 1, ready_at=at(90), started_at=at(0))}
    assert (decision.wake_at, decision.ready, decision.listens) == (at(90), [], False)


def test_a_sleep_ends_when_its_time_has_come_and_not_before() -> None:
    simulation = started(sleep(90))
    simulation.now = at(89.999)
    assert simulation.report(Wake()).nodes == {}
    simulation.now = at(90)
    decision = simulation.report(Wake())
    assert (decision.status, decision.wake_at) == ("completed", None)
    assert result(simulation) == {"slept": True, "seconds": 90}


@pytest.mark.parametrize(("duration", "expected"), [(0, 0), (1.5, 1.5), ("2 minutes", 120)])
def test_the_value_of_a_sleep_says_how_long_it_was(duration: object, expected: float) -> None:
    simulation = play(sleep(duration))
    assert result(simulation) == {"slept": True, "seconds": expected}
    assert seconds(simulation) == expected


def test_a_sleep_beyond_the_calendar_ends_with_it() -> None:
    simulation = Simulation.of(sleep("300000 days"))
    simulation.now = datetime(8900, 1, 1, tzinfo=UTC)
    simulation.report(Start())
    assert simulation.next_due == datetime(9000, 1, 1, tzinfo=UTC)


def test_a_sleep_may_be_named() -> None:
    assert names(play(sleep(3).named("x")))["x"]["seconds"] == 3


def test_a_schedule_is_computed_when_the_node_begins() -> None:
    simulation = started(seq("a", wait_for_schedule("*/5 * * * *")))
    simulation.advance(at(61))
    end(simulation, "a")
    assert simulation.next_due == at(300)
    simulation.advance()
    assert result(simulation) == {"scheduled": True}


def test_a_schedule_fires_strictly_after_the_node_has_begun() -> None:
    assert started(wait_for_schedule("0 0 * * *")).next_due == at(24 * 3600)


def test_a_schedule_is_read_in_its_time_zone() -> None:
    # Midnight in Berlin is 23:00 UTC in winter.
    assert started(wait_for_schedule("0 0 * * *", "Europe/Berlin")).next_due == at(23 * 3600)


def test_after_downtime_a_schedule_fires_once() -> None:
    simulation = started(loop(seq(wait_for_schedule("* * * * *"), "a")))
    simulation.advance(at(3600 * 5 + 30))
    end(simulation, "a", ok(1))
    simulation.advance()
    assert simulation.next_due == at(3600 * 5 + 60)
    assert tried(simulation) == [("a", 3600 * 5 + 30)]


def test_a_loop_over_a_schedule_keeps_to_it() -> None:
    graph = loop(seq(wait_for_schedule("*/10 * * * *"), "a"), while_="c")
    simulation = play(graph, c=[ok(1), ok(1), ok(0)])
    assert [start for text, start in tried(simulation) if text == "a"] == [600, 1200, 1800]


def test_waits_side_by_side_are_due_one_after_the_other() -> None:
    simulation = started(join(sleep(3), sleep(1), sleep(2)))
    due = []
    while simulation.next_due is not None:
        due.append(simulation.next_due)
        simulation.advance()
    assert due == [at(1), at(2), at(3)]


def test_waits_that_are_due_together_end_in_one_transition() -> None:
    simulation = started(join(sleep(3), sleep(1), sleep(2)).named("all"))
    simulation.now = at(10)
    decision = simulation.report(Wake())
    assert (decision.version, decision.status) == (2, "completed")
    assert [part["seconds"] for part in result(simulation)] == [3, 1, 2]


def test_of_waits_that_are_overdue_the_one_that_ended_first_wins_a_race() -> None:
    simulation = started(race(sleep(5), sleep(4)))
    simulation.now = at(100)
    simulation.report(Wake())
    assert result(simulation) == {"slept": True, "seconds": 4}
    assert statuses(simulation) == ["completed", "cancelled", "completed"]


def test_what_follows_an_overdue_wait_is_counted_from_now() -> None:
    simulation = started(seq(sleep(5), sleep(5)))
    simulation.now = at(100)
    simulation.report(Wake())
    assert simulation.next_due == at(105)


def test_waking_a_wait_twice_ends_it_once() -> None:
    simulation = started(seq(sleep(5), "a"))
    simulation.advance()
    node = simulation.run.nodes[1]
    again = simulation.report(Wake())
    assert again == Decision(3, "running", at(5), woken=True)
    assert simulation.run.nodes[1] is node


def test_a_run_that_is_woken_too_early_is_due_again_when_its_time_comes() -> None:
    simulation = started(sleep(60))
    assert simulation.report(Wake()) == Decision(2, "running", at(0), wake_at=at(60), woken=True)


def test_every_transition_says_when_the_run_is_due_next() -> None:
    simulation = started(join(sleep(60), seq("a", "b"), sleep(30)))
    assert end(simulation, "a").wake_at == at(30)
    simulation.advance(at(30))
    assert end(simulation, "b").wake_at == at(60)


def test_a_run_without_waits_is_never_due() -> None:
    simulation = started(join("a", "b"))
    assert end(simulation, "a").wake_at is None


def test_a_wait_that_began_in_the_same_transition_is_not_over_in_it() -> None:
    simulation = started(seq("a", sleep(0)))
    claimed = simulation.claim(1)
    report = ok(1).event(1, claimed.token)
    first = decide(simulation.run, report, simulation.now)
    assert first.nodes[2].status == "waiting"
    both = decide(simulation.run, Wake(), simulation.now, after=first)
    assert (both.status, both.values[2]) == ("completed", Value('{"slept":true,"seconds":0}'))


def test_a_run_that_waits_has_nothing_ready_or_running() -> None:
    simulation = started(seq(sleep(5), sql("a")))
    assert (simulation.ready, simulation.running) == ([], {})
    assert statuses(simulation) == ["running", "waiting", "pending"]
