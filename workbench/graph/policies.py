"""Policies of a node and all below it, put on its `retry` object: `with_retry`.

What they mean is decided when a step fails, by the engine; nearer ones win. Checks of raw JSON are
in `extras`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from workbench.errors import GraphError
from workbench.graph.build import as_node
from workbench.graph.durations import seconds
from workbench.graph.node import Node

__all__ = ["with_retry"]

Duration = float | str | timedelta


def with_retry(
    step: Node | str,
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
        given["max_attempts"] = _count(max_attempts)
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


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GraphError(
            f"with_retry: max_attempts must be a whole number of at least 1, not {value!r}"
        )
    return value


_KEYS = ("max_attempts", "max_backoff", "base_delay")
