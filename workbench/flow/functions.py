"""What a function says about the step that it is: its name, its place, its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from workbench.errors import GraphError

__all__ = ["StepRef", "element_name", "listed", "named_by", "parameters_of"]

#: A step, by its function or its slug.
StepRef = Callable[..., Any] | str


def element_name(after: Iterable[str]) -> str:
    """What a map calls its element: nothing that it depends on."""
    name = "item"
    while name in set(after):
        name += "_"
    return name


def parameters_of(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """Its parameters, all of which can be passed by name."""
    found = list(inspect.signature(fn).parameters.values())
    for parameter in found:
        if parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            raise GraphError(
                f"step {fn.__name__!r}: parameter {parameter} cannot name a step; its parameters "
                "are passed by name, each is one dependency"
            )
    return found


def named_by(step: StepRef) -> tuple[str, str | None]:
    """The slug of a step, and where its function is."""
    if isinstance(step, str):
        return step, None
    name = getattr(step, "__name__", repr(step))
    return name, f"{getattr(step, '__module__', '?')}:{getattr(step, '__qualname__', name)}"


def listed(steps: Iterable[StepRef] | StepRef | None) -> list[StepRef]:
    """A single step is as good as a list of one."""
    if steps is None:
        return []
    return [steps] if isinstance(steps, str) or callable(steps) else [*steps]
