"""SIGNAL: which signal reaches which waits, and what becomes of the others."""

from __future__ import annotations

from typing import Any

from tests.unit.playing import at, end, names, no, ok, play, result, seconds, started, statuses
from workbench.engine.model import CancelRequested, NodeState, Signal, Start, Wake
from workbench.engine.simulate import Simulation
from workbench.graph import join, loop, race, seq, sleep, wait_for_signal

GO = wait_for_signal("go")


def got(data: Any, name: str = "go") -> dict[str, Any]:
    return {"signal_name": name, "timed_out": False, "data": data}


def timed_out(name: str = "go") -> dict[str, Any]:
    return {"signal_name": name, "timed_out": True, "data": None}


def sent(number: int, seconds: float, data: str | None = '"data"', name: str = "go") -> Signal:
    return Signal(number, name, at(seconds), data)


def test_a_wait_without_time_out_has_no_time() -> None:
    simulation = Simulation.of(GO)
    decision = simulation.report(Start())
    assert decision.nodes == {0: NodeState("waiting", 1, started_at=at(0))}
    assert (decision.wake_at, decision.listens) == (None, True)


def test_a_signal_ends_the_wait_with_its_data() -> None:
    simulation = started(GO.named("x"))
    simulation.signal("go", '{"approved": true}')
    assert result(simulation) == got({"approved": True})
    assert names(simulation) == {"x": got({"approved": True})}
    assert simulation.unread == []


def test_a_signal_that_was_sent_before_the_wait_began_is_kept_for_it() -> None:
    simulation = started(seq("a", GO))
    simulation.signal("go", "1")
    assert len(simulation.unread) == 1
    end(simulation, "a")
    assert result(simulation) == got(1)


def test_a_signal_that_was_sent_before_the_run_began_is_kept() -> None:
    simulation = Simulation.of(GO)
    simulation.signal("go", "1")
    simulation.report(Start())
    assert result(simulation) == got(1)


def test_a_wait_takes_the_oldest_signal_kept_for_it() -> None:
    simulation = started(seq("a", GO, GO))
    for data in "123":
        simulation.signal("go", data)
    end(simulation, "a")
    assert result(simulation) == got(2)
    assert [signal.data for signal in simulation.unread] == ["3"]


def test_a_signal_that_arrives_while_several_wait_reaches_them_all() -> None:
    simulation = started(join(GO, seq("a", GO), GO))
    simulation.advance(at(5))
    simulation.signal("go", "7")
    assert [state.status for state in simulation.run.nodes] == [
        "running", "completed", "running", "ready", "pending", "completed",
    ]  # fmt: skip


def test_a_signal_kept_from_before_is_taken_by_one_wait_only_the_oldest() -> None:
    simulation = started(join(seq("a", GO), seq("b", GO)))
    simulation.signal("go", "1")
    simulation.advance(at(1))
    end(simulation, "b")
    simulation.advance(at(2))
    end(simulation, "a")
    assert simulation.unread == []
    assert (statuses(simulation)[3], statuses(simulation)[6]) == ("waiting", "completed")
    simulation.signal("go", "2")
    assert result(simulation) == [got(2), got(1)]


def test_of_waits_that_began_together_the_left_one_takes_what_was_kept() -> None:
    simulation = started(seq("a", join(GO, GO)))
    simulation.signal("go", "1")
    simulation.advance(at(1))
    end(simulation, "a")
    assert statuses(simulation)[-2:] == ["completed", "waiting"]


def test_several_signals_kept_are_taken_by_as_many_waits() -> None:
    simulation = started(seq("a", join(GO, GO)))
    simulation.signal("go", "1")
    simulation.signal("go", "2")
    simulation.advance(at(1))
    end(simulation, "a")
    assert result(simulation) == [got(1), got(2)]


def test_a_signal_of_another_name_is_kept_and_wakes_nobody() -> None:
    simulation = started(GO)
    simulation.signal("Go")
    assert (simulation.status, len(simulation.unread)) == ("running", 1)


