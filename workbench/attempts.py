"""`Attempt`: one try of a step, with what it executed, and a way to execute it once more in this cell.

What an attempt was given is resolved anew from the run, whole and typed, and compared with the copy
in the attempt's row: a later iteration may have overwritten it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.engine.context import Context
from workbench.engine.core import named
from workbench.engine.documents import EXECUTED_LIMIT
from workbench.engine.failure import clean
from workbench.engine.handlers import call
from workbench.engine.plan import Plan, Planned
from workbench.errors import NotFound, StateError, StepError
from workbench.graph.handlers import lookup
from workbench.graph.substitute import REF_KEY, Named, is_reference, resolve_input
from workbench.graph.values import encode
from workbench.run_handle import Handle
from workbench.store import attempts, monitor
from workbench.store.records import AttemptRow

if TYPE_CHECKING:
    from workbench.views.attempt_view import AttemptView

__all__ = ["Attempt"]


@dataclass(frozen=True)
class Attempt(AttemptRow):
    """One ended attempt: its row, and what it executed. As a cell's last line it shows itself."""

    run: Handle = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, row: AttemptRow, run: Handle) -> Attempt:
        """The attempt of a run that this row tells of."""
        return cls(**{each.name: getattr(row, each.name) for each in fields(AttemptRow)}, run=run)

    @property
    def sql(self) -> str | None:
        """The statement that was executed, values put in, to paste; None when it was no SQL step.

        Of more than 64,000 characters only the first are kept.

        Raises
        ------
        NotFound
            The attempt is not kept any more.
        """
        planned = self._planned()
        if planned.type != "SQL":
            return None
        text = self._executed().text
        return planned.query if text is None else text

    @property
    def request(self) -> dict[str, Any] | None:
        """The HTTP request: `method`, `url`, names of `headers`, the beginning of its `body`; no secrets.

        None when it was no HTTP step, or when nothing was sent.

        Raises
        ------
        NotFound
            The attempt is not kept any more.
        """
        text = self._executed().text
        if text is None or not self._planned().type.startswith("HTTP"):
            return None
        found = json.loads(text)
        return found if isinstance(found, dict) else None

    @property
    def input(self) -> dict[str, Any] | None:
        """What the handler was given, by parameter, as plain JSON; None when it was no Python step.

        Raises
        ------
        StateError
            It is not there any more: a later iteration has overwritten it, and the kept copy of it
            is cut.
        NotFound
            The attempt is not kept any more.
        """
        if self._planned().handler is None:
            return None
        arguments, names = self._arguments()
        found: dict[str, Any] = resolve_input(arguments, names)
        return found

    @property
    def logs(self) -> str | None:
        """What the handler printed and logged; None when that was nothing, or it was no Python step.

        The last 16,000 characters are kept. Log lines begin with level and logger.

        Raises
        ------
        NotFound
            The attempt is not kept any more.
        """
        return self._executed().logs

    def rerun(self) -> Any:
        """Call the handler in this cell with what the attempt was given; the run is not touched.

        The function is the one that this process has now, so a handler that was mended can be tried
        before the run is retried. What it raises comes out as it is: `%debug` lands in it. Effects
        outside the run happen again; `ctx.idempotency_key` is that of the attempt.

        Returns
        -------
        object
            What the handler returned.

        Raises
        ------
        StateError
            It was no Python step, or what it was given is not there any more.
        HandlerError
            This process has no such handler.
        NotFound
            The attempt is not kept any more.
        """
        planned = self._planned()
        if planned.handler is None:
            raise StateError(
                f"node #{self.node_id} of run {self.run.id} is a {planned.type} step, and only a handler "
                "can be called again; attempt.sql and attempt.request have what was executed"
            )
        function = lookup(planned.handler)
        arguments, names = self._arguments()
        work = partial(call, function, arguments, names, self._context())
        return _outside_a_loop(work) if inspect.iscoroutinefunction(function) else work()

    def view(self) -> AttemptView:
        """The attempt as a picture: what was executed, its error with its place, its output."""
        from workbench.views.attempt_view import AttemptView

        node = next(node for node in self._nodes() if node.node_id == self.node_id)
        found = self._executed()
        return AttemptView(self.run.id, node, self, found.text, found.max_attempts, found.logs)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        try:
            return self.view()._repr_mimebundle_(include, exclude)
        except NotFound:
            return {"text/plain": repr(self)}

    def _nodes(self) -> list[Any]:
        with self.run._database.connection() as conn:
            return list(monitor.run_nodes(conn, self.run.id))

    def _executed(self) -> attempts.Executed:
        with self.run._database.connection() as conn:
            return attempts.executed(conn, self.run.id, self.node_id, self.rev)

    def _plan(self) -> Plan:
        with self.run._database.connection() as conn:
            return Plan.parse(monitor.definition(conn, self.run.id).graph)

    def _planned(self) -> Planned:
        return self._plan()[self.node_id]

    def _context(self) -> Context:
        found = self._executed()
        dsn = self.run._database.dsn
        return Context(
            self.run.id, self.node_id, self.attempt, found.max_attempts, dsn, found.iterations
        )

    def _arguments(self) -> tuple[dict[str, Any], Mapping[str, Named]]:
        """The handler's arguments as the engine calls it: references in them, and what they mean."""
        plan = self._plan()
        planned = plan[self.node_id]
        arguments: dict[str, Any] = planned.config.get("input") or {}
        if not planned.references:
            return arguments, {}
        names = self._names(plan, planned)
        copy = self._executed().text
        if copy is None:
            self._resolve(arguments, names)
            return arguments, names
        if _same(arguments, names, copy):
            return arguments, names
        return self._from_copy(arguments, names, copy)

    def _names(self, plan: Plan, planned: Planned) -> dict[str, Named]:
        """What the names mean where the node stands, as far as they have a value now."""
        scopes = plan.scopes(planned.number)
        with self.run._database.connection() as conn:
            seen = attempts.values(conn, self.run.id, scopes, sorted(planned.references))
            found = {name: named(value.json, value.columns) for name, value in seen.items()}
            if "input" in planned.references:
                found["input"] = named(monitor.definition(conn, self.run.id).input, None)
        return found

    def _resolve(self, arguments: dict[str, Any], names: Mapping[str, Named]) -> None:
        """Refuse when the arguments cannot be told: nothing of them was ever recorded."""
        try:
            resolve_input(arguments, names)
        except StepError as missing:
            raise StateError(
                f"attempt {self.attempt} of node #{self.node_id} of run {self.run.id} was never given its "
                f"input: {missing}"
            ) from None

    def _from_copy(
        self, arguments: dict[str, Any], names: Mapping[str, Named], copy: str
    ) -> tuple[dict[str, Any], Mapping[str, Named]]:
        """The values that the attempt's row kept, typed like those that have replaced them."""
        try:
            kept = json.loads(copy)
        except ValueError:
            listed = ", ".join(f"${name}" for name in sorted(self._planned().references))
            raise StateError(
                f"what attempt {self.attempt} of node #{self.node_id} of run {self.run.id} was given is not "
                f"there any more: {listed} has been overwritten by a later iteration, or was forgotten with "
                f"its branch, and the attempt keeps only the first {EXECUTED_LIMIT:,} characters. Call the "
                "handler yourself, or rerun an attempt of the last iteration"
            ) from None
        whole = {
            parameter: value[REF_KEY]
            for parameter, value in arguments.items()
            if is_reference(value) and value[REF_KEY] in names
        }
        given = {
            name: Named(kept[parameter], names[name].columns) for parameter, name in whole.items()
        }
        return {**kept, **{parameter: arguments[parameter] for parameter in whole}}, given


def _same(arguments: dict[str, Any], names: Mapping[str, Named], copy: str) -> bool:
    """Whether the values are those that were given, as far as the copy tells."""
    try:
        return clean(encode(resolve_input(arguments, names)), EXECUTED_LIMIT) == copy
    except StepError:
        return False


def _outside_a_loop(work: Callable[[], Any]) -> Any:
    """Call what runs an event loop of its own, which no thread that has one already may do."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1, thread_name_prefix="workbench-rerun") as executor:
        return executor.submit(work).result()
