"""One HTTP leaf without an engine around it: `Leaf(server).get("/path")` gives how it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from tests.engine.http_server import HttpServer
from workbench.engine.core import Core
from workbench.engine.http import Event, HttpLeaves
from workbench.engine.http_send import look_up
from workbench.engine.model import Completed, Failed, Run
from workbench.engine.plan import Plan
from workbench.engine.policy import Policy
from workbench.engine.workload import Claim, Workload
from workbench.graph.node import Node
from workbench.graph.substitute import Named
from workbench.store.http_gate import Gate

__all__ = ["Leaf", "error", "value"]

LOCAL = ("127.0.0.1",)


class Leaf:
    """Executes HTTP nodes, each on an event loop of its own, with the gate's answer given here."""

    def __init__(
        self,
        server: HttpServer | None = None,
        *,
        allow: Sequence[str] = LOCAL,
        deny: Sequence[str] = (),
        granted: bool = True,
        secrets: Mapping[str, str] | None = None,
        names: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        resolve: Callable[[str, int], Awaitable[list[str]]] = look_up,
    ) -> None:
        self._url = server.url if server else ""
        self._gate = Gate(granted, "ann", "df.http(text)", tuple(allow), tuple(deny))
        self._secrets = secrets or {}
        self._names = {name: Named(value) for name, value in (names or {}).items()}
        self._variables = variables or {}
        self._resolve = resolve
        self.interrupted = False

    def get(self, path: str = "/", **config: Any) -> Event:
        """A GET of the server, or of another URL; keys of the config beside the URL and method."""
        return self.run({"url": self._absolute(path), "method": "GET", **config})

    def post(self, path: str = "/", **config: Any) -> Event:
        return self.run({"url": self._absolute(path), "method": "POST", **config})

    def multipart(self, *parts: Any, **config: Any) -> Event:
        url = self._absolute("/")
        every = {"url": url, "method": "POST", "parts": list(parts), **config}
        return self.run(every, node_type="HTTP_MULTIPART")

    def run(
        self,
        config: Mapping[str, Any],
        *,
        node_type: str = "HTTP",
        meanwhile: Callable[[Claim], None] | None = None,
    ) -> Event:
        """How the node ended. `meanwhile` is called on a thread as soon as it executes."""
        config = dict(config)
        options = config.pop("options", None)
        node = Node(node_type, query=json.dumps(config), options=options)
        return asyncio.run(self._run(node, meanwhile))

    async def _run(self, node: Node, meanwhile: Callable[[Claim], None] | None) -> Event:
        workload = Workload(1, lambda: None)
        core = cast(Core, SimpleNamespace(workload=workload))
        plan = Plan.of(node)
        run = Run("0a1b2c3d", plan, Policy(), label="nightly", variables=self._variables)
        leaves = HttpLeaves(core, secret=self._secrets.get, resolve=self._resolve)
        claim = Claim("0a1b2c3d", 0, "token", interrupted=self.interrupted)
        executing = asyncio.ensure_future(
            leaves.execute(run, claim, plan[0], self._names, self._gate)
        )
        if meanwhile is not None:
            await asyncio.to_thread(meanwhile, claim)
            claim.interrupt()
        await executing
        await leaves.close()
        (report,) = workload.take_reports(2)
        assert claim.stop is None
        return cast(Event, report.event)

    def _absolute(self, path: str) -> str:
        return self._url + path if path.startswith("/") else path


def value(event: Event) -> Any:
    """The value of a leaf that completed."""
    assert isinstance(event, Completed), event
    return json.loads(event.value.json)


def error(event: Event, *, permanent: bool = False) -> str:
    """The message of a leaf that failed, permanently or not."""
    assert isinstance(event, Failed), event
    assert bool(event.error.get("permanent")) is permanent
    return str(event.error["message"])
