"""What makes a graph fit to start: shapes, configs, names and limits.

`validate` is called before anything is stored and by `explain`. The table of shapes is in
`shapes`; which names a reference may use is in `scope`. What only the server can know (whether a
statement is valid SQL, whether a table exists) shows when the node runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from workbench.graph.node import Node
from workbench.graph.scope import check_references
from workbench.graph.shapes import (
    EMBEDDED_FIELDS,
    MAX_DEPTH,
    MAX_NODES,
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
    shape = SHAPES.get(node.node_type)
    if shape is None:
        raise invalid(path, unknown_type(node.node_type))
    _check_slots(node, shape, path)
    _check_query(node, shape, path)
    _check_name(node, path)
    _check_extras(node, path)


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
    if query is None:
        if shape.query in (Query.TEXT, Query.SECONDS, Query.CONFIG):
            raise invalid(path, f"query is missing; {kind} nodes need it")
        _check_config(node, {}, path)
    elif shape.query is Query.NONE:
        raise invalid(path, f"query is not valid for {kind} nodes")
    elif shape.query is Query.SECONDS:
        _check_seconds(query, path)
    elif shape.query is not Query.TEXT:
        _check_config(node, _config(query, kind, path), path)


def _check_seconds(query: str, path: str) -> None:
    whole, _, fraction = query.partition(".")
    if not (whole.isascii() and whole.isdigit()) or (fraction and not fraction.isdigit()):
        raise invalid(
            path, f"query in SLEEP must be a number of seconds, at least 0, not {query!r}"
        )


def _config(query: str, kind: str, path: str) -> Mapping[str, Any]:
    try:
        config = json.loads(query)
    except (ValueError, RecursionError):
        raise invalid(path, f"query in {kind} must be valid JSON config") from None
    if not isinstance(config, dict):
        raise invalid(path, f"query in {kind} must be a JSON config object")
    return config


def _check_config(node: Node, config: Mapping[str, Any], path: str) -> None:
    kind = node.node_type
    for key in SHAPES[kind].keys:
        if key not in config:
            raise invalid(path, f"query in {kind} lacks {key!r}")
    field = EMBEDDED_FIELDS.get(kind)
    if field is not None and field in config:
        raise invalid(
            path, f"{field} in {kind} must be a first-class Durofut field, not embedded in query"
        )
    if kind == "IF" and node.condition is None:
        _check_if_rows(config, path)
    if kind == "PYTHON" and not (isinstance(config["handler"], str) and config["handler"]):
        raise invalid(path, "handler in PYTHON must be a name such as 'module:function'")
    if kind == "SIGNAL" and not (isinstance(config["signal_name"], str) and config["signal_name"]):
        raise invalid(path, "Signal name cannot be empty")


def _check_if_rows(config: Mapping[str, Any], path: str) -> None:
    if config.get("condition_type") != "result_has_rows":
        raise invalid(path, "condition_node is missing; IF nodes need a condition")
    if not isinstance(config.get("result_name"), str):
        raise invalid(path, "query in IF lacks 'result_name'; df.if_rows needs a result's name")


def _check_name(node: Node, path: str) -> None:
    if node.result_name is not None and (fault := name_fault(node.result_name)):
        raise invalid(path, f"result_name {fault}")


def _check_extras(node: Node, path: str) -> None:
    if node.retry:
        _check_retry(node.retry, path)
    if node.policy:
        _check_policy(node.policy, path)
    if not node.options:
        return
    transaction = node.options.get("transaction", True)
    if not isinstance(transaction, bool):
        raise invalid(path, f"option 'transaction' must be true or false, not {transaction!r}")
    if "transaction" in node.options and node.node_type != "SQL":
        raise invalid(path, f"option 'transaction' is not valid for {node.node_type} nodes")


def _check_retry(retry: Mapping[str, Any], path: str) -> None:
    for key, value in retry.items():
        if key == "max_attempts":
            if not _is_int(value) or value < 1:
                raise invalid(path, f"retry max_attempts must be an integer >= 1, not {value!r}")
        elif key in ("base_delay", "max_backoff"):
            if not _is_seconds(value):
                raise invalid(path, f"retry {key} must be seconds, finite and >= 0, not {value!r}")
        else:
            raise invalid(
                path, f"unknown key {key!r} in retry; use max_attempts, base_delay, max_backoff"
            )


def _check_policy(policy: Mapping[str, Any], path: str) -> None:
    for key, limits in policy.items():
        if key != "http":
            raise invalid(path, f"unknown key {key!r} in policy; the only one is 'http'")
        if not isinstance(limits, Mapping) or set(limits) != {"max_concurrency"}:
            raise invalid(path, 'policy must read {"http": {"max_concurrency": N}}')
        if not _is_int(limits["max_concurrency"]) or limits["max_concurrency"] < 1:
            raise invalid(
                path,
                f"policy max_concurrency must be an integer >= 1, not "
                f"{limits['max_concurrency']!r}",
            )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )
