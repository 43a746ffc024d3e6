"""What one transaction of a round records: every run in it makes one transition, whatever was reported
about it.

Nothing here talks to the database. A run that cannot be read, or for which deciding raises, is
parked; the others go on.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime

from workbench.engine.copies import unreadable
from workbench.engine.core import Core, Settled
from workbench.engine.failure import describe
from workbench.engine.model import (
    Completed,
    Decision,
    Event,
    Failed,
    Run,
    Signal,
    Start,
    Value,
    Wake,
)
from workbench.engine.workload import Claim, Report
from workbench.store.verbs import RunRow, TaskReport

__all__ = ["Batch"]

log = logging.getLogger("workbench")


class Batch:
    """Decisions by run, all of one moment, and the reports that led to none.

    What becomes of `deferred` and `refused` reports, and of `ownerless` claims, waits for the end
    of the transaction: until then all of them may have to be recorded again.
    """

    def __init__(self, core: Core, now: datetime) -> None:
        self._core = core
        self.now = now  # the database's clock, read after the locks
        self._ended = 0  # claims whose room may be given away with this commit
        self._taken = 0  # of that room
        self.settled: dict[str, Settled] = {}
        self.deferred: list[Report] = []
        self.refused: list[Report] = []
        self.ownerless: list[Claim] = []

    def report(self, reports: Iterable[Report], locked: Set[str]) -> None:
        """Settle the reports of runs that are locked."""
        for report in reports:
            if report.claim.run in locked:
                self._report(report)
            else:
                self.deferred.append(report)

    def wake(
        self,
        due: Iterable[RunRow],
        signals: Mapping[str, Sequence[Signal]],
        reports: Iterable[TaskReport],
        troubled: Mapping[str, Exception],
    ) -> None:
        """Settle the runs that are due, with the signals and the reports of outside workers that are
        there for them. Those in trouble, whose transition could not be written, are parked.
        """
        said: dict[str, list[TaskReport]] = defaultdict(list)
        for report in reports:
            said[report.run].append(report)
        for row in due:
            earlier = self.settled.get(row.id)
            try:
                # One that is also reported about has its copy, in which that is not yet noted.
                run = self._core.copies.take(row) if earlier is None else earlier.run
            except Exception as fault:
                log.exception("run %s: its graph cannot be read, the run is parked", row.id)
                run = unreadable(row)
                self.settled[run.id] = self._park(run, fault, None)
                continue
            if row.id in troubled:
                log.error("run %s is parked: %s", row.id, troubled[row.id])
                self.settled[run.id] = self._park(run, troubled[row.id], None)
                continue
            for report in said[row.id]:
                self._settle(run, _claimed(run, report))
            event = Start() if run.status == "pending" else Wake(tuple(signals.get(row.id, ())))
            self._settle(run, event)

    def _report(self, report: Report) -> None:
        run = self._core.copies.get(report.claim.run)
        if run is None:  # deleted in the meantime, or unreadable
            self.ownerless.append(report.claim)
        elif not self._settle(run, report.event, report.claim):
            self.refused.append(report)

    def _settle(self, run: Run, event: Event, ended: Claim | None = None) -> bool:
        """Decide about one event; False when it was refused."""
        counts = ended is not None and ended.token in self._core.workload
        room = self._core.room(counts, self._ended + counts - self._taken)
        earlier = self.settled.get(run.id)
        had = len(earlier.claims) if earlier else 0
        try:
            settled = self._core.settle(run, event, self.now, room, earlier)
        except Exception as fault:
            log.exception("run %s: deciding raised, the run is parked", run.id)
            settled = self._park(run, fault, earlier)
        if settled is None:
            return False
        if ended is not None:
            self._core.ends(settled, ended)
        self.settled[run.id] = settled
        self._ended += counts
        self._taken += len(settled.claims) - had
        return True

    def _park(self, run: Run, fault: Exception, earlier: Settled | None) -> Settled:
        """Instead of whatever else was to be written about the run: it will not go on."""
        parked = Settled(run, _parked(run, fault, self.now))
        if earlier is not None:
            self._core.abandoned([earlier])
            parked.ended += earlier.ended
        return parked


def _claimed(run: Run, report: TaskReport) -> Completed | Failed:
    """What a report means, of a claim that no copy knows of: it was no transition."""
    node, token = report.node, report.token
    state = run.nodes[node]
    if state.status == "waiting":
        state.status, state.token, state.started_at = "running", token, report.started_at
    if report.output is not None:
        return Completed(node, token, Value(report.output), executed=report.input)
    error = {"type": "TaskFailed", "message": report.error}
    source = None if report.delay is None else "retry_after"
    return Failed(node, token, error, report.delay, source, executed=report.input)


def _parked(run: Run, fault: Exception, now: datetime) -> Decision:
    """The run stands still, with the error in view, until somebody cancels it: none of its leaves
    can be claimed.
    """
    decision = Decision(run.version + 1, run.status, now, parked=describe(fault))
    for number, state in enumerate(run.nodes):
        if state.status == "ready" or state.token is not None:
            decision.nodes[number] = replace(
                state, status="waiting", rev=decision.version, token=None, engine=None
            )
    return decision
