"""Flows as their reference describes them, read aloud: no engine, no clock, no order of completion.

What becomes of a step depends on what came before it only, so that all steps can be judged one after
the other in the order of their dependencies. Only which steps a failed run has cancelled depends on
timing; of those nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Ending", "Given", "Made", "contains", "interpret"]

#: What stands in the place of a value that a call would have returned.
ERROR = {"type": "Error", "message": "simulated failure"}


@dataclass(frozen=True)
class Given:
    """A step as it is drawn: `outcome` is the value of its calls, or None when they fail for good."""

    slug: str
    after: tuple[str, ...]
    over: str | None = None  # of a map; "input" for the run's
    if_: Mapping[str, Any] | None = None
    if_not: Mapping[str, Any] | None = None
    if_skipped: str | None = None
    when_unmet: str = "skip"
    when_exhausted: str = "fail"
    return_exceptions: bool = False
    outcome: tuple[Any] | None = (1,)


@dataclass
class Made:
    status: str
    reason: str | None = None
    output: Any = None


@dataclass
class Ending:
    status: str
    output: Any = None
    steps: dict[str, Made] = field(default_factory=dict)


def interpret(steps: list[Given], given: Any) -> Ending:
    """What a run of these steps comes to; they stand in an order in which they may run."""
    made: dict[str, Made] = {}
    for step in steps:
        if step.slug in made:  # skipped by a cascade
            continue
        made[step.slug] = _judge(step, steps, made, given)
        if made[step.slug].status == "failed":
            return Ending("failed")
        if made[step.slug].status == "skipped-cascade":
            made[step.slug].status = "skipped"
            for other in _dependents(step.slug, steps):
                made.setdefault(other, Made("skipped", "dependency_skipped"))
    feeding = {slug for step in steps for slug in step.after}
    output = {
        slug: m.output
        for slug, m in made.items()
        if m.status == "completed" and slug not in feeding
    }
    return Ending("completed", output or None, made)


def _judge(step: Given, steps: list[Given], made: dict[str, Made], given: Any) -> Made:
    if not _is_met(step, made, given):
        mode = step.when_unmet
        if mode == "fail":
            return Made("failed")
        return Made("skipped" if mode == "skip" else "skipped-cascade", "condition_unmet")
    elements: Any = None
    if step.over is not None:
        source = made.get(step.over)
        elements = given if source is None else source.output
        if source is not None and source.status == "skipped":
            elements = []
    if elements == [] and step.over is not None:
        return Made("completed", output=[])
    if step.outcome is None and step.return_exceptions:
        return Made("completed", output=[ERROR] * len(elements))
    if step.outcome is None:
        mode = step.when_exhausted
        if mode == "fail":
            return Made("failed")
        return Made("skipped" if mode == "skip" else "skipped-cascade", "handler_failed")
    (value,) = step.outcome
    output = value if step.over is None else [value] * len(elements)
    if not isinstance(output, list) and _is_mapped(step, steps, made, output):
        return Made("failed")
    return Made("completed", output=output)


def _is_mapped(step: Given, steps: list[Given], made: dict[str, Made], output: Any) -> bool:
    """Whether a map goes over this output, and its condition does not skip it first."""
    completed = {**made, step.slug: Made("completed", output=output)}
    return any(
        other.over == step.slug
        and other.slug not in made
        and (other.when_unmet == "fail" or _is_met(other, completed, None))
        for other in steps
    )


def _is_met(step: Given, made: dict[str, Made], given: Any) -> bool:
    if step.if_skipped is not None and made[step.if_skipped].status != "skipped":
        return False
    subject = given
    if step.after:
        subject = {s: made[s].output for s in step.after if made[s].status == "completed"}
    required = step.if_ is None or contains(subject, step.if_)
    return required and not (step.if_not is not None and contains(subject, step.if_not))


def _dependents(slug: str, steps: list[Given]) -> list[str]:
    found = {slug}
    for step in steps:
        if found & set(step.after):
            found.add(step.slug)
    return [step.slug for step in steps if step.slug in found - {slug}]


def contains(value: Any, pattern: Any) -> bool:
    """`@>` inside of a document."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            key in value and contains(value[key], part) for key, part in pattern.items()
        )
    if isinstance(pattern, list):
        return isinstance(value, list) and all(
            any(contains(item, part) for item in value) for part in pattern
        )
    return type(value) is type(pattern) and bool(value == pattern)
