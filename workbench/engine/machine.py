"""The decider: what follows when something happens to a run.

`decide(run, event, now)` is pure: no I/O, no clock, no randomness, and it changes neither argument.
Worker, simulator and tests all call it. What events mean is here: attempts that ended, times that
came, signals, cancelling. What then begins and ends in the graph is in `control`, and the
bookkeeping under both in `turn`: an agenda of small acts (begin a node, a node succeeded, a node
failed) is worked off, and every changed node written into one `Decision`.

    pending -> ready -> running -> completed
       |         ^         |-> failed      attempts spent, or an error that trying again cannot help
       |         |         |-> ready       retry after a delay, or the engine was lost
       |         |-> waiting              a step for outside workers: one claims it, so running again
       |-> waiting -> completed           a time, a schedule, a signal
    any of these -> cancelled, skipped     the run or the branch ended without it
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from workbench.engine import policy
from workbench.engine.control import Control
from workbench.engine.model import (
    CancelRequested,
    Completed,
    Decision,
    Error,
    Event,
    Failed,
    Faulted,
    Lost,
    Offered,
    Released,
    ReportEvent,
    Run,
    Signal,
    Start,
    Wake,
)
from workbench.engine.plan import Planned
from workbench.engine.turn import later

__all__ = ["Limits", "decide"]


class Limits(NamedTuple):
    """The budgets that are not attempts: the settings `max_lost` and `max_faults`, with their
    defaults.
    """

    lost: int = 3
    faults: int = 5


def decide(
    run: Run,
    event: Event,
    now: datetime,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    after: Decision | None = None,
) -> Decision:
    """Say what follows from `event`.

    Parameters
    ----------
    run:
        The run as it stands.
    event:
        What happened. A report whose token is not the node's current one is refused: nothing
        changes.
    now:
        The database's clock, read after the run was locked.
    limits:
        How often a node may lose its engine or connection, or its checkpoint, before it fails.
    after:
        What was decided about this run a moment ago and will be written with this: it is continued
        and returned, unless the event is refused.

    Returns
    -------
    Decision
        The new state of every changed node, ended attempts, named values and the run's status.
    """
    turn = _Machine(run, now, after)
    if turn.over or (isinstance(event, ReportEvent) and not turn.holds(event)):
        return turn.refusal()
    match event:
        case Start():
            turn.start()
        case Wake():
            turn.wake(event)
        case CancelRequested(reason):
            turn.end_run("cancelled", {"type": "Cancelled", "message": reason})
        case _:
            turn.reported(event, limits)
    turn.work_off()
    return turn.refusal() if turn.refused else turn.finished()


class _Machine(Control):
    """What each event means."""

    def start(self) -> None:
        if self.decision.status != "pending":
            self.refused = True
            return
        self.decision.woken = True
        self.decision.status = "running"
        self.then(self.begin, 0)

    # Attempts.

    def reported(self, event: ReportEvent, limits: Limits) -> None:
        match event:
            case Completed():
                self.attempt_completed(event)
            case Failed():
                self.attempt_failed(event)
            case Lost():
                self.attempt_lost(event, limits.lost)
            case Faulted():
                self.attempt_faulted(event, limits.faults)
            case Released():
                reason = event.reason or self.state(event.node).error
                self.back_to_ready(event.node, later(self.now, event.delay), reason)
            case Offered():
                self.begun(event.node, "waiting")
                self.decision.offered[event.node] = event.input

    def attempt_completed(self, event: Completed) -> None:
        attempt = self.state(event.node).attempt + 1
        planned = self.plan[event.node]
        ended = partial(
            self.end_attempt,
            event.node,
            fingerprint=event.fingerprint,
            executed=event.executed,
            logs=event.logs,
        )
        fault = None if planned.step is None else self.unmappable(planned.step, event.value)
        if fault is not None:
            fault = {**fault, "attempt": attempt}
            ended("failed", error=fault)
            self.refused_output(planned, fault)
        else:
            ended("completed")
            self.completed(planned, event)
        self.decision.nodes[event.node].attempt = attempt
        if event.cancel is not None:
            self.at_last(self.cancel_after_step, event.cancel)

    def completed(self, planned: Planned, event: Completed) -> None:
        """What a claimed node's value means: for some, what they had to look up."""
        if planned.type == "IF":
            self.change(event.node, "running")
            self.choose(planned, truth=event.value.json == "true")
        elif planned.type == "MAP":
            self.change(event.node, "running")
            self.begin_elements(planned, int(event.value.json))
        else:
            self.succeeded(event.node, event.value, event.node)

    def cancel_after_step(self, reason: str) -> None:
        """The step asked for it; should it have been the last one, the run is complete and nothing
        is left to cancel.
        """
        if not self.over:
            self.end_run("cancelled", {"type": "Cancelled", "message": reason})

    def attempt_failed(self, event: Failed) -> None:
        state = self.state(event.node)
        attempt = state.attempt + 1
        error = {**event.error, "node": event.node, "attempt": attempt}
        rules = self.run.policy.nearer(self.plan[event.node].retry)
        ended = partial(
            self.end_attempt,
            event.node,
            "failed",
            fingerprint=event.fingerprint,
            executed=event.executed,
            logs=event.logs,
        )
        if attempt >= rules.max_attempts or policy.is_permanent(event.error):
            if event.delay is not None and event.delay_source == "retry_after":
                error["message"] += _unused(event.delay, attempt, rules.max_attempts)
            ended(error=error)
            self.failed(event.node, error)
        else:
            delay = event.delay if event.delay is not None else policy.backoff(attempt, rules)
            ended(error=error, delay=delay, delay_source=event.delay_source or "backoff")
            self.back_to_ready(event.node, later(self.now, delay), error=error)
        self.decision.nodes[event.node].attempt = attempt

    def attempt_lost(self, event: Lost, max_lost: int) -> None:
        """The budget for losses is its own: losing a worker uses up no attempt."""
        losses = self.state(event.node).losses + 1
        spent = losses >= max_lost
        verdict = (
            f" (lost {losses} times: this step seems to kill what executes it)" if spent else ""
        )
        error = {"type": "WorkerLost", "message": event.reason + verdict, "node": event.node}
        if spent:
            self.end_attempt(event.node, "worker_lost", error=error)
            self.failed(event.node, error)
        else:
            self.end_attempt(
                event.node, "worker_lost", error=error, delay=0.0, delay_source="worker_lost"
            )
            self.back_to_ready(event.node, self.now, error=error)
        self.decision.nodes[event.node].losses = losses

    def attempt_faulted(self, event: Faulted, max_faults: int) -> None:
        """Repeated without using an attempt: the step was rolled back together with its
        checkpoint.
        """
        faults = self.state(event.node).faults + 1
        if faults > max_faults:
            error = {**event.error, "type": "CheckpointFailed", "node": event.node}
            self.end_attempt(event.node, "failed", error=error)
            self.failed(event.node, error)
        else:
            self.back_to_ready(event.node, self.now, error=event.error)
        self.decision.nodes[event.node].faults = faults

    def back_to_ready(self, node: int, ready_at: datetime, error: Error | None = None) -> None:
        self.change(node, "ready", ready_at=ready_at, error=error)

    # Times and signals.

    def wake(self, event: Wake) -> None:
        """Everything that is due, in the order in which it came about."""
        self.decision.woken = True
        due = [(time, 1, partial(self.time_came, node)) for time, node in self.timers_due()]
        sent = [(each.sent_at, 0, partial(self.arrived, each)) for each in event.signals]
        self.passed_over: set[str] = set()  # names of signals that nothing waited for
        for _, _, act in sorted([*due, *sent], key=itemgetter(0, 1)):
            act()
            self.work_off()
            if self.over:
                return
        if not (due or sent or self.is_alive()):
            self.revive()

    def timers_due(self) -> list[tuple[datetime, int]]:
        """The waits whose end has come, the earliest first; among equals the leftmost."""
        found = []
        for time, node in self.run.timers:
            if time > self.now:
                break
            found.append((time, node))
        changed = self.decision.nodes
        found = [each for each in found if each[1] not in changed]
        found += [
            (state.timer, node)
            for node, state in changed.items()
            if state.timer is not None and state.timer <= self.now
        ]
        return sorted(found)

    def arrived(self, signal: Signal) -> None:
        """A signal reaches every wait that had begun when it was sent, else the next one."""
        waiting = self.waits_for(signal.name)
        if waiting and (signal.data is None or signal.name in self.passed_over):
            # Its data has to be loaded, or an older one is this wait's: the run is due again.
            self.decision.listens = True
            return
        reached = [n for n in waiting if self.began(n) <= signal.sent_at] or waiting[:1]
        for node, began in [(node, self.began(node)) for node in reached]:
            # What follows from one may have ended another, or begun it anew.
            if self.state(node).status == "waiting" and self.began(node) == began:
                self.signalled(node, signal.data)
                self.work_off()
        if reached:
            self.decision.taken.append(signal.id)
        else:
            self.decision.looked_at.append(signal.id)
            self.passed_over.add(signal.name)

    def waits_for(self, name: str) -> list[int]:
        """The waits for a signal that is still in time, the oldest first."""
        nodes = self.plan.waits_for(name)
        found = [node for node in nodes if self.state(node).status == "waiting"]
        return sorted(found, key=self.began)

    def began(self, node: int) -> datetime:
        return self.state(node).started_at or self.now

    # Repair.

    def is_alive(self) -> bool:
        """Whether something in the run is going to happen by itself."""
        return any(
            state.status in ("ready", "waiting") or state.token is not None
            for state in map(self.state, self.plan.numbers(0, self.plan[0].last))
        )

    def revive(self) -> None:
        """Begin what should have begun: tell the innermost running composite once more how its
        child ended.
        """
        numbers = self.plan.numbers(0, self.plan[0].last)
        for planned in map(self.plan.__getitem__, sorted(numbers, reverse=True)):
            if self.state(planned.number).status == "running":
                self.resume(planned.number)
                return
        if self.state(0).status == "pending":
            self.decision.status = "running"
            self.then(self.begin, 0)

    def resume(self, node: int) -> None:
        planned = self.plan[node]
        children = [n for n in (*planned.branches, planned.condition) if n is not None]
        ended = [n for n in children if self.state(n).status in ("completed", "failed")]
        waits_for_all = planned.type == "JOIN" and len(ended) < len(children)
        if planned.type == "FLOW":
            self.then(self.resolve, node, planned.branches)
        elif planned.type == "MAP" and not planned.is_executed:
            self.go_on(planned)
        elif ended and not waits_for_all:
            # What left by a break ends in the same moment as what came before it.
            last = max(ended, key=lambda n: (self.state(n).rev, self.broken(n) is not None))
            self.tell_again(node, last)
        elif planned.is_executed:  # nobody knows any more what it looked up
            self.back_to_ready(node, self.now)
        else:
            for child in self.first_children(planned):
                self.then(self.begin, child)

    def tell_again(self, node: int, child: int) -> None:
        state = self.state(child)
        if state.status == "failed":
            self.then(self.child_failed, node, child, state.error or {})
        elif (left_by := self.broken(child)) is not None:
            self.then(self.child_left_by_break, node, child, None, left_by)
        else:
            self.then(self.child_succeeded, node, child, None, self.source(child))


def _unused(delay: float, attempt: int, most: int) -> str:
    return f" (RetryAfter({delay:g}) not used: attempt {attempt} of {most})"
