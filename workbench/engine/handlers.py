"""Python leaves: which handlers this process has, and calling them on an executor's threads.

A call resolves its input, runs the function, encodes the result and reports; whatever is raised
becomes a failed attempt. The event loop is never held up by any of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from workbench.engine.context import Context
from workbench.engine.failure import describe
from workbench.engine.model import Completed, Failed, Value
from workbench.engine.workload import Claim, Workload
from workbench.errors import HandlerError
from workbench.graph.handlers import dataframe_parameters, fingerprint, lookup
from workbench.graph.substitute import REF_KEY, Named, is_reference, resolve_input
from workbench.graph.values import encode

__all__ = ["Handlers", "call", "resolve_arguments"]


class Handlers:
    """The handlers known to this process, and the executor that runs them."""

    def __init__(self, workload: Workload, executor: Executor | None = None) -> None:
        self._workload = workload
        self._executor = executor or ThreadPoolExecutor(
            workload.ceiling, thread_name_prefix="workbench-handler"
        )
        self._own_executor = executor is None
        self._available: set[str] = set()

    @property
    def available(self) -> set[str]:
        """Names this engine has found a function for."""
        return self._available

    def has(self, name: str) -> bool:
        """Whether this process has the handler; the module it names is imported when it was not
        yet.
        """
        try:
            lookup(name)
        except HandlerError:
            self._available.discard(name)
            return False
        self._available.add(name)
        return True

    def look_for(self, wanted: Iterable[str]) -> bool:
        """Look once more, since a cell may have defined what was missing; whether any was found."""
        return any([self.has(name) for name in wanted])

    def submit(
        self, claim: Claim, name: str, arguments: Any, names: Mapping[str, Named], context: Context
    ) -> None:
        """Call the handler on a thread; its outcome is reported to the workload."""
        claim.stop = context.cancel
        self._executor.submit(self._call, claim, name, arguments, names, context)

    def close(self) -> None:
        """Let running handlers be; take no new ones."""
        if self._own_executor:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _call(
        self, claim: Claim, name: str, arguments: Any, names: Mapping[str, Named], context: Context
    ) -> None:
        code: str | None = None
        event: Completed | Failed
        try:
            function = lookup(name)
            code = fingerprint(function)
            result = call(function, arguments, names, context)
            event = Completed(claim.node, claim.token, Value(encode(result)), code)
        except BaseException as error:
            event = Failed(claim.node, claim.token, describe(error), fingerprint=code)
        self._workload.report(claim, event)


def call(
    function: Callable[..., Any],
    arguments: Any,
    names: Mapping[str, Named],
    context: Context | None,
) -> Any:
    """Call a handler as the engine does: references resolved, DataFrames where annotated, `ctx`
    where asked for.
    """
    keywords = resolve_arguments(function, arguments, names)
    if context is not None and "ctx" in inspect.signature(function).parameters:
        keywords.setdefault("ctx", context)
    if inspect.iscoroutinefunction(function):
        return asyncio.run(function(**keywords))
    return function(**keywords)


def resolve_arguments(
    function: Callable[..., Any], arguments: Any, names: Mapping[str, Named]
) -> dict[str, Any]:
    """The keyword arguments of a call: `{"$ref": …}` replaced by values, row sets as typed
    DataFrames where annotated.
    """
    frames = dataframe_parameters(function)
    resolved = {}
    for parameter, value in arguments.items():
        if parameter in frames and is_reference(value) and value[REF_KEY] in names:
            resolved[parameter] = _frame(names[value[REF_KEY]])
        else:
            resolved[parameter] = resolve_input(value, names)
    return resolved


def _frame(named: Named) -> Any:
    from workbench.frames import frame

    columns = None if named.columns is None else [(c.name, c.type) for c in named.columns]
    return frame(named.value, columns)
