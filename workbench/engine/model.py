"""Plain data that the decider reads and returns: a run, its nodes, what happened, what follows. No
behaviour, no I/O.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from workbench.engine.plan import Expansion, Plan
from workbench.engine.policy import Policy
from workbench.graph.substitute import Named

__all__ = [
    "TERMINAL",
    "AttemptEnd",
    "CancelRequested",
    "Completed",
    "Decision",
    "Event",
    "Failed",
    "Faulted",
    "ForgetNames",
    "Gathered",
    "IterationEnd",
    "Lost",
    "MoveNames",
    "NameChange",
    "NodeState",
    "Offered",
    "Released",
    "ReportEvent",
    "Run",
    "SetName",
    "Signal",
    "Start",
    "Value",
    "Wake",
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

    `base`, `size`: where the elements of a MAP are, and how many. `facts`: what the steps of a FLOW
    that depend on this one have to know of its value, see `dag`; `size` then says how many elements
    it has.
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
    iteration: int = 0
    abandoned: int = 0
    falsy: bool = False
    reused: bool = False
    base: int | None = None
    size: int | None = None
    facts: int = 0

    @property
    def timer(self) -> datetime | None:
        """When this wait is over; None when it is none, or has no end."""
        return self.ready_at if self.status == "waiting" else None


@dataclass(slots=True)
class Run:
    """An engine's copy of a run: current as long as `version` is that of its row.

    `values` caches what a name means in a scope, as far as this engine produced or loaded it; the
    others are in the database. `elsewhere`: its SQL runs in another database. `timers` are the
    waits that end at a time, the next one first, and `ended` says how much of what a node counts has
    ended: both follow from `nodes`, and so does what `plan` has beyond the graph, the elements of
    MAPs.
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
    elsewhere: bool = False
    values: dict[tuple[int, str], Named] = field(default_factory=dict)
    timers: list[tuple[datetime, int]] = field(default_factory=list)
    ended: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given, self.nodes = self.nodes, [NodeState() for _ in self.plan]
        for number, state in enumerate(given):
            self.set(number, state)

    def set(self, number: int, state: NodeState) -> None:
        """Take over a node's state; that of a MAP before those of its elements."""
        old, self.nodes[number] = self.nodes[number], state
        if (timer := old.timer) is not None:
            del self.timers[bisect_left(self.timers, (timer, number))]
        if (timer := state.timer) is not None:
            insort(self.timers, (timer, number))
        planned = self.plan[number]
        if ended := (state.status in TERMINAL) - (old.status in TERMINAL):
            for counter in planned.counted_by:
                self.ended[counter] = self.ended.get(counter, 0) + ended
        if planned.type == "MAP" and (old.base, old.size) != (state.base, state.size):
            self._lay_out(number, state)

    def _lay_out(self, node: int, state: NodeState) -> None:
        """Another set of elements in place of those that a MAP had."""
        gone = self.plan.expansions(node, self.plan[node].last)
        for expansion in gone:
            for number in range(expansion.base, expansion.end):
                if number in self.plan:
                    self.set(number, NodeState())
        plan = self.plan.without(gone)
        if state.base is not None and state.size is not None:
            plan = plan.expanded(node, state.base, state.size)
        self.nodes += [NodeState() for _ in range(len(plan) - len(self.nodes))]
        del self.nodes[len(plan) :]
        self.plan = plan

    def apply(self, decision: Decision) -> None:
        """Take over what was decided and made durable, unless the copy has already been brought
        past it.
        """
        if decision.refused or decision.version <= self.version:
            return
        self.version = decision.version
        self.status = decision.status
        for number, state in decision.nodes.items():
            self.set(number, state)


# What can happen to a run. A report carries the token of the claim it belongs to.


