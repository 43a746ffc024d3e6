"""What every part of an engine shares: who it is, its copies and claims, and the way from an event
to executing leaves.

`settle` asks the decider and takes what became ready within the ceiling; `committed` puts it into
effect once the database has it. Between the two lies a transaction, which is the caller's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import uuid4

from workbench.engine.copies import Copies
from workbench.engine.machine import Limits, decide
from workbench.engine.model import (
    TERMINAL,
    Decision,
    Error,
    Event,
    NameChange,
    Run,
    SetName,
)
from workbench.engine.workload import Claim, Workload
from workbench.graph.substitute import Column, Named
from workbench.graph.values import decode

__all__ = ["Core", "Host", "Settled"]

log = logging.getLogger("workbench")

#: Named values above this many characters are not kept in a run's copy; the next step that needs
#: one loads it.
CACHED_VALUE = 1_000_000
ALONE = 1.5  # seconds


@dataclass
class Settled:
    """A decision about a run, the claims that end with it, and the leaves that this engine takes
    with the same commit. `given`: of how many the room counts as free until then. `foreign`: other
    engines have to hear of it.
    """

    run: Run
    decision: Decision
    claims: list[Claim] = field(default_factory=list)
    ended: list[Claim] = field(default_factory=list)
    given: int = 0
    foreign: bool = False

    @property
    def frees(self) -> bool:
        """Whether more claims end than are taken."""
        return len(self.ended) > len(self.claims)


class Host(Protocol):
    """Who puts into effect what a core has settled: the engine around it."""

    def has_handler(self, name: str) -> bool:
        """Whether this process has the function for a PYTHON leaf."""

    def execute(self, run: Run, claim: Claim) -> None:
        """Begin executing a leaf; the claim will be reported."""

    def look_in(self, seconds: float) -> None:
        """Look for ready leaves again when this time has passed."""

    def moved(self, run: str, ended: bool) -> None:
        """A run's transition is durable."""


