"""The virtual-clock driver: its clock, its claims, and that it adds nothing to what is decided."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from workbench.engine import simulate
from workbench.engine.model import Completed, NodeState, Run, Start, Value, Wake
from workbench.engine.plan import Plan
from workbench.engine.policy import Policy
from workbench.engine.simulate import EPOCH, Attempt, Fails, Outcome, Simulation, Succeeds, Try
from workbench.errors import StateError
from workbench.graph import loop, seq, sleep, sql

BROKEN = {"type": "ValueError", "message": "broken"}


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def test_the_attempts_table_tells_when_each_began_and_ended() -> None:
    simulation = Simulation.of(seq("SELECT 1", "SELECT 2"), Policy(max_attempts=2))
    outcomes: Iterator[Outcome] = iter(
        [Fails(BROKEN, seconds=5), Succeeds(seconds=0.5), Succeeds(seconds=60)]
    )
    assert simulation.run_to_end(lambda _: next(outcomes)) == "completed"
    error = {**BROKEN, "node": 1, "attempt": 1}
    assert simulation.attempts == [
        Attempt(1, 1, at(0), at(5), "failed", "claim-1", error, 1.0, "backoff"),
        Attempt(1, 2, at(6), at(6.5), "completed", "claim-2"),
        Attempt(2, 1, at(6.5), at(66.5), "completed", "claim-3"),
    ]
    assert simulation.now == at(66.5)


def test_an_outcome_may_depend_on_the_try() -> None:
    simulation = Simulation.of(sql("SELECT 1"), Policy(max_attempts=3))
    tries: list[Try] = []

    def outcome_of(each: Try) -> Outcome:
        tries.append(each)
        return Fails(BROKEN) if each.attempt < 3 else Succeeds()

    simulation.run_to_end(outcome_of)
    assert tries == [
        Try(0, 1, 0, "claim-1", at(0)),
        Try(0, 2, 0, "claim-2", at(1)),
        Try(0, 3, 0, "claim-3", at(3)),
    ]


def test_a_claim_makes_no_new_version_and_leaves_the_decision_as_it_was() -> None:
    simulation = Simulation.of(sql("SELECT 1"))
    decision = simulation.report(Start())
    simulation.claim(0)
    assert simulation.run.version == 1
    assert simulation.running == {0: "claim-1"}
    assert decision.nodes == {0: NodeState("ready", 1, ready_at=EPOCH)}


def test_a_leaf_is_claimed_once() -> None:
    simulation = Simulation.of(sql("SELECT 1"))
    simulation.report(Start())
    simulation.claim(0)
    with pytest.raises(StateError, match=r"node #0 is running, so it cannot be claimed; take one"):
        simulation.claim(0)


def test_a_leaf_that_waits_for_its_retry_cannot_be_claimed_before() -> None:
    simulation = Simulation.of(sql("SELECT 1"), Policy(max_attempts=2))
    simulation.report(Start())
    simulation.report(Fails(BROKEN).event(0, simulation.claim(0).token))
    assert (simulation.ready, simulation.next_due) == ([], at(1))
    with pytest.raises(StateError, match=r"node #0 is ready at 2000-01-01 00:00:01\+00:00"):
        simulation.claim(0)
    assert simulation.advance()
    assert (simulation.now, simulation.ready) == (at(1), [0])


def test_the_clock_never_goes_back() -> None:
    simulation = Simulation.of(sql("SELECT 1"))
    assert simulation.advance(at(10))
    assert not simulation.advance(at(5))
    assert not simulation.advance()
    assert simulation.now == at(10)


def test_a_run_that_only_the_outside_can_move_stands_still() -> None:
    run = Run("1a2b3c4d", Plan.of(sql("SELECT 1")), Policy(), "running", 1)
    run.nodes[0] = NodeState("waiting", 1)
    assert Simulation(run).run_to_end(lambda _: Succeeds()) == "running"


def test_a_wait_whose_time_has_come_is_woken_as_an_engine_wakes_it() -> None:
    simulation = Simulation.of(seq(sleep(30), "SELECT 2"))
    simulation.report(Start())
    assert (simulation.ready, simulation.next_due) == ([], at(30))
    assert simulation.advance()
    assert (simulation.now, simulation.ready) == (at(30), [2])


def test_a_simulation_may_take_over_a_run_at_any_point() -> None:
    first = Simulation.of(seq("SELECT 1", "SELECT 2"))
    first.report(Start())
    first.report(Completed(1, first.claim(1).token, Value("1")))
    second = Simulation(first.run, now=at(100))
    assert second.run_to_end(lambda _: Succeeds("2", seconds=1)) == "completed"
    assert second.attempts == [Attempt(2, 1, at(100), at(101), "completed", "claim-1")]


def test_a_run_that_does_not_end_is_given_up() -> None:
    simulation = Simulation.of(seq(*["SELECT 1"] * 11))
    with pytest.raises(StateError, match="not at its end after 10 steps; look for a loop"):
        simulation.run_to_end(lambda _: Succeeds(), most=10)


def test_a_loop_that_only_waits_is_given_up_too() -> None:
    for interval in (0, 1):
        simulation = Simulation.of(loop(sleep(0), min_interval=interval))
        with pytest.raises(StateError, match="not at its end after 10 steps; look for a loop"):
            simulation.run_to_end(lambda _: Succeeds(), most=10)


def test_a_finished_run_is_not_run_again() -> None:
    simulation = Simulation.of(sql("SELECT 1"))
    simulation.run_to_end(lambda _: Succeeds("1"))
    assert simulation.run_to_end(lambda _: Succeeds("2")) == "completed"
    assert (simulation.value, len(simulation.attempts)) == (Value("1"), 1)
    assert simulation.report(Wake()).refused


def test_no_node_type_is_named_in_the_driver() -> None:
    names = {node.attr for node in ast.walk(ast.parse(inspect.getsource(simulate)))
             if isinstance(node, ast.Attribute)}  # fmt: skip
    assert not names & {"type", "node_type", "left", "right", "is_leaf"}
