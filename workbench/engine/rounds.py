"""The batched checkpoint: many runs' transitions in one transaction.

A round records the reports that have come in, starts the runs that are due, and claims leaves that
are ready, as far as there is room. Runs that somebody else holds are left for a later round; a
batch that fails is repeated one run at a time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg

from workbench.engine import documents
from workbench.engine.batch import Batch
from workbench.engine.core import Core, Host
from workbench.engine.failure import describe
from workbench.engine.model import Failed, Faulted, Signal
from workbench.engine.workload import Claim, Report
from workbench.store import verbs
from workbench.store.verbs import ClaimedRow, LockedRow, RunRow, Survey, TaskReport
from workbench.store.wire import Session, Statement

__all__ = ["Rounds"]

log = logging.getLogger("workbench")

MOST_REPORTS = 200  # runs in one transaction: beyond this, longer locks gain nothing
MOST_DUE = 100  # runs started while there is no room to execute them
DEFERRED = 0.05  # seconds until a run that somebody else holds is tried again
#: A node may become visible a little after its ready_at: scans start this much before what was seen
#: last.
WATERMARK_MARGIN = timedelta(seconds=10)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class _Search:
    """What a round searches the tables for, besides the runs of its reports."""

    tokens: list[str] = field(default_factory=list)  # one for each leaf that it may claim
    suspect: bool = False  # whether one of them may be a leaf that was lost before
    due: int = 0  # runs to start, at most
    found: list[str] = field(default_factory=list)  # those runs


class _Found(NamedTuple):
    """What the opening of a round has claimed and locked, and what it saw after that."""

    claims: list[ClaimedRow]
    held_back: bool
    locked: list[LockedRow]
    due: list[RunRow]
    survey: Survey


class Rounds:
    """Runs rounds on one session. `look_for_due` and `look_for_ready` say what the next one has to
    search the tables for.
    """

    def __init__(self, core: Core, host: Host, handler_names: set[str]) -> None:
        self._core = core
        self._host = host
        self._handlers = handler_names
        self.look_for_due = True
        self.look_for_ready = True
        self.start_without_room = False
        self._watermark = _EPOCH
        self._due_singly = 0  # rounds in which to take one due run only
        self._troubled: dict[str, Exception] = {}

    def full_scan(self) -> None:
        """Search from the beginning next time."""
        self._watermark = _EPOCH
        self.look_for_due = self.look_for_ready = True

    @property
    def pending(self) -> bool:
        """Whether another round would have something to do at once."""
        if self._core.workload.reports or self._core.workload.confirmations:
            return True
        if not self._core.claiming:
            return False
        if self._core.workload.free > 0:
            return self.look_for_due or self.look_for_ready
        return self.look_for_due and self.start_without_room

    async def round(self, session: Session) -> None:
        """Record, start, claim. OperationalError: the connection is lost; reports that were not
        recorded are kept.
        """
        work = self._core.workload
        reports = work.take_reports(MOST_REPORTS)
        runs = {report.claim.run for report in reports}
        work.recording |= runs
        room = max(0, work.free) + len(reports)
        try:
            await self._record(session, reports, room)
        except BaseException:
            # Some may have been recorded after all: then the next round finds their tokens gone.
            for report in reports:
                work.requeue(report)
            raise
        finally:
            work.recording -= runs

    async def _record(self, session: Session, reports: list[Report], room: int) -> None:
        """Takes out of `reports` what it has dealt with before it raises."""
        search = self._search(room)
        try:
            await self._transact(session, reports, search)
        except psycopg.Error as failed:
            if session.broken:
                raise
            await session.run(verbs.ROLLBACK)
            if not reports and not self._trouble(search.found, failed):
                log.error("a round failed: %s", failed)
                raise
            if len(reports) == 1:
                self._blame(reports.pop(), failed)
            while reports:
                await self._alone(session, reports[0])
                del reports[0]

    def _trouble(self, due: list[str], failed: psycopg.Error) -> bool:
        """A transition of a run that was due cannot be written: find out which, and park it. Whether
        that is all there is to it.
        """
        if len(due) == 1:
            self._troubled[due[0]] = failed
        self._due_singly = 0 if len(due) == 1 else len(due)
        return bool(due)

    async def _alone(self, session: Session, report: Report) -> None:
        """One strange report must not hold up the others."""
        try:
            await self._transact(session, [report], _Search())
        except psycopg.Error as failed:
            if session.broken:
                raise
            await session.run(verbs.ROLLBACK)
            self._blame(report, failed)

    async def _transact(self, session: Session, reports: list[Report], search: _Search) -> None:
        """One round, or one report's part of it. It may be repeated when it raises."""
        asked = self._versions(reports)
        self._core.workload.promised += len(search.tokens)
        try:
            found = await self._open(session, asked, search)
        finally:
            self._core.workload.promised -= len(search.tokens)
        search.found.extend(row.id for row in found.due)
        self._claimed(found, search)
        batch = Batch(self._core, found.survey.at)
        try:
            await self._bring_up_to_date(session, found.locked, asked)
            batch.report(reports, {row.id for row in found.locked})
            signals = await self._signals(session, found.due)
            said = await self._task_reports(session, found.due)
            batch.wake(found.due, signals, said, self._troubled)
            await self._write(session, batch, found.claims)
            for row in found.due:
                self._troubled.pop(row.id, None)
        except BaseException:
            self.look_for_ready = self.look_for_due = True
            self._core.abandoned(batch.settled.values())
            # They are claimed and will not be executed: the comparison of tokens gives them back.
            self._core.workload.discard(row.token for row in found.claims)
            for claimed in found.claims:
                self._core.release_copy(claimed.run)
            raise
        if search.due and len(found.due) >= search.due:
            self.look_for_due = True
        if found.survey.next_due is not None:
            self._host.look_in(found.survey.next_due)
        self._put_off(batch)

    def _search(self, room: int) -> _Search:
        """Whatever another session commits from here on is searched for again."""
        claiming = self._core.claiming and self.look_for_ready and room > 0
        search = _Search(
            self._core.workload.draw(room) if claiming else [],
            claiming and not self._core.workload.suspect,
            self._most_due(room),
        )
        self._core.workload.suspect_asked |= search.suspect
        self.look_for_ready &= not claiming
        self.look_for_due &= not search.due
        return search

    def _most_due(self, room: int) -> int:
        """Runs are started as fast as their first leaves can be executed; a few when there is no
        room, for those that begin by waiting.
        """
        if not (self._core.claiming and self.look_for_due):
            return 0
        if room == 0 and self.start_without_room:
            self.start_without_room = False
            return MOST_DUE
        if self._due_singly:
            self._due_singly -= 1
            return 1
        return min(room, MOST_REPORTS)

    async def _open(self, session: Session, asked: dict[str, int], search: _Search) -> _Found:
        """Claim, in a transaction of its own; begin the one that records, with its locks."""
        opening: list[Statement] = []
        if search.tokens:
            opening += [verbs.BEGIN, self._claim(search), verbs.COMMIT]
        opening.append(verbs.BEGIN)
        if asked:
            opening.append(verbs.lock(list(asked), list(asked.values())))
        opening += [verbs.due(search.due), verbs.survey(self._handlers)]
        try:
            results = await session.run(*opening)
        finally:  # answered or lost: what bears one of them and is no claim of ours is given back
            self._core.workload.undraw(search.tokens)
            if search.suspect:
                self._core.workload.suspect_asked = False
        survey = verbs.read_survey(results.pop())
        due = verbs.read_runs(results.pop())
        locked = verbs.read_locked(results.pop()) if asked else []
        claims, held_back = verbs.read_claims(results[1]) if search.tokens else ([], False)
        return _Found(claims, held_back, locked, due, survey)

    def _claim(self, search: _Search) -> Statement:
        return verbs.claim(
            self._core.identity,
            search.tokens,
            self._handlers,
            suspect=search.suspect,
            since=self._watermark,
        )

    def _versions(self, reports: list[Report]) -> dict[str, int]:
        """Those of the copies of the runs that are reported about."""
        runs = sorted({report.claim.run for report in reports})
        return {run: self._core.copies.version(run) for run in runs}

    def _claimed(self, found: _Found, search: _Search) -> None:
        self._core.yields = found.survey.waits
        if search.tokens:
            self._core.hungry = found.held_back
        if search.tokens and len(found.claims) == len(search.tokens):
            self.look_for_ready = True
        for row in found.claims:
            self._core.workload.add(Claim(row.run, row.node, row.token, row.suspect))
            self._core.copies.hold(row.run)
            self._watermark = max(self._watermark, row.ready_at - WATERMARK_MARGIN)

    async def _bring_up_to_date(
        self, session: Session, locked: list[LockedRow], asked: dict[str, int]
    ) -> None:
        copies = self._core.copies
        without_copy = [r.id for r in locked if copies.refresh(r, asked.get(r.id, -1)) is None]
        if without_copy:
            (loaded,) = await session.run(verbs.load(without_copy))
            self._take(verbs.read_runs(loaded))

    async def _signals(self, session: Session, due: list[RunRow]) -> dict[str, list[Signal]]:
        """The signals of runs that are due, those with data that their graphs wait for."""
        found: dict[str, list[Signal]] = {row.id: [] for row in due if row.signalled}
        if not found:
            return {}
        self._take([row for row in due if row.signalled])
        waits = [
            (run.id, name)
            for run in map(self._core.copies.get, found)
            if run is not None
            for name in run.plan.listeners
        ]
        (result,) = await session.run(verbs.signals(found, waits))
        for row in verbs.read_signals(result):
            found[row.run].append(Signal(row.id, row.name, row.sent_at, row.data))
        return found

    async def _task_reports(self, session: Session, due: list[RunRow]) -> list[TaskReport]:
        """What outside workers have reported about runs that are due."""
        reported = [row.id for row in due if row.reported]
        if not reported:
            return []
        (result,) = await session.run(verbs.reports(reported))
        return verbs.read_reports(result)

    def _put_off(self, batch: Batch) -> None:
        """What the transaction has not recorded."""
        for report in batch.deferred:
            self._core.workload.requeue(report, DEFERRED)
        for report in batch.refused:
            self._refused(report)
        self._core.workload.remove(*batch.ownerless)

    def _take(self, rows: list[RunRow]) -> None:
        """Make copies; a run that cannot be read has none, and its claims go back."""
        for row in rows:
            try:
                self._core.copies.take(row)
            except Exception:
                log.exception("run %s: its graph cannot be read", row.id)

    def _refused(self, report: Report) -> None:
        """Read again in a new transaction, from the rows alone: if the token is current after all,
        the attempt ends as a failure.
        """
        claim = report.claim
        self._core.copies.distrust(claim.run)
        report.tries += 1
        if report.tries == 1:
            self._core.workload.requeue(report)
            return
        log.info("run %s node %s: a late report was refused", claim.run, claim.node)
        self._core.workload.remove(claim)
        self._core.workload.confirm([claim.token])
        self._core.release_copy(claim.run)

    async def _write(self, session: Session, batch: Batch, claims: list[ClaimedRow]) -> None:
        closing: list[Statement] = []
        if batch.settled:
            closing.append(
                documents.statement(
                    self._core.identity,
                    batch.now,
                    ((run, s.decision) for run, s in batch.settled.items()),
                    tell=any(settled.foreign for settled in batch.settled.values()),
                    frees=not self._core.hungry and any(s.frees for s in batch.settled.values()),
                )
            )
        offered = documents.offers(batch.now, ((s.run, s.decision) for s in batch.settled.values()))
        if offered is not None:
            closing.append(offered)
        work = self._core.workload
        released, work.confirmations = work.confirmations, []
        if released:
            closing.append(verbs.released(self._core.identity, released))
        closing.append(verbs.COMMIT if closing else verbs.ROLLBACK)
        unknown = list({row.run for row in claims if self._core.copies.version(row.run) < row.rev})
        if unknown:
            closing.append(verbs.load(unknown))
        try:
            results = await session.run(*closing)
        except BaseException:
            work.confirmations += released
            raise
        if self._core.hungry and released:
            self.look_for_ready = True
        if unknown:
            self._take(verbs.read_runs(results[-1]))
        for settled in batch.settled.values():
            self._core.committed(settled)
        self._execute(claims, batch.now)

    def _execute(self, claims: list[ClaimedRow], now: datetime) -> None:
        for row in claims:
            run = self._core.copies.get(row.run)
            if run is None:  # gone, or unreadable: the comparison of tokens gives the claim back
                self._core.workload.discard([row.token])
                continue
            state = run.nodes[row.node]
            state.status, state.token, state.engine = "running", row.token, self._core.identity
            state.started_at, state.ready_at = now, None  # a claim is no transition: copies miss it
            claim = self._core.workload.get(row.token)
            claim.begun = True
            self._host.execute(run, claim)

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
