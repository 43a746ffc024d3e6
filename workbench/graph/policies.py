"""Policies of a node and all below it: `with_retry` and `with_policy`.

What they mean is decided when the graph runs: of rules for trying again the nearest win, of limits
all count. Checks of raw JSON are in `extras`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from workbench.errors import GraphError
from workbench.graph.build import Step, as_node
from workbench.graph.durations import seconds
from workbench.graph.node import Node

__all__ = ["http_limit", "with_policy", "with_retry"]

Duration = float | str | timedelta


def with_retry(
    step: Step,
    *,
    max_attempts: int | None = None,
    max_backoff: Duration | None = None,
    base_delay: Duration | None = None,
) -> Node:
    """A step, or a whole subtree, with rules of its own for trying again.

    What is not given stays as the surroundings have it; what a node inside says of itself stays.

    Parameters:
        max_attempts: how often a leaf is tried at most, the first try included.
        max_backoff: the longest delay between attempts: seconds, timedelta or "10 minutes".
        base_delay: the delay after the first failure; each further one doubles it.

    Raises:
        GraphError: nothing is given, or not such numbers.
    """
    given: dict[str, int | float] = {}
    if max_attempts is not None:
        given["max_attempts"] = _count(max_attempts, "with_retry: max_attempts")
    if max_backoff is not None:
        given["max_backoff"] = seconds(max_backoff, "with_retry: max_backoff")
        if not given["max_backoff"]:
            raise GraphError("with_retry: max_backoff must be longer than 0 s")
    if base_delay is not None:
        given["base_delay"] = seconds(base_delay, "with_retry: base_delay")
    if not given:
        raise GraphError("with_retry needs max_attempts, max_backoff or base_delay")
    node = as_node(step)
    merged = {**given, **(node.retry or {})}
    return replace(node, retry={key: merged[key] for key in _KEYS if key in merged})


def with_policy(step: Step, *, http: dict[str, int]) -> Node:
    """A step, or a whole subtree, whose HTTP steps share a limit.

    Branches and iterations share it, on all engines together and after a restart; separate runs,
    and separate places where a fragment is used, do not. Limits around it count as well. Applied to
    one node again, the smaller limit stays.

    Parameters:
        http: `{"max_concurrency": N}`, how many requests may be under way at once.

    Raises:
        GraphError: not such a limit.
    """
    node = as_node(step)
    if list(_as_mapping(http)) != ["max_concurrency"]:
        raise GraphError(f'with_policy: http takes {{"max_concurrency": N}}, not {http!r}')
    limit = _count(http["max_concurrency"], "with_policy: max_concurrency")
    before = (node.policy or {}).get("http", {}).get("max_concurrency", limit)
    return replace(node, policy={"http": {"max_concurrency": min(limit, before)}})


def http_limit(node: Node) -> int | None:
    """Return how many requests may be under way in a node at once, if it says so itself."""
    found: int | None = _as_mapping((node.policy or {}).get("http")).get("max_concurrency")
    return found


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GraphError(f"{what} must be a whole number of at least 1, not {value!r}")
    return value


_KEYS = ("max_attempts", "max_backoff", "base_delay")
