"""Names: who knows them when, in sequences, branches and loops."""

from __future__ import annotations

from tests.unit.playing import (
    CONTINUE,
    FALSE,
    TRUE,
    end,
    names,
    no,
    ok,
    play,
    result,
    started,
)
from workbench.engine.machine import decide
from workbench.engine.model import ForgetNames, MoveNames, SetName, Value, Wake
from workbench.engine.simulate import Simulation
from workbench.graph import (
    break_,
    if_,
    join,
    loop,
    race,
    seq,
    sleep,
    sql,
    wait_for_schedule,
    wait_for_signal,
)


def seen(simulation: Simulation, text: str) -> dict[str, str]:
    """What the ready leaf with this text knows."""
    [node] = [n for n in simulation.ready if simulation.run.plan[n].query == text]
    return {name: value.json for name, value in simulation.names_at(node).items()}


# Every type of node can name its value.


def test_every_node_that_has_a_value_may_name_it() -> None:
    slept = {"slept": True, "seconds": 1}
    for graph, value in [
        (sql("a"), "a"),
        (seq("b", "a"), "a"),
        (if_("a", "b", "c"), "b"),
        (join("a", "b"), ["a", "b"]),
        (race("a", "b"), "a"),
        (loop("a", while_=break_(3)), 3),
        (sleep(1), slept),
        (wait_for_schedule("* * * * *"), {"scheduled": True}),
        (wait_for_signal("s", 1), {"signal_name": "s", "timed_out": True, "data": None}),
    ]:
        assert names(play(graph.named("x"))) == {"x": value}


def test_a_named_break_is_known_after_its_loop() -> None:
    assert names(play(seq(loop(break_(5).named("x")), "a")))["x"] == 5


def test_a_break_outside_of_a_loop_names_nothing() -> None:
    assert names(play(seq("a", break_(5).named("x")))) == {}


def test_a_loop_names_the_last_bodys_value() -> None:
    graph = seq("z", loop("a", while_="c").named("x"))
    assert names(play(graph, a=[ok(1), ok(2)], c=[TRUE, FALSE])) == {"x": 2}


def test_a_composite_that_is_left_by_a_break_names_nothing() -> None:
    body = seq(join(break_(1), "a").named("j"), "b").named("t")
    assert names(play(seq("z", loop(body).named("l")))) == {"l": 1}


def test_a_composite_that_fails_names_nothing() -> None:
    simulation = play(seq(sql("a").named("x"), "b").named("y"), b=no())
    assert names(simulation) == {"x": "a"}


def test_the_last_to_complete_has_the_name() -> None:
    graph = seq(sql("a").named("x"), sql("b").named("x"), "c")
    assert names(play(graph)) == {"x": "b"}


def test_a_compound_is_not_known_by_its_name_inside_itself() -> None:
    simulation = started(seq("a", "b").named("x"))
    end(simulation, "a")
    assert seen(simulation, "b") == {}


def test_an_arm_and_its_condition_share_the_names_around_them() -> None:
    simulation = started(seq(sql("a").named("x"), if_(sql("c").named("y"), "d", "e"), "f"))
    end(simulation, "a")
    assert seen(simulation, "c") == {"x": "null"}
    end(simulation, "c", TRUE)
    assert seen(simulation, "d") == {"x": "null", "y": "true"}


# Branches.


def test_a_branch_knows_what_was_named_before_and_not_what_the_other_names() -> None:
    simulation = started(seq(sql("z").named("x"), join(seq(sql("a").named("y"), "b"), "c")))
    end(simulation, "z", ok(0))
    end(simulation, "a", ok(1))
    assert seen(simulation, "b") == {"x": "0", "y": "1"}
    assert seen(simulation, "c") == {"x": "0"}


def test_a_branch_goes_by_its_own_newer_value() -> None:
    branch = seq(sql("a").named("x"), "b")
    simulation = started(seq(sql("z").named("x"), join(branch, "c")))
    end(simulation, "z", ok(0))
    end(simulation, "a", ok(1))
    assert (seen(simulation, "b"), seen(simulation, "c")) == ({"x": "1"}, {"x": "0"})


def test_names_of_branches_are_known_outside_when_the_join_has_ended() -> None:
    simulation = started(seq(join(sql("a").named("x"), sql("b").named("y")), "c"))
    end(simulation, "a")
    assert simulation.names == {}
    end(simulation, "b")
    assert seen(simulation, "c") == {"x": "null", "y": "null"}


def test_branches_are_merged_in_their_order_whoever_ended_first() -> None:
    graph = seq(join(sql("a").named("x"), sql("b").named("x")), "c")
    assert names(play(graph, a=ok("first", 5), b=ok("second", 1))) == {"x": "second"}


def test_a_branch_that_named_nothing_overwrites_nothing() -> None:
    graph = seq(sql("z").named("x"), join(sql("a").named("x"), "b"))
    assert names(play(graph)) == {"x": "a"}


def test_names_go_from_inner_branches_outwards_step_by_step() -> None:
    inner = seq(join(sql("a").named("x"), "b"), "c")
    simulation = started(seq(join(inner, "d"), "e"))
    for text in "ab":
        end(simulation, text, ok(1))
    assert (seen(simulation, "c"), seen(simulation, "d")) == ({"x": "1"}, {})
    for text in "cd":
        end(simulation, text)
    assert seen(simulation, "e") == {"x": "1"}


