"""HTTP leaves: from a claim to its report, on the engine's loop, without a thread.

At-least-once: a request whose answer was lost may have had its effect. What a response means, a
result, a body for a sink or a failure to try again, is decided here. Building, sending and reading
are next door (`http_request`, `http_send`, `http_response`), storing for a sink is `delivery`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from workbench import delays
from workbench.engine import lookups
from workbench.engine.core import Core
from workbench.engine.delivery import ON_THREAD, Answer, Delivery
from workbench.engine.destinations import Destinations
from workbench.engine.failure import describe
from workbench.engine.http_request import Request, prepare, redact
from workbench.engine.http_response import (
    PREVIEW,
    envelope,
    plain_headers,
    preview,
    read,
)
from workbench.engine.http_send import Resolve, Sender, connection_failed, look_up
from workbench.engine.model import Completed, Failed, Released, Run, Value
from workbench.engine.plan import Planned
from workbench.engine.workload import Claim
from workbench.errors import HttpError, StepError, ValueRefused
from workbench.graph.http_text import Known, secrets
from workbench.graph.substitute import Named
from workbench.store.http_gate import Gate

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpLeaves"]

log = logging.getLogger("workbench")

BODY_LIMIT: Final = 32 * 1024 * 1024  # bytes of a response, decompressed
NO_SECRET: Final = 2.0  # seconds until a node whose secret is missing is tried again

Event = Completed | Failed | Released


class HttpLeaves:
    """Executes HTTP and HTTP_MULTIPART leaves.

    Parameters
    ----------
    secret:
        Gives the value of a secret, None when there is none; by default the environment's.
    resolve:
        Gives a host's addresses.
    """

    def __init__(
        self,
        core: Core,
        *,
        secret: Callable[[str], str | None] = os.environ.get,
        resolve: Resolve = look_up,
    ) -> None:
        self._core = core
        self._secret = secret
        self._sender = Sender(resolve)
        self._told: set[tuple[str, int]] = set()
        self._under_way: dict[str, Claim] = {}

    async def close(self) -> None:
        await self._sender.close()

    def abort(self) -> None:
        """Give up what is under way: nobody may know any more that it holds its place."""
        for claim in list(self._under_way.values()):
            log.warning(
                "run %s node %s: the request is given up, for the database is away",
                *(claim.run, claim.node),
            )
            claim.interrupt()

    async def execute(
        self, run: Run, claim: Claim, planned: Planned, names: Mapping[str, Named], gate: Gate
    ) -> Delivery | None:
        """Make the request, if the gate allows it, and report how it ended; `claim.interrupt` aborts
        it. A body for a sink is returned, the claim is to be dealt with still.
        """
        if claim.interrupted:  # while the database was asked
            self._core.workload.report(claim, Released(claim.node, claim.token))
            return None
        known = Known(names, run.variables, lookups.system(run))
        work = asyncio.ensure_future(self._outcome(claim, planned, known, gate))

        def stop() -> None:
            work.cancel()

        claim.stop = stop
        self._under_way[claim.token] = claim
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:  # the engine closes
            work.cancel()
            await asyncio.wait({work})
            raise
        finally:
            claim.stop = None
            del self._under_way[claim.token]
        event = Released(claim.node, claim.token) if work.cancelled() else work.result()
        if isinstance(event, Delivery):
            return event
        self._core.workload.report(claim, event)
        return None

    async def _outcome(
        self, claim: Claim, planned: Planned, known: Known, gate: Gate
    ) -> Event | Delivery:
        """How the attempt ends. No text of a secret leaves this, in no error and no log."""
        values: dict[str, str] = {}
        delay: float | None = None
        try:
            if not gate.allowed:
                raise _not_granted(gate)
            if missing := self._look_up(planned, values):
                return self._put_off(claim, missing)
            request = prepare(planned, known, values)
            claim.executed = request.described(values)
            destinations = Destinations(gate.allow, gate.deny)
            answer = await self._exchange(request, destinations)
            if request.sink is not None and answer.ok:
                return Delivery(request.sink, answer, values)
            value = await _value(answer)
            return Completed(claim.node, claim.token, value, executed=claim.executed)
        except (HttpError, StepError, ValueRefused) as failed:
            error = describe(failed, trace=False)
            delay = failed.retry_after if isinstance(failed, HttpError) else None
        except Exception as fault:
            error = describe(fault)
            trace = redact(str(error["traceback"]), values)
            place = claim.run, claim.node
            log.error("run %s node %s: the engine could not make its request: %s", *place, trace)
        error.pop("causes", None)
        error = {k: redact(v, values) if isinstance(v, str) else v for k, v in error.items()}
        source = None if delay is None else "http_retry_after"
        return Failed(claim.node, claim.token, error, delay, source, executed=claim.executed)

    def _look_up(self, planned: Planned, values: dict[str, str]) -> list[str]:
        """Fill in the secrets that a node needs; the names of those that are missing."""
        needed = sorted(secrets(planned.config))
        found = {name: self._secret(name) for name in needed}
        values |= {name: value for name, value in found.items() if value is not None}
        return [name for name in needed if found[name] is None]

    def _put_off(self, claim: Claim, missing: list[str]) -> Released:
        """Nothing was tried: another engine may have the secret, or this one may be given it."""
        names = ", ".join(missing)
        if (claim.run, claim.node) not in self._told:
            self._told.add((claim.run, claim.node))
            log.warning(
                "run %s node %s waits: this engine has no secret named %s. Put it into an engine's "
                "environment; this one looks again every few seconds.",
                *(claim.run, claim.node, names),
            )
        reason = {"type": "MissingSecret", "message": f"no engine has the secret {names}"}
        return Released(claim.node, claim.token, NO_SECRET, reason)

    async def _exchange(self, request: Request, destinations: Destinations) -> Answer:
        """Send, and read the answer, within the request's time."""
        clock = asyncio.get_running_loop().time
        began = clock()
        deadline = began + request.timeout
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._sender.send(request, destinations, deadline)
        except TimeoutError:
            raise _too_slow(request) from None
        headers = plain_headers(response.headers.raw)
        try:
            if _fails(response.status_code, request):
                raise await _failure(response, request, headers, deadline)
            body = await _body(response, request, headers, deadline)
        finally:
            await response.aclose()
        return Answer(response.status_code, headers, body, round((clock() - began) * 1000))


