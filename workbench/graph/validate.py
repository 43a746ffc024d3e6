"""What makes a graph fit to start: shapes, configs, names and limits.

`validate` is called before anything is stored and by `explain`. The table of shapes is in
`shapes`, what configs and options must say in `configs` and `extras`; which names a reference may
use is in `scope`. What only the server can know (whether a statement is valid SQL, whether a table
exists) shows when the node runs.
"""

from __future__ import annotations

from workbench.graph.configs import config_fault, if_rows_fault, parse, seconds_fault
from workbench.graph.dag import flow_fault, map_fault
from workbench.graph.extras import extras_fault
from workbench.graph.node import Node
from workbench.graph.scope import check_references
from workbench.graph.shapes import (
    MAX_DEPTH,
    MAX_NODES,
    NODE_TYPES,
    SHAPES,
    Query,
    Shape,
    Slot,
    invalid,
    name_fault,
    too_deep,
    too_many,
    unknown_type,
)
from workbench.graph.walk import walk


def validate(node: Node) -> None:
    """Check a whole graph.

    Raises:
        GraphError: `Invalid durable function graph: <path>: <message>`.
    """
    # Both are known without a walk, which a shared subtree could make endless.
    if node.depth > MAX_DEPTH:
        raise too_deep()
    if node.count > MAX_NODES:
        raise too_many()
    for visit in walk(node):
        _check_node(visit.node, visit.path)
    check_references(node)


def _check_node(node: Node, path: str) -> None:
    if node.node_type not in NODE_TYPES:
        raise invalid(path, unknown_type(node.node_type))
    shape = SHAPES[node.node_type]
    _check_slots(node, shape, path)
    _check_query(node, shape, path)
    _check_name(node, path)
    if fault := extras_fault(node):
        raise invalid(path, fault)


def _check_slots(node: Node, shape: Shape, path: str) -> None:
    for field, slot, filled in (
        ("left_node", shape.left, node.left is not None),
        ("right_node", shape.right, node.right is not None),
        ("condition_node", shape.condition, node.condition is not None),
        ("extra_nodes", shape.extra, bool(node.extra)),
    ):
        if filled and slot is Slot.NEVER:
            raise invalid(path, f"{field} is not valid for {node.node_type} nodes")
        if not filled and slot is Slot.REQUIRED:
            raise invalid(path, f"{field} is missing; {node.node_type} nodes need it")


def _check_query(node: Node, shape: Shape, path: str) -> None:
    kind, query = node.node_type, node.query
    if shape.query is Query.NONE:
        if query is not None:
            raise invalid(path, f"query is not valid for {kind} nodes")
        return
    if query is None and shape.query is not Query.OPTIONAL_CONFIG:
        raise invalid(path, f"query is missing; {kind} nodes need it")
    if shape.query is Query.TEXT:
        fault = None if query and query.strip(" ") else f"query is missing; {kind} nodes need it"
    elif shape.query is Query.SECONDS:
        fault = seconds_fault(query or "")
    else:
        fault = _config_fault(node)
    if fault:
        raise invalid(path, fault)


def _config_fault(node: Node) -> str | None:
    kind = node.node_type
    try:
        config = parse("{}" if node.query is None else node.query)
    except (ValueError, RecursionError):
        return f"query in {kind} must be valid JSON config"
    if not isinstance(config, dict):
        return f"query in {kind} must be a JSON config object"
    fault = config_fault(kind, config)
    if fault is None and kind == "IF" and node.condition is None:
        fault = if_rows_fault(config)
    if fault is None and kind == "MAP":
        fault = map_fault(config)
    if fault is None and kind == "FLOW":
        fault = flow_fault(config, node.extra)
    return fault


def _check_name(node: Node, path: str) -> None:
    if node.result_name is not None and (fault := name_fault(node.result_name)):
        raise invalid(path, f"result_name {fault}")
