"""A graph that nothing executes yet, as the rows that a run of it would have: all pending; and its
HTTP policies.
"""

from __future__ import annotations

from workbench.graph.node import Node
from workbench.graph.policies import http_limit
from workbench.graph.walk import Visit, walk
from workbench.store.records import NodeRow
from workbench.views.limits import Limit

__all__ = ["limits_of", "sketch"]

_ORDERS = {"left": 1, "right": 2, "condition_node": 3}


def sketch(graph: Node) -> list[NodeRow]:
    """Return one row a node, in pre-order."""
    return [_row(visit) for visit in walk(graph)]


def limits_of(graph: Node) -> dict[int, Limit]:
    """Return the HTTP policies of a graph by the numbers of their nodes."""
    found = ((visit.number, http_limit(visit.node)) for visit in walk(graph))
    return {number: Limit(most) for number, most in found if most is not None}


def _row(visit: Visit) -> NodeRow:
    node = visit.node
    return NodeRow(
        node_id=visit.number,
        parent_id=visit.parent,
        ord=None if visit.parent is None else _order(visit.path),
        depth=visit.path.count("."),
        node_type=node.node_type,
        query=node.query,
        result_name=node.result_name,
        handler=None,
        status="pending",
        attempt=0,
        losses=0,
        ready_at=None,
        started_at=None,
        finished_at=None,
        error=None,
        result_node=None,
        result_preview=None,
        row_count=None,
        result_bytes=None,
        columns=None,
        engine_id=None,
        exactly_once=False,
        options=node.options,
    )


def _order(path: str) -> int:
    """Which child of its parent a node is: 1 left, 2 right, 3 condition, 4… extras."""
    slot = path.rpartition(".")[2]
    if slot.startswith("extra_nodes["):
        return 4 + int(slot[len("extra_nodes[") : -1])
    return _ORDERS[slot]