async def _value(answer: Answer) -> Value:
    parts = answer.status, answer.headers, answer.body, answer.duration
    if len(answer.body) < ON_THREAD:
        return Value(envelope(*parts))
    return Value(await asyncio.to_thread(envelope, *parts))


def _not_granted(gate: Gate) -> StepError:
    name = gate.function.partition("(")[0]
    return StepError(
        f"Blocked: role '{gate.role}' does not have EXECUTE privilege on {name}(). "
        f'Grant EXECUTE ON FUNCTION {gate.function} TO "{gate.role}", or call '
        f"df.grant_usage('{gate.role}', include_http => true)."
    )


def _too_slow(request: Request) -> HttpError:
    return HttpError(f"HTTP timeout after {request.timeout:g}s: {request.shown}")


def _fails(status: int, request: Request) -> bool:
    """Whether a response is no result: what the server or the user calls an error."""
    refused = request.raise_for_status and 400 <= status < 500
    return status >= 500 or status in request.retry_statuses or refused


async def _failure(
    response: httpx.Response, request: Request, headers: dict[str, str], deadline: float
) -> HttpError | StepError:
    """A failing response as an error; permanent when only `raise_for_status` makes it one."""
    import httpx

    status = response.status_code
    beginning = b""
    # The status is known: a body that does not arrive changes nothing about it.
    with contextlib.suppress(TimeoutError, httpx.HTTPError, zlib.error, EOFError):
        async with asyncio.timeout_at(deadline):
            beginning, _ = await read(response, headers.get("content-encoding"), PREVIEW)
    text = f"HTTP {request.method} {request.shown} returned {status}: {preview(beginning, headers)}"
    if status < 500 and status not in request.retry_statuses:
        return StepError(text)
    return HttpError(text, delays.from_headers(headers))


async def _body(
    response: httpx.Response, request: Request, headers: dict[str, str], deadline: float
) -> bytes:
    import httpx

    try:
        async with asyncio.timeout_at(deadline):
            body, more = await read(response, headers.get("content-encoding"), BODY_LIMIT)
    except TimeoutError:
        raise _too_slow(request) from None
    except (httpx.HTTPError, zlib.error, EOFError) as broken:
        raise connection_failed(request, broken) from None
    if more:
        raise StepError(
            f"HTTP {request.method} {request.shown} answered with more than "
            f"{BODY_LIMIT // 2**20} MiB: it was cut off there. Ask for less, or for pages."
        )
    return body
