"""Which leaves of a repaired graph may take over the results of a run of the original one, and which
maps those of their elements.

Both graphs are walked side by side, in the order in which they run. A leaf that is the same as
before, to the byte, may; the first step of a sequence that is not, and all after it, run. What
succeeded in the run is not known here.
"""

from __future__ import annotations

import json
from typing import Any

from workbench.graph.node import Node
from workbench.graph.walk import walk

__all__ = ["unchanged"]


def unchanged(before: Node, after: Node) -> dict[int, int]:
    """Pair the leaves of `after` with the leaves of `before` that they are.

    Returns:
        number in `after` → number in `before`, both in pre-order; maps count as leaves.
    """
    pairs = _Pairs()
    pairs.match(0, before, 0, after)
    return pairs.found


class _Pairs:
    """The pairs found so far; node numbers come with their nodes."""

    def __init__(self) -> None:
        self.found: dict[int, int] = {}

    def match(self, old: int, before: Node, new: int, after: Node) -> bool:
        """Pair what is the same in two parts; whether all of it is."""
        if before == after:
            for visit in walk(after):
                if visit.node.depth == 0 or visit.node.node_type == "MAP":
                    self.found[new + visit.number] = old + visit.number
            return True
        if "THEN" in (before.node_type, after.node_type):
            self._sequences(_steps(old, before), _steps(new, after))
        elif before.node_type == after.node_type == "FLOW":
            self._flows(old, before, new, after)
        elif before.node_type == after.node_type:
            self._composites(old, before, new, after)
        return False

    def _sequences(self, before: list[tuple[int, Node]], after: list[tuple[int, Node]]) -> None:
        """Up to the first difference, and into it."""
        for (old, was), (new, now) in zip(before, after, strict=False):
            if not self.match(old, was, new, now):
                return

    def _flows(self, old: int, before: Node, new: int, after: Node) -> None:
        """Steps that are the same, and all they depend on."""
        was, now = _steps_of(old, before), _steps_of(new, after)
        same: dict[str, bool] = {}
        pending = [(slug, False) for slug in now]
        while pending:
            slug, known = pending.pop()
            said, number, child = now[slug]
            needs = said.get("after", ())
            if not known and slug not in same:
                pending += [(slug, True), *((each, False) for each in needs)]
            elif known:
                same[slug] = (
                    slug in was
                    and (said, child) == (was[slug][0], was[slug][2])
                    and all(same[each] for each in needs)
                )
                if same[slug]:
                    self.match(was[slug][1], was[slug][2], number, child)

    def _composites(self, old: int, before: Node, new: int, after: Node) -> None:
        was, now = _children(old, before), _children(new, after)
        if before.node_type in ("JOIN", "RACE"):  # independent of each other
            for left, right in zip(was, now, strict=False):
                self.match(*left, *right)
        else:
            # What is asked first decides what of the rest is meant.
            first = [children.pop() for children in (was, now)] if _asks_first(before) else None
            if first and not self.match(*first[0], *first[1]):
                return
            for left, right in zip(was, now, strict=False):
                self.match(*left, *right)


def _asks_first(node: Node) -> bool:
    return node.node_type == "IF" and node.condition is not None


def _steps(number: int, node: Node) -> list[tuple[int, Node]]:
    """A sequence without its nesting, or the one step that a node is."""
    found: list[tuple[int, Node]] = []
    pending = [(number, node)]
    while pending:
        at, step = pending.pop()
        if step.node_type == "THEN":
            pending.extend(reversed(_children(at, step)))
        else:
            found.append((at, step))
    return found


def _steps_of(number: int, flow: Node) -> dict[str, tuple[dict[str, Any], int, Node]]:
    """What is said of each step of a FLOW, its number and its node, by slug."""
    steps = json.loads(flow.query or "{}")["steps"]
    children = _children(number, flow)
    return {said["step"]: (said, *child) for said, child in zip(steps, children, strict=True)}


def _children(number: int, node: Node) -> list[tuple[int, Node]]:
    """The children in pre-order, with their numbers: an IF's condition is the last one."""
    found = []
    following = number + 1
    for child in node.children():
        found.append((following, child))
        following += child.count
    return found
