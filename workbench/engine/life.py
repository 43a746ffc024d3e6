"""An engine's life on its event loop: get the database, work until it is lost or the end, begin
again.

It keeps a control session (liveness), two sessions for rounds, so that one can decide while the
other waits for Postgres, and a few for SQL steps. Nothing in memory is needed to go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor

import psycopg
from psycopg.conninfo import make_conninfo

from workbench.engine.core import Core
from workbench.engine.handlers import Handlers
from workbench.engine.http import HttpLeaves
from workbench.engine.leaves import Leaves
from workbench.engine.liveness import LOOK, Liveness
from workbench.engine.model import Released, Run
from workbench.engine.rounds import Rounds
from workbench.engine.sql import SqlLeaves
from workbench.engine.workload import Claim, Workload
from workbench.store import step, verbs
from workbench.store.listen import Listener
from workbench.store.login import refuse_other_role
from workbench.store.pooler import explain_refusal, refuse_pooler
from workbench.store.wire import Session, Statement, rows

__all__ = ["Life"]

log = logging.getLogger("workbench")

POLL = 0.25  # seconds between looks at the tables when nothing calls for one
LISTENING_POLL = 1.0  # the same while notifications arrive
FULL_SCAN = 5.0  # seconds between scans from the beginning
FORESEEN = 2 * LISTENING_POLL  # seconds; what is due later needs no look of its own
SOON = 0.05  # seconds; looks that are due together are one
RECONNECT = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds until the next try to connect; the last repeats
GRACE = 0.5  # seconds that running leaves have to end at an orderly stop
RECORDERS = 2

#: Sessions of the engine's own speak one dialect, whatever the role's settings are: from the first
#: statement on, and set again because a session pooler may ignore options.
_OWN_SETTINGS = {
    "search_path": step.OWN_PATH,
    "DateStyle": "ISO",
    "TimeZone": "UTC",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "60s",
}
_OWN_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _OWN_SETTINGS.items())
_SET = Statement(
    "SELECT {}".format(
        ", ".join(
            f"pg_catalog.set_config('{name}', '{value}', false)"
            for name, value in _OWN_SETTINGS.items()
        )
    ).encode()
)


class Life:
    """Everything between `Engine.start` and `Engine.stop`. Only `run` is not for the loop's thread
    alone.
    """

    def __init__(
        self,
        dsn: str,
        ceiling: int | None,
        executor: Executor | None,
        secrets: Callable[[str], str | None],
        call_soon: Callable[[Callable[[], None]], None],
        on_change: Callable[[str, bool], None],
    ) -> None:
        self._dsn = dsn
        self._ceiling = ceiling
        self._executor = executor
        self._secrets = secrets
        self._call_soon = call_soon
        self._on_change = on_change
        self.on_entered: Callable[[], None] = lambda: None
        self._core: Core | None = None
        self._entered = False
        self._working = False  # between getting the database and losing it
        self._work = asyncio.Event()
        self._stop = asyncio.Event()
        self._call = asyncio.Event()
        self._looks: set[int] = set()
        self._waking = False
        self._tries = 0

    @property
    def identity(self) -> str:
        return "" if self._core is None else self._core.identity

    @property
    def listening(self) -> bool | None:
        """Whether the last probe of LISTEN was heard; None before the first."""
        return None if self._core is None else self._listener.working

    @property
    def handlers_running(self) -> int:
        return 0 if self._core is None else self._handlers.running

    def stop(self) -> None:
        """Begin the orderly end."""
        self._stop.set()
        self._work.set()
        self._call.set()

    def start_due(self) -> None:
        """Look for runs to start at once."""
        if self._core is not None:
            self._rounds.look_for_due = True
            self._work.set()

    def look_now(self) -> None:
        """Look for runs to start and leaves to claim at once."""
        if self._core is not None:
            self._rounds.look_for_due = self._rounds.look_for_ready = True
            self._work.set()

    async def run(self) -> None:
        """Live until `stop`. Raises what keeps the engine from entering at all."""
        living = asyncio.ensure_future(self._live())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({living, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not (self._working or living.done()):
            living.cancel()  # nothing is ours yet, or the database is away
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await living

    async def _live(self) -> None:
        ceilings, database = await self._look_around()
        slots = min(self._ceiling or ceilings[0], ceilings[0])
        core = Core(self._dsn, database, ceilings, Workload(slots, self._report_came), self)
        self._handlers = Handlers(core.workload, self._executor, self._handler_came)
        self._sql = SqlLeaves(core, self._step_session)
        http = HttpLeaves(core, secret=self._secrets)
        self._leaves = Leaves(core, self._handlers, self._sql, http, self._own_session)
        self._rounds = Rounds(core, self, self._handlers.available)
        self._liveness = Liveness(core, self._handlers.available, http.abort)
        self._listener = Listener(self._dsn, self._news_came)
        self._core = core
        try:
            while not self._stop.is_set():
                await self._connected(core)
        finally:  # also when the database was away at the end
            self._handlers.close()
            await self._leaves.close()
            await self._sql.close()

    async def _look_around(self) -> tuple[tuple[int, int], str]:
        """The ceilings over all engines, and the name of the database that holds the runs."""
        session = await self._own_session("setup")
        try:
            await refuse_other_role(session, self._dsn)
            *ceilings, database = (
                str(rows(result)[0][0])
                for result in await session.run(
                    verbs.setting("max_activity_concurrency"),
                    verbs.setting("max_http_concurrency"),
                    verbs.DATABASE,
                )
            )
            activities, requests = map(int, ceilings)
            return (activities, requests), database
        finally:
            await session.close()

    async def _connected(self, core: Core) -> None:
        """From getting the database to losing it, or to the end."""
        sessions: list[Session] = []
        try:
            for purpose in ("control", *["rounds"] * RECORDERS):
                sessions.append(await self._own_session(purpose))  # noqa: PERF401 - close those made
            control, *recorders = sessions
            await refuse_pooler(control, lambda: self._own_session("probe"))
            await self._liveness.enter(control)
            for session in recorders:
                await session.run(verbs.add_session(core.identity, session.pid))
            self._rounds.full_scan()
            self._entered = self._working = True
            self.on_entered()
            await self._until_lost(control, recorders)
        except (psycopg.Error, OSError) as lost:
            if not (self._entered or isinstance(lost, psycopg.OperationalError | OSError)):
                raise
            await self._pause(core, lost)
        finally:
            self._working = False
            for session in sessions:
                await session.close()

    async def _pause(self, core: Core, lost: Exception) -> None:
        core.claiming = False
        core.copies.clear()
        delay = RECONNECT[min(self._tries, len(RECONNECT) - 1)]
        self._tries += 1
        log.warning("the database is away (%s): next try in %s s", str(lost).strip(), delay)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), delay)

    async def _until_lost(self, control: Session, recorders: list[Session]) -> None:
        orderly = [asyncio.create_task(self._keep_recording(session)) for session in recorders]
        orderly.append(asyncio.create_task(self._keep_looking(control)))
        others = [
            asyncio.create_task(self._keep_polling()),
            asyncio.create_task(self._listener.run()),
            asyncio.create_task(self._stop.wait()),
        ]
        try:
            done, _ = await asyncio.wait([*orderly, *others], return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                # To the end of what they have begun: a session left in the middle is of no use.
                done, _ = await asyncio.wait(orderly, timeout=GRACE)
            for ended in done:
                ended.result()
        finally:
            for task in (*orderly, *others):
                task.cancel()
            await asyncio.gather(*orderly, *others, return_exceptions=True)
        if self._stop.is_set():
            # One that was cut off in the middle of a round is broken.
            await self._end(control, next((s for s in recorders if not s.broken), recorders[0]))

    async def _keep_looking(self, control: Session) -> None:
        while not self._stop.is_set():
            await self._liveness.look(control)
            if await self._leaves.find_handlers(control):
                self.look_now()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._call.wait(), LOOK)
                self._call.clear()
                self._liveness.compare_next()

    async def _keep_recording(self, session: Session) -> None:
        while not self._stop.is_set():
            self._work.clear()
            self._waking = False
            if self._rounds.pending:
                await self._rounds.round(session)
                self._tries = 0
            else:
                await self._news(POLL)

    async def _keep_polling(self) -> None:
        """Look at the tables every so often: what other processes did, and what has become due."""
        loop = asyncio.get_running_loop()
        scanned = loop.time()
        while True:
            await asyncio.sleep(LISTENING_POLL if self._listener.working else POLL)
            if loop.time() - scanned > FULL_SCAN:
                scanned = loop.time()
                self._rounds.full_scan()
            self._rounds.start_without_room = True
            self.look_now()

    def _news_came(self) -> None:
        """Somebody started or cancelled something, or left work that this engine may have to do."""
        self.look_now()
        self._call.set()

    # As the host of its core.

    def has_handler(self, name: str) -> bool:
        return self._handlers.has(name)

    def execute(self, run: Run, claim: Claim) -> None:
        self._leaves.execute(run, claim)

    def moved(self, run: str, ended: bool) -> None:
        self._on_change(run, ended)

    def look_in(self, seconds: float) -> None:
        """Looks that are due at about the same time are one."""
        if seconds <= 0:
            self.look_now()
            return
        if seconds > FORESEEN:  # polling learns of it in time
            return
        loop = asyncio.get_running_loop()
        slot = int((loop.time() + seconds) / SOON) + 1
        if slot not in self._looks:
            self._looks.add(slot)
            loop.call_at(slot * SOON, self._look_at, slot)

    def _look_at(self, slot: int) -> None:
        self._looks.discard(slot)
        self.look_now()

    async def _news(self, seconds: float) -> None:
        """Wait for something to do, not longer than this."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._work.wait(), seconds)

    async def _end(self, control: Session, recorder: Session) -> None:
        """Claims go back uncounted; what still runs after the grace is not waited for."""
        assert self._core is not None
        await asyncio.wait_for(control.run(verbs.DATABASE), GRACE)  # is it there?
        work = self._core.workload
        self._core.stopping, self._core.claiming = True, False
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GRACE
        for claim in work:
            claim.interrupt()
        while len(work) and loop.time() < deadline:
            self._work.clear()
            self._waking = False
            if work.reports:
                await self._rounds.round(recorder)
            else:
                await self._news(deadline - loop.time())
        for claim in work:
            work.report(claim, Released(claim.node, claim.token))
        while work.reports:
            await self._rounds.round(recorder)
        await self._leaves.close()
        await self._sql.close()
        await self._liveness.leave(control)
        log.info("engine %s left", self._core.identity)

    async def _own_session(self, purpose: str) -> Session:
        try:
            session = await Session.connect(
                self._dsn, application_name=f"workbench engine {purpose}", options=_OWN_OPTIONS
            )
        except psycopg.OperationalError as refused:
            if explained := explain_refusal(refused):
                raise explained from refused
            raise
        return await _begun(session, _SET)

    async def _step_session(self, database: str | None) -> Session:
        """A session for steps, listed so that recovery can end it."""
        dsn = self._dsn if database is None else make_conninfo(self._dsn, dbname=database)
        session = await Session.connect(
            dsn, application_name="workbench step", options=step.session_options(dsn)
        )
        listed = verbs.add_session(self.identity, session.pid)
        if database is None:
            return await _begun(session, *step.on_own_path(listed))
        lister = await self._own_session("setup")  # there may be no schema df in the other one
        try:
            await lister.run(listed)
        finally:
            await lister.close()
        return session

    def _handler_came(self) -> None:
        """Called by the thread that has imported it."""
        self._call_soon(self.look_now)

    def _report_came(self) -> None:
        """Called by handler threads too: one call into the loop for any number of reports."""
        if not self._waking:
            self._waking = True
            self._call_soon(self._work.set)


async def _begun(session: Session, *statements: Statement) -> Session:
    """The session after its first statements; closed when one fails."""
    try:
        await session.run(*statements)
    except BaseException:
        await session.close()
        raise
    return session
