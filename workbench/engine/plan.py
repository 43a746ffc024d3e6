"""A graph laid out for deciding: every node by its pre-order number, with the numbers of its relatives.

Immutable and shared by all runs of equal graphs; a run whose MAPs have elements has a plan of its own,
`expanded` from that. Elements are numbered behind everything else, and are laid out as the body of
their MAP is: the body itself, their pattern, is never executed. What a node is doing is in `model`;
what follows from it in `machine`.
"""

from __future__ import annotations

import copy
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from workbench.engine import dag
from workbench.engine.dag import Step
from workbench.graph.codec import loads
from workbench.graph.node import Node
from workbench.graph.substitute import input_references
from workbench.graph.walk import walk

__all__ = ["RUN_SCOPE", "Expansion", "Plan", "Planned"]

#: The names that belong to no branch; branches are numbered by their roots, which are never 0.
RUN_SCOPE = 0

_EXECUTED = frozenset({"SQL", "PYTHON", "EXTERNAL", "HTTP", "HTTP_MULTIPART"})
#: What may stand for a value in a BREAK's text: `$name`, `{variable}`.
_REFERS = re.compile(r"\$[A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\}")
_WAITING = frozenset({"SLEEP", "WAIT_SCHEDULE", "SIGNAL"})
#: What has parts with names of their own.
_FORKS = frozenset({"JOIN", "RACE", "FLOW", "MAP"})


