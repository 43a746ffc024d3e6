"""What a node may hold: the node types, the slots each type fills, and the limits of a graph.

A table, and the one way to word a refusal. Nothing here looks at a whole graph: that is
`validate`. A new node type is added here first, then given a builder in `build` and a line in
`tree`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from workbench.errors import GraphError

MAX_DEPTH: Final = 256
"""Levels below the root of a graph (df-language reference, limits)."""

MAX_NODES: Final = 10_000
"""Nodes in one graph, counted as executed: a shared node counts once for each use."""

RESERVED_NAME: Final = "input"
"""The run's input, known from the first node on; no node may take this name."""

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def is_identifier(value: object) -> bool:
    """Tell whether a value is text that a result, a variable or a secret may have as its name."""
    return isinstance(value, str) and IDENTIFIER.fullmatch(value) is not None


class Slot(Enum):
    """Whether a node type fills a slot."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NEVER = "never"


class Query(Enum):
    """What a node type keeps in `query`."""

    NONE = "none"
    TEXT = "text"
    SECONDS = "seconds"
    CONFIG = "config"
    OPTIONAL_CONFIG = "optional config"


@dataclass(frozen=True, slots=True)
class Shape:
    """The slots of one node type; `keys` are what its JSON config must contain."""

    query: Query
    left: Slot = Slot.NEVER
    right: Slot = Slot.NEVER
    condition: Slot = Slot.NEVER
    extra: Slot = Slot.NEVER
    keys: tuple[str, ...] = ()


_R, _O = Slot.REQUIRED, Slot.OPTIONAL

SHAPES: Final[dict[str, Shape]] = {
    "SQL": Shape(Query.TEXT),
    "THEN": Shape(Query.NONE, left=_R, right=_R),
    # The condition is a node, or (`if_rows`) a config that names a result.
    "IF": Shape(Query.OPTIONAL_CONFIG, left=_R, right=_R, condition=_O),
    "JOIN": Shape(Query.OPTIONAL_CONFIG, left=_R, right=_R, extra=_O),
    "LOOP": Shape(Query.OPTIONAL_CONFIG, left=_R, condition=_O),
    "BREAK": Shape(Query.CONFIG, keys=("break_value",)),
    "RACE": Shape(Query.NONE, left=_R, right=_R),
    "SLEEP": Shape(Query.SECONDS),
    "WAIT_SCHEDULE": Shape(Query.CONFIG, keys=("cron_expr",)),
    "HTTP": Shape(Query.CONFIG, keys=("url", "method")),
    "HTTP_MULTIPART": Shape(Query.CONFIG, keys=("url", "method", "parts")),
    "SIGNAL": Shape(Query.CONFIG, keys=("signal_name",)),
    "PYTHON": Shape(Query.CONFIG, keys=("handler",)),
    # What workers that are no engines execute.
    "EXTERNAL": Shape(Query.CONFIG, keys=("handler",)),
    # One child per step, in definition order; the DAG is in the config.
    "FLOW": Shape(Query.CONFIG, extra=_O, keys=("slug", "steps")),
    # The child is what runs once per element.
    "MAP": Shape(Query.CONFIG, left=_R, keys=("over", "as")),
}

NODE_TYPES: Final = tuple(SHAPES)

EMBEDDED_FIELDS: Final = {"IF": "condition_node", "LOOP": "condition_node", "JOIN": "extra_nodes"}
"""Fields that the stored form keeps inside `query`; a graph must not."""


def invalid(path: str, message: str) -> GraphError:
    """Word a refused graph: where, then what is wrong and the way out."""
    return GraphError(f"Invalid durable function graph: {path}: {message}")


def unknown_type(node_type: object) -> str:
    """Say that nothing executes a node type, and list those that run."""
    return f"Unknown node_type {node_type!r}. Valid types: {', '.join(NODE_TYPES)}"


def too_deep() -> GraphError:
    """Refuse a graph that is nested too deeply."""
    return invalid(
        "root",
        f"Graph exceeds maximum nesting depth of {MAX_DEPTH}. Build long sequences with "
        "seq(*steps), which nests them evenly, or split the graph into several runs.",
    )


def too_many() -> GraphError:
    """Refuse a graph with too many nodes."""
    return invalid(
        "root",
        f"Workflow exceeds maximum node count of {MAX_NODES}. Handle many rows in one SQL or "
        "Python step, or split the graph into several runs.",
    )


def name_fault(name: str) -> str | None:
    """Tell what is wrong with a result name, or None when it may be used."""
    if not name:
        return "result name cannot be empty"
    if not IDENTIFIER.fullmatch(name):
        return (
            f"{name!r} is not a valid identifier; use letters, digits and underscores, "
            "not starting with a digit"
        )
    if name == RESERVED_NAME:
        return f"{name!r} is reserved for the run's input; choose another name"
    return None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` when a known name is close, else an empty text."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
