"""From a claim to whatever executes it: values for its references, then the SQL session or the
handler's thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import psycopg

from workbench.engine.context import Context
from workbench.engine.core import Core, named
from workbench.engine.failure import describe
from workbench.engine.handlers import Handlers
from workbench.engine.model import Failed, Planned, Released, Run
from workbench.engine.sql import SqlLeaves
from workbench.engine.workload import Claim
from workbench.errors import StepError
from workbench.graph.substitute import Named, expand_variables, references, substitute_sql
from workbench.store import verbs
from workbench.store.wire import Session, rows

__all__ = ["Leaves"]

log = logging.getLogger("workbench")

NO_SESSION = 0.5  # seconds until a leaf for which the server had no session is given back


class Leaves:
    """Executes leaves; every claim ends in a report or in its own checkpoint."""

    def __init__(
        self,
        core: Core,
        handlers: Handlers,
        sql: SqlLeaves,
        connect: Callable[[str], Awaitable[Session]],
    ) -> None:
        self._core = core
        self._handlers = handlers
        self._sql = sql
        self._connect = connect
        self._tasks: set[asyncio.Task[None]] = set()

    def execute(self, run: Run, claim: Claim) -> None:
        """Begin executing a claimed leaf."""
        planned = run.plan[claim.node]
        if planned.handler is not None and not planned.references:
            self._call_handler(run, claim, planned, {})  # nothing to wait for: no task
            return
        task = asyncio.create_task(self._execute(run, claim, planned))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Abandon what still executes on the loop."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def find_handlers(self, session: Session) -> bool:
        """Look (again) for the handlers that ready leaves ask for; whether one was found."""
        (result,) = await session.run(verbs.wanted_handlers(self._handlers.available))
        return self._handlers.look_for(str(row[0]) for row in rows(result))

    async def _execute(self, run: Run, claim: Claim, planned: Planned) -> None:
        try:
            if planned.handler is None:
                await self._sql.execute(run, claim, await self._statement(run, planned))
            else:
                names = await self._names(run, set(planned.references))
                self._call_handler(run, claim, planned, names)
        except StepError as refused:
            error = describe(refused, trace=False)
            self._core.workload.report(claim, Failed(claim.node, claim.token, error))
        except (psycopg.Error, OSError) as refused:
            # It needed a session, and nothing of it has run.
            log.warning("run %s node %s: no session for it: %s", run.id, claim.node, refused)
            await asyncio.sleep(NO_SESSION)
            self._core.workload.report(claim, Released(claim.node, claim.token))
        except Exception as fault:
            log.exception("run %s node %s: the engine could not execute it", run.id, claim.node)
            self._core.workload.report(claim, Failed(claim.node, claim.token, describe(fault)))

    def _call_handler(
        self, run: Run, claim: Claim, planned: Planned, names: dict[str, Named]
    ) -> None:
        attempt = run.nodes[claim.node].attempt + 1
        context = Context(run.id, claim.node, attempt, run.policy.max_attempts, self._core.dsn)
        arguments = planned.config.get("input") or {}
        self._handlers.submit(claim, str(planned.handler), arguments, names, context)

    async def _statement(self, run: Run, planned: Planned) -> str:
        """The text that is executed: variables and named values put in."""
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
        if absent := wanted - run.values.keys():
            await self._load(run, absent)
        return found | {name: run.values[name] for name in wanted if name in run.values}

    async def _load(self, run: Run, absent: set[str]) -> None:
        session = await self._connect("values")
        try:
            (result,) = await session.run(verbs.named(run.id, absent))
        finally:
            await session.close()
        for name, value, columns in rows(result):
            typed = None if columns is None else [tuple(c) for c in json.loads(columns)]
            run.values[str(name)] = named(str(value), typed)
