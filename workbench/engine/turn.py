"""The bookkeeping of one decision: what it has changed so far, and the acts still to be done.

No rules of the language are here: those of control flow are in `control`, those of attempts and
events in `machine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from workbench.engine.model import (
    TERMINAL,
    AttemptEnd,
    Decision,
    Error,
    ForgetNames,
    MoveNames,
    NodeState,
    ReportEvent,
    Run,
    SetName,
)
from workbench.engine.plan import Expansion, Plan

__all__ = ["Turn", "later"]

#: No wait goes beyond this: Python's calendar ends with the year 9999, in some time zones before.
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
_UNTOUCHED = NodeState()


class Turn:
    """One decision in the making."""

    def __init__(self, run: Run, now: datetime, after: Decision | None) -> None:
        self.run = run
        self.now = now
        self.refused = False
        self.decision = after or Decision(run.version + 1, run.status, now)
        self.plan = self.decision.plan or run.plan
        self.agenda: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def then(self, act: Callable[..., None], *args: Any) -> None:
        """Do this next: what follows from an act comes before what was waiting for its turn."""
        self.agenda.append((act, args))

    def at_last(self, act: Callable[..., None], *args: Any) -> None:
        """Do this when nothing else is left to do."""
        self.agenda.insert(0, (act, args))

    def work_off(self) -> None:
        while self.agenda:
            act, args = self.agenda.pop()
            act(*args)

    @property
    def over(self) -> bool:
        """Whether the run has come to its end."""
        return self.decision.status in TERMINAL

    def refusal(self) -> Decision:
        """Nothing changes."""
        return Decision(self.run.version, self.run.status, self.now, refused=True)

    def finished(self) -> Decision:
        """The decision, with the time of the next one that is already known."""
        if self.plan.has_timers:
            self.decision.wake_at = None if self.over else self._next_timer()
        return self.decision

    def _next_timer(self) -> datetime | None:
        changed = self.decision.nodes
        timers = [state.timer for state in changed.values() if state.timer is not None]
        kept = (time for time, node in self.run.timers if node not in changed)
        return min([*timers, *islice(kept, 1)], default=None)

    # Nodes.

    def state(self, node: int) -> NodeState:
        if (changed := self.decision.nodes.get(node)) is not None:
            return changed
        # An element that is new has the number of none before it.
        return self.run.nodes[node] if node < len(self.run.nodes) else _UNTOUCHED

    def is_over(self, node: int) -> bool:
        return self.state(node).status in TERMINAL

    def change(
        self,
        node: int,
        status: str,
        *,
        error: Error | None = None,
        ready_at: datetime | None = None,
        result_node: int | None = None,
    ) -> NodeState:
        """Move a node on. Its claim ends with every move; an error, a time and a pointer to a value
        stay only where they are given again.
        """
        old = self.state(node)
        return self._put(
            node,
            NodeState(
                status,
                self.decision.version,
                old.attempt,
                old.losses,
                old.faults,
                old.autocommit,
                ready_at=ready_at,
                started_at=old.started_at,
                result_node=result_node,
                error=error,
                iteration=old.iteration,
                abandoned=old.abandoned,
                falsy=old.falsy,
                reused=old.reused,
                base=old.base,
                size=old.size,
                facts=old.facts,
            ),
        )

    def begun(self, node: int, status: str, ready_at: datetime | None = None) -> NodeState:
        """A composite or a wait begins now; a leaf does when it is claimed."""
        state = self.change(node, status, ready_at=ready_at)
        state.started_at = self.now
        return state

    def reset(self, first: int, last: int) -> None:
        """These nodes are as if they had never been."""
        self.drop(first, last)
        for node in self.plan.numbers(first, last):
            state = self.state(node)
            if state.status != "pending" or state.reused:
                self._put(node, NodeState("pending", self.decision.version))

    def _put(self, node: int, state: NodeState) -> NodeState:
        if ended := (state.status in TERMINAL) - self.is_over(node):
            for counter in self.plan[node].counted_by:
                self.decision.ended[counter] = self.decision.ended.get(counter, 0) + ended
        self.decision.nodes[node] = state
        return state

    def ends(self, node: int) -> int:
        """How many of the parts of a node, or of the dependencies of a step, have ended."""
        return self.run.ended.get(node, 0) + self.decision.ended.get(node, 0)

    def close(self, first: int, last: int) -> None:
        """Nothing in this part of the graph stays alive, and late reports will find their tokens
        gone.
        """
        for node in self.plan.numbers(first, last):
            state = self.state(node)
            if state.status == "pending":
                self.change(node, "skipped")
            elif state.status not in TERMINAL:
                self.cancel(node)

    # Elements of MAPs.

    def expand(self, node: int, size: int) -> range:
        """A MAP has so many elements from now on; the numbers of their roots."""
        state = self.state(node)
        kept = state.base is not None and state.size == size
        if not kept:
            self.drop(node, node)
            state.base, state.size = max(len(self.run.nodes), len(self.plan)), size
            self.plan = self.plan.expanded(node, state.base, size)
        self._take_plan(self.plan)
        self.decision.expanded[node] = replace(self.plan.expansion(node), kept=kept)
        return self.plan.elements(node)

    def drop(self, first: int, last: int) -> None:
        """The MAPs among these nodes have no elements any more."""
        gone = self.plan.expansions(first, last)
        if not gone:
            return
        for expansion in gone:
            if self.decision.expanded.pop(expansion.map, None) is None:
                self.decision.dropped.append((expansion.base, expansion.end - 1))
            for number in range(expansion.base, expansion.end):
                self.decision.nodes.pop(number, None)
                for counter in (expansion.map, number, ~number):
                    self.decision.ended[counter] = -self.run.ended.get(counter, 0)
        self.forget_elements(gone)
        self._take_plan(self.plan.without(gone))

    def forget_elements(self, expansions: Iterable[Expansion]) -> None:
        self.decision.names.extend(ForgetNames(e.base, e.end - 1) for e in expansions)

    def _take_plan(self, plan: Plan) -> None:
        self.plan = self.decision.plan = plan

    def cancel(self, node: int) -> None:
        state = self.state(node)
        if state.status == "running" and state.token is not None:
            self.end_attempt(node, "cancelled")
        self.change(node, "cancelled", error=state.error)

    # Attempts and names.

    def holds(self, report: ReportEvent) -> bool:
        """Whether the report is of the attempt now running."""
        if report.node not in self.plan:
            return False
        state = self.state(report.node)
        return state.status == "running" and state.token == report.token

    def end_attempt(self, node: int, outcome: str, **fields: Any) -> None:
        state, planned = self.state(node), self.plan[node]
        assert state.token is not None
        self.decision.attempts.append(
            AttemptEnd(
                node,
                state.attempt + 1,
                outcome,
                state.token,
                state.engine,
                state.started_at,
                exactly_once=planned.type == "SQL"
                and not (state.autocommit or planned.alone or self.run.elsewhere),
                iterations=self.iterations(node),
                pattern=planned.pattern,
                element=planned.element,
                **fields,
            )
        )

    def iterations(self, node: int) -> tuple[int, ...]:
        """Which iteration of each loop around the node this is, the outermost loop first."""
        if self.plan[node].loop is None:
            return ()
        return tuple(self.state(loop).iteration for loop in self.plan.loops(node))

    def move_names(self, branch: int) -> None:
        """What a branch named becomes known outside of it."""
        if self.plan.gives_names(branch):
            parent = self.plan[branch].parent
            assert parent is not None
            self.decision.names.append(MoveNames(branch, self.plan[parent].scope))

    def reads_rows(self, first: int, last: int) -> bool:
        """Whether names have been set whose values only the rows of these nodes have."""
        return any(
            isinstance(change, SetName) and change.value is None and first <= change.source <= last
            for change in self.decision.names
        )

    def forget_names(self, branch: int) -> None:
        if self.plan.gives_names(branch):
            self.decision.names.append(ForgetNames(branch, self.plan[branch].last))
        self.forget_elements(self.plan.expansions(branch, self.plan[branch].last))

    def forget_iteration(self, loop: int) -> None:
        """The names of a loop that is the whole graph start empty; those of another one stay, but
        for what branches that came to no good left behind.
        """
        if loop == 0:
            self.forget_names(loop)
        elif self.plan.forks(loop) and self.plan.gives_names(loop):
            self.decision.names.append(ForgetNames(loop + 1, self.plan[loop].last))


def later(now: datetime, delay: float) -> datetime:
    """`delay` seconds after `now`, within the calendar."""
    if delay >= (LATEST - now).total_seconds():
        return LATEST
    return now + timedelta(seconds=delay)
