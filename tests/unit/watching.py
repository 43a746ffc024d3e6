"""A simulation that checks, with every transition, what must hold of any run; no tests.

Each event is decided twice: by the run that has been kept up to date, and by one that was made
anew from the states of its nodes, as an engine makes it from rows.
"""

from __future__ import annotations

import copy
from collections import Counter

from workbench.engine.machine import decide
from workbench.engine.model import TERMINAL, Decision, Event, IterationEnd, Run, SetName, Wake
from workbench.engine.simulate import Simulation

LIVE = ("ready", "running", "waiting")


def rebuilt(run: Run) -> Run:
    """The run as somebody sees it who has only the rows."""
    nodes = [copy.copy(state) for state in run.nodes]
    return Run(run.id, run.plan, run.policy, run.status, run.version, nodes)


class Watched(Simulation):
    """Collects also the iterations that have ended."""

    iterations: list[IterationEnd]

    def restart(self) -> None:
        """Another engine goes on."""
        self.run = rebuilt(self.run)

    def report(self, event: Event) -> Decision:
        before = rebuilt(self.run)
        expected = decide(rebuilt(self.run), event, self.now, self.limits)
        decision = decide(self.run, event, self.now, self.limits)
        assert decision == expected, "a run made from its rows decides differently"
        assert self.run.nodes == before.nodes, "decide changed the run"
        return self.take_over(before, decision)

    def report_together(self, *events: Event) -> Decision | None:
        """Several events of one moment in one transition, as a round records them."""
        before, together = rebuilt(self.run), None
        for event in events:
            decision = decide(self.run, event, self.now, self.limits, after=together)
            together = together if decision.refused else decision
        return None if together is None else self.take_over(before, together)

    def take_over(self, before: Run, decision: Decision) -> Decision:
        if decision.refused:
            assert decision == Decision(before.version, before.status, self.now, refused=True)
            return decision
        for number in decision.nodes:
            self._unqueue(number, self.run.nodes[number])
        self.run.apply(decision)
        self._take(decision)
        self.__dict__.setdefault("iterations", []).extend(decision.iterations)
        self.check(before, decision)
        if decision.listens and self.unread:
            self.report(Wake(tuple(self.unread)))
        return decision

    def check(self, before: Run, decision: Decision) -> None:
        check_versions(before, self.run, decision)
        check_counts(self.run, decision)
        check_states(self.run)
        check_relatives(self.run)
        check_races(self.run)
        check_values(self.run, decision, self.values.keys())


def check_versions(before: Run, after: Run, decision: Decision) -> None:
    assert before.status not in TERMINAL
    assert after.version == before.version + 1
    for number, (old, new) in enumerate(zip(before.nodes, after.nodes, strict=True)):
        if number in decision.nodes:
            assert new.rev == after.version
        else:
            assert new == old
        if old.status in TERMINAL and new.status != old.status:
            loops = after.plan.loops(number)
            assert any(before.nodes[n].iteration != after.nodes[n].iteration for n in loops)
    iterations = [(each.loop, each.iteration, each.started_at) for each in decision.iterations]
    assert len(set(iterations)) == len(iterations)


def check_counts(run: Run, decision: Decision) -> None:
    """What is counted along the way is what a recount gives."""
    ended = Counter(
        counter
        for number, state in enumerate(run.nodes)
        if number in run.plan and state.status in TERMINAL
        for counter in run.plan[number].counted_by
    )
    assert {counter: count for counter, count in run.ended.items() if count} == ended
    timers = sorted((s.timer, n) for n, s in enumerate(run.nodes) if s.timer is not None)
    assert run.timers == timers
    assert decision.wake_at == (timers[0][0] if timers else None)


def check_states(run: Run) -> None:
    for planned, state in zip(run.plan, run.nodes, strict=True):
        assert state.rev <= run.version
        assert (state.token is None) == (state.engine is None)
        if state.token is not None:
            assert (state.status, planned.is_executed) == ("running", True)
        if state.status == "ready":
            assert planned.is_executed
            assert state.ready_at is not None
        if state.status == "waiting":
            assert planned.waits or (planned.type == "LOOP" and state.ready_at is not None)
        if state.status == "running" and state.token is None:
            assert planned.left is not None
        if state.status in ("pending", "skipped"):
            assert (state.attempt, state.result_node, state.error) == (0, None, None)
        assert (state.status == "failed") <= (state.error is not None)
        assert (state.iteration > 0) <= (planned.type == "LOOP")
    tokens = Counter(state.token for state in run.nodes if state.token is not None)
    assert set(tokens.values()) <= {1}


def check_relatives(run: Run) -> None:
    """What is alive is alive all the way up, and what runs has something alive in it."""
    alive = {number for number, state in enumerate(run.nodes) if state.status in LIVE}
    if run.status in TERMINAL:
        assert not alive
        assert {state.status for state in run.nodes} <= TERMINAL
    else:
        assert alive or run.status == "pending"
    for number in alive:
        planned, state = run.plan[number], run.nodes[number]
        if planned.parent is not None:
            above = run.nodes[planned.parent]
            assert (above.status, above.token) == ("running", None)
        below = alive & set(range(number + 1, planned.last + 1))
        inner = state.status == "running" and state.token is None
        assert bool(below) == inner, f"#{number} is {state.status}, and alive in it: {below}"


def check_races(run: Run) -> None:
    """Exactly one branch has decided a race that is decided."""
    for planned in run.plan:
        if planned.type == "RACE" and run.nodes[planned.number].status in ("completed", "failed"):
            branches = [run.nodes[branch].status for branch in planned.branches]
            assert sum(status in ("completed", "failed") for status in branches) == 1


def check_values(run: Run, decision: Decision, known: object) -> None:
    """Values that are pointed to are there, and names are given by nodes that have one."""
    for planned, state in zip(run.plan, run.nodes, strict=True):
        if state.result_node is not None:
            source = run.nodes[state.result_node]
            assert (source.status, source.result_node) == ("completed", None)
            assert state.result_node in known  # type: ignore[operator]
            assert planned.number < state.result_node <= planned.last
        if state.status == "completed" and state.result_node is None:
            assert planned.number in known  # type: ignore[operator]
    for change in decision.names:
        if isinstance(change, SetName) and change.value is None:
            # Its value is read from the row when the decision is written.
            assert run.nodes[change.source].status == "completed"