def test_a_join_that_fails_makes_nothing_known() -> None:
    assert names(play(join(sql("a").named("x"), "b"), b=no())) == {}


def test_what_branches_named_before_a_break_left_them_is_known() -> None:
    graph = seq("z", loop(join(sql("a").named("x"), break_(1))).named("l"))
    assert names(play(graph)) == {"x": "a", "l": 1}


def test_of_a_race_only_the_winners_names_are_known() -> None:
    loser = seq(sql("a").named("x"), sql("b").named("y"))
    graph = seq(race(loser, sql("c").named("z")), "d")
    assert names(play(graph, a=ok(1, 1), b=ok(1, 9), c=ok("c", 5))) == {"z": "c"}


def test_a_winner_overwrites_what_was_named_before_the_race() -> None:
    graph = seq(sql("z").named("x"), race(sql("a").named("x"), "b"), "c")
    assert names(play(graph, b=ok(1, 5))) == {"x": "a"}


def test_names_inside_a_losers_branches_are_forgotten() -> None:
    loser = join(sql("a").named("x"), "b")
    simulation = play(seq(race(loser, "c"), "d"), b=ok(1, 9), c=ok(1, 5))
    assert simulation.scopes == {0: {}}


def test_what_a_decision_says_about_names_is_in_their_order() -> None:
    simulation = started(race(sql("a").named("x"), sql("b").named("y")).named("z"))
    decision = end(simulation, "b", ok(2))
    assert decision.names == [
        SetName(2, "y", 2, Value("2")),
        ForgetNames(1, 1),
        MoveNames(2, 0),
        SetName(0, "z", 2, Value("2")),
    ]


def test_branches_without_names_cost_nothing() -> None:
    simulation = started(seq(join("a", "b"), race("c", "d")))
    end(simulation, "a")
    assert end(simulation, "b").names == []
    assert end(simulation, "d").names == []


# Loops.


def test_a_root_loop_starts_every_iteration_without_names() -> None:
    simulation = started(loop(seq("a", sql("b").named("x"))))
    end(simulation, "a")
    end(simulation, "b", ok(1))
    assert names(simulation) == {"x": 1}
    simulation.advance()
    assert seen(simulation, "a") == {}


def test_another_loop_keeps_names_from_iteration_to_iteration() -> None:
    simulation = started(seq("z", loop(seq("a", sql("b").named("x")))))
    for text in "zab":
        end(simulation, text, ok(text))
    simulation.advance()
    assert seen(simulation, "a") == {"x": '"b"'}


def test_a_loop_that_is_a_branch_keeps_names_too_and_gives_them_to_the_outside() -> None:
    branch = loop(if_("c", break_(1), sql("b").named("x")))
    simulation = play(join(branch, "d"), b=[ok(1), ok(2)], c=[FALSE, FALSE, TRUE])
    assert names(simulation) == {"x": 2}


def test_a_loop_starts_with_the_names_around_it() -> None:
    simulation = started(seq(sql("z").named("x"), loop("a")))
    end(simulation, "z", ok(0))
    assert seen(simulation, "a") == {"x": "0"}


def test_the_last_iterations_names_of_a_root_loop_are_known_at_its_end() -> None:
    graph = loop(sql("b").named("x"), while_="c").named("l")
    assert names(play(graph, b=[ok(1), ok(2)], c=[TRUE, FALSE])) == {"x": 2, "l": 2}


def test_what_branches_of_an_abandoned_iteration_named_is_forgotten() -> None:
    body = join(seq(if_("c", sql("a").named("x"), "d"), "e"), "b")
    simulation = started(seq("z", loop(body)), CONTINUE)
    end(simulation, "z")
    end(simulation, "c", TRUE)
    for text in "ae":
        end(simulation, text)
    end(simulation, "b", no())
    simulation.advance()
    end(simulation, "c", FALSE)
    assert seen(simulation, "d") == {}


# A name whose value only a row has, and the next iteration that is about to reset that row.


def test_a_named_inner_loops_value_is_written_before_the_next_iteration_resets_it() -> None:
    graph = seq("z", loop(loop("a", while_="c").named("x"), min_interval=0))
    simulation = started(graph)
    end(simulation, "z")
    end(simulation, "a", ok(7))
    claimed = simulation.claim(5)
    simulation.advance(simulation.now.replace(second=30))
    decision = simulation.report(FALSE.event(5, claimed.token))
    assert decision.names == [SetName(0, "x", 4, None)]
    assert decision.nodes[2].status == "waiting"
    assert decision.wake_at == simulation.now
    assert names(simulation) == {"x": 7}


def test_nor_does_a_second_event_of_the_same_transition_reset_it() -> None:
    graph = seq("z", loop(loop("a", while_="c").named("x"), min_interval=0))
    simulation = started(graph)
    end(simulation, "z")
    end(simulation, "a", ok(7))
    claimed = simulation.claim(5)
    report = FALSE.event(5, claimed.token)
    first = decide(simulation.run, report, simulation.now)
    both = decide(simulation.run, Wake(), simulation.now, after=first)
    assert (both.nodes[2].status, both.nodes[3].status) == ("waiting", "completed")
    assert both.wake_at == simulation.now


def test_a_break_names_only_its_loop_and_the_loops_value_is_the_breaks() -> None:
    simulation = play(seq("z", loop(seq("a", break_("v"))).named("x")))
    assert (result(simulation), names(simulation)) == ("v", {"x": "v"})
