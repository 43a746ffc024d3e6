"""The decider: what follows when something happens to a run.

`decide(run, event, now)` is pure: no I/O, no clock, no randomness, and it changes neither argument.
Worker, simulator and tests all call it; control flow and retries live here and nowhere else. It
works off an agenda of small acts (begin a node, a node succeeded, a node failed) and writes every
changed node into one `Decision`.

    pending -> ready -> running -> completed
                 ^         |-> failed      attempts spent, or an error that trying again cannot help
                 |         |-> ready       retry after a delay, or the engine was lost
    any of these -> cancelled              the run failed or was cancelled
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from workbench.engine import policy
from workbench.engine.model import (
    TERMINAL,
    AttemptEnd,
    CancelRequested,
    Completed,
    Decision,
    Error,
    Event,
    Failed,
    Faulted,
    Lost,
    NodeState,
    Released,
    ReportEvent,
    Revive,
    Run,
    Start,
    Value,
)

__all__ = ["Limits", "decide"]

#: No wait goes beyond this: Python's calendar ends with the year 9999, in some time zones before.
LATEST = datetime(9000, 1, 1, tzinfo=UTC)


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
    turn = _Turn(run, now, after)
    if turn.decision.status in TERMINAL or (
        isinstance(event, ReportEvent) and not turn.holds(event)
    ):
        return turn.refusal()
    match event:
        case Start():
            turn.start()
        case Completed():
            turn.attempt_completed(event)
        case Failed():
            turn.attempt_failed(event)
        case Lost():
            turn.attempt_lost(event, limits.lost)
        case Faulted():
            turn.attempt_faulted(event, limits.faults)
        case Released():
            turn.back_to_ready(event.node, now, turn.state(event.node).error)
        case CancelRequested(reason):
            turn.end_run("cancelled", {"type": "Cancelled", "message": reason})
        case Revive():
            turn.revive()
    turn.work_off()
    return turn.refusal() if turn.refused else turn.decision


class _Turn:
    """One decision in the making."""

    def __init__(self, run: Run, now: datetime, after: Decision | None) -> None:
        self.run = run
        self.plan = run.plan
        self.now = now
        self.refused = False
        self.decision = after or Decision(run.version + 1, run.status, now)
        self.agenda: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def then(self, act: Callable[..., None], *args: Any) -> None:
        self.agenda.append((act, args))

    def work_off(self) -> None:
        while self.agenda:
            act, args = self.agenda.pop()
            act(*args)

    def refusal(self) -> Decision:
        """Nothing changes."""
        return Decision(self.run.version, self.run.status, self.now, refused=True)

    def state(self, node: int) -> NodeState:
        return self.decision.nodes.get(node) or self.run.nodes[node]

    def change(
        self,
        node: int,
        status: str,
        *,
        error: Error | None = None,
        ready_at: datetime | None = None,
        result_node: int | None = None,
    ) -> NodeState:
        """Move a node on. Its claim ends with every move; an error stays only where it is given
        again.
        """
        old = self.state(node)
        state = NodeState(
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
        )
        self.decision.nodes[node] = state
        return state

    def holds(self, report: ReportEvent) -> bool:
        """Whether the report is of the attempt now running."""
        if not 0 <= report.node < len(self.plan):
            return False
        state = self.state(report.node)
        return state.status == "running" and state.token == report.token

    # Going down: a node begins.

    def start(self) -> None:
        if self.decision.status != "pending":
            self.refused = True
            return
        self.decision.status = "running"
        self.then(self.begin, 0)

    def begin(self, node: int) -> None:
        planned = self.plan[node]
        if planned.type == "THEN":
            self.change(node, "running")
            self.then(self.begin, planned.left)
        else:
            self.change(node, "ready", ready_at=self.now)

    # Coming up: a node has ended, and its parent decides what that means.

    def succeeded(self, node: int, value: Value, source: int) -> None:
        """A node's value is known: it is that of leaf `source`."""
        planned = self.plan[node]
        if node == source:
            self.decision.values[node] = value
        self.change(node, "completed", result_node=source if source != node else None)
        if planned.name is not None:
            self.decision.names[planned.name] = (node, value)
        if planned.parent is None:
            self.decision.status = "completed"
        else:
            self.then(self.child_succeeded, planned.parent, node, value, source)

    def child_succeeded(self, node: int, child: int, value: Value, source: int) -> None:
        planned = self.plan[node]
        if child == planned.left:
            self.then(self.begin, planned.right)
        else:
            self.then(self.succeeded, node, value, source)

    def failed(self, node: int, error: Error) -> None:
        self.change(node, "failed", error=error)
        parent = self.plan[node].parent
        if parent is None:
            self.end_run("failed", error)
        else:
            self.then(self.failed, parent, error)

    def end_run(self, status: str, error: Error) -> None:
        """The run is over: nothing in it stays alive, and late reports will find their tokens
        gone.
        """
        self.decision.status = status
        self.decision.error = error
        for node in range(len(self.plan)):
            state = self.state(node)
            if state.status not in TERMINAL:
                if state.status == "running" and state.token is not None:
                    self.end_attempt(node, "cancelled")
                self.change(node, "cancelled", error=state.error)

    # Attempts.

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
                exactly_once=planned.type == "SQL" and not (state.autocommit or planned.alone),
                **fields,
            )
        )

    def attempt_completed(self, event: Completed) -> None:
        attempt = self.state(event.node).attempt + 1
        self.end_attempt(event.node, "completed", fingerprint=event.fingerprint)
        self.succeeded(event.node, event.value, event.node)
        self.decision.nodes[event.node].attempt = attempt
        if event.cancel is not None:
            self.agenda.insert(0, (self.cancel_after_step, (event.cancel,)))

    def cancel_after_step(self, reason: str) -> None:
        """The step asked for it; should it have been the last one, the run is complete and nothing
        is left to cancel.
        """
        if self.decision.status not in TERMINAL:
            self.end_run("cancelled", {"type": "Cancelled", "message": reason})

    def attempt_failed(self, event: Failed) -> None:
        state = self.state(event.node)
        attempt = state.attempt + 1
        error = {**event.error, "node": event.node, "attempt": attempt}
        rules = self.run.policy
        if attempt >= rules.max_attempts or policy.is_permanent(event.error):
            self.end_attempt(event.node, "failed", error=error, fingerprint=event.fingerprint)
            self.failed(event.node, error)
        else:
            delay = event.delay if event.delay is not None else policy.backoff(attempt, rules)
            source = event.delay_source or "backoff"
            self.end_attempt(
                event.node,
                "failed",
                error=error,
                delay=delay,
                delay_source=source,
                fingerprint=event.fingerprint,
            )
            self.back_to_ready(event.node, _later(self.now, delay), error=error)
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

    # Repair.

    def revive(self) -> None:
        """Begin what should have begun: the innermost running composite knows its next child."""
        if self.state(0).status == "pending":
            self.decision.status = "running"
            self.then(self.begin, 0)
            return
        for planned in self.plan:
            if planned.is_leaf or self.state(planned.number).status != "running":
                continue
            for child in (planned.left, planned.right):
                assert child is not None
                status = self.state(child).status
                if status == "pending":
                    self.then(self.begin, child)
                if status != "completed":
                    break
        if not self.agenda:
            self.refused = True


def _later(now: datetime, delay: float) -> datetime:
    if delay >= (LATEST - now).total_seconds():
        return LATEST
    return now + timedelta(seconds=delay)
