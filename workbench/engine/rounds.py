"""The batched checkpoint: many runs' transitions in one transaction.

A round records the reports that have come in, starts the runs that are due, and claims leaves that
are ready, as far as there is room. Runs that somebody else holds are left for a later round; a
batch that fails is repeated one run at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import pq

from workbench.engine import documents
from workbench.engine.copies import unreadable
from workbench.engine.core import Core, Settled
from workbench.engine.failure import describe
from workbench.engine.model import Decision, Event, Failed, Faulted, Revive, Run, Start
from workbench.engine.workload import Claim, Report
from workbench.store import verbs
from workbench.store.verbs import ClaimedRow, RunRow
from workbench.store.wire import Session, Statement, error

__all__ = ["Rounds"]

log = logging.getLogger("workbench")

MOST_REPORTS = 200  # runs in one transaction: beyond this, longer locks gain nothing
MOST_DUE = 100  # runs started while there is no room to execute them
DEFERRED = 0.05  # seconds until a run that somebody else holds is tried again
#: A node may become visible a little after its ready_at: scans start this much before what was seen
#: last.
WATERMARK_MARGIN = timedelta(seconds=10)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass
class _Batch:
    """One transaction in the making: by run, since a run makes one transition in it."""

    now: datetime
    settled: dict[str, Settled] = field(default_factory=dict)
    ended: int = 0


class Rounds:
    """Runs rounds on one session. `look_for_due` and `look_for_ready` say what the next one has to
    search the tables for.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.look_for_due = True
        self.look_for_ready = True
        self.start_without_room = False
        self._promised = 0  # room that rounds under way count on
        self._watermark = _EPOCH

    def full_scan(self) -> None:
        """Search from the beginning next time."""
        self._watermark = _EPOCH
        self.look_for_due = self.look_for_ready = True

    @property
    def pending(self) -> bool:
        """Whether another round would have something to do at once."""
        if self._core.workload.reports:
            return True
        if not self._core.claiming:
            return False
        if self._core.workload.free > self._promised:
            return self.look_for_due or self.look_for_ready
        return self.look_for_due and self.start_without_room

    async def round(self, session: Session) -> None:
        """Record, start, claim. OperationalError: the connection is lost; reports that were not
        recorded are kept.
        """
        reports = self._core.workload.take_reports(MOST_REPORTS)
        room = max(0, self._core.workload.free - self._promised) + len(reports)
        self._promised += room
        try:
            await self._round(session, reports, room)
        except psycopg.Error as failed:
            await self._after_failure(session, reports, failed)
        except asyncio.CancelledError:
            self._keep(reports)
            raise
        finally:
            self._promised -= room

    def _keep(self, reports: list[Report]) -> None:
        """They may have been recorded, or not: then the next round finds their tokens gone."""
        for report in reports:
            self._core.workload.requeue(report)

    async def _round(self, session: Session, reports: list[Report], room: int) -> None:
        claiming = self._core.claiming and self.look_for_ready and room > 0
        most_due = self._most_due(room)
        tokens = self._core.workload.draw(room) if claiming else []
        # Before the search, so that what another session commits meanwhile is searched for again.
        self.look_for_ready &= not claiming
        self.look_for_due &= not most_due
        asks_suspect = bool(tokens) and not self._core.workload.suspect
        opening: list[Statement] = []
        if tokens:
            opening += [verbs.BEGIN, self._claim(tokens, asks_suspect), verbs.COMMIT]
        if asks_suspect:
            self._core.workload.suspect_asked = True
        opening += [verbs.BEGIN, *self._lock(reports), verbs.due(most_due), verbs.NOW]
        try:
            results = await session.run(*opening)
        finally:  # answered or lost: what bears one of them and is no claim of ours is given back
            self._core.workload.undraw(tokens)
            if asks_suspect:
                self._core.workload.suspect_asked = False
        claims = verbs.read_claims(results[1]) if tokens else []
        self._claimed(tokens, claims)
        due = verbs.read_runs(results[-2])
        batch = _Batch(verbs.read_now(results[-1]))
        try:
            missing = await self._refresh(session, reports, results)
            for report in reports:
                self._settle_report(batch, report, missing)
            for row in due:
                self._settle_start(batch, row)
            if most_due and len(due) == most_due:
                self.look_for_due = True
            await self._write(session, batch, claims)
        except BaseException:
            self.look_for_ready = self.look_for_due = True
            # They are claimed and will not be executed: the comparison of tokens gives them back.
            self._core.workload.discard(row.token for row in claims)
            raise

    def _most_due(self, room: int) -> int:
        """Runs are started as fast as their first leaves can be executed; a few when there is no
        room, for those that begin by waiting.
        """
        if not (self._core.claiming and self.look_for_due):
            return 0
        if room == 0 and self.start_without_room:
            self.start_without_room = False
            return MOST_DUE
        return min(room, MOST_REPORTS)

    def _claim(self, tokens: list[str], suspect: bool) -> Statement:
        handlers = self._core.available_handlers()
        return verbs.claim(
            self._core.identity,
            tokens,
            handlers,
            suspect=suspect,
            since=self._watermark,
        )

    def _lock(self, reports: list[Report]) -> list[Statement]:
        runs = sorted({report.claim.run for report in reports})
        if not runs:
            return []
        return [verbs.lock(runs, [self._core.copies.version(run) for run in runs])]

    def _claimed(self, tokens: list[str], claims: list[ClaimedRow]) -> None:
        if not tokens:
            return
        if len(claims) == len(tokens):
            self.look_for_ready = True
        for row in claims:
            self._core.workload.add(Claim(row.run, row.node, row.token, row.suspect))
            self._watermark = max(self._watermark, row.ready_at - WATERMARK_MARGIN)

    async def _refresh(
        self, session: Session, reports: list[Report], results: Sequence[pq.abc.PGresult]
    ) -> set[str]:
        """Bring the copies of the locked runs up to date; the runs that are not locked, or not
        there, are returned.
        """
        runs = {report.claim.run for report in reports}
        if not runs:
            return set()
        locked = verbs.read_locked(results[-3])
        without_copy = [row.id for row in locked if self._core.copies.refresh(row) is None]
        if without_copy:
            (loaded,) = await session.run(verbs.load(without_copy))
            self._take(verbs.read_runs(loaded))
        return runs - {row.id for row in locked}

    def _settle_report(self, batch: _Batch, report: Report, missing: set[str]) -> None:
        claim = report.claim
        if claim.run in missing:
            self._core.workload.requeue(report, DEFERRED)
            return
        run = self._core.copies.get(claim.run)
        if run is None:  # deleted in the meantime
            self._core.workload.remove(claim)
            return
        if not self._settle(batch, run, report.event, claim):
            self._refused(report)

    def _settle_start(self, batch: _Batch, row: RunRow) -> None:
        try:
            run = self._core.copies.take(row)
        except Exception as fault:
            log.exception("run %s: its graph cannot be read, the run is parked", row.id)
            run = unreadable(row)
            batch.settled[run.id] = self._park(run, fault, batch.now, None)
            return
        self._settle(batch, run, Start() if run.status == "pending" else Revive())

    def _take(self, rows: list[RunRow]) -> None:
        """Make copies; a run that cannot be read has none, and its claims go back."""
        for row in rows:
            try:
                self._core.copies.take(row)
            except Exception:
                log.exception("run %s: its graph cannot be read", row.id)

    def _settle(self, batch: _Batch, run: Run, event: Event, ended: Claim | None = None) -> bool:
        """Decide about one event; False when it was refused."""
        counts = ended is not None and ended.token in self._core.workload
        room = self._core.workload.free + batch.ended + counts
        earlier = batch.settled.get(run.id)
        try:
            settled = self._core.settle(run, event, batch.now, room, earlier)
        except Exception as fault:
            log.exception("run %s: deciding raised, the run is parked", run.id)
            settled = self._park(run, fault, batch.now, earlier)
        if settled is None:
            return False
        if ended is not None:
            settled.ended.append(ended)
        batch.settled[run.id] = settled
        batch.ended += counts
        return True

    def _park(self, run: Run, fault: Exception, now: datetime, earlier: Settled | None) -> Settled:
        """Instead of whatever else was to be written about the run: it will not go on."""
        parked = Settled(run, _parked(run, fault, now))
        if earlier is not None:
            self._core.abandoned([earlier])
            parked.ended += earlier.ended
        return parked

    def _refused(self, report: Report) -> None:
        """Read again in a new transaction, from the rows alone: if the token is current after all,
        the attempt ends as a failure.
        """
        claim = report.claim
        self._core.copies.drop(claim.run)
        report.tries += 1
        if report.tries == 1:
            self._core.workload.requeue(report)
            return
        log.info("run %s node %s: a late report was refused", claim.run, claim.node)
        self._core.workload.remove(claim)
        self._core.release_copy(claim.run)

    async def _write(self, session: Session, batch: _Batch, claims: list[ClaimedRow]) -> None:
        closing: list[Statement] = []
        if batch.settled:
            closing.append(
                documents.statement(
                    self._core.identity,
                    batch.now,
                    ((run, s.decision) for run, s in batch.settled.items()),
                    tell=any(settled.foreign for settled in batch.settled.values()),
                )
            )
        closing.append(verbs.COMMIT if batch.settled else verbs.ROLLBACK)
        unknown = list({row.run for row in claims if row.run not in self._core.copies})
        if unknown:
            closing.append(verbs.load(unknown))
        try:
            results = await session.pipeline(*closing)
            for result in results:
                if failed := error(result):
                    raise failed
        except psycopg.Error:
            self._core.abandoned(batch.settled.values())
            raise
        if unknown:
            self._take(verbs.read_runs(results[-1]))
        for settled in batch.settled.values():
            self._core.committed(settled)
        self._execute(claims)

    def _execute(self, claims: list[ClaimedRow]) -> None:
        for row in claims:
            run = self._core.copies.get(row.run)
            if run is None:
                continue  # gone, or unreadable: the comparison of tokens gives the claim back
            state = run.nodes[row.node]
            state.status, state.token, state.engine = "running", row.token, self._core.identity
            claim = self._core.workload.get(row.token)
            claim.begun = True
            self._core.execute(run, claim)

    async def _after_failure(
        self, session: Session, reports: list[Report], failed: psycopg.Error
    ) -> None:
        if session.broken:
            self._keep(reports)
            raise failed
        await session.run(verbs.ROLLBACK)
        if len(reports) > 1:
            for report in reports:
                await self._alone(session, report)
        elif reports:
            self._blame(reports[0], failed)
        else:
            log.error("a round failed: %s", failed)
            raise failed

    async def _alone(self, session: Session, report: Report) -> None:
        """One strange report must not hold up the others."""
        try:
            results = await session.run(verbs.BEGIN, *self._lock([report]), verbs.due(0), verbs.NOW)
            batch = _Batch(verbs.read_now(results[-1]))
            missing = await self._refresh(session, [report], results)
            self._settle_report(batch, report, missing)
            await self._write(session, batch, [])
        except psycopg.Error as failed:
            if session.broken:
                self._core.workload.requeue(report)
                raise
            await session.run(verbs.ROLLBACK)
            self._blame(report, failed)

    def _blame(self, report: Report, failed: psycopg.Error) -> None:
        """What could not be recorded is recorded as a failure of the attempt, or, when it is no
        fault of the value, tried again.
        """
        claim = report.claim
        described = describe(failed, trace=False)
        if isinstance(report.event, Failed | Faulted):
            log.error(
                "run %s node %s: its failure could not be recorded: %s",
                claim.run,
                claim.node,
                failed,
            )
            self._core.workload.requeue(report, delay=1.0)
            return
        if (failed.sqlstate or "")[:2] in ("22", "54"):
            described |= {"type": "ValueRefused", "permanent": True}
            report.event = Failed(claim.node, claim.token, described)
        else:
            report.event = Faulted(claim.node, claim.token, described)
        self._core.workload.requeue(report)


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
