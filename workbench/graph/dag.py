"""What the config of a FLOW or a MAP must say: one fault at a time, in the words of the SQL side.

`functions/26_flows.sql` of the store is the mirror. What conditions and modes mean is the engine's
business; how flows are written in Python is that of `workbench.flow`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from workbench.graph.configs import json_type, parse, shown
from workbench.graph.node import Node
from workbench.graph.shapes import RESERVED_NAME, is_identifier

__all__ = [
    "MODES",
    "RESERVED_SLUGS",
    "cycle",
    "flow_fault",
    "leaf_fault",
    "map_fault",
    "slug_fault",
]

MODES: Final[dict[str, tuple[str, ...]]] = {
    "when_unmet": ("skip", "skip-cascade", "fail"),
    "when_exhausted": ("fail", "skip", "skip-cascade"),
}
"""What becomes of a step whose condition is not met, or whose attempts are spent; the default first."""

RESERVED_SLUGS: Final = ("run", "flow_input", "ctx", RESERVED_NAME)
LONGEST_SLUG: Final = 128

_LEAVES: Final = (
    "SQL", "PYTHON", "EXTERNAL", "HTTP", "HTTP_MULTIPART", "SLEEP", "WAIT_SCHEDULE", "SIGNAL",
)  # fmt: skip
_STEP_KEYS: Final = (
    "step", "after", "if", "if_not", "if_skipped", "when_unmet", "when_exhausted",
)  # fmt: skip
_FLOW_KEYS: Final = ("slug", "steps")
_MAP_KEYS: Final = ("over", "as", "return_exceptions")


def slug_fault(slug: object) -> str | None:
    """Tell what is wrong with the name of a flow or of a step, or None."""
    if not is_identifier(slug) or len(str(slug)) > LONGEST_SLUG:
        return (
            f"{shown(slug)} cannot be a slug; use 1 to {LONGEST_SLUG} letters, digits and "
            "underscores, not starting with a digit"
        )
    if slug in RESERVED_SLUGS:
        return f"{shown(slug)} cannot be a slug: it is reserved; choose another"
    return None


def map_fault(config: Mapping[str, Any]) -> str | None:
    """Tell what is wrong with the config of a MAP."""
    for key in config:
        if key not in _MAP_KEYS:
            return f"unknown key {key!r} in MAP; use {', '.join(_MAP_KEYS)}"
    if not is_identifier(config["over"]):
        return f"over in MAP must be the name of a result, not {shown(config['over'])}"
    if not is_identifier(config["as"]) or config["as"] == RESERVED_NAME:
        return f"as in MAP must be a name for the element, not {shown(config['as'])}"
    if not isinstance(config.get("return_exceptions", False), bool):
        return "return_exceptions in MAP must be true or false, not " + shown(
            config["return_exceptions"]
        )
    return None


def flow_fault(config: Mapping[str, Any], children: Sequence[Node]) -> str | None:
    """Tell what is wrong with the config of a FLOW and its steps."""
    for key in config:
        if key not in _FLOW_KEYS:
            return f"unknown key {key!r} in FLOW; use {', '.join(_FLOW_KEYS)}"
    if fault := slug_fault(config["slug"]):
        return f"flow: {fault}"
    steps = config["steps"]
    if not isinstance(steps, list) or len(steps) != len(children):
        return f"steps in FLOW must be a list of {len(children)}, one for each of extra_nodes"
    return _slugs_fault(steps) or _steps_fault(steps, children)


def _slugs_fault(steps: Sequence[Any]) -> str | None:
    known: set[str] = set()
    for step in steps:
        if not isinstance(step, dict) or "step" not in step:
            return "a step in FLOW must be an object with the key 'step'"
        if fault := slug_fault(step["step"]):
            return f"step: {fault}"
        if step["step"] in known:
            return f"step {step['step']!r} is there twice; give one of them another slug"
        known.add(step["step"])
    return None


def _steps_fault(steps: Sequence[Mapping[str, Any]], children: Sequence[Node]) -> str | None:
    known = [step["step"] for step in steps]
    for step, child in zip(steps, children, strict=True):
        if fault := _step_fault(step, child, known):
            return f"step {step['step']!r}: {fault}"
    if (around := cycle({step["step"]: step.get("after", []) for step in steps})) is not None:
        return f"steps depend on each other in a circle: {' -> '.join(around)}"
    return None


def leaf_fault(child: Node) -> str | None:
    """Tell why a node cannot be a step, or None."""
    body = child.left if child.node_type == "MAP" and child.left is not None else child
    if body.node_type in _LEAVES:
        return None
    return f"a step is a single leaf or a map of one, not {body.node_type}"


def _step_fault(step: Mapping[str, Any], child: Node, known: Sequence[str]) -> str | None:
    for key in step:
        if key not in _STEP_KEYS:
            return f"unknown key {key!r}; use {', '.join(_STEP_KEYS)}"
    if fault := leaf_fault(child):
        return fault
    if child.result_name != step["step"]:
        return f"its node must bear its slug as result_name, not {shown(child.result_name)}"
    return (
        _after_fault(step, known)
        or _over_fault(step, child)
        or _condition_fault(step)
        or _never_fault(step, child)
    )


def _over_fault(step: Mapping[str, Any], child: Node) -> str | None:
    """A map goes over one of the steps that it depends on, or over the run's input."""
    if child.node_type != "MAP":
        return None
    try:
        config = parse(child.query or "{}")
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict) or "over" not in config:
        return None  # the map's own fault, which says more
    over = config["over"]
    if over == RESERVED_NAME or over in step.get("after", []):
        return None
    return f"it goes over {shown(over)}, which is none of the steps that it depends on"


def _never_fault(step: Mapping[str, Any], child: Node) -> str | None:
    """A map without dependencies has the run's input as its subject: a list, never an object."""
    if child.node_type != "MAP" or step.get("after") or "if" not in step:
        return None
    return (
        "it goes over the run's input, a list, which never contains the object in if; put the "
        "condition on a step before it"
    )


def _after_fault(step: Mapping[str, Any], known: Sequence[str]) -> str | None:
    after = step.get("after", [])
    if not isinstance(after, list):
        return f"after must be a list of steps, not {json_type(after)}"
    for place, slug in enumerate(after):
        if slug not in known:
            return f"it depends on {shown(slug)}, which is no step of this flow"
        if slug == step["step"]:
            return "it depends on itself"
        if slug in after[:place]:
            return f"it names {slug!r} twice in after"
    return None


def _condition_fault(step: Mapping[str, Any]) -> str | None:
    for key in ("if", "if_not"):
        if key in step and not isinstance(step[key], dict):
            return f"{key} must be a JSON object, not {json_type(step[key])}"
    skipped = step.get("if_skipped")
    if skipped is not None and skipped not in step.get("after", []):
        return f"if_skipped must be one of the steps that it depends on, not {shown(skipped)}"
    for key, modes in MODES.items():
        if step.get(key, modes[0]) not in modes:
            return f"{key} must be {', '.join(modes[:-1])} or {modes[-1]}, not {shown(step[key])}"
    return None


def cycle(after: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Return the steps of a circle of dependencies, the first one again at its end; None without."""
    done: set[str] = set()
    for start in after:
        path: list[str] = []
        pending = [(start, False)]
        while pending:
            slug, left = pending.pop()
            if left:
                done.add(path.pop())
            elif slug in path:
                return [*path[path.index(slug) :], slug]
            elif slug not in done:
                path.append(slug)
                pending.append((slug, True))
                pending += [(other, False) for other in after[slug]]
    return None
