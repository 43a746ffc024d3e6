"""Sending one request over one connection, to an address that was checked.

A host's name is looked up once; every address it leads to must be allowed, and the connection goes
to one of those and nowhere else, while TLS and the Host header keep the name. No proxy, no
redirect, no cookie, no connection that a later request would find open. httpx is imported with the
first request.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from workbench.engine.destinations import Destinations
from workbench.engine.http_request import Request
from workbench.errors import HttpError, StepError

if TYPE_CHECKING:
    import httpx

__all__ = ["Resolve", "Sender", "look_up"]

#: The addresses of a host: `await resolve(host, port)`. Raises OSError when there are none.
Resolve = Callable[[str, int], Awaitable[list[str]]]


async def look_up(host: str, port: int) -> list[str]:
    """The host's addresses, in the system's order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class Sender:
    """Opens connections, each for one exchange."""

    def __init__(self, resolve: Resolve = look_up) -> None:
        self._resolve = resolve
        self._transport: asyncio.Task[httpx.AsyncHTTPTransport] | None = None

    async def close(self) -> None:
        if self._transport is not None:
            await (await self._transport).aclose()

    async def send(
        self, request: Request, destinations: Destinations, deadline: float
    ) -> httpx.Response:
        """Send a request; the response's head has been read, its body has not. Close it.

        Parameters
        ----------
        deadline:
            On the loop's clock: no single address is waited for so long that none is left for the
            next one. Ending the exchange in time is the caller's.

        Raises
        ------
        StepError
            The destination is refused, or the request is none.
        HttpError
            There is no such host, no connection, or no answer.
        """
        transport = await self._ready()
        import httpx

        try:
            url = httpx.URL(request.url)
        except httpx.InvalidURL as invalid:
            raise StepError(f"not a URL: {request.shown}: {invalid}") from None
        if url.port is not None and not 0 < url.port < 65_536:
            raise StepError(f"not a URL: {request.shown}: a port is 1 to 65535")
        addresses = await self._addresses(url, request, destinations)
        try:
            return await _first(transport, _requests(url, request, addresses), deadline)
        except httpx.LocalProtocolError:  # its text quotes headers
            raise StepError(
                f"{request.method} {request.shown} is no valid HTTP request: the name or value of a "
                "header is none that HTTP knows"
            ) from None
        except httpx.HTTPError as failed:
            raise connection_failed(request, failed) from None

    async def _ready(self) -> httpx.AsyncHTTPTransport:
        """The transport, made with the first request: loading it all would hold up the loop."""
        if self._transport is None:
            self._transport = asyncio.ensure_future(asyncio.to_thread(_make_transport))
        try:
            return await asyncio.shield(self._transport)
        except (OSError, ValueError) as failed:
            self._transport = None
            raise HttpError(
                f"the engine cannot make requests: {failed}. It reads certificates from "
                "SSL_CERT_FILE or SSL_CERT_DIR of its environment when these are set."
            ) from None

    async def _addresses(
        self, url: httpx.URL, request: Request, destinations: Destinations
    ) -> list[str]:
        """Where the connection may go: all addresses of the host, or none."""
        host = url.raw_host.decode("ascii").strip("[]")
        if not host:
            raise StepError(f"the URL has no host: {request.shown}")
        destinations.check_host(host)
        try:
            addresses = await self._resolve(
                host, url.port or (443 if url.scheme == "https" else 80)
            )
        except (OSError, UnicodeError) as unknown:
            reason = getattr(unknown, "strerror", None) or unknown
            raise HttpError(
                f"HTTP connection failed: {request.shown} - '{host}' has no address: {reason}"
            ) from None
        if not addresses:
            raise HttpError(f"HTTP connection failed: {request.shown} - '{host}' has no address")
        for address in addresses:
            destinations.check_address(host, address)
        return addresses


def connection_failed(request: Request, failed: Exception) -> HttpError:
    """The error of an exchange that the network or the server broke off."""
    reason = str(failed) or type(failed).__name__
    return HttpError(f"HTTP connection failed: {request.shown} - {reason}")


def _make_transport() -> httpx.AsyncHTTPTransport:
    import httpx

    # `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured; proxies of the environment are not: what they
    # connect to could not be checked.
    return httpx.AsyncHTTPTransport(
        verify=httpx.create_ssl_context(),
        trust_env=False,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
    )


def _requests(url: httpx.URL, request: Request, addresses: list[str]) -> list[httpx.Request]:
    """The same request to each address."""
    import httpx

    headers = [("Host", url.netloc.decode("ascii")), *request.headers]
    given = {name.lower() for name, _ in request.headers}
    if "host" in given:
        del headers[0]
    if url.userinfo and "authorization" not in given:
        credentials = base64.b64encode(unquote(url.userinfo.decode()).encode()).decode()
        headers.append(("Authorization", f"Basic {credentials}"))
    raw = [(name.encode("ascii"), value.encode()) for name, value in headers]
    extensions = {"sni_hostname": url.raw_host.decode("ascii").strip("[]")}
    return [
        httpx.Request(
            request.method,
            url.copy_with(host=address),
            headers=raw,
            content=request.content,
            extensions=dict(extensions),
        )
        for address in addresses
    ]


async def _first(
    transport: httpx.AsyncHTTPTransport, requests: list[httpx.Request], deadline: float
) -> httpx.Response:
    """The answer from the first address that accepts a connection; the others see no request."""
    import httpx

    now = asyncio.get_running_loop().time
    for left in range(len(requests), 1, -1):
        request = requests[-left]
        timeouts: dict[str, Any] = {"connect": max(0.1, (deadline - now()) / left)}
        request.extensions["timeout"] = timeouts
        try:
            return await transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            continue
    return await transport.handle_async_request(requests[-1])
