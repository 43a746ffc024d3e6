"""A run on a virtual clock: the decider driven without a database, an engine or waiting.

`Simulation` does what an engine does around `decide` and nothing more: it claims leaves that are
due, reports how they ended, and takes over what was decided. It looks at statuses and times only,
never at node types. What an attempt comes to is the caller's to say, by an `Outcome`. Nothing here
executes a step, and nothing decides.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from workbench.engine.machine import Limits, decide
from workbench.engine.model import (
    TERMINAL,
    AttemptEnd,
    Completed,
    Decision,
    Error,
    Event,
    Failed,
    ForgetNames,
    Gathered,
    Lost,
    MoveNames,
    NameChange,
    NodeState,
    ReportEvent,
    Run,
    SetName,
    Signal,
    Start,
    Value,
    Wake,
)
from workbench.engine.plan import RUN_SCOPE, Plan
from workbench.engine.policy import Policy
from workbench.errors import StateError
from workbench.graph.node import Node
from workbench.graph.values import encode

__all__ = ["EPOCH", "Attempt", "Crashes", "Fails", "Outcome", "Simulation", "Succeeds", "Try"]

#: Where virtual time begins, when the caller does not say.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

#: Ended attempts and waits after which `run_to_end` gives up: a loop need not end.
MOST_STEPS = 100_000


class Try(NamedTuple):
    """A claimed leaf, about to be tried: what an outcome may depend on.

    `attempt` is the number of this try, from 1; a try that was lost before had the same number.
    """

    node: int
    attempt: int
    losses: int
    token: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Succeeds:
    """The attempt completes with `value`, a JSON text, after `seconds`.

    `cancel` is the reason when the step itself asks to cancel its run.
    """

    value: str = "null"
    seconds: float = 0.0
    cancel: str | None = None

    def event(self, node: int, token: str) -> ReportEvent:
        """The report of this outcome."""
        return Completed(node, token, Value(self.value), cancel=self.cancel)


@dataclass(frozen=True, slots=True)
class Fails:
    """The attempt fails with `error` after `seconds`.

    `delay`, in seconds, is what the step asked for before its next attempt; None leaves it to the
    policy.
    """

    error: Error = field(default_factory=lambda: {"type": "Error", "message": "simulated failure"})
    seconds: float = 0.0
    delay: float | None = None
    delay_source: str | None = None

    def event(self, node: int, token: str) -> ReportEvent:
        """The report of this outcome."""
        return Failed(node, token, self.error, self.delay, self.delay_source)


@dataclass(frozen=True, slots=True)
class Crashes:
    """Whatever executes the attempt dies after `seconds`."""

    reason: str = "simulated crash"
    seconds: float = 0.0

    def event(self, node: int, token: str) -> ReportEvent:
        """The report of this outcome."""
        return Lost(node, token, self.reason)


Outcome = Succeeds | Fails | Crashes


class Attempt(NamedTuple):
    """A row of the attempts table, as in `df.attempts`.

    `delay` is seconds until the next attempt, None when there is none; `source` says who chose it.
    """

    node: int
    number: int
    start: datetime
    end: datetime
    outcome: str
    token: str
    error: Error | None = None
    delay: float | None = None
    source: str | None = None


class Simulation:
    """One run and its virtual clock.

    Parameters
    ----------
    run:
        The run to drive; it is changed in place.
    now:
        Where the clock stands.
    limits:
        The budgets for losses and faults, as for `decide`.

    Attributes
    ----------
    attempts:
        What has been tried, in the order in which it ended.
    values:
        The value of each completed leaf, by number.
    scopes:
        What each branch has named, by the number of its root, and under 0 what the run has:
        `names`.
    unread:
        Signals that no wait has taken yet.
    error:
        Why the run failed or was cancelled.
    """

    def __init__(self, run: Run, now: datetime = EPOCH, limits: Limits = Limits()) -> None:  # noqa: B008 - immutable
        self.run = run
        self.now = now
        self.limits = limits
        self.attempts: list[Attempt] = []
        self.values: dict[int, Value] = {}
        self.scopes: dict[int, dict[str, Value]] = {RUN_SCOPE: {}}
        self.unread: list[Signal] = []
        self.error: Error | None = None
        self._claims = 0
        self._sent = 0
        # Leaves that are or will be ready, the next one first: a large run is not searched.
        self._ready: list[tuple[datetime, int]] = []
        for number, state in enumerate(run.nodes):
            self._queue(number, state)

    @classmethod
    def of(cls, graph: Node, policy: Policy = Policy(), limits: Limits = Limits()) -> Simulation:  # noqa: B008 - immutable
        """A new run of `graph`, not yet started."""
        return cls(Run("simulated", Plan.of(graph), policy), limits=limits)

    # Looking.

    @property
    def status(self) -> str:
        """The run's status."""
        return self.run.status

    @property
    def finished(self) -> bool:
        """Whether the run's status will never change again."""
        return self.run.status in TERMINAL

    @property
    def ready(self) -> list[int]:
        """Leaves that an engine would claim now, oldest first."""
        return [node for time, node in self._ready if time <= self.now]

    @property
    def running(self) -> dict[int, str]:
        """The tokens of the leaves that are claimed, by number."""
        return {n: s.token for n, s in enumerate(self.run.nodes) if s.token is not None}

    @property
    def next_due(self) -> datetime | None:
        """When the next node comes due: at most `now` if one is due already, None if none will."""
        times = [time for time, _ in (*self._ready[:1], *self.run.timers[:1])]
        return min(times, default=None)

    @property
    def names(self) -> dict[str, Value]:
        """The value under each name that the whole run knows, the newest one."""
        return self.scopes[RUN_SCOPE]

    def names_at(self, node: int) -> dict[str, Value]:
        """The values that a node sees by name."""
        seen: dict[str, Value] = {}
        for scope in reversed(self.run.plan.scopes(node)):
            seen |= self.scopes.get(scope, {})
        return seen

    @property
    def value(self) -> Value | None:
        """The run's result; None unless it completed."""
        if self.run.status != "completed":
            return None
        source = self.run.nodes[0].result_node
        return self.values.get(0 if source is None else source)

    def holds(self, event: ReportEvent) -> bool:
        """Whether the report is still waited for: its token is that of the attempt now running."""
        return self.run.nodes[event.node].token == event.token

    # Doing, one step at a time.

    def report(self, event: Event) -> Decision:
        """Decide what follows from `event` now, and take it over.

        A stale event comes back `refused` and changes nothing.
        """
        decision = decide(self.run, event, self.now, self.limits)
        gone = [n for first, last in decision.dropped for n in range(first, last + 1)]
        for number in {*decision.nodes, *gone}:
            if number < len(self.run.nodes):
                self._unqueue(number, self.run.nodes[number])
        self.run.apply(decision)
        if not decision.refused:
            self._take(decision)
        if decision.listens and self.unread:
            self.report(Wake(tuple(self.unread)))
        return decision

    def _take(self, decision: Decision) -> None:
        self.values.update(decision.values)
        for node, sources in decision.gathered.items():
            self.values[node] = self._gathered(sources)
        for change in decision.names:
            self._name(change)
        self.attempts.extend(self._row(end) for end in decision.attempts)
        self.unread = [signal for signal in self.unread if signal.id not in decision.taken]
        self.error = decision.error
        for number, state in decision.nodes.items():
            self._queue(number, state)

    def _gathered(self, sources: Gathered) -> Value:
        if isinstance(sources, dict):
            fields = (f"{encode(name)}:{self._text(n)}" for name, n in sources.items())
            return Value(f"{{{','.join(fields)}}}")
        return Value(f"[{','.join(map(self._text, sources))}]")

    def _text(self, node: int) -> str:
        """The value of a node; of an element that failed, its error."""
        state = self.run.nodes[node]
        if state.status == "failed":
            return encode(dict(state.error or {}))
        return self.values[node].json

    def _name(self, change: NameChange) -> None:
        match change:
            case SetName(scope, name, source, value):
                self.scopes.setdefault(scope, {})[name] = value or self.values[source]
            case MoveNames(branch, scope):
                self.scopes.setdefault(scope, {}).update(self.scopes.pop(branch, {}))
            case ForgetNames(first, last):
                for scope in range(first, last + 1):
                    self.scopes.pop(scope, None)
                self.scopes.setdefault(RUN_SCOPE, {})

    def signal(self, name: str, data: str = "{}") -> None:
        """Send the run a signal; `data` is JSON text."""
        self._sent += 1
        self.unread.append(Signal(self._sent, name, self.now, data))
        if self.status == "running":
            self.report(Wake(tuple(self.unread)))

    def claim(self, node: int) -> Try:
        """Take a ready leaf as an engine does: a token of its own, no new version.

        Raises
        ------
        StateError
            The leaf is not ready, or not yet.
        """
        state = self.run.nodes[node]
        if state.status != "ready" or (state.ready_at or self.now) > self.now:
            raise StateError(
                f"node #{node} is {self._condition(node)}, so it cannot be claimed; take one of "
                "`ready`, or `advance()` the clock"
            )
        self._claims += 1
        self._unqueue(node, state)
        token = f"claim-{self._claims}"
        # A new object: the decision that made the leaf ready keeps the old one.
        claimed = replace(
            state,
            status="running",
            token=token,
            engine="simulator",
            ready_at=None,
            started_at=self.now,
        )
        self.run.set(node, claimed)
        return Try(node, state.attempt + 1, state.losses, token, self.now)

    def advance(self, to: datetime | None = None) -> bool:
        """Move the clock on to `to`, by default to when the next node comes due; never back.

        Waits whose time has come are woken by `Wake`, as an engine does when a run is due.

        Returns
        -------
        bool
            Whether the clock moved or a node was woken.
        """
        target = self.next_due if to is None else to
        moved = target is not None and target > self.now
        if target is not None and moved:
            self.now = target
        timers = self.run.timers
        woken = bool(timers) and timers[0][0] <= self.now
        if woken:
            self.report(Wake(tuple(self.unread)))
        return moved or woken

    # Doing all of it.

    def run_to_end(self, outcome_of: Callable[[Try], Outcome], most: int = MOST_STEPS) -> str:
        """Start the run if it is pending, claim every leaf once it is due, end each as told.

        Attempts that end at the same moment are reported in the order of their claims.

        Parameters
        ----------
        outcome_of:
            Called once for each claim: how this try ends.
        most:
            Ended attempts and waits after which to give up.

        Returns
        -------
        str
            The run's status: `running` when it stands still until something comes from outside,
            such as a signal.

        Raises
        ------
        StateError
            Still not at its end after `most` of them.
        """
        if self.status == "pending":
            self.report(Start())
        ends: list[tuple[datetime, int, ReportEvent]] = []
        for _ in range(most):
            if self.finished or not self._step(ends, outcome_of):
                return self.status
        if not self.finished:
            raise StateError(
                f"the run is not at its end after {most} steps; look for a loop that never ends, "
                "or raise `most`"
            )
        return self.status

    def _step(
        self,
        ends: list[tuple[datetime, int, ReportEvent]],
        outcome_of: Callable[[Try], Outcome],
    ) -> bool:
        """Claim what is ready; end an attempt, or let the time of a wait come, whichever is next.
        Whether there was one.
        """
        for node in self.ready:
            heapq.heappush(ends, self._end(self.claim(node), outcome_of))
        due = self.next_due
        if not ends or (due is not None and due < ends[0][0]):
            return self.advance()
        end, _, event = heapq.heappop(ends)
        if self.holds(event):
            self.advance(end)
            self.report(event)
        return True

    def _end(
        self, claimed: Try, outcome_of: Callable[[Try], Outcome]
    ) -> tuple[datetime, int, ReportEvent]:
        outcome = outcome_of(claimed)
        end = self.now + timedelta(seconds=outcome.seconds)
        return end, self._claims, outcome.event(claimed.node, claimed.token)

    def _row(self, end: AttemptEnd) -> Attempt:
        start = self.now if end.started_at is None else end.started_at
        return Attempt(
            end.node,
            end.attempt,
            start,
            self.now,
            end.outcome,
            end.token,
            end.error,
            end.delay,
            end.delay_source,
        )

    def _queue(self, node: int, state: NodeState) -> None:
        if state.status == "ready":
            insort(self._ready, (state.ready_at or self.now, node))

    def _unqueue(self, node: int, state: NodeState) -> None:
        if state.status == "ready":
            del self._ready[bisect_left(self._ready, (state.ready_at or self.now, node))]

    def _condition(self, node: int) -> str:
        state = self.run.nodes[node]
        return state.status if state.ready_at is None else f"{state.status} at {state.ready_at}"
