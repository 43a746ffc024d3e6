"""Pre-order: the numbering of nodes that is their identity everywhere.

Number 0 is the root; then come left, right, condition and extras of each node. The stored rows,
`#n` in calls and views, and error paths all follow this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from workbench.graph.node import Node


class Visit(NamedTuple):
    """One node of a walk.

    `number` counts from 0 in pre-order; `parent` is the parent's number (None for the root);
    `path` reads `root.left.extra_nodes[0]`.
    """

    number: int
    node: Node
    parent: int | None
    path: str


def walk(node: Node) -> Iterator[Visit]:
    """Yield every node of a graph in pre-order, without recursion."""
    pending = [Visit(0, node, None, "root")]
    while pending:
        visit = pending.pop()
        yield visit
        pending.extend(reversed(below(visit)))


def below(visit: Visit) -> list[Visit]:
    """Return the children of a visited node, in pre-order, with their numbers and paths."""
    node, number, found = visit.node, visit.number + 1, []
    for field, child in _fields(node):
        found.append(Visit(number, child, visit.number, f"{visit.path}.{field}"))
        number += child.count
    return found


def _fields(node: Node) -> Iterator[tuple[str, Node]]:
    if node.left is not None:
        yield "left", node.left
    if node.right is not None:
        yield "right", node.right
    if node.condition is not None:
        yield "condition_node", node.condition
    for index, child in enumerate(node.extra):
        yield f"extra_nodes[{index}]", child