@dataclass(frozen=True, slots=True)
class Start:
    """The run is due for the first time."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A leaf's attempt succeeded with `value`; `cancel` is the reason when the step itself asked to
    cancel its run. `executed` is what was executed, where that is not what the graph says; `logs`
    what a handler printed and logged.
    """

    node: int
    token: str
    value: Value
    fingerprint: str | None = None
    cancel: str | None = None
    executed: str | None = None
    logs: str | None = None


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
    executed: str | None = None
    logs: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The engine or the connection that executed a leaf is gone."""

    node: int
    token: str
    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """An engine gives a claim back without having executed it; nothing is counted. The leaf is
    ready again after `delay` seconds, for the `reason`.
    """

    node: int
    token: str
    delay: float = 0.0
    reason: Error | None = None


@dataclass(frozen=True, slots=True)
class Offered:
    """The input of a step for outside workers is known, JSON text: now it waits for one."""

    node: int
    token: str
    input: str


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


class Signal(NamedTuple):
    """A signal that no wait has taken yet; `data` is JSON text, None when it was not loaded because
    nothing waits for it.
    """

    id: int
    name: str
    sent_at: datetime
    data: str | None


@dataclass(frozen=True, slots=True)
class Wake:
    """The run is due: a time has come, signals have arrived, or nothing in it is alive although it
    should be.

    `signals` are those that are new, and the oldest of each name that the graph waits for.
    """

    signals: tuple[Signal, ...] = ()


#: How a claim may end.
ReportEvent = Completed | Failed | Lost | Faulted | Released | Offered
Event = Start | ReportEvent | CancelRequested | Wake


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """A row of `df.attempts`. `delay` is seconds until the next attempt, None when there is none;
    `iterations` are those of the loops around the node.
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
    executed: str | None = None
    logs: str | None = None
    iterations: tuple[int, ...] = ()
    pattern: int | None = None
    element: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IterationEnd:
    """A row of `df.iterations`: an iteration of a LOOP that another one follows; `error` is why it
    was abandoned. `last` is the highest node number of the body.
    """

    loop: int
    last: int
    iteration: int
    started_at: datetime | None
    error: Error | None = None


class SetName(NamedTuple):
    """A name now means the value of node `source`, which is at hand if it became known just now."""

    scope: int
    name: str
    source: int
    value: Value | None


class MoveNames(NamedTuple):
    """What a branch named becomes known outside of it."""

    branch: int
    scope: int


class ForgetNames(NamedTuple):
    """Nothing that the scopes `first` to `last` named is known any more."""

    first: int
    last: int


NameChange = SetName | MoveNames | ForgetNames

#: Whose values make up that of a composite: an array, or an object.
Gathered = tuple[int, ...] | dict[str, int]


@dataclass(slots=True)
class Decision:
    """What follows from one event. Empty (`refused`) when the event was stale.

    `gathered`: JOINs and MAPs, and the nodes whose values theirs is the array of; FLOWs, and those by
    the names under which theirs is the object of them. `expanded`: MAPs whose elements are new;
    `dropped`: numbers of elements, from and up to, that are no more. `plan`: the run's, with the
    elements of its MAPs, when that has changed. `offered`: steps that now wait for an outside worker,
    and their inputs. `wake_at`: when the run is
    due again that is known from its waits; `woken`: what it was due for has been looked at, else it
    stays due. `listens`: a wait for a signal has begun, which may have been sent before. `taken`,
    `looked_at`: ids of the signals that waits took, and of those that none did.
    """

    version: int
    status: str
    at: datetime
    nodes: dict[int, NodeState] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)
    gathered: dict[int, Gathered] = field(default_factory=dict)
    expanded: dict[int, Expansion] = field(default_factory=dict)
    dropped: list[tuple[int, int]] = field(default_factory=list)
    plan: Plan | None = None
    names: list[NameChange] = field(default_factory=list)
    attempts: list[AttemptEnd] = field(default_factory=list)
    iterations: list[IterationEnd] = field(default_factory=list)
    offered: dict[int, str] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    wake_at: datetime | None = None
    woken: bool = False
    listens: bool = False
    taken: list[int] = field(default_factory=list)
    looked_at: list[int] = field(default_factory=list)
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
