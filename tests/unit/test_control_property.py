"""Any order of events over graphs of all node types: outcomes, crashes, faults, released claims, stale
and duplicate reports, signals, cancels, restarts, several events in one transition.

What must hold after every transition is in `watching`; that every run comes to its end is here.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.unit.machine_strategies import DELAYS, ERRORS, LIMITS, POLICIES, SHARED_SIGNALS
from tests.unit.watching import Watched, rebuilt
from workbench.engine.machine import Limits, decide
from workbench.engine.model import (
    TERMINAL,
    CancelRequested,
    Completed,
    Decision,
    Event,
    Failed,
    Faulted,
    Lost,
    NodeState,
    Released,
    ReportEvent,
    Run,
    SetName,
    Start,
    Value,
    Wake,
)
from workbench.engine.policy import Policy
from workbench.engine.simulate import Outcome, Succeeds, Try
from workbench.graph import Node

BROKEN = {"type": "Error", "message": "broken"}
VALUES = st.sampled_from(["true", "false", "0", '"text"', '{"rows":[],"row_count":0}', "[]"])
SECONDS = st.sampled_from([0.25, 1.0, 3.0, 100.0])


def live(machine: AnyOrder) -> bool:
    return machine.simulation.status == "running"


def claimed(machine: AnyOrder) -> bool:
    return bool(machine.simulation.running)


class AnyOrder(RuleBasedStateMachine):
    """One run and everything that can happen to it."""

    @initialize(graph=SHARED_SIGNALS, policy=POLICIES, keep=st.booleans(), limits=LIMITS)
    def new_run(self, graph: Node, policy: Policy, keep: bool, limits: Limits) -> None:
        on_failure = "continue" if keep else "fail"
        rules = Policy(policy.max_attempts, policy.max_backoff, on_failure, policy.base_delay)
        simulation = Watched.of(graph, rules, limits)
        assert isinstance(simulation, Watched)
        self.simulation = simulation
        self.past: list[ReportEvent] = []
        self.tokens: list[str] = []
        self.simulation.report(Start())
        self.claim_all()

    @property
    def run(self) -> Run:
        return self.simulation.run

    def claim_all(self) -> None:
        """Engines are quick; what becomes ready is soon claimed."""
        self.tokens += [self.simulation.claim(node).token for node in self.simulation.ready]

    # Claims end.

    @precondition(claimed)
    @rule(data=st.data(), value=VALUES, cancel=st.sampled_from([None] * 20 + ["enough"]))
    def complete(self, data: st.DataObject, value: str, cancel: str | None) -> None:
        node, token = self.one(data)
        self.end(Completed(node, token, Value(value), cancel=cancel))

    @precondition(claimed)
    @rule(data=st.data(), error=ERRORS, delay=DELAYS)
    def fail(self, data: st.DataObject, error: dict[str, Any], delay: float | None) -> None:
        self.end(Failed(*self.one(data), error, delay))

    @precondition(claimed)
    @rule(data=st.data(), how=st.sampled_from(["lost", "faulted", "released"]))
    def come_to_nothing(self, data: st.DataObject, how: str) -> None:
        node, token = self.one(data)
        events: dict[str, ReportEvent] = {
            "lost": Lost(node, token, "gone"),
            "faulted": Faulted(node, token, BROKEN),
            "released": Released(node, token),
        }
        self.end(events[how])

    @precondition(claimed)
    @rule(data=st.data(), values=st.lists(VALUES, min_size=2, max_size=4), wake=st.booleans())
    def complete_together(self, data: st.DataObject, values: list[str], wake: bool) -> None:
        """What one transition comes to is what one after the other would come to."""
        free = sorted(self.simulation.running.items())
        chosen = data.draw(st.permutations(free))[: len(values)]
        events: list[Event] = [
            Completed(*claim, Value(value))
            for claim, value in zip(chosen, values[: len(chosen)], strict=True)
        ]
        if wake:
            events.append(Wake(tuple(self.simulation.unread)))
        check_batch(self.run, events, self.simulation)
        self.simulation.report_together(*events)
        self.claim_all()

    # Time, signals, cancels.

    @precondition(live)
    @rule(seconds=SECONDS)
    def advance(self, seconds: float) -> None:
        """An engine may be late: then several waits are over at once."""
        self.simulation.advance(self.simulation.now + timedelta(seconds=seconds))
        self.claim_all()

    @precondition(live)
    @rule()
    def advance_to_the_next(self) -> None:
        self.simulation.advance()
        self.claim_all()

    @rule(data=st.data())
    def signal(self, data: st.DataObject) -> None:
        names = [*self.run.plan.listeners, "nobody's"]
        self.simulation.signal(data.draw(st.sampled_from(names)), "1")
        self.claim_all()

    @precondition(live)
    @rule(one_in_fifteen=st.integers(0, 14))
    def cancel(self, one_in_fifteen: int) -> None:
        if one_in_fifteen == 14:
            self.simulation.report(CancelRequested("enough"))
            assert self.run.status == "cancelled"

    # Nothing happens.

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def a_report_comes_twice(self, data: st.DataObject) -> None:
        assert self.simulation.report(data.draw(st.sampled_from(self.past))).refused

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), node=st.integers(-1, 40))
    def a_stale_report_comes(self, data: st.DataObject, node: int) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        if self.simulation.running.get(node) != token:
            assert self.simulation.report(Completed(node, token, Value("1"))).refused

    @rule()
    def it_is_started_again(self) -> None:
        assert self.simulation.report(Start()).refused

    @rule()
    def it_is_woken(self) -> None:
        decision = self.simulation.report(Wake(tuple(self.simulation.unread)))
        assert decision.refused == (self.run.status in TERMINAL)
        self.claim_all()

    @rule()
    def another_engine_goes_on(self) -> None:
        self.simulation.restart()

    def one(self, data: st.DataObject) -> tuple[int, str]:
        return data.draw(st.sampled_from(sorted(self.simulation.running.items())))

    def end(self, event: ReportEvent) -> None:
        assert not self.simulation.report(event).refused
        self.past.append(event)
        self.claim_all()

    # What holds besides.

    @invariant()
    def every_claim_has_at_most_one_row_and_every_row_had_a_claim(self) -> None:
        rows = Counter(row.token for row in self.simulation.attempts)
        assert set(rows.values()) <= {1}
        assert rows.keys() <= set(self.tokens)
        assert not rows.keys() & set(self.simulation.running.values())

    @invariant()
    def attempts_stay_within_their_budgets(self) -> None:
        for state in self.run.nodes:
            assert state.attempt <= self.run.policy.max_attempts
            assert state.losses <= self.simulation.limits.lost
            assert state.faults <= self.simulation.limits.faults + 1

    @invariant()
    def a_run_that_did_not_complete_says_why(self) -> None:
        ended_badly = self.run.status in ("failed", "cancelled")
        assert (self.simulation.error is not None) == ended_badly

    def teardown(self) -> None:
        """Whatever has happened: when all goes well from now on, the run comes to its end."""
        if not hasattr(self, "simulation"):
            return
        was = self.run.status
        for node, token in self.simulation.running.items():
            value = self.kind(node)
            self.simulation.report(Completed(node, token, Value(value)))
        status = self.simulation.run_to_end(self.kindly, most=3000)
        while status == "running":  # some wait for a signal, without end
            waiting = self.run.nodes.copy()
            for name in self.run.plan.listeners:
                self.simulation.signal(name)
            status = self.simulation.run_to_end(self.kindly, most=3000)
            assert self.run.nodes != waiting
        assert was in (status, "running")

    def kindly(self, each: Try) -> Outcome:
        return Succeeds(self.kind(each.node), seconds=0.5)

    def kind(self, node: int) -> str:
        """Loops end at once: what their conditions ask for is there."""
        return json.dumps((self.run.plan[node].query or "").startswith("done"))


def check_batch(run: Run, events: list[Event], simulation: Watched) -> None:
    """Deciding several events as one is deciding them one after the other."""
    now, limits = simulation.now, simulation.limits
    alone, singly = rebuilt(run), list[Decision]()
    together: Decision | None = None
    for event in events:
        decision = decide(alone, event, now, limits)
        alone.apply(decision)
        singly.append(decision)
        both = decide(run, event, now, limits, after=together)
        assert both.refused == decision.refused
        together = together if both.refused else both
    accepted = [decision for decision in singly if not decision.refused]
    if together is None:
        assert accepted == []
        return
    names = [change for decision in accepted for change in decision.names]
    if any(isinstance(change, SetName) and change.value is None for change in names):
        return  # the next iteration may have to wait until the name's value has been written
    assert together.names == names
    assert together.status == alone.status
    assert together.wake_at == accepted[-1].wake_at
    assert together.attempts == [row for decision in accepted for row in decision.attempts]
    assert together.iterations == [row for decision in accepted for row in decision.iterations]
    merged = rebuilt(run)
    merged.apply(together)
    assert list(map(essence, merged.nodes)) == list(map(essence, alone.nodes))


def essence(state: NodeState) -> list[Any]:
    """All but the version of the last change."""
    return [getattr(state, name) for name in NodeState.__slots__ if name != "rev"]


def test_any_order_of_events_leaves_every_invariant_true() -> None:
    run_state_machine_as_test(
        AnyOrder, settings=settings(max_examples=100, stateful_step_count=30, deadline=None)
    )
