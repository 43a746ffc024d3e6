"""What the queries behind pictures return: nodes and their places, policy scopes, and what holds a
node back. Plain data, so that views take it without a database; the queries are in `explain`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ExplainRow", "HeldRow", "ScopeRow"]


@dataclass(frozen=True, slots=True)
class ExplainRow:
    """One node and its place in the picture.

    Attributes:
        line: from 1 in the order of drawing; None for a THEN, whose steps stand one below the
            other instead.
        node_id, parent_id, depth: as everywhere, in pre-order from 0; the root's parent is None.
        prefix, connector: what stands before the label on its line.
        heading: text above the node's line, such as `? condition:`; it begins two columns
            left of the node.
        status, mark, iteration: of a run's node; None where only a graph was given.
        policy: the limits of HTTP steps that begin here, such as `[http ≤ 2]`.
        waits_for: of a run's HTTP step that has no room: its place in line.
    """

    line: int | None
    node_id: int
    parent_id: int | None
    depth: int
    node_type: str
    result_name: str | None
    prefix: str
    connector: str
    heading: str | None
    label: str
    status: str | None
    mark: str | None
    iteration: int | None
    policy: str | None
    waits_for: str | None


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """A policy's scope in a run: its id, its node, its limit, requests under way and waiting."""

    scope: str
    node_id: int
    max_concurrency: int
    in_use: int
    waiting: int


@dataclass(frozen=True, slots=True)
class HeldRow:
    """An HTTP step that is due and has no room.

    Attributes:
        barrier: the id of the full scope, `http ceiling` or `activity ceiling`.
        scope: the scope's node; None at a ceiling.
        max_concurrency, in_use: of the scope or ceiling.
        place: in the scope's line, from 1; None at a ceiling, where runs take turns.
        holders: who is in: run, node, engine (`host:pid`), since (text); or `{"others": n}` for
            runs of other roles.
    """

    node_id: int
    barrier: str
    scope: int | None
    max_concurrency: int
    in_use: int
    place: int | None
    holders: list[dict[str, Any]]
