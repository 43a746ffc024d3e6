"""Driving a flow on a virtual clock: handlers are given by slug, what happened is read by slug."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from workbench.engine.model import NodeState
from workbench.engine.plan import Plan
from workbench.engine.simulate import Fails, Outcome, Simulation, Succeeds, Try
from workbench.flow import Flow
from workbench.graph.control import each
from workbench.graph.values import encode

__all__ = ["Playing", "fails", "flow", "gives", "over"]

Handler = Callable[["Called"], Outcome]


class Called:
    """What a step is called with: its try, its element's index and value, and what it sees."""

    def __init__(self, playing: Playing, attempt: Try) -> None:
        planned = playing.simulation.run.plan[attempt.node]
        self.node = attempt.node
        self.attempt, self.losses = attempt.attempt, attempt.losses
        self.index = planned.element[-1] if planned.element else None
        names = playing.simulation.names_at(attempt.node)
        self.sees = {name: json.loads(value.json) for name, value in names.items()}
        self.element = playing.element(attempt.node)


class Playing:
    """A run of a flow: `result` and what became of its steps."""

    def __init__(self, graph: Flow, given: Any = None, **handlers: Handler) -> None:
        self.simulation = Simulation.of(graph.graph())
        self.simulation.run = replace(self.simulation.run, input=encode(given))
        self.handlers = handlers
        self.calls: list[tuple[str, int | None, int]] = []
        self.sees: dict[str, Mapping[str, Any]] = {}

    @property
    def plan(self) -> Plan:
        return self.simulation.run.plan

    def run(self) -> Playing:
        self.simulation.run_to_end(self._called)
        return self

    def _called(self, attempt: Try) -> Outcome:
        called, slug = Called(self, attempt), self.slug(attempt.node)
        self.calls.append((slug, called.index, attempt.attempt))
        self.sees.setdefault(slug, called.sees)
        handler = self.handlers.get(slug)
        return Succeeds(encode(slug)) if handler is None else handler(called)

    def slug(self, node: int) -> str:
        planned = self.plan[node]
        step = planned.step or (None if planned.map is None else self.plan[planned.map].step)
        assert step is not None
        return step.slug

    def number(self, slug: str) -> int:
        return next(n for n, step in self.plan[0].steps.items() if step.slug == slug)

    def state(self, slug: str) -> NodeState:
        return self.simulation.run.nodes[self.number(slug)]

    def element(self, node: int) -> Any:
        planned = self.plan[node]
        if planned.map is None:
            return None
        above = self.plan[planned.map].config["over"]
        if above == "input":
            return json.loads(self.simulation.run.input)[planned.element[-1]]
        return self.value(above)[planned.element[-1]]

    def elements(self, slug: str) -> list[NodeState]:
        return [self.simulation.run.nodes[n] for n in self.plan.elements(self.number(slug))]

    def live_nodes(self) -> list[NodeState]:
        """All but the patterns of maps."""
        numbers = self.plan.numbers(0, self.plan[0].last)
        return [self.simulation.run.nodes[n] for n in numbers]

    def value(self, slug: str) -> Any:
        return json.loads(self.simulation.values[self.number(slug)].json)

    @property
    def status(self) -> str:
        return self.simulation.status

    @property
    def output(self) -> Any:
        value = self.simulation.value
        return None if value is None else json.loads(value.json)

    @property
    def statuses(self) -> dict[str, str]:
        return {step.slug: self.state(step.slug).status for step in self.plan[0].steps.values()}

    def reason(self, slug: str) -> Any:
        return (self.state(slug).error or {}).get("reason")

    def delays(self, slug: str) -> list[float | None]:
        return [a.delay for a in self.simulation.attempts if self.slug(a.node) == slug]


def flow(*steps: tuple[str, str] | tuple[str, str, dict[str, Any]], **options: Any) -> Flow:
    """A flow of `(slug, dependencies, options)`; `m*` is a map over its first dependency or the input."""
    found = Flow("f", **options)
    for slug, after, *more in steps:
        said = dict(more[0]) if more else {}
        needs = after.split()
        node: Any = "SELECT 1"
        if slug.endswith("*"):
            slug = slug[:-1]
            exceptions = said.pop("return_exceptions", False)
            over_ = needs[0] if needs else "input"
            node = each(over_, "SELECT 1", return_exceptions=exceptions)
        found.add(slug, node, after=needs, **said)
    return found


def gives(value: Any, seconds: float = 0.0) -> Handler:
    return lambda called: Succeeds(encode(value), seconds)


def over(function: Callable[[Any], Any]) -> Handler:
    """A map's handler: a function of the element."""
    return lambda called: Succeeds(encode(function(called.element)))


def fails(times: int, value: Any = "ok", **how: Any) -> Handler:
    """Fail the first attempts."""
    return lambda called: Fails(**how) if called.attempt <= times else Succeeds(encode(value))
