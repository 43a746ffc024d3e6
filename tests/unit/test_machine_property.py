"""The decider under any order of events: outcomes, crashes, faults, duplicates, stale tokens, cancels, revives.

A model beside the run counts what has been reported; after every step the run must agree with it.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import replace
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

from tests.unit.machine_strategies import DELAYS, ERRORS, LIMITS, POLICIES, RUNNABLE
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
    Offered,
    Released,
    ReportEvent,
    Run,
    Start,
    Value,
    Wake,
)
from workbench.engine.policy import Policy
from workbench.engine.simulate import Attempt, Simulation, Succeeds
from workbench.graph import Node

BROKEN = {"type": "Error", "message": "broken"}


def copied(run: Run) -> Run:
    """A deep copy that shares the plan, which compares by identity."""
    return copy.deepcopy(run, {id(run.plan): run.plan})


def reports(node: int, token: str) -> list[ReportEvent]:
    """Every way in which a claim may end."""
    return [
        Completed(node, token, Value("1")),
        Failed(node, token, BROKEN),
        Lost(node, token, "gone"),
        Faulted(node, token, BROKEN),
        Released(node, token),
        Offered(node, token, "{}"),
    ]


def live(machine: AnyOrder) -> bool:
    return not machine.simulation.finished


#: How a run comes to its first event; most start in the ordinary way.
BEGINNINGS = st.sampled_from([Start(), Start(), Start(), Wake(), CancelRequested("early"), None])


class AnyOrder(RuleBasedStateMachine):
    """One run, everything that can happen to it, and what must hold whatever has happened."""

    @initialize(graph=RUNNABLE, policy=POLICIES, limits=LIMITS, event=BEGINNINGS)
    def new_run(self, graph: Node, policy: Policy, limits: Limits, event: Event | None) -> None:
        self.simulation = Simulation.of(graph, policy, limits)
        self.policy, self.limits = policy, limits
        self.claimed: dict[str, int] = {}
        self.without_row: set[str] = set()
        self.faults: Counter[int] = Counter()
        self.accepted: list[Event] = []
        self.value_of: dict[int, Value] = {}
        if event is not None:
            assert not self.send(event).refused

    @property
    def run(self) -> Run:
        return self.simulation.run

    # What happens.

    @precondition(live)
    @rule(value=st.integers(), cancel=st.sampled_from([None] * 9 + ["enough"]))
    def complete(self, value: int, cancel: str | None) -> None:
        node, token = self.running()
        self.value_of[node] = Value(json.dumps(value))
        self.end(Completed(node, token, self.value_of[node], cancel=cancel))

    @precondition(live)
    @rule(error=ERRORS, delay=DELAYS)
    def fail(self, error: dict[str, Any], delay: float | None) -> None:
        node, token = self.running()
        source = None if delay is None else "retry_after"
        rows = self.end(Failed(node, token, error, delay, source))
        tried = self.run.nodes[node].attempt
        spent = tried == self.policy.max_attempts or "permanent" in error
        if spent or error.get("sqlstate") == "42P01":
            expected: float | None = None
        elif delay is not None:
            expected = delay
        else:
            expected = min(self.policy.base_delay * 2 ** (tried - 1), self.policy.max_backoff)
        self.check_delay(node, rows, expected)

    @precondition(live)
    @rule()
    def crash(self) -> None:
        node, token = self.running()
        rows = self.end(Lost(node, token, "gone"))
        spent = self.run.nodes[node].losses == self.limits.lost
        self.check_delay(node, rows, None if spent else 0.0)

    @precondition(live)
    @rule()
    def fault(self) -> None:
        node, token = self.running()
        self.faults[node] += 1
        if self.faults[node] <= self.limits.faults:
            self.without_row.add(token)
        self.end(Faulted(node, token, BROKEN))

    @precondition(live)
    @rule()
    def release(self) -> None:
        node, token = self.running()
        self.without_row.add(token)
        self.end(Released(node, token))
        assert self.run.nodes[node].ready_at == self.simulation.now

    @precondition(live)
    @rule()
    def offer(self) -> None:
        """It waits for an outside worker until one claims it, which is no transition."""
        node, token = self.running()
        self.without_row.add(token)
        self.end(Offered(node, token, "{}"))
        assert self.run.nodes[node].status == "waiting"
        self.wake()
        token = f"outside-{len(self.claimed)}"
        self.run.set(node, replace(self.run.nodes[node], status="running", token=token))
        self.claimed[token] = node

    @precondition(live)
    @rule(seconds=st.none() | st.sampled_from([0.1, 1.0, 5000.0]))
    def advance(self, seconds: float | None) -> None:
        now = self.simulation.now
        self.simulation.advance(None if seconds is None else now + timedelta(seconds=seconds))

    @precondition(live)
    @rule(one_in_ten=st.integers(0, 9), claimed=st.booleans())
    def cancel(self, one_in_ten: int, claimed: bool) -> None:
        if one_in_ten == 9:
            if claimed:
                self.running()
            assert not self.send(CancelRequested("enough")).refused
            assert self.run.status == "cancelled"

    @rule(data=st.data(), before=st.booleans())
    def nothing_comes_of_it(self, data: st.DataObject, before: bool) -> None:
        """Duplicates, tokens that nobody drew or that are another node's, starting what is
        going on, and anything at all once the run is over."""
        if before and self.run.status == "running":
            self.running()
        node = data.draw(st.integers(-1, len(self.run.plan)))
        token = data.draw(st.sampled_from(["", "claim-0", *self.claimed]))
        nonsense: list[Event] = [event for event in reports(node, token) if not self.awaited(event)]
        nonsense += self.accepted
        if self.run.status != "pending":
            nonsense.append(Start())
        if self.simulation.finished:
            nonsense += [Wake(), CancelRequested("enough")]
        if nonsense:
            assert self.send(data.draw(st.sampled_from(nonsense))).refused

    @precondition(live)
    @rule()
    def wake(self) -> None:
        """Whoever finds the run due or overlooked: what is going on goes on as it did."""
        if self.run.status == "pending":
            self.send(Start())
        before = copied(self.run)
        decision = self.send(Wake())
        assert (decision.refused, decision.nodes, decision.wake_at) == (False, {}, None)
        assert (self.run.status, self.run.nodes) == (before.status, before.nodes)

    @rule()
    def reload(self) -> None:
        """Another engine goes on with a copy of its own."""
        self.simulation.run = copied(self.run)

    # How it is told, and what each telling must satisfy.

    def awaited(self, event: ReportEvent) -> bool:
        return self.simulation.running.get(event.node) == event.token

    def running(self) -> tuple[int, str]:
        """The leaf that is running and its token; one is started, awaited and claimed if need be."""
        if self.run.status == "pending":
            self.send(Start())
        if not self.simulation.running:
            if not self.simulation.ready:
                assert self.simulation.advance()
            self.claim(self.simulation.ready[0])
        [(node, token)] = self.simulation.running.items()
        return node, token

    def claim(self, node: int) -> None:
        before = copied(self.run)
        token = self.simulation.claim(node).token
        assert token not in self.claimed
        assert (self.run.version, self.run.status) == (before.version, before.status)
        self.claimed[token] = node

    def end(self, event: ReportEvent) -> list[Attempt]:
        """Report how the attempt now running ended; the rows that came of it."""
        rows = len(self.simulation.attempts)
        assert not self.send(event).refused
        self.accepted.append(event)
        assert self.simulation.run.nodes[event.node].token is None
        return self.simulation.attempts[rows:]

    def send(self, event: Event) -> Decision:
        before, event_before = copied(self.run), copy.deepcopy(event)
        decision = decide(self.run, event, self.simulation.now, self.limits)
        assert (self.run, event) == (before, event_before), "decide changed an argument"
        assert self.simulation.report(event) == decision, "decide is not a function"
        self.check_versions(before, decision)
        self.check_terminal_states(before)
        return decision

    def check_versions(self, before: Run, decision: Decision) -> None:
        if decision.refused:
            assert self.run == before
            return
        assert self.run.version == before.version + 1
        for number, state in enumerate(self.run.nodes):
            changed = state != before.nodes[number]
            assert changed == (number in decision.nodes)
            assert state.rev == (self.run.version if changed else before.nodes[number].rev)

    def check_terminal_states(self, before: Run) -> None:
        if before.status in TERMINAL:
            assert self.run == before
        for old, new in zip(before.nodes, self.run.nodes, strict=True):
            if old.status in TERMINAL:
                assert new == old

    def check_delay(self, node: int, rows: list[Attempt], expected: float | None) -> None:
        assert rows[0].delay == expected
        state = self.run.nodes[node]
        if expected is None:
            assert state.status == "failed"
        else:
            assert state.status == "ready"
            assert state.ready_at == self.simulation.now + timedelta(seconds=expected)

    # What holds after every step.

    @invariant()
    def every_claim_ends_exactly_once(self) -> None:
        rows = Counter(attempt.token for attempt in self.simulation.attempts)
        running = {token: node for node, token in self.simulation.running.items()}
        for token, node in self.claimed.items():
            homes = rows[token] + (token in self.without_row) + (running.get(token) == node)
            assert homes == 1
        assert rows.keys() | self.without_row | running.keys() == self.claimed.keys()

    @invariant()
    def attempts_stay_within_their_budgets(self) -> None:
        rows = self.simulation.attempts
        counted = Counter(
            row.node
            for row in rows
            if row.outcome in ("completed", "failed")
            and (row.error or {}).get("type") != "CheckpointFailed"
        )
        lost = Counter(row.node for row in rows if row.outcome == "worker_lost")
        for number, state in enumerate(self.run.nodes):
            assert state.attempt == counted[number] <= self.policy.max_attempts
            assert state.losses == lost[number] <= self.limits.lost
            assert state.faults == self.faults[number] <= self.limits.faults + 1
        for row in rows:
            assert row.start <= row.end <= self.simulation.now

    @invariant()
    def a_run_is_live_exactly_as_long_as_one_of_its_leaves_is(self) -> None:
        statuses = [state.status for state in self.run.nodes]
        leaves = [statuses[each.number] for each in self.run.plan if each.is_executed]
        if self.simulation.finished:
            assert set(statuses) <= TERMINAL
        elif self.run.status == "pending":
            assert set(statuses) == {"pending"}
        else:
            assert sum(status in ("ready", "running") for status in leaves) == 1

    @invariant()
    def a_node_has_a_time_when_ready_and_a_token_when_running(self) -> None:
        for planned, state in zip(self.run.plan, self.run.nodes, strict=True):
            assert (state.ready_at is not None) == (state.status == "ready")
            claimed = state.status == "running" and planned.is_executed
            assert (state.token is not None) == claimed
            assert state.engine is None or claimed

    @invariant()
    def names_are_bound_exactly_to_completed_named_nodes(self) -> None:
        expected: dict[str, Value] = {}
        # Children have higher numbers than their parents and complete before them.
        for planned in self.in_order_of_completion():
            if planned.name is not None and self.run.nodes[planned.number].status == "completed":
                expected[planned.name] = self.value_of[self.last_leaf(planned.number)]
        assert self.simulation.names == expected

    @invariant()
    def a_completed_run_has_the_value_of_its_last_leaf(self) -> None:
        completed = self.run.status == "completed"
        assert self.simulation.value == (self.value_of[self.last_leaf(0)] if completed else None)

    @invariant()
    def a_run_that_did_not_complete_says_why(self) -> None:
        assert (self.simulation.error is not None) == (self.run.status in ("failed", "cancelled"))

    def last_leaf(self, node: int) -> int:
        planned = self.run.plan[node]
        return node if planned.right is None else self.last_leaf(planned.right)

    def in_order_of_completion(self, node: int = 0) -> list[Any]:
        planned = self.run.plan[node]
        below = [n for n in (planned.left, planned.right) if n is not None]
        return [each for n in below for each in self.in_order_of_completion(n)] + [planned]

    def teardown(self) -> None:
        """Whatever has happened: when everything succeeds from now on, the run ends."""
        if not hasattr(self, "simulation"):
            return
        was = self.run.status
        for node, token in self.simulation.running.items():
            self.simulation.report(Completed(node, token, Value("1")))
        assert self.simulation.run_to_end(lambda _: Succeeds()) in TERMINAL
        assert self.run.status == (was if was in TERMINAL else "completed")


def test_any_order_of_events_leaves_every_invariant_true() -> None:
    run_state_machine_as_test(
        AnyOrder, settings=settings(max_examples=150, stateful_step_count=40, deadline=None)
    )
