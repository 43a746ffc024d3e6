"""Executors that do not do what they should: a claim is reported all the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from workbench.engine.context import Context
from workbench.engine.handlers import Handlers
from workbench.engine.model import Completed, Failed, Released
from workbench.engine.workload import Claim, Workload


class Refusing(Executor):
    """Takes nothing more."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise RuntimeError("no worker is left")


class Failing(Executor):
    """Takes everything and delivers nothing, like a pool of processes whose argument cannot be pickled."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("no worker is left"))
        return future


@pytest.mark.parametrize("executor", [Refusing(), Failing()], ids=lambda e: type(e).__name__)
def test_what_an_executor_does_not_deliver_is_a_failed_attempt(executor: Executor) -> None:
    workload = Workload(1, lambda: None)
    claim = Claim("1234abcd", 0, "token")
    workload.add(claim)
    context = Context("1234abcd", 0, 1, 1, "")
    Handlers(workload, executor).submit(claim, "builtins:len", {}, {}, context)
    (report,) = workload.take_reports(2)
    assert isinstance(report.event, Failed)
    assert report.event.error["message"] == "no worker is left"


class Immediate(Executor):
    """Calls at once, in the same thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def looks(ctx: Context) -> bool:
    return ctx.cancelled


def does_not_look() -> str:
    return "whole"


@pytest.mark.parametrize(("handler", "outcome"), [(looks, Released), (does_not_look, Completed)])
def test_only_a_handler_that_saw_its_cancellation_may_have_returned_early(
    handler: Callable[..., Any], outcome: type
) -> None:
    workload = Workload(1, lambda: None)
    claim = Claim("1234abcd", 0, "token")
    workload.add(claim)
    context = Context("1234abcd", 0, 1, 1, "")
    context.cancel()
    name = f"{__name__}:{handler.__name__}"
    Handlers(workload, Immediate()).submit(claim, name, {}, {}, context)
    (report,) = workload.take_reports(2)
    assert isinstance(report.event, outcome)
