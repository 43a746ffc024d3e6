"""One node as a call of `df.*`: text, and the child nodes still to be written.

A call is given only where it builds the node byte for byte: a config or options that the
constructor would write differently, or would refuse, are left to JSON text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from workbench.errors import ValueRefused
from workbench.graph.configs import MAX_TIMEOUT, config_fault, if_rows_fault, parse
from workbench.graph.control import break_query, if_rows_query
from workbench.graph.dag import map_fault
from workbench.graph.extras import options_fault, policy_fault, retry_fault
from workbench.graph.http import http_query, options_in_order
from workbench.graph.literals import quote
from workbench.graph.node import Node
from workbench.graph.shapes import SHAPES, Query, name_fault
from workbench.graph.values import encode
from workbench.graph.waiting import schedule_query, signal_query


class Gap:
    """Stands for the comma before a step, after which a line may break."""


Call: TypeAlias = "list[str | Node | Gap]"

_GAP: Final = Gap()
_BIGINT: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_MICROSECONDS: Final = re.compile(r"(0|[1-9][0-9]{0,9})(\.[0-9]{0,5}[1-9])?", re.ASCII)
_HTTP_KEYS: Final = ["url", "method", "body", "headers", "timeout_seconds"]
_MULTIPART_KEYS: Final = ["url", "method", "parts", "headers", "timeout_seconds"]


def call(node: Node) -> Call | None:
    """Return the pieces of the call that builds a node, None when no call does."""
    if node.policy:
        return _with_policy(node, node.policy)
    if node.retry:
        return _with_retry(node, node.retry)
    if node.result_name is None:
        return _unnamed(node)
    if name_fault(node.result_name) is not None:
        return None
    inner = _unnamed(replace(node, result_name=None))
    return inner and ['df."as"(', *inner, f", {quote(node.result_name)})"]


def _with_policy(node: Node, policy: Mapping[str, Any]) -> Call | None:
    if policy_fault(policy) is not None:
        return None
    inner = call(replace(node, policy=None))
    return inner and ["df.with_policy(", *inner, f", {quote(encode(dict(policy)))})"]


def _with_retry(node: Node, retry: Mapping[str, Any]) -> Call | None:
    arguments: list[str] = []
    for key in ("max_attempts", "max_backoff", "base_delay"):
        if key in retry:
            value = encode(retry[key])
            seconds = key != "max_attempts"
            if seconds and not _MICROSECONDS.fullmatch(value):
                return None
            arguments.append(f", {key} => " + (f"'{value} seconds'" if seconds else value))
    if list(retry) != [k for k in ("max_attempts", "max_backoff", "base_delay") if k in retry]:
        return None
    if retry_fault(retry) is not None or not retry.get("max_backoff", 1):
        return None
    inner = call(replace(node, retry=None))
    return inner and ["df.with_retry(", *inner, *arguments, ")"]


def _unnamed(node: Node) -> Call | None:
    if node.options and node.node_type not in ("LOOP", "HTTP", "HTTP_MULTIPART"):
        return None
    write = _CALLS.get(node.node_type)
    if write is None or not _is_whole(node):
        return None
    try:
        return write(node)
    except ValueRefused:  # an escape in the config that Postgres cannot hold
        return None


def _is_whole(node: Node) -> bool:
    """Whether exactly the slots are filled that the constructors of the type fill."""
    shape = SHAPES[node.node_type]
    if node.node_type == "MAP":
        return node.query is not None and list(node.children()) == [node.left]
    filled = (node.left, node.right, node.condition, *node.extra)
    if shape.query in (Query.TEXT, Query.SECONDS, Query.CONFIG):
        return node.query is not None and not any(child is not None for child in filled)
    needs_right = node.node_type != "LOOP"
    return node.left is not None and (node.right is not None) == needs_right


def _composite(function: str, children: list[Node | None]) -> Call:
    found: Call = [f"{function}("]
    for index, child in enumerate(child for child in children if child is not None):
        found += [_GAP, child] if index else [child]
    return [*found, ")"]


def _pair(function: str) -> Callable[[Node], Call | None]:
    def write(node: Node) -> Call | None:
        if node.query is not None or node.condition is not None or node.extra:
            return None
        return _composite(function, [node.left, node.right])

    return write


def _map(node: Node) -> Call | None:
    config = parse(node.query or "{}")
    if list(config) != ["over", "as"] or map_fault(config) is not None:
        return None
    if encode(config) != node.query or node.left is None:
        return None
    name = "" if config["as"] == "item" else f", {quote(config['as'])}"
    return [f"df.map({quote(config['over'])}, ", node.left, f"{name})"]


def _join(node: Node) -> Call | None:
    if node.query is not None or node.condition is not None or len(node.extra) > 1:
        return None
    children = [node.left, node.right, *node.extra]
    return _composite("df.join3" if node.extra else 'df."join"', children)


def _if(node: Node) -> Call | None:
    if node.extra:
        return None
    if node.query is None and node.condition is not None:
        return _composite('df."if"', [node.condition, node.left, node.right])
    config = _config(node)
    if node.condition is not None or if_rows_fault(config):
        return None
    if if_rows_query(name := config["result_name"]) != node.query:
        return None
    _, *branches = _composite("", [node.left, node.right])
    return [f"df.if_rows({quote(name)}", _GAP, *branches]


def _loop(node: Node) -> Call | None:
    options = dict(node.options or {})
    pace = options.pop("min_interval", 1)
    if node.query is not None or node.extra or options or options_fault("LOOP", node.options or {}):
        return None
    found = _composite("df.loop", [node.left, node.condition])
    if node.options:
        if pace == 1 or (isinstance(pace, float) and (pace.is_integer() or pace != round(pace, 6))):
            return None
        found[-1:] = [f", min_interval => interval '{encode(pace)} seconds')"]
    return found


def _sql(node: Node) -> Call:
    return [f"df.sql({quote(node.query or '')})"]


def _sleep(node: Node) -> Call | None:
    query = node.query or ""
    return [f"df.sleep({query})"] if _BIGINT.fullmatch(query) else None


def _break(node: Node) -> Call | None:
    value = _config(node).get("break_value")
    if not (value is None or isinstance(value, str)) or break_query(value) != node.query:
        return None
    return [f"df.break({'' if value is None else quote(value)})"]


def _schedule(node: Node) -> Call | None:
    config = _config(node)
    if config_fault("WAIT_SCHEDULE", config):
        return None
    cron, zone = config["cron_expr"], config.get("timezone", "UTC")
    if schedule_query(cron, zone) != node.query:
        return None
    place = "" if zone == "UTC" else f", {quote(zone)}"
    return [f"df.wait_for_schedule({quote(cron)}{place})"]


def _signal(node: Node) -> Call | None:
    config = _config(node)
    if config_fault("SIGNAL", config):
        return None
    name, timeout = config["signal_name"], config.get("timeout_seconds")
    if signal_query(name, timeout) != node.query:
        return None
    return [f"df.wait_for_signal({quote(name)}{'' if timeout is None else f', {timeout}'})"]


def _external(node: Node) -> Call | None:
    config = _config(node)
    if config_fault("EXTERNAL", config) or list(config) != ["handler", "input"]:
        return None
    if encode(config) != node.query:
        return None
    given = f", {quote(encode(config['input']))}" if config["input"] else ""
    return [f"df.external({quote(config['handler'])}{given})"]


def _http(node: Node) -> Call | None:
    config, kind = _config(node), node.node_type
    keys = _HTTP_KEYS if kind == "HTTP" else _MULTIPART_KEYS
    if list(config) != keys or config_fault(kind, config) or not _is_canonical(node, config):
        return None
    arguments = [quote(config["url"]), quote(config["method"])]
    for key in keys[2:4]:
        if config[key] is not None:
            value = config[key] if key == "body" else encode(config[key])
            arguments.append(f"{key} => {quote(value)}")
    if config["timeout_seconds"] != 30:
        arguments.append(f"timeout_seconds => {config['timeout_seconds']}")
    text = f"df.{kind.lower()}({', '.join(arguments)})"
    return [f"df.with_http({text}, {quote(encode(dict(node.options)))})" if node.options else text]


def _is_canonical(node: Node, config: Mapping[str, Any]) -> bool:
    timeout, options = config["timeout_seconds"], dict(node.options or {})
    if not isinstance(timeout, int) or timeout > MAX_TIMEOUT or http_query(config) != node.query:
        return False
    if not all(map(_is_texts, config.get("parts", ()))):
        return False
    return not options_fault(node.node_type, options) and (
        list(options_in_order(options).items()) == list(options.items())
    )


def _is_texts(part: object) -> bool:
    """Whether a part holds text only; jsonb may write numbers in another way."""
    return isinstance(part, dict) and all(isinstance(value, str) for value in part.values())


def _config(node: Node) -> dict[str, Any]:
    """Return a node's config, empty when it is not one."""
    try:
        value = parse(node.query or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_CALLS: Final[dict[str, Callable[[Node], Call | None]]] = {
    "SQL": _sql,
    "THEN": _pair("df.seq"),
    "IF": _if,
    "MAP": _map,
    "JOIN": _join,
    "LOOP": _loop,
    "BREAK": _break,
    "RACE": _pair("df.race"),
    "SLEEP": _sleep,
    "WAIT_SCHEDULE": _schedule,
    "HTTP": _http,
    "HTTP_MULTIPART": _http,
    "SIGNAL": _signal,
    "EXTERNAL": _external,
}