class Core:
    """The state of an engine between its components. Touched by the engine's loop only."""

    def __init__(
        self, dsn: str, database: str, ceilings: tuple[int, int], workload: Workload, host: Host
    ) -> None:
        self.dsn = dsn
        self.ceilings = ceilings  # of activities and of HTTP requests, over all engines
        self._alone_until = 0.0
        self.hungry = False  # a ceiling or a scope has kept leaves from being claimed
        self.yields = False  # others have waited for room: what becomes ready stands in line
        self.identity = ""
        self.stopping = False
        self.claiming = False
        self.limits = Limits()
        self.copies = Copies(database)
        self.workload = workload
        self._host = host

    @property
    def alone(self) -> bool:
        """Whether no other engine lives: then the workload's room is the database's. A newcomer
        waits for longer than this is believed without being asked again.
        """
        return time.monotonic() < self._alone_until

    def saw(self, *, alone: bool) -> None:
        """What the database has just said about that."""
        self._alone_until = time.monotonic() + ALONE if alone else 0.0

    def room(self, ending: int, swaps: int) -> int:
        """How many leaves a decision may take with which `ending` claims end; `swaps` while other
        engines live, since they count on what is free.
        """
        if self.yields:
            return 0
        free = self.workload.free + ending
        return free if self.alone else min(free, swaps)

    def ends(self, settled: Settled, claim: Claim) -> None:
        """A claim ends with this decision: its room may be taken by this and other decisions."""
        settled.ended.append(claim)
        if claim.token in self.workload:
            settled.given += 1
            self.workload.ending += 1

    def settle(
        self, run: Run, event: Event, now: datetime, room: int, earlier: Settled | None = None
    ) -> Settled | None:
        """Decide, and take up to `room` of the leaves that became ready.

        Parameters
        ----------
        earlier:
            What was settled about this run in the same transaction: it is continued and returned.

        Returns
        -------
        Settled | None
            None when the event is refused: nothing changes.
        """
        decision = decide(
            run, event, now, self.limits, None if earlier is None else earlier.decision
        )
        if decision.refused:
            return None
        settled = earlier or Settled(run, decision)
        if self.claiming:
            self._take_ready(settled, room)
        settled.foreign |= any(
            attempt.outcome == "cancelled" and attempt.engine != self.identity
            for attempt in decision.attempts
        )
        return settled

    def _take_ready(self, settled: Settled, room: int) -> None:
        plan = settled.decision.plan or settled.run.plan
        for node in settled.decision.ready:
            planned = plan[node]
            if planned.is_gated:  # admitted by the database alone
                continue
            handler = planned.handler
            if handler is not None and not self._host.has_handler(handler):
                settled.foreign = True
            elif room > 0 and self._may_take(settled.decision, node):
                settled.claims.append(self._take(settled.run, settled.decision, node))
                room -= 1

    def _may_take(self, decision: Decision, node: int) -> bool:
        return not (decision.nodes[node].losses and self.workload.suspect)

    def _take(self, run: Run, decision: Decision, node: int) -> Claim:
        """A leaf goes from pending to running without having been ready for anybody else."""
        state = decision.nodes[node]
        state.status, state.token, state.engine = "running", str(uuid4()), self.identity
        state.started_at, state.ready_at = decision.at, None
        claim = Claim(run.id, node, state.token, suspect=state.losses > 0)
        self.workload.add(claim)
        self.copies.hold(run.id)
        return claim

    def committed(self, settled: Settled) -> None:
        """The database has it: bring the copy up to date and execute what was taken."""
        run, decision = settled.run, settled.decision
        if decision.version > run.version:  # else rows have brought the copy past it
            run.apply(decision)
            for change in decision.names:
                _remember(run, change)
        self.workload.ending -= settled.given
        self._end_claims(settled)
        if decision.listens or (self.hungry and settled.ended):
            self._host.look_in(0)
        for claim in settled.claims:
            claim.begun = True
            self._host.execute(run, claim)
        for state in decision.nodes.values():
            if state.ready_at is not None:
                self._host.look_in((state.ready_at - decision.at).total_seconds())
        self.release_copy(run.id)
        self._host.moved(run.id, decision.status in TERMINAL)

    def _end_claims(self, settled: Settled) -> None:
        """Those that were reported, and those that the decision cancelled."""
        for attempt in settled.decision.attempts:
            if log.isEnabledFor(logging.INFO):
                number, outcome, why = attempt.attempt, attempt.outcome, _reason(attempt.error)
                place = settled.run.id, attempt.node
                log.info("run %s #%s attempt %s %s%s", *place, number, outcome, why)
            if attempt.outcome == "cancelled" and attempt.token in self.workload:
                self.workload.get(attempt.token).interrupt()
        self.workload.remove(*settled.ended)

    def abandoned(self, settled: Iterable[Settled]) -> None:
        """The transaction was rolled back, or nobody knows: what was taken with it is not ours."""
        for each in settled:
            self.workload.ending -= each.given
            self.workload.remove(*each.claims)
            self.release_copy(each.run.id)

    def release_copy(self, run: str) -> None:
        """Nothing of a run executes here any more, perhaps."""
        if not self.workload.busy_with(run):
            self.copies.put_aside(run)


def _remember(run: Run, change: NameChange) -> None:
    """Keep what a name means now, if it is at hand."""
    if not isinstance(change, SetName):
        run.values.clear()
        return
    run.values.pop((change.scope, change.name), None)
    value = change.value
    if value is not None and len(value.json) <= CACHED_VALUE:
        run.values[change.scope, change.name] = named(value.json, value.columns)


def _reason(error: Error | None) -> str:
    """A failed attempt's error in one line of the log."""
    if error is None:
        return ""
    state = f" [{error['sqlstate']}]" if error.get("sqlstate") else ""
    message = (str(error.get("message") or "").splitlines() or [""])[0]
    return f": {error.get('type')}{state}: {message:.200}"


def named(json: str, columns: Iterable[tuple[str, str]] | None) -> Named:
    """A value as later steps see it."""
    return Named(
        decode(json), None if columns is None else tuple(Column(*column) for column in columns)
    )
