"""A run on a virtual clock: the decider driven without a database, an engine or waiting.

`Simulation` does what an engine does around `decide` and nothing more: it claims leaves that are
due, reports how they ended, and takes over what was decided. It looks at statuses and times only,
never at node types. What an attempt comes to is the caller's to say, by an `Outcome`. Nothing here
executes a step, and nothing decides.
"""

from __future__ import annotations

import heapq
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
    Lost,
    Plan,
    ReportEvent,
    Revive,
    Run,
    Start,
    Value,
)
from workbench.engine.policy import Policy
from workbench.errors import StateError
from workbench.graph.node import Node

__all__ = ["EPOCH", "Attempt", "Crashes", "Fails", "Outcome", "Simulation", "Succeeds", "Try"]

#: Where virtual time begins, when the caller does not say.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

#: Attempts after which `run_to_end` gives up: a loop need not end.
MOST_ATTEMPTS = 100_000


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
    names:
        The value under each name, the newest one.
    error:
        Why the run failed or was cancelled.
    """

    def __init__(self, run: Run, now: datetime = EPOCH, limits: Limits = Limits()) -> None:  # noqa: B008 - immutable
        self.run = run
        self.now = now
        self.limits = limits
        self.attempts: list[Attempt] = []
        self.values: dict[int, Value] = {}
        self.names: dict[str, Value] = {}
        self.error: Error | None = None
        self._claims = 0
        # The nodes with a `ready_at`: a large run is not searched at every step.
        self._timed = {n for n, state in enumerate(run.nodes) if state.ready_at is not None}

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
        due = ((self._time(n), n) for n in self._timed if self.run.nodes[n].status == "ready")
        return [number for time, number in sorted(due) if time <= self.now]

    @property
    def running(self) -> dict[int, str]:
        """The tokens of the leaves that are claimed, by number."""
        return {n: s.token for n, s in enumerate(self.run.nodes) if s.token is not None}

    @property
    def next_due(self) -> datetime | None:
        """When the next node comes due: at most `now` if one is due already, None if none will."""
        return min(map(self._time, self._timed), default=None)

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
        self.run.apply(decision)
        if not decision.refused:
            self.values.update(decision.values)
            self.names.update((name, value) for name, (_, value) in decision.names.items())
            self.attempts.extend(self._row(end) for end in decision.attempts)
            self.error = decision.error
            self._timed.difference_update(decision.nodes)
            self._timed.update(
                n for n, state in decision.nodes.items() if state.ready_at is not None
            )
        return decision

    def claim(self, node: int) -> Try:
        """Take a ready leaf as an engine does: a token of its own, no new version.

        Raises
        ------
        StateError
            The leaf is not ready, or not yet.
        """
        if node not in self.ready:
            raise StateError(
                f"node #{node} is {self._condition(node)}, so it cannot be claimed; take one of "
                "`ready`, or `advance()` the clock"
            )
        self._claims += 1
        self._timed.discard(node)
        token, state = f"claim-{self._claims}", self.run.nodes[node]
        # A new object: the decision that made the leaf ready keeps the old one.
        self.run.nodes[node] = replace(
            state,
            status="running",
            token=token,
            engine="simulator",
            ready_at=None,
            started_at=self.now,
        )
        return Try(node, state.attempt + 1, state.losses, token, self.now)

    def advance(self, to: datetime | None = None) -> bool:
        """Move the clock on to `to`, by default to when the next node comes due; never back.

        Nodes whose time has come without making them claimable are woken by `Revive`, as an engine
        does when a run is due.

        Returns
        -------
        bool
            Whether the clock moved or a node was woken.
        """
        target = self.next_due if to is None else to
        moved = target is not None and target > self.now
        if target is not None and moved:
            self.now = target
        woken = any(map(self._overdue, self._timed)) and not self.report(Revive()).refused
        return moved or woken

    # Doing all of it.

    def run_to_end(self, outcome_of: Callable[[Try], Outcome], most: int = MOST_ATTEMPTS) -> str:
        """Start the run if it is pending, claim every leaf once it is due, end each as told.

        Attempts that end at the same moment are reported in the order of their claims.

        Parameters
        ----------
        outcome_of:
            Called once for each claim: how this try ends.
        most:
            Claims after which to give up.

        Returns
        -------
        str
            The run's status: `running` when it stands still until something comes from outside,
            such as a signal.

        Raises
        ------
        StateError
            Still not at its end after `most` claims.
        """
        if self.status == "pending":
            self.report(Start())
        ends: list[tuple[datetime, int, ReportEvent]] = []
        while not self.finished:
            for node in self.ready:
                if self._claims >= most:
                    raise StateError(
                        f"the run is not at its end after {most} attempts; look for a loop that "
                        "never ends, or raise `most`"
                    )
                heapq.heappush(ends, self._end(self.claim(node), outcome_of))
            due = self.next_due
            if ends and (due is None or ends[0][0] <= due):
                end, _, event = heapq.heappop(ends)
                if self.holds(event):
                    self.advance(end)
                    self.report(event)
            elif not self.advance():
                break
        return self.status

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

    def _time(self, node: int) -> datetime:
        return self.run.nodes[node].ready_at or self.now

    def _overdue(self, node: int) -> bool:
        """Whether a node's time has come and yet nobody can claim it."""
        return self.run.nodes[node].status != "ready" and self._time(node) <= self.now

    def _condition(self, node: int) -> str:
        state = self.run.nodes[node]
        return state.status if state.ready_at is None else f"{state.status} at {state.ready_at}"
