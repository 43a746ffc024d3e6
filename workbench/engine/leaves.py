"""From a claim to whatever executes it: values for its references, then the SQL session, the
handler's thread, the HTTP client, or just a look at the values.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable

import psycopg

from workbench.engine import lookups
from workbench.engine.context import Context
from workbench.engine.core import Core, named
from workbench.engine.dag import Step
from workbench.engine.failure import describe
from workbench.engine.handlers import Handlers
from workbench.engine.http import HttpLeaves
from workbench.engine.model import Completed, Failed, Offered, Released, Run, Value
from workbench.engine.plan import Planned
from workbench.engine.progress import Progress
from workbench.engine.sql import SqlLeaves
from workbench.engine.workload import Claim
from workbench.errors import StepError
from workbench.graph import http_text
from workbench.graph.substitute import (
    SKIPPED,
    Named,
    expand_variables,
    references,
    resolve_input,
    substitute_sql,
)
from workbench.graph.values import encode
from workbench.store import verbs
from workbench.store.http_gate import ask_gate, read_gate
from workbench.store.wire import Session, Statement, rows

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
        http: HttpLeaves,
        connect: Callable[[str], Awaitable[Session]],
    ) -> None:
        self._core = core
        self._handlers = handlers
        self._sql = sql
        self._values = _Reader(connect)
        self._http = http
        self._progress = Progress(self._values.ask)
        self._tasks: set[asyncio.Task[None]] = set()

    def execute(self, run: Run, claim: Claim) -> None:
        """Begin executing a claimed leaf."""
        planned = run.plan[claim.node]
        if (limit := planned.option("timeout", None)) is not None:
            loop = asyncio.get_running_loop()
            claim.timer = loop.call_later(limit, self._timed_out, claim, limit)
        if planned.handler is not None and not planned.references:
            self._call_handler(run, claim, planned, {})  # nothing to wait for: no task
            return
        task = asyncio.create_task(self._execute(run, claim, planned))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _timed_out(self, claim: Claim, limit: float) -> None:
        """The attempt has failed, whatever its step still does: that is told to stop, and what it
        reports is late.
        """
        message = f"the attempt took longer than its timeout, {limit:g} s"
        error = {"type": "TimeoutError", "message": message}
        executed = claim.executed
        self._core.workload.report(claim, Failed(claim.node, claim.token, error, executed=executed))
        claim.interrupt()

    async def close(self) -> None:
        """Abandon what still executes on the loop."""
        self._progress.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()
        await self._values.close()

    async def find_handlers(self, session: Session) -> bool:
        """Look (again) for the handlers that ready leaves ask for; whether one was found."""
        (result,) = await session.run(verbs.wanted_handlers(self._handlers.available))
        return self._handlers.look_for(str(row[0]) for row in rows(result))

    async def _execute(self, run: Run, claim: Claim, planned: Planned) -> None:
        try:
            await self._dispatch(run, claim, planned)
        except StepError as refused:
            error = describe(refused, trace=False)
            failed = Failed(claim.node, claim.token, error, executed=claim.executed)
            self._core.workload.report(claim, failed)
        except (psycopg.Error, OSError) as refused:
            # It needed a session, and nothing of it has run.
            log.warning("run %s node %s: no session for it: %s", run.id, claim.node, refused)
            await asyncio.sleep(NO_SESSION)
            self._core.workload.report(claim, Released(claim.node, claim.token))
        except Exception as fault:
            log.exception("run %s node %s: the engine could not execute it", run.id, claim.node)
            self._core.workload.report(claim, Failed(claim.node, claim.token, describe(fault)))

    async def _dispatch(self, run: Run, claim: Claim, planned: Planned) -> None:
        match planned.type:
            case "SQL":
                await self._sql.execute(run, claim, await self._statement(run, planned))
            case "PYTHON":
                names = await self._names(run, planned, planned.references)
                self._call_handler(run, claim, planned, names)
            case "EXTERNAL":
                names = await self._names(run, planned, planned.references)
                given = encode(resolve_input(planned.config.get("input") or {}, names), "input")
                self._core.workload.report(claim, Offered(claim.node, claim.token, given))
            case "HTTP" | "HTTP_MULTIPART":
                system = lookups.system(run)
                wanted = http_text.references(planned.config, run.variables, system)
                names = await self._names(run, planned, wanted)
                gate = read_gate(await self._values.ask(ask_gate(planned.type.lower())))
                delivery = await self._http.execute(run, claim, planned, names, gate)
                if delivery is not None:
                    await self._sql.store(run, claim, delivery)
            case "IF":
                name = planned.config["result_name"]
                known = await self._names(run, planned, [name])
                self._looked_up(claim, "true" if lookups.has_rows(name, known) else "false")
            case "MAP":
                over = planned.config["over"]
                known = await self._names(run, planned, [over])
                self._looked_up(claim, str(lookups.size(over, known)))
            case "BREAK":
                text = planned.config["break_value"]
                known = await self._names(run, planned, lookups.references(run, text))
                self._looked_up(claim, lookups.break_value(run, text, known))

    def _looked_up(self, claim: Claim, json: str) -> None:
        self._core.workload.report(claim, Completed(claim.node, claim.token, Value(json)))

    def _call_handler(
        self, run: Run, claim: Claim, planned: Planned, names: dict[str, Named]
    ) -> None:
        context = Context(
            run.id,
            claim.node,
            run.nodes[claim.node].attempt + 1,
            run.policy.nearer(planned.retry).max_attempts,
            self._core.dsn,
            tuple(run.nodes[loop].iteration for loop in run.plan.loops(claim.node)),
            planned.origin,
            planned.element,
            planned.name if (step := _step(run, planned)) is None else step.slug,
            self._progress.teller(claim),
        )
        arguments = planned.config.get("input") or {}
        self._handlers.submit(claim, str(planned.handler), arguments, names, context)

    async def _statement(self, run: Run, planned: Planned) -> str:
        """The text that is executed: variables and named values put in."""
        sql = planned.query or ""
        if "$" not in sql and "{" not in sql:
            return sql
        system = lookups.system(run)
        wanted = references(expand_variables(sql, run.variables, system))
        names = await self._names(run, planned, wanted)
        return substitute_sql(sql, names, run.variables, system)

    async def _names(self, run: Run, planned: Planned, wanted: Iterable[str]) -> dict[str, Named]:
        """What these names mean where the node stands, as far as they have a value."""
        found: dict[str, Named] = {}
        absent: list[str] = []
        for name in wanted:
            if name == "input":
                found[name] = named(run.input, None)
            elif (known := run.values.get((planned.scope, name))) is not None:
                found[name] = known
            elif name in run.plan.names:
                absent.append(name)
        if absent:
            found |= await self._load(run, planned, absent)
            skipped = _dependencies(run, planned).intersection(absent) - found.keys()
            found |= dict.fromkeys(skipped, SKIPPED)
        return found

    async def _load(self, run: Run, planned: Planned, absent: list[str]) -> dict[str, Named]:
        """Nothing can change what they mean until this leaf, or a branch with it, has ended; if that
        has happened meanwhile, they are not kept.
        """
        version = run.version
        result = await self._values.ask(
            verbs.named(run.id, run.plan.scopes(planned.number), absent)
        )
        found: dict[str, Named] = {}
        for name, value, columns in rows(result):
            typed = None if columns is None else [tuple(c) for c in json.loads(columns)]
            found[str(name)] = named(str(value), typed)
        if run.version == version:
            run.values.update({(planned.scope, name): value for name, value in found.items()})
        return found


def _step(run: Run, planned: Planned) -> Step | None:
    """The step of a FLOW that a node is, or that it is an element of."""
    if planned.step is None and planned.map is not None:
        return run.plan[planned.map].step
    return planned.step


def _dependencies(run: Run, planned: Planned) -> set[str]:
    """The names of the steps that a step of a FLOW depends on."""
    step = _step(run, planned)
    if step is None:
        return set()
    return {s.slug for n in step.after if (s := run.plan[n].step) is not None}


class _Reader:
    """A session for looking things up, made when first needed. What is asked while it is busy is
    asked all at once after that.
    """

    def __init__(self, connect: Callable[[str], Awaitable[Session]]) -> None:
        self._connect = connect
        self._session: Session | None = None
        self._lock = asyncio.Lock()
        self._asked: list[tuple[Statement, asyncio.Future[psycopg.pq.abc.PGresult]]] = []

    async def ask(self, statement: Statement) -> psycopg.pq.abc.PGresult:
        answer: asyncio.Future[psycopg.pq.abc.PGresult] = asyncio.Future()
        self._asked.append((statement, answer))
        async with self._lock:
            if not answer.done():
                await self._answer()
        return answer.result()

    async def _answer(self) -> None:
        asked, self._asked = self._asked, []
        try:
            if self._session is None or not self._session.reusable:
                await self.close()
                self._session = await self._connect("values")
            results = await self._session.run(*(statement for statement, _ in asked))
        except BaseException as failed:
            for _, answer in asked:
                answer.set_exception(failed if isinstance(failed, Exception) else OSError())
                answer.exception()  # whoever was cancelled does not ask
            if not isinstance(failed, Exception):
                raise
            return
        for (_, answer), result in zip(asked, results, strict=True):
            answer.set_result(result)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
