"""The engine: one background thread with its own event loop, which runs until it is stopped.

It keeps a control session (liveness), a session for rounds and a few for SQL steps, and makes them
anew whenever the database goes away: nothing in memory is needed to go on. Nothing here decides;
see `machine.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor

import psycopg

from workbench.engine.context import Context
from workbench.engine.core import Core, named
from workbench.engine.failure import describe
from workbench.engine.handlers import Handlers
from workbench.engine.liveness import LOOK, Liveness
from workbench.engine.model import Failed, Planned, Released, Run
from workbench.engine.rounds import Rounds
from workbench.engine.sql import SqlLeaves
from workbench.engine.workload import Claim
from workbench.errors import StepError
from workbench.graph.substitute import (
    Named,
    expand_variables,
    references,
    substitute_sql,
)
from workbench.store import step, verbs
from workbench.store.wire import Session, rows

__all__ = ["Engine"]

log = logging.getLogger("workbench")

POLL = 0.25  # seconds between looks at the tables when nothing calls for one
FULL_SCAN = 5.0  # seconds between scans from the beginning
RECONNECT = (
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
)  # seconds between tries to get the database back; the last one repeats
GRACE = 0.5  # seconds that running handlers have to end at an orderly stop
#: Sessions of the engine's own speak one dialect, whatever the role's settings are.
OWN_OPTIONS = "-c DateStyle=ISO -c TimeZone=UTC -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=60s"


class Engine:
    """Executes the runs of one role on one database.

    Parameters
    ----------
    dsn:
        Where; the role in it is the one whose runs are executed.
    ceiling:
        Leaves that may run at once; None takes the setting `max_activity_concurrency`.
    executor:
        Runs Python handlers; threads of its own by default.
    """

    def __init__(
        self, dsn: str, *, ceiling: int | None = None, executor: Executor | None = None
    ) -> None:
        self._dsn = dsn
        self._ceiling = ceiling
        self._executor = executor
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="workbench-engine", daemon=True)
        self._entered = threading.Event()
        self._refused: BaseException | None = None
        self._work = asyncio.Event()
        self._stop = asyncio.Event()
        self._waking = False
        self._finished: list[Callable[[str], None]] = []
        self._poll = POLL

    # What other threads call.

    def start(self, timeout: float = 60.0) -> None:
        """Start the thread and return when the engine is in `df.engines`; raises what keeps it
        out.
        """
        self._thread.start()
        if not self._entered.wait(timeout):
            raise TimeoutError(
                f"the engine did not reach its database within {timeout:g} s; it goes on trying"
            )
        if self._refused is not None:
            raise self._refused

    def stop(self, timeout: float = 5.0) -> None:
        """End in order: claim nothing more, give claims back, leave. Handlers that do not end are
        abandoned.
        """
        self._call(self._stop.set)
        self._thread.join(timeout)

    def wake(self) -> None:
        """There may be a run to start."""
        self._call(self._look_now)

    def on_finished(self, callback: Callable[[str], None]) -> None:
        """Have `callback(run_id)` called, on the engine's thread, whenever this engine ends a
        run.
        """
        self._finished.append(callback)

    @property
    def id(self) -> str:
        """The identity in `df.engines`; it changes when the engine was declared dead."""
        return self._core.identity

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the engine has ended
            self._loop.call_soon_threadsafe(function)

    # The thread.

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._run())
        except BaseException as refused:
            self._refused = refused
            if self._entered.is_set():
                log.exception("the engine has ended")
        finally:
            self._entered.set()
            self._loop.close()

    async def _run(self) -> None:
        self._core = Core(
            self._dsn, self._ceiling or await self._configured_ceiling(), self._report_came
        )
        self._rounds = Rounds(self._core)
        self._handlers = Handlers(self._core.workload, self._executor)
        self._sql = SqlLeaves(self._core, self._step_session)
        self._liveness = Liveness(self._core, self._handlers.available)
        self._leaves: set[asyncio.Task[None]] = set()
        self._core.has_handler = self._handlers.has
        self._core.available_handlers = lambda: self._handlers.available
        self._core.execute = self._execute
        self._core.on_finished = self._tell_finished
        self._tries = 0
        try:
            while not self._stop.is_set():
                await self._connected()
        finally:
            self._handlers.close()

    async def _configured_ceiling(self) -> int:
        session = await self._own_session("setup")
        try:
            (result,) = await session.run(verbs.setting("max_activity_concurrency"))
            return int(str(rows(result)[0][0]))
        finally:
            await session.close()

    async def _connected(self) -> None:
        """From getting the database to losing it, or to the end."""
        control: Session | None = None
        main: Session | None = None
        try:
            control = await self._own_session("control")
            main = await self._own_session("rounds")
            await self._liveness.enter(control)
            await main.run(verbs.add_session(self._core.identity, main.pid))
            self._rounds.full_scan()
            self._entered.set()
            await self._until_lost(control, main)
        except (psycopg.Error, OSError) as lost:
            if not self._entered.is_set() and not isinstance(
                lost, psycopg.OperationalError | OSError
            ):
                raise
            self._core.claiming = False
            self._core.copies.clear()
            delay = RECONNECT[min(self._tries, len(RECONNECT) - 1)]
            self._tries += 1
            log.warning("the database is away (%s): next try in %s s", str(lost).strip(), delay)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay)
        finally:
            for session in (main, control):
                if session is not None:
                    await session.close()

    async def _until_lost(self, control: Session, main: Session) -> None:
        loops = [
            asyncio.create_task(self._keep_looking(control)),
            asyncio.create_task(self._keep_recording(main)),
            asyncio.create_task(self._stop.wait()),
        ]
        try:
            done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
        if self._stop.is_set():
            await self._end(control, main)

    async def _keep_looking(self, control: Session) -> None:
        while True:
            await self._liveness.look(control)
            await self._find_handlers(control)
            await asyncio.sleep(LOOK)

    async def _keep_recording(self, main: Session) -> None:
        last_scan = self._loop.time()
        while True:
            self._work.clear()
            self._waking = False
            await self._rounds.round(main)
            self._tries = 0
            if not self._rounds.pending:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._work.wait(), self._poll)
                if not self._work.is_set():
                    self._rounds.look_for_due = self._rounds.look_for_ready = True
                    self._rounds.start_without_room = True
            if self._loop.time() - last_scan > FULL_SCAN:
                last_scan = self._loop.time()
                self._rounds.full_scan()

    async def _end(self, control: Session, main: Session) -> None:
        """Claims go back uncounted; what still runs after the grace is not waited for."""
        self._core.stopping, self._core.claiming = True, False
        for claim in self._core.workload:
            claim.interrupt()
        deadline = self._loop.time() + GRACE
        while len(self._core.workload) and self._loop.time() < deadline:
            self._work.clear()
            if self._core.workload.reports:
                await self._rounds.round(main)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._work.wait(), deadline - self._loop.time())
        for claim in self._core.workload:
            self._core.workload.report(claim, Released(claim.node, claim.token))
        while self._core.workload.reports:
            await self._rounds.round(main)
        for task in self._leaves:
            task.cancel()
        await asyncio.gather(*self._leaves, return_exceptions=True)
        await self._sql.close()
        await self._liveness.leave(control)
        log.info("engine %s left", self._core.identity)

    # Sessions.

    async def _own_session(self, purpose: str) -> Session:
        return await Session.connect(
            self._dsn, application_name=f"workbench engine {purpose}", options=OWN_OPTIONS
        )

    async def _step_session(self) -> Session:
        session = await Session.connect(
            self._dsn, application_name="workbench step", options=step.SESSION_OPTIONS
        )
        await session.run(
            verbs.add_session(self._core.identity, session.pid)._replace(prepared=False)
        )
        return session

    # Waking up.

    def _look_now(self) -> None:
        self._rounds.look_for_due = self._rounds.look_for_ready = True
        self._work.set()

    def _report_came(self) -> None:
        """Called by handler threads too: one call into the loop for any number of reports."""
        if not self._waking:
            self._waking = True
            self._call(self._work.set)

    def _tell_finished(self, run: str) -> None:
        for callback in self._finished:
            callback(run)

    # Leaves.

    def _execute(self, run: Run, claim: Claim) -> None:
        planned = run.plan[claim.node]
        if planned.handler is not None and not planned.references:
            self._call_handler(run, claim, planned, {})  # nothing to wait for: no task
            return
        task = self._loop.create_task(self._execute_leaf(run, claim))
        self._leaves.add(task)
        task.add_done_callback(self._leaves.discard)

    async def _execute_leaf(self, run: Run, claim: Claim) -> None:
        planned = run.plan[claim.node]
        try:
            if planned.handler is not None:
                self._call_handler(
                    run, claim, planned, await self._names(run, set(planned.references))
                )
            else:
                await self._sql.execute(run, claim, await self._statement(run, planned))
        except StepError as refused:
            self._core.workload.report(
                claim, Failed(claim.node, claim.token, describe(refused, trace=False))
            )
        except psycopg.Error:  # preparing it needed the database, which is away
            self._core.workload.report(claim, Released(claim.node, claim.token))
        except Exception as fault:
            log.exception(
                "run %s node %s: the engine could not execute the leaf", run.id, claim.node
            )
            self._core.workload.report(claim, Failed(claim.node, claim.token, describe(fault)))

    def _call_handler(
        self, run: Run, claim: Claim, planned: Planned, names: dict[str, Named]
    ) -> None:
        arguments = planned.config.get("input") or {}
        state = run.nodes[claim.node]
        context = Context(run.id, claim.node, state.attempt + 1, run.policy.max_attempts, self._dsn)
        self._handlers.submit(claim, str(planned.handler), arguments, names, context)

    async def _statement(self, run: Run, planned: Planned) -> str:
        sql = planned.query or ""
        if "$" not in sql and "{" not in sql:
            return sql
        system = {"sys_instance_id": run.id, "sys_label": run.label or ""}
        names = await self._names(run, references(expand_variables(sql, run.variables, system)))
        return substitute_sql(sql, names, run.variables, system)

    async def _names(self, run: Run, wanted: set[str]) -> dict[str, Named]:
        """The values of these names, as far as they have one."""
        found: dict[str, Named] = {}
        if "input" in wanted:
            found["input"] = named(run.input, None)
        wanted &= run.plan.names
        absent = wanted - run.values.keys()
        if absent:
            await self._load_names(run, absent)
        found |= {name: run.values[name] for name in wanted if name in run.values}
        return found

    async def _load_names(self, run: Run, absent: set[str]) -> None:
        session = await self._own_session("values")
        try:
            (result,) = await session.run(verbs.named(run.id, absent)._replace(prepared=False))
        finally:
            await session.close()
        for name, value, columns in rows(result):
            run.values[str(name)] = named(str(value), _columns(columns))

    async def _find_handlers(self, control: Session) -> None:
        """Leaves that ask for a handler not looked for yet, or missing when it was: look
        (again).
        """
        (result,) = await control.run(verbs.wanted_handlers(self._handlers.available))
        wanted = [str(row[0]) for row in rows(result)]
        if wanted and self._handlers.look_for(wanted):
            self._look_now()


def _columns(text: str | None) -> list[tuple[str, str]] | None:
    return None if text is None else [tuple(column) for column in json.loads(text)]
