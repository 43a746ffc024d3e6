"""Plain data that the decider reads and returns: a run, its nodes, what happened, what follows. No
behaviour, no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from workbench.engine.policy import Policy
from workbench.graph.codec import loads
from workbench.graph.node import Node
from workbench.graph.substitute import Named, input_references
from workbench.graph.walk import walk

__all__ = [
    "TERMINAL",
    "AttemptEnd",
    "CancelRequested",
    "Completed",
    "Decision",
    "Event",
    "Failed",
    "Faulted",
    "Lost",
    "NodeState",
    "Plan",
    "Planned",
    "Released",
    "ReportEvent",
    "Revive",
    "Run",
    "Start",
    "Value",
]

#: Statuses that never change again (a node's may be reset by the next iteration of an enclosing
#: loop).
TERMINAL = frozenset({"completed", "failed", "cancelled", "skipped"})

Error = Mapping[str, Any]


class Value(NamedTuple):
    """A result: JSON text, and for a SQL result the name and type of each column."""

    json: str
    columns: tuple[tuple[str, str], ...] | None = None


@dataclass(slots=True)
class NodeState:
    """The mutable part of a node, as in `df.nodes`. Field order is that of `df._node_rows`, after
    the number.
    """

    status: str = "pending"
    rev: int = 0
    attempt: int = 0
    losses: int = 0
    faults: int = 0
    autocommit: bool = False
    token: str | None = None
    engine: str | None = None
    ready_at: datetime | None = None
    started_at: datetime | None = None
    result_node: int | None = None
    error: Error | None = None


@dataclass(frozen=True)
class Planned:
    """The immutable part of a node, with the numbers of its relatives."""

    number: int
    type: str
    parent: int | None
    query: str | None
    name: str | None
    left: int | None = None
    right: int | None = None
    options: Mapping[str, Any] | None = None

    @property
    def is_leaf(self) -> bool:
        return self.left is None

    @property
    def alone(self) -> bool:
        """Whether the graph says that this statement runs outside a transaction (`sql(…,
        transaction=False)`).
        """
        return self.options is not None and self.options.get("transaction") is False

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
    """A graph laid out by pre-order number. Shared by all runs of equal graphs."""

    def __init__(self, nodes: tuple[Planned, ...]) -> None:
        self.nodes = nodes
        self.names = frozenset(n.name for n in nodes if n.name is not None)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, number: int) -> Planned:
        return self.nodes[number]

    def __iter__(self) -> Iterator[Planned]:
        return iter(self.nodes)

    @classmethod
    def of(cls, graph: Node) -> Plan:
        """Lay out a graph built in Python."""
        planned: list[Planned] = []
        for step in walk(graph):
            node = step.node
            planned.append(
                Planned(
                    step.number,
                    node.node_type,
                    step.parent,
                    node.query,
                    node.result_name,
                    options=node.options,
                )
            )
            if step.parent is not None:
                parent = planned[step.parent]
                planned[step.parent] = (
                    replace(parent, left=step.number)
                    if parent.left is None
                    else replace(parent, right=step.number)
                )
        return cls(tuple(planned))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Lay out a graph from its JSON."""
        return cls.of(loads(text))


@dataclass(slots=True)
class Run:
    """An engine's copy of a run: current as long as `version` is that of its row.

    `values` caches named values that this engine produced or loaded; the others are in the
    database.
    """

    id: str
    plan: Plan
    policy: Policy
    status: str = "pending"
    version: int = 0
    nodes: list[NodeState] = field(default_factory=list)
    label: str | None = None
    input: str = "null"
    variables: Mapping[str, str] = field(default_factory=dict)
    database: str | None = None
    values: dict[str, Named] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.nodes:
            self.nodes = [NodeState() for _ in self.plan]

    def apply(self, decision: Decision) -> None:
        """Take over what was decided and made durable, unless the copy has already been brought
        past it.
        """
        if decision.refused or decision.version <= self.version:
            return
        self.version = decision.version
        self.status = decision.status
        for number, state in decision.nodes.items():
            self.nodes[number] = state


# What can happen to a run. A report carries the token of the claim it belongs to.


@dataclass(frozen=True, slots=True)
class Start:
    """The run is due for the first time."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A leaf's attempt succeeded with `value`; `cancel` is the reason when the step itself asked to
    cancel its run.
    """

    node: int
    token: str
    value: Value
    fingerprint: str | None = None
    cancel: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A leaf's attempt failed. `delay`, in seconds, was chosen by whoever failed, and
    `delay_source` says who.
    """

    node: int
    token: str
    error: Error
    delay: float | None = None
    delay_source: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The engine or the connection that executed a leaf is gone."""

    node: int
    token: str
    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """An engine gives a claim back without having executed it; nothing is counted."""

    node: int
    token: str


@dataclass(frozen=True, slots=True)
class Faulted:
    """A leaf succeeded, but its checkpoint could not be written and was rolled back with it.
    Counted apart from attempts.
    """

    node: int
    token: str
    error: Error


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody cancels the run."""

    reason: str


@dataclass(frozen=True, slots=True)
class Revive:
    """The run is live and yet nothing in it is: see what should be going on."""


#: How a claim may end.
ReportEvent = Completed | Failed | Lost | Faulted | Released
Event = Start | ReportEvent | CancelRequested | Revive


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """A row of `df.attempts`. `delay` is seconds until the next attempt, None when there is
    none.
    """

    node: int
    attempt: int
    outcome: str
    token: str
    engine: str | None
    started_at: datetime | None
    error: Error | None = None
    delay: float | None = None
    delay_source: str | None = None
    fingerprint: str | None = None
    exactly_once: bool = False


@dataclass(slots=True)
class Decision:
    """What follows from one event. Empty (`refused`) when the event was stale."""

    version: int
    status: str
    at: datetime
    nodes: dict[int, NodeState] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    names: dict[str, tuple[int, Value]] = field(default_factory=dict)
    attempts: list[AttemptEnd] = field(default_factory=list)
    error: Error | None = None
    parked: Error | None = None
    refused: bool = False

    @property
    def ready(self) -> list[int]:
        """Leaves that this decision made ready to run now, in order."""
        return [
            number
            for number, state in self.nodes.items()
            if state.status == "ready" and state.ready_at is not None and state.ready_at <= self.at
        ]
