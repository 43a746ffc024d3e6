"""The JSON text of a graph: `dumps` writes it, `loads` reads it back.

The text is the graph's identity: compact, keys in one fixed order, absent when empty, characters
outside ASCII kept as they are. SQL builds the same bytes with `to_json(text)`, whose escapes
(two-character forms, else `\\u00xx` in lower case) are those of Python's encoder. Whether a graph
makes sense is decided in `validate`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from workbench.errors import GraphError
from workbench.graph.node import Node
from workbench.graph.shapes import (
    MAX_DEPTH,
    MAX_NODES,
    SHAPES,
    invalid,
    too_deep,
    too_many,
    unknown_type,
)
from workbench.graph.values import encode

_KEYS = (
    "node_type",
    "left_node",
    "right_node",
    "condition_node",
    "extra_nodes",
    "query",
    "result_name",
    "retry",
    "policy",
    "options",
)


def dumps(node: Node) -> str:
    """Return the compact JSON text of a graph.

    Raises:
        GraphError: more than 10,000 nodes, or a text that JSON in Postgres cannot hold.
    """
    if node.count > MAX_NODES:
        raise too_many()
    parts: list[str] = []
    pending: list[str | Node] = [node]
    while pending:
        piece = pending.pop()
        if isinstance(piece, str):
            parts.append(piece)
        else:
            pending.extend(reversed(_pieces(piece)))
    return "".join(parts)


def loads(text: str) -> Node:
    """Read a graph from JSON text.

    Raises:
        GraphError: not JSON, not a node, an unknown key or node type; the text names the path.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        raise invalid("root", f"not JSON: {error}. Pass the text that to_json() gave") from None
    if not isinstance(data, dict):
        raise invalid("root", "a graph must be a JSON object with a node_type")
    return _node(data, "root", 0)


def _pieces(node: Node) -> list[str | Node]:
    """Split a node into literal text and child nodes still to be written."""
    found: list[str | Node] = ['{"node_type":' + _quoted(node.node_type)]
    for key, child in (
        ("left_node", node.left),
        ("right_node", node.right),
        ("condition_node", node.condition),
    ):
        if child is not None:
            found += [f',"{key}":', child]
    if node.extra:
        found.append(',"extra_nodes":[')
        for index, child in enumerate(node.extra):
            found += [",", child] if index else [child]
        found.append("]")
    found.append(_texts(node) + "}")
    return found


def _texts(node: Node) -> str:
    text = ""
    if node.query is not None:
        text += ',"query":' + _quoted(node.query)
    if node.result_name is not None:
        text += ',"result_name":' + _quoted(node.result_name)
    for key in ("retry", "policy", "options"):
        value: Mapping[str, Any] | None = getattr(node, key)
        if value:
            text += f',"{key}":' + encode(dict(value), key)
    return text


def _quoted(text: str) -> str:
    if "\0" in text:
        raise GraphError(f"text with a NUL character cannot be stored: {text[:40]!r}; remove it")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise GraphError(
                f"text with a lone surrogate is not Unicode: {text[:40]!r}; decode it anew, for "
                'example with errors="replace"'
            ) from None
    return encode_basestring(text)


def _node(data: dict[str, Any], path: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise too_deep()
    _check_keys(data, path)
    children: dict[str, Node] = {}
    for slot, child in _children(data, path):
        # One frame a level: 256 levels must fit beside a notebook's own frames.
        children[slot] = _node(child, f"{path}.{slot}", depth + 1)
    return Node(
        data["node_type"],
        left=children.pop("left", None),
        right=children.pop("right", None),
        condition=children.pop("condition_node", None),
        extra=tuple(children.values()),
        query=_text(data, "query", path),
        result_name=_text(data, "result_name", path),
        retry=_object(data, "retry", path),
        policy=_object(data, "policy", path),
        options=_object(data, "options", path),
    )


def _check_keys(data: dict[str, Any], path: str) -> None:
    node_type = data.get("node_type")
    if not isinstance(node_type, str):
        raise invalid(
            path, "failed to deserialize Durofut child: a node needs a node_type, which is text"
        )
    if node_type not in SHAPES:
        raise invalid(path, unknown_type(node_type))
    for key in data:
        if key not in _KEYS:
            raise invalid(path, f"unknown key {key!r}; a node has only {', '.join(_KEYS)}")


def _children(data: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """Return slot → child object, in pre-order, after looking at their types only."""
    found: list[tuple[str, dict[str, Any]]] = []
    for key, slot in (("left_node", "left"), ("right_node", "right")):
        value = data.get(key)
        if isinstance(value, dict):
            found.append((slot, value))
        elif value is not None:
            raise invalid(
                f"{path}.{slot}",
                f"failed to deserialize Durofut child: {key} must be a JSON object",
            )
    condition = data.get("condition_node")
    if isinstance(condition, dict):
        found.append(("condition_node", condition))
    elif condition is not None:
        raise invalid(path, "condition_node must be a Durofut JSON object")
    for index, value in enumerate(_extra(data, path)):
        found.append((f"extra_nodes[{index}]", value))
    return found


def _extra(data: dict[str, Any], path: str) -> list[dict[str, Any]]:
    value = data.get("extra_nodes")
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise invalid(path, "extra_nodes entries must be Durofut JSON objects")
    return value


def _text(data: dict[str, Any], key: str, path: str) -> str | None:
    value = data.get(key)
    if value is None or isinstance(value, str):
        return value
    raise invalid(path, f"{key} must be text, not {type(value).__name__}")


def _object(data: dict[str, Any], key: str, path: str) -> dict[str, Any] | None:
    value = data.get(key)
    if value is None or isinstance(value, dict):
        return value or None
    raise invalid(path, f"{key} must be a JSON object, not {type(value).__name__}")