def test_what_a_wait_took_and_what_none_took_is_told() -> None:
    simulation = started(GO)
    event = Wake((sent(1, 0, name="other"), sent(2, 0), sent(3, 0)))
    decision = simulation.report(event)
    assert (decision.taken, decision.looked_at) == ([2], [1])
    # The third came when the run was over.
    assert decision.status == "completed"


def test_a_wait_times_out_without_data() -> None:
    simulation = play(wait_for_signal("go", 30))
    assert (result(simulation), seconds(simulation)) == (timed_out(), 30)


def test_a_signal_in_time_makes_the_time_out_void() -> None:
    simulation = started(seq(wait_for_signal("go", 30), "a"))
    simulation.advance(at(10))
    simulation.signal("go", "1")
    assert simulation.run.timers == []
    assert simulation.report(Wake()).nodes == {}


def test_a_signal_after_the_time_out_is_kept() -> None:
    simulation = started(seq(wait_for_signal("go", 30), "a", GO))
    simulation.advance(at(30))
    simulation.signal("go", "1")
    end(simulation, "a")
    assert result(simulation) == got(1)


def test_a_signal_that_was_sent_in_time_counts_however_late_it_is_looked_at() -> None:
    simulation = started(wait_for_signal("go", 30))
    simulation.now = at(100)
    simulation.report(Wake((sent(1, 29),)))
    assert result(simulation) == got("data")


def test_a_signal_that_was_sent_too_late_does_not_count_however_late_the_time_out_is_seen() -> None:
    simulation = started(seq(wait_for_signal("go", 30), "a"))
    simulation.now = at(100)
    decision = simulation.report(Wake((sent(1, 31),)))
    assert decision.values[1].json == '{"signal_name":"go","timed_out":true,"data":null}'
    assert (decision.taken, decision.looked_at) == ([], [1])


def test_signals_and_time_outs_count_in_the_order_in_which_they_came_about() -> None:
    simulation = started(race(wait_for_signal("go", 30), seq(wait_for_signal("stop"), "a")))
    simulation.now = at(100)
    simulation.report(Wake((sent(1, 31, name="stop"),)))
    assert result(simulation) == timed_out()


def test_waits_that_had_begun_get_a_signal_before_those_that_had_not() -> None:
    # Both wait when the signal is looked at, but only the left one did when it was sent.
    simulation = started(join(GO, seq("a", GO)))
    simulation.advance(at(10))
    simulation.unread.append(sent(1, 5))
    end(simulation, "a")
    assert statuses(simulation) == ["running", "completed", "running", "completed", "waiting"]


def test_a_wait_in_a_loop_takes_one_signal_an_iteration_in_their_order() -> None:
    graph = loop(seq(wait_for_signal("go").named("x"), "a"), while_="c", min_interval=0)
    simulation = Simulation.of(graph)
    for data in "123":
        simulation.signal("go", data)
    simulation.report(Start())
    seen = []
    for _ in range(3):
        seen.append(simulation.names["x"].json)
        end(simulation, "a")
        end(simulation, "c", ok(True))
        simulation.advance()
    assert [text[-2] for text in seen] == ["1", "2", "3"]
    assert statuses(simulation)[2] == "waiting"


def test_a_wait_that_begins_while_signals_are_looked_at_takes_the_oldest_of_them_all() -> None:
    simulation = started(seq(wait_for_signal("first"), wait_for_signal("go")))
    simulation.now = at(10)
    simulation.unread += [sent(1, 1, "1"), sent(2, 2, name="first"), sent(3, 3, "3")]
    decision = simulation.report(Wake(tuple(simulation.unread)))
    assert (decision.taken, decision.looked_at, decision.listens) == ([2], [1], True)
    assert result(simulation) == got(1)
    assert [signal.id for signal in simulation.unread] == [3]


