"""Python leaves: which handlers this process has, and calling them on an executor's threads.

A call resolves its input, runs the function, encodes the result and reports; whatever is raised
becomes a failed attempt. The event loop is never held up by any of it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread
from typing import Any

from workbench.engine.context import Context
from workbench.engine.failure import describe
from workbench.engine.model import Completed, Failed, Released, Value
from workbench.engine.output import recorded
from workbench.engine.workload import Claim, Workload
from workbench.errors import HandlerError, RetryAfter, StepError, ValueRefused
from workbench.graph.handlers import dataframe_parameters, fingerprint, lookup
from workbench.graph.substitute import REF_KEY, Named, is_reference, is_skipped, resolve_input
from workbench.graph.values import encode

__all__ = ["Handlers", "call"]

log = logging.getLogger("workbench")

IMPORT_AGAIN = 10.0  # seconds after an import that failed


class Handlers:
    """The handlers known to this process, and the executor that runs them."""

    def __init__(
        self,
        workload: Workload,
        executor: Executor | None = None,
        on_found: Callable[[], None] = lambda: None,
    ) -> None:
        self._workload = workload
        self._on_found = on_found
        self._not_before: dict[str, float] = {}  # when to try an import (again), by handler
        self._executor = executor or ThreadPoolExecutor(
            workload.ceiling, thread_name_prefix="workbench-handler"
        )
        self._own_executor = executor is None
        self._available: set[str] = set()
        self._running: set[str] = set()

    @property
    def available(self) -> set[str]:
        """Names this engine has found a function for."""
        return self._available

    @property
    def running(self) -> int:
        """Calls that have not returned, those that nobody waits for included."""
        return len(self._running)

    def has(self, name: str) -> bool:
        """Whether this process has the handler; a module that is not loaded yet is imported on a
        thread of its own, and `on_found` called when that is done.
        """
        if name in self._available:
            return True
        try:
            lookup(name, load=False)
        except HandlerError:
            self._import(name)
            return False
        self._available.add(name)
        return True

    def _import(self, name: str) -> None:
        """Anything may happen in an import, and it may take any time."""
        now = time.monotonic()
        if now < self._not_before.get(name, 0.0):
            return
        self._not_before[name] = math.inf
        Thread(target=self._imported, args=(name,), name="workbench-import", daemon=True).start()

    def _imported(self, name: str) -> None:
        try:
            lookup(name)
        except HandlerError as failed:
            log.info("%s", failed)
            self._not_before[name] = time.monotonic() + IMPORT_AGAIN
            return
        self._not_before.pop(name)
        self._on_found()

    def look_for(self, wanted: Iterable[str]) -> bool:
        """Look once more, since a cell may have defined what was missing; whether any was found."""
        found = [name for name in wanted if self.has(name)]
        return bool(found)

    def submit(
        self, claim: Claim, name: str, arguments: Any, names: Mapping[str, Named], context: Context
    ) -> None:
        """Call the handler on a thread; its outcome is reported to the workload."""
        if claim.interrupted:  # while its values were loaded
            self._workload.report(claim, Released(claim.node, claim.token))
            return
        claim.stop = context.cancel
        try:
            future = self._executor.submit(self._call, claim, name, arguments, names, context)
        except RuntimeError as refused:  # the executor is broken, or was shut down
            self._workload.report(claim, Failed(claim.node, claim.token, describe(refused)))
        else:
            future.add_done_callback(partial(self._ended, claim))

    def _ended(self, claim: Claim, future: Future[None]) -> None:
        """What an executor could not deliver is never reported by the call itself."""
        if not future.cancelled() and (fault := future.exception()) is not None:
            self._workload.report(claim, Failed(claim.node, claim.token, describe(fault)))

    def close(self) -> None:
        """Let running handlers be; take no new ones."""
        if self._own_executor:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _call(
        self, claim: Claim, name: str, arguments: Any, names: Mapping[str, Named], context: Context
    ) -> None:
        self._running.add(claim.token)
        try:
            with recorded() as output:
                event = _attempt(claim, name, arguments, names, context)
        finally:
            self._running.discard(claim.token)
        if context.noticed:  # it may have returned early: half a result is none, and no failure
            self._workload.report(claim, Released(claim.node, claim.token))
        else:
            self._workload.report(claim, replace(event, logs=output.text()))


def _attempt(
    claim: Claim, name: str, arguments: Any, names: Mapping[str, Named], context: Context
) -> Completed | Failed:
    """Call the handler; what came of it."""
    code: str | None = None
    executed = _input(arguments, names) if names else None
    try:
        function = lookup(name)
        code = _shape(function).fingerprint
        result = Value(encode(call(function, arguments, names, context)))
        return Completed(claim.node, claim.token, result, code, executed=executed)
    except RetryAfter as asked:
        error = describe(asked if asked.__cause__ is None else asked.__cause__)
        return Failed(claim.node, claim.token, error, asked.seconds, "retry_after", code, executed)
    except BaseException as error:
        return Failed(claim.node, claim.token, describe(error), fingerprint=code, executed=executed)


def _input(arguments: Any, names: Mapping[str, Named]) -> str | None:
    """What a handler is given, as JSON text; None when that cannot be told."""
    try:
        return encode(resolve_input(arguments, names))
    except (StepError, ValueRefused):
        return None


def call(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    names: Mapping[str, Named],
    context: Context | None,
) -> Any:
    """Call a handler as the engine does.

    References are replaced by values, by typed DataFrames where the parameter is annotated so, and
    `ctx` is passed where the function has such a parameter.
    """
    shape = _shape(function)
    keywords = {
        parameter: _argument(value, names, as_frame=parameter in shape.frames)
        for parameter, value in arguments.items()
        if not (parameter in shape.optional and is_skipped(value, names))
    }
    if shape.takes_context and context is not None:
        keywords.setdefault("ctx", context)
    if shape.is_coroutine:
        return asyncio.run(function(**keywords))
    return function(**keywords)


def _argument(value: Any, names: Mapping[str, Named], *, as_frame: bool) -> Any:
    if not (as_frame and is_reference(value) and value[REF_KEY] in names):
        return resolve_input(value, names)
    from workbench.frames import frame

    named = names[value[REF_KEY]]
    columns = None if named.columns is None else [(c.name, c.type) for c in named.columns]
    return frame(named.value, columns)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a call needs to know of a function; kept as long as its code stays (reloading may swap that in place)."""

    code: object
    fingerprint: str
    frames: frozenset[str]
    takes_context: bool
    optional: frozenset[str]
    is_coroutine: bool


_shapes: weakref.WeakKeyDictionary[Callable[..., Any], _Shape] = weakref.WeakKeyDictionary()


def _shape(function: Callable[..., Any]) -> _Shape:
    code = getattr(function, "__code__", function)
    shape = _shapes.get(function)
    if shape is None or shape.code is not code:
        shape = _shapes[function] = _Shape(
            code,
            fingerprint(function),
            dataframe_parameters(function),
            "ctx" in _parameters(function),
            _optional(function),
            inspect.iscoroutinefunction(function),
        )
    return shape


def _optional(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters that have a default."""
    parameters = _parameters(function).values()
    return frozenset(p.name for p in parameters if p.default is not inspect.Parameter.empty)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # a builtin that does not say
        return {}
