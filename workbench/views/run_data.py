"""`RunData`: everything that a run's view shows, put together from the rows of queries.

Of a loop's nodes only the attempts of the iteration under way are current; how they look is not
decided here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from workbench.store.records import AttemptRow, IterationRow, NodeRow, RunRow, UnreadRow
from workbench.views.titles import parts

__all__ = ["ATTEMPTS", "ITERATIONS", "Place", "RunData", "visible", "waited_for"]

ATTEMPTS = 2000  # a view reads so many, the last ones
ITERATIONS = 20  # and of each loop so many ended iterations


@dataclass(frozen=True)
class RunData:
    """A run at one moment.

    Attributes:
        by_id: the nodes by their numbers; elements of maps have higher ones than what follows.
        children: the nodes below each composite, in pre-order.
        attempts_of: the ended attempts of each node in the current iteration of its loop.
        iterations_of: the last ended iterations of each loop.
    """

    run: RunRow
    nodes: Sequence[NodeRow]
    attempts: Sequence[AttemptRow] = ()
    iterations: Sequence[IterationRow] = ()
    signals: Sequence[UnreadRow] = ()
    by_id: Mapping[int, NodeRow] = field(init=False, repr=False)
    children: Mapping[int, list[NodeRow]] = field(init=False, repr=False)
    attempts_of: Mapping[int, list[AttemptRow]] = field(init=False, repr=False)
    iterations_of: Mapping[int, list[IterationRow]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        children, iterations_of = defaultdict(list), defaultdict(list)
        for node in self.nodes:
            if node.parent_id is not None:
                children[node.parent_id].append(node)
        for iteration in self.iterations:
            iterations_of[iteration.node_id].append(iteration)
        object.__setattr__(self, "by_id", {node.node_id: node for node in self.nodes})
        object.__setattr__(self, "children", dict(children))
        object.__setattr__(self, "attempts_of", _current(self.nodes, self.attempts))
        object.__setattr__(self, "iterations_of", dict(iterations_of))

    @property
    def as_of(self) -> datetime:
        """The moment, by the database's clock."""
        return self.run.as_of

    @property
    def ended(self) -> bool:
        """Whether the run has ended, so that nothing here changes any more."""
        return self.run.status in ("completed", "failed", "cancelled")

    def same_as(self, other: RunData) -> bool:
        """Whether the other shows the same, but for the moment at which it was read."""
        run = replace(other.run, as_of=self.run.as_of)
        mine = (self.run, self.nodes, self.attempts, self.iterations, self.signals)
        return mine == (run, other.nodes, other.attempts, other.iterations, other.signals)


class Place(NamedTuple):
    """Where a step stands in a list of all: how deep, and what it is for if it begins a part."""

    level: int
    node: NodeRow
    heading: str = ""


def visible(data: RunData) -> list[Place]:
    """Return every node but the THENs, which only hold others together, in the order of running."""
    if not data.nodes:
        return []
    found: list[Place] = []
    pending = [Place(0, data.nodes[0])]
    while pending:
        level, node, heading = pending.pop()
        below = parts(node, data.children.get(node.node_id, ()))
        if node.node_type == "THEN":
            first, *rest = below
            places = [Place(level, first.child, heading), *(Place(level, p.child) for p in rest)]
        else:
            found.append(Place(level, node, heading))
            places = [Place(level + 1, part.child, part.heading) for part in below]
        pending.extend(reversed(places))
    return found


def waited_for(data: RunData) -> list[NodeRow]:
    """Return the waits for signals that are under way."""
    return [n for n in data.nodes if n.node_type == "SIGNAL" and n.status == "waiting"]


def _current(
    nodes: Sequence[NodeRow], attempts: Iterable[AttemptRow]
) -> dict[int, list[AttemptRow]]:
    """Return each node's attempts, those of earlier iterations of its loop left out.

    They began before the iteration did: it has its own start, and the one before took some time.
    """
    loops = _innermost_loops(nodes)
    found: dict[int, list[AttemptRow]] = defaultdict(list)
    for attempt in attempts:
        loop = loops.get(attempt.node_id)
        if loop is not None:
            began = attempt.started_at or attempt.finished_at
            if loop.started_at is None or began < loop.started_at:
                continue
        found[attempt.node_id].append(attempt)
    return dict(found)


def _innermost_loops(nodes: Sequence[NodeRow]) -> dict[int, NodeRow]:
    loops: dict[int, NodeRow] = {}
    kinds = {node.node_id: node for node in nodes}
    for node in nodes:  # parents come first
        if node.parent_id is None:
            continue
        parent = kinds[node.parent_id]
        loop = parent if parent.node_type == "LOOP" else loops.get(parent.node_id)
        if loop is not None:
            loops[node.node_id] = loop
    return loops