def test_a_loop_of_nothing_but_waits_takes_all_that_was_kept() -> None:
    simulation = Simulation.of(loop(GO, min_interval=0))
    for data in "12345":
        simulation.signal("go", data)
    simulation.report(Start())
    while simulation.advance():
        pass
    assert simulation.unread == []
    assert (simulation.run.nodes[0].iteration, statuses(simulation)) == (6, ["running", "waiting"])


def test_a_wait_in_a_losing_branch_takes_nothing() -> None:
    simulation = started(seq(race(GO, "a"), "b", GO))
    end(simulation, "a")
    simulation.signal("go", "1")
    assert len(simulation.unread) == 1
    end(simulation, "b")
    assert result(simulation) == got(1)


def test_a_signal_reaches_a_wait_inside_branches_and_loops() -> None:
    simulation = started(join(loop(seq(GO, "a"), while_="c"), race(GO, sleep(60))))
    simulation.advance(at(1))
    simulation.signal("go", "1")
    assert simulation.ready == [4]
    assert simulation.run.nodes[6].status == "completed"


def test_many_signals_are_taken_though_only_the_first_few_come_with_their_data() -> None:
    """Of those without data a run is due again, as long as something waits for them."""
    simulation = started(join(*[wait_for_signal("go")] * 30))
    loaded, rest = 20, 10
    simulation.now = at(10)
    first = [sent(n, -1, str(n)) for n in range(loaded)]
    decision = simulation.report(Wake((*first, *(sent(loaded + n, -1, None) for n in range(rest)))))
    assert (decision.taken, decision.looked_at) == (list(range(loaded)), [])
    assert decision.listens
    decision = simulation.report(Wake(tuple(sent(loaded + n, -1, str(n)) for n in range(rest))))
    assert (decision.status, decision.listens) == ("completed", False)


def test_signals_without_data_are_only_looked_at_when_nothing_waits() -> None:
    simulation = started(seq("a", GO))
    decision = simulation.report(Wake((sent(1, 0, None),)))
    assert (decision.taken, decision.looked_at, decision.listens) == ([], [1], False)


def test_a_signal_to_a_run_that_is_over_changes_nothing() -> None:
    simulation = started(GO)
    simulation.report(CancelRequested("enough"))
    simulation.signal("go")
    assert simulation.report(Wake((sent(9, 0),))).refused


def test_a_failing_branch_does_not_take_a_signal_from_the_other() -> None:
    simulation = started(join("a", GO))
    end(simulation, "a", no())
    simulation.signal("go", "1")
    assert (simulation.status, simulation.unread) == ("failed", [])


def test_a_signal_that_ends_all_branches_ends_their_join_once() -> None:
    simulation = started(loop(join(GO, GO).named("x"), min_interval=60))
    simulation.advance(at(1))
    decision = simulation.report(Wake((sent(1, 1),)))
    assert [(each.loop, each.iteration) for each in decision.iterations] == [(0, 1)]
    assert len(decision.names) == 1


def test_a_signal_that_both_branches_of_a_race_wait_for_has_the_left_one_win_once() -> None:
    simulation = started(seq(race(GO, seq(GO, "b")).named("x"), "a"))
    simulation.advance(at(1))
    decision = simulation.report(Wake((sent(1, 1),)))
    assert (len(decision.names), simulation.ready) == (1, [6])
    # THEN, RACE, GO, THEN, GO, b, a
    assert statuses(simulation)[1:6] == [
        "completed", "completed", "cancelled", "cancelled", "skipped",
    ]  # fmt: skip


def test_a_signal_does_not_reach_what_it_has_made_begin_anew() -> None:
    simulation = started(seq("z", loop(race(GO, seq(GO, sleep(1))), min_interval=0)))
    end(simulation, "z")
    simulation.advance(at(1))
    decision = simulation.report(Wake((sent(1, 1),)))
    assert [each.iteration for each in decision.iterations] == [1]
    assert statuses(simulation)[2:] == [
        "running",
        "running",
        "waiting",
        "running",
        "waiting",
        "pending",
    ]
