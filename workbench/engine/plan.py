"""A graph laid out for deciding: every node by its pre-order number, with the numbers of its relatives.

Immutable and shared by all runs of equal graphs. What a node is doing is in `model`; what follows
from it in `machine`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from workbench.graph.codec import loads
from workbench.graph.node import Node
from workbench.graph.substitute import input_references
from workbench.graph.walk import walk

__all__ = ["RUN_SCOPE", "Plan", "Planned"]

#: The names that belong to no branch; branches are numbered by their roots, which are never 0.
RUN_SCOPE = 0

_EXECUTED = frozenset({"SQL", "PYTHON", "HTTP", "HTTP_MULTIPART"})
#: What may stand for a value in a BREAK's text: `$name`, `{variable}`.
_REFERS = re.compile(r"\$[A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\}")
_WAITING = frozenset({"SLEEP", "WAIT_SCHEDULE", "SIGNAL"})


@dataclass(frozen=True)
class Planned:
    """The immutable part of a node.

    `last` is the highest number below it; `scope` the branch of a JOIN or RACE whose names it sees
    first, its own number when it is the root of one; `loop` the innermost LOOP around it; `judged`
    whether a condition may look at its value; `retry` what the node and those above it say about
    trying again, the innermost first.
    """

    number: int
    type: str
    parent: int | None
    query: str | None
    name: str | None
    options: Mapping[str, Any] | None = None
    left: int | None = None
    right: int | None = None
    condition: int | None = None
    extra: tuple[int, ...] = ()
    last: int = 0
    scope: int = RUN_SCOPE
    loop: int | None = None
    joined: int | None = None
    judged: bool = False
    retry: Mapping[str, Any] | None = None

    @cached_property
    def branches(self) -> tuple[int, ...]:
        """What a JOIN or RACE runs side by side, in order."""
        return tuple(n for n in (self.left, self.right, *self.extra) if n is not None)

    @cached_property
    def is_executed(self) -> bool:
        """Whether an engine claims it: a step, or a node that has to look up names before it can be
        decided.
        """
        if self.type == "BREAK":
            return _REFERS.search(self.config["break_value"] or "") is not None
        return self.type in _EXECUTED or (self.type == "IF" and self.condition is None)

    @property
    def is_gated(self) -> bool:
        """Whether ceilings of its own and policies say when it may run."""
        return self.type in ("HTTP", "HTTP_MULTIPART")

    @property
    def waits(self) -> bool:
        """Whether it waits for a time or a signal, held by nobody."""
        return self.type in _WAITING

    @property
    def alone(self) -> bool:
        """Whether the graph says that this statement runs outside a transaction (`sql(…,
        transaction=False)`).
        """
        return self.option("transaction", True) is False

    def option(self, name: str, default: Any) -> Any:
        return default if self.options is None else self.options.get(name, default)

    @cached_property
    def config(self) -> Any:
        """The query of a type whose query is JSON."""
        return json.loads(self.query or "null")

    @cached_property
    def references(self) -> frozenset[str]:
        """The names that the input of a PYTHON leaf refers to."""
        return frozenset(input_references(self.config.get("input")))

    @cached_property
    def handler(self) -> str | None:
        """The handler that an engine must have to execute this leaf."""
        return self.config["handler"] if self.type == "PYTHON" else None


class Plan:
    """A graph laid out by pre-order number."""

    def __init__(self, nodes: tuple[Planned, ...]) -> None:
        self.nodes = nodes
        self.names = frozenset(n.name for n in nodes if n.name is not None)
        #: The waits for each signal.
        self.listeners: dict[str, list[int]] = {}
        for node in nodes:
            if node.type == "SIGNAL":
                self.listeners.setdefault(node.config["signal_name"], []).append(node.number)
        #: Whether anything in it is ever due at a time.
        self.has_timers = any(n.waits or n.type == "LOOP" for n in nodes)
        self._named = list(accumulate((n.name is not None for n in nodes), initial=0))
        self._forks = list(accumulate((n.type in ("JOIN", "RACE") for n in nodes), initial=0))

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, number: int) -> Planned:
        return self.nodes[number]

    def __iter__(self) -> Iterator[Planned]:
        return iter(self.nodes)

    def gives_names(self, node: int) -> bool:
        """Whether the node or anything below it gives a name to its result."""
        return self._named[self.nodes[node].last + 1] > self._named[node]

    def forks(self, node: int) -> bool:
        """Whether there are branches in or below the node."""
        return self._forks[self.nodes[node].last + 1] > self._forks[node]

    def scopes(self, node: int) -> list[int]:
        """The scopes whose names a node sees, the innermost first."""
        scope = self.nodes[node].scope
        found = [scope]
        while scope != RUN_SCOPE:
            parent = self.nodes[scope].parent
            scope = RUN_SCOPE if parent is None else self.nodes[parent].scope
            found.append(scope)
        return found

    def loops(self, node: int) -> list[int]:
        """The LOOPs around a node, the outermost first."""
        found: list[int] = []
        loop = self.nodes[node].loop
        while loop is not None:
            found.append(loop)
            loop = self.nodes[loop].loop
        return found[::-1]

    @classmethod
    def of(cls, graph: Node) -> Plan:
        """Lay out a graph built in Python."""
        planned: list[Planned] = []
        for visit in walk(graph):
            slot = visit.path.rpartition(".")[2]
            parent = None if visit.parent is None else planned[visit.parent]
            planned.append(_laid_out(visit.number, visit.node, slot, parent))
        return cls(tuple(planned))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Lay out a graph from its JSON."""
        return cls.of(loads(text))


def _laid_out(number: int, node: Node, slot: str, parent: Planned | None) -> Planned:
    left, right, condition, extra = _children(number, node)
    scope, loop, joined, judged, retry = RUN_SCOPE, None, None, False, node.retry
    if parent is not None:
        scope = number if parent.type in ("JOIN", "RACE") else parent.scope
        loop = parent.number if parent.type == "LOOP" else parent.loop
        joined = parent.number if parent.type == "JOIN" else None
        judged = parent.judged or slot == "condition_node"
        if parent.retry is not None:
            retry = {**parent.retry, **(retry or {})}
    return Planned(
        number,
        node.node_type,
        None if parent is None else parent.number,
        node.query,
        node.result_name,
        node.options,
        left,
        right,
        condition,
        extra,
        last=number + node.count - 1,
        scope=scope,
        loop=loop,
        joined=joined,
        judged=judged,
        retry=retry,
    )


def _children(
    number: int, node: Node
) -> tuple[int | None, int | None, int | None, tuple[int, ...]]:
    """The numbers of a node's children."""
    following = number + 1
    numbers: list[int | None] = []
    for child in (node.left, node.right, node.condition, *node.extra):
        numbers.append(None if child is None else following)
        following += 0 if child is None else child.count
    left, right, condition, *extra = numbers
    return left, right, condition, tuple(n for n in extra if n is not None)