@dataclass(frozen=True)
class Planned:
    """The immutable part of a node.

    `last` is the highest number below it; `scope` the branch of a JOIN or RACE, the element of a MAP or
    the FLOW whose names it sees first; `loop` and `map` the innermost LOOP and MAP around it; `judged`
    whether a condition may look at its value; `retry` what the node and those above it say about
    trying again, the innermost first. `counted_by` are the nodes that count how many of their parts
    have ended, and as `~n` the steps that count their dependencies. Of a FLOW: its `steps`, by their
    numbers; of a step what the FLOW says about it, `step`. An element of a MAP knows its index after
    those of the MAPs around its own, `element`, and the node of the graph that it is like, `pattern`.
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
    map: int | None = None
    counted_by: tuple[int, ...] = ()
    judged: bool = False
    retry: Mapping[str, Any] | None = None
    step: Step | None = None
    steps: Mapping[int, Step] = field(default_factory=dict)
    pattern: int | None = None
    element: tuple[int, ...] = ()

    @cached_property
    def branches(self) -> tuple[int, ...]:
        """What a JOIN or RACE runs side by side, in order; the steps of a FLOW."""
        return tuple(n for n in (self.left, self.right, *self.extra) if n is not None)

    @cached_property
    def is_executed(self) -> bool:
        """Whether an engine claims it: a step, or a node that has to look up names before it can be
        decided.
        """
        if self.type == "BREAK":
            return _REFERS.search(self.config["break_value"] or "") is not None
        if self.type == "MAP":  # in a FLOW, the size is known from the step that it goes over
            return self.step is None
        return self.type in _EXECUTED or (self.type == "IF" and self.condition is None)

    @property
    def origin(self) -> int:
        """Its number in the graph."""
        return self.number if self.pattern is None else self.pattern

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
        """The names that the input of a PYTHON or EXTERNAL leaf refers to."""
        return frozenset(input_references(self.config.get("input")))

    @cached_property
    def handler(self) -> str | None:
        """The handler that an engine must have to execute this leaf."""
        return self.config["handler"] if self.type == "PYTHON" else None


@dataclass(frozen=True)
class Expansion:
    """The elements of a MAP: `size` of them, `stride` nodes each, numbered from `base` on; `kept` when
    a resumed run has had them from its beginning.
    """

    map: int
    base: int
    size: int
    stride: int
    kept: bool = False
    laid_out: dict[int, Planned] = field(default_factory=dict, compare=False, repr=False)

    @property
    def roots(self) -> range:
        """The root of each element, in order."""
        return range(self.base, self.end, self.stride)

    @property
    def end(self) -> int:
        return self.base + self.size * self.stride


class Plan:
    """A graph laid out by pre-order number."""

    def __init__(self, nodes: tuple[Planned, ...]) -> None:
        self.nodes = nodes
        self.names = frozenset(n.name for n in nodes if n.name is not None) | {
            n.config["as"] for n in nodes if n.type == "MAP"
        }
        #: The waits for each signal.
        self.listeners: dict[str, list[int]] = {}
        for node in nodes:
            if node.type == "SIGNAL":
                self.listeners.setdefault(node.config["signal_name"], []).append(node.number)
        #: Whether anything in it is ever due at a time.
        self.has_timers = any(n.waits or n.type == "LOOP" for n in nodes)
        self.has_maps = any(n.type == "MAP" for n in nodes)
        self._named = list(accumulate((n.name is not None for n in nodes), initial=0))
        self._forks = list(accumulate((n.type in _FORKS for n in nodes), initial=0))
        self._expansions: dict[int, Expansion] = {}
        self._bases: list[tuple[int, int]] = []  # with the number of the MAP

    def __len__(self) -> int:
        """Behind the highest number."""
        return self._expansions[self._bases[-1][1]].end if self._bases else len(self.nodes)

    def __getitem__(self, number: int) -> Planned:
        if number < len(self.nodes):
            return self.nodes[number]
        expansion = self._expansions[
            self._bases[bisect_right(self._bases, (number, number)) - 1][1]
        ]
        planned = expansion.laid_out.get(number)
        if planned is None:
            planned = expansion.laid_out[number] = self._element(expansion, number)
        return planned

    def __contains__(self, number: int) -> bool:
        if 0 <= number < len(self.nodes):
            return True
        place = bisect_right(self._bases, (number, number)) - 1
        return place >= 0 and number < self._expansions[self._bases[place][1]].end

    def __iter__(self) -> Iterator[Planned]:
        """The nodes of the graph."""
        return iter(self.nodes)

    # Elements of MAPs.

    def elements(self, node: int) -> range:
        """The roots of a MAP's elements, in order; none before they are known."""
        expansion = self._expansions.get(node)
        return range(0) if expansion is None else expansion.roots

    def expansion(self, node: int) -> Expansion:
        return self._expansions[node]

    def numbers(self, first: int, last: int) -> Iterable[int]:
        """The nodes from `first` to `last`, with the elements of MAPs in place of their patterns."""
        return self._numbers(first, last) if self.has_maps else range(first, last + 1)

    def _numbers(self, first: int, last: int) -> Iterator[int]:
        number = first
        while number <= last:
            yield number
            planned = self[number]
            if (expansion := self._expansions.get(number)) is not None:
                yield from self._numbers(expansion.base, expansion.end - 1)
            number = planned.last + 1 if planned.type == "MAP" else number + 1

    def waits_for(self, signal: str) -> list[int]:
        """The nodes that wait for a signal of this name, when their turn comes."""
        origins = self.listeners.get(signal, [])
        if not self.has_maps or not origins:
            return origins
        return [n for n in self.numbers(0, self.nodes[0].last) if self[n].origin in origins]

    def expansions(self, first: int, last: int) -> list[Expansion]:
        """Those of the MAPs from `first` to `last`, and of the MAPs in their elements."""
        if not self._expansions:
            return []
        return [self._expansions[n] for n in self.numbers(first, last) if n in self._expansions]

    def expanded(self, node: int, base: int, size: int) -> Plan:
        """This plan with the elements of a MAP."""
        planned = self[node]
        expansion = Expansion(node, base, size, planned.last - node)
        return self._with({**self._expansions, node: expansion})

    def without(self, gone: Iterable[Expansion]) -> Plan:
        """This plan without the elements of these MAPs."""
        maps = {expansion.map for expansion in gone}
        return self._with({m: e for m, e in self._expansions.items() if m not in maps})

    def _with(self, expansions: dict[int, Expansion]) -> Plan:
        plan = copy.copy(self)
        plan._expansions = expansions
        plan._bases = sorted((e.base, e.map) for e in expansions.values() if e.size)
        return plan

    def _element(self, expansion: Expansion, number: int) -> Planned:
        index, offset = divmod(number - expansion.base, expansion.stride)
        first, last = expansion.map + 1, expansion.map + expansion.stride
        pattern = self[first + offset]
        delta = number - pattern.number

        def here(other: int) -> int:
            return other + delta if first <= other <= last else other

        def if_any(other: int | None) -> int | None:
            return None if other is None else here(other)

        return replace(
            pattern,
            number=number,
            parent=if_any(pattern.parent),
            left=if_any(pattern.left),
            right=if_any(pattern.right),
            condition=if_any(pattern.condition),
            extra=tuple(map(here, pattern.extra)),
            last=pattern.last + delta,
            scope=here(pattern.scope),
            loop=if_any(pattern.loop),
            map=if_any(pattern.map),
            counted_by=tuple(here(n) if n >= 0 else ~here(~n) for n in pattern.counted_by),
            step=None if pattern.step is None else pattern.step.moved(delta),
            steps={n + delta: step.moved(delta) for n, step in pattern.steps.items()},
            pattern=pattern.origin,
            element=(*self[expansion.map].element, index),
        )

    def gives_names(self, node: int) -> bool:
        """Whether the node or anything below it gives a name to its result."""
        planned = self[node]
        first, last = planned.origin, planned.origin + planned.last - node
        return self._named[last + 1] > self._named[first]

    def forks(self, node: int) -> bool:
        """Whether there are scopes of names in or below the node."""
        planned = self[node]
        first, last = planned.origin, planned.origin + planned.last - node
        return self._forks[last + 1] > self._forks[first]

    def scopes(self, node: int) -> list[int]:
        """The scopes whose names a node sees, the innermost first."""
        scope = self[node].scope
        found = [scope]
        while scope != RUN_SCOPE:
            parent = self[scope].parent
            scope = RUN_SCOPE if parent is None else self[parent].scope
            found.append(scope)
        return found

    def loops(self, node: int) -> list[int]:
        """The LOOPs around a node, the outermost first."""
        found: list[int] = []
        loop = self[node].loop
        while loop is not None:
            found.append(loop)
            loop = self[loop].loop
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
    scope, loop, around, judged, retry = RUN_SCOPE, None, None, False, node.retry
    counted_by: tuple[int, ...] = ()
    step: Step | None = None
    if parent is not None:
        scope = _scope(number, parent)
        loop = parent.number if parent.type == "LOOP" else parent.loop
        around = parent.number if parent.type == "MAP" else parent.map
        judged = parent.judged or slot == "condition_node"
        if parent.type in ("JOIN", "MAP", "FLOW"):
            counted_by = (parent.number,)
        if parent.type == "FLOW":
            step = parent.steps[number]
            counted_by += tuple(~dependent for dependent in step.dependents)
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
        map=around,
        counted_by=counted_by,
        judged=judged,
        retry=retry,
        step=step,
        steps=_steps(node, extra) if node.node_type == "FLOW" else {},
    )


def _scope(number: int, parent: Planned) -> int:
    """Branches and the elements of a MAP have names of their own; so has a FLOW, for its steps."""
    if parent.type in ("JOIN", "RACE", "MAP"):
        return number
    return parent.number if parent.type == "FLOW" else parent.scope


def _steps(flow: Node, numbers: tuple[int, ...]) -> dict[int, Step]:
    maps = {
        number: json.loads(child.query or "{}")["over"]
        for number, child in zip(numbers, flow.extra, strict=True)
        if child.node_type == "MAP"
    }
    return {s.number: s for s in dag.lay_out(json.loads(flow.query or "{}"), numbers, maps)}


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
