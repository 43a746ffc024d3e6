"""Checks of the optional objects of a node: `retry`, `policy`, `options`.

Each gives one fault, in the words of the SQL side (`functions/20_graph.sql`). What they mean when
the node runs is the engine's business.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from workbench.graph.configs import shown
from workbench.graph.durations import MAX_SECONDS
from workbench.graph.node import Node
from workbench.graph.sinks import sink_fault

_HTTP_OPTIONS: Final = (
    "retry_statuses", "raise_for_status", "sink", "timeout", "start_delay",
)  # fmt: skip
OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "SQL": ("transaction", "timeout", "start_delay"),
    "PYTHON": ("timeout", "start_delay"),
    "EXTERNAL": ("start_delay",),
    "MAP": ("start_delay",),
    "LOOP": ("min_interval", "until"),
    "HTTP": _HTTP_OPTIONS,
    "HTTP_MULTIPART": _HTTP_OPTIONS,
}
"""The options of each node type; other types have none."""


def extras_fault(node: Node) -> str | None:
    """Tell what is wrong with a node's retry, policy or options, or None."""
    return (
        (retry_fault(node.retry) if node.retry else None)
        or (policy_fault(node.policy) if node.policy else None)
        or (options_fault(node.node_type, node.options) if node.options else None)
        or _until_fault(node)
    )


def options_fault(kind: str, options: Mapping[str, Any]) -> str | None:
    """Tell what is wrong with the options of a node type."""
    known = OPTIONS.get(kind, ())
    for key, value in options.items():
        if key not in known:
            listed = f"; it has {', '.join(known)}" if known else ""
            return f"option {key!r} is not valid for {kind} nodes{listed}"
        if fault := _option_fault(key, value):
            return fault
    return None


def _option_fault(key: str, value: Any) -> str | None:
    if key in ("min_interval", "start_delay"):
        if _is_seconds(value) and value <= MAX_SECONDS:
            return None
        return f"option {key!r} must be seconds from 0 to {MAX_SECONDS}, not {shown(value)}"
    if key == "timeout":
        if _is_seconds(value) and 0 < value <= MAX_SECONDS:
            return None
        return f"option 'timeout' must be seconds above 0, to {MAX_SECONDS}, not {shown(value)}"
    if key == "retry_statuses":
        if isinstance(value, list | tuple) and all(map(_is_status, value)):
            return None
        return (
            "option 'retry_statuses' must be a list of HTTP statuses from 100 to 599, "
            f"not {shown(value)}"
        )
    if key == "sink":
        return sink_fault(value)
    if isinstance(value, bool):
        return None
    return f"option {key!r} must be true or false, not {shown(value)}"


def _until_fault(node: Node) -> str | None:
    if node.options and node.options.get("until") and node.condition is None:
        return "option 'until' needs a condition_node, which it asks"
    return None


def retry_fault(retry: Mapping[str, Any]) -> str | None:
    """Tell what is wrong with rules for trying again."""
    for key, value in retry.items():
        if key == "max_attempts":
            if not _is_int(value) or value < 1:
                return f"retry max_attempts must be an integer >= 1, not {shown(value)}"
        elif key in ("base_delay", "max_backoff"):
            if not _is_seconds(value):
                return f"retry {key} must be seconds, finite and >= 0, not {shown(value)}"
        else:
            return f"unknown key {key!r} in retry; use max_attempts, base_delay, max_backoff"
    return None


def policy_fault(policy: Mapping[str, Any]) -> str | None:
    """Tell what is wrong with limits."""
    for key, limits in policy.items():
        if key != "http":
            return f"unknown key {key!r} in policy; the only one is 'http'"
        if not isinstance(limits, Mapping) or set(limits) != {"max_concurrency"}:
            return 'policy must read {"http": {"max_concurrency": N}}'
        if not _is_int(limits["max_concurrency"]) or limits["max_concurrency"] < 1:
            return (
                "policy max_concurrency must be an integer >= 1, "
                f"not {shown(limits['max_concurrency'])}"
            )
    return None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_status(value: Any) -> bool:
    return _is_int(value) and 100 <= value <= 599


def _is_seconds(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )
