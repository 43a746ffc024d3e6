"""What a FLOW's config says, laid out for deciding: each step with what it depends on, what depends
on it, and the condition under which it runs.

The decider has no values. So a condition is taken apart into tests, each of one dependency's output,
that are answered when that output becomes known: a bit of `NodeState.facts` each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Step", "Test", "lay_out"]

#: The number of a step, and which of the tests of its output must hold.
Test = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a FLOW, by the numbers of its nodes.

    `asked` are the patterns that later steps compare the output with. `required` and `forbidden` are
    the tests of a condition, None when none can hold; a step without dependencies asks the run's
    input by `if_` and `if_not`. `mapped_by`: the maps that go over the output.
    """

    slug: str
    number: int
    after: tuple[int, ...]
    dependents: tuple[int, ...]
    mapped_by: tuple[int, ...]
    asked: tuple[Any, ...]
    required: tuple[Test, ...] | None
    forbidden: tuple[Test, ...] | None
    if_: Mapping[str, Any] | None = None
    if_not: Mapping[str, Any] | None = None
    if_skipped: int | None = None
    when_unmet: str = "skip"
    when_exhausted: str = "fail"

    def moved(self, delta: int) -> Step:
        """The same step of a FLOW whose nodes have other numbers."""
        return replace(
            self,
            number=self.number + delta,
            after=_moved(self.after, delta),
            dependents=_moved(self.dependents, delta),
            mapped_by=_moved(self.mapped_by, delta),
            required=_moved_tests(self.required, delta),
            forbidden=_moved_tests(self.forbidden, delta),
            if_skipped=None if self.if_skipped is None else self.if_skipped + delta,
        )

    @property
    def asked_of_elements(self) -> tuple[Any, ...]:
        """For a map: the patterns that an element of its output may contain, one after the other."""
        return tuple(
            part for pattern in self.asked if isinstance(pattern, list) for part in pattern
        )


def _moved(numbers: tuple[int, ...], delta: int) -> tuple[int, ...]:
    return tuple(number + delta for number in numbers)


def _moved_tests(tests: tuple[Test, ...] | None, delta: int) -> tuple[Test, ...] | None:
    return None if tests is None else tuple((number + delta, bit) for number, bit in tests)


def lay_out(
    config: Mapping[str, Any], numbers: Sequence[int], maps: Mapping[int, str]
) -> list[Step]:
    """The steps of a FLOW.

    Parameters
    ----------
    config:
        The FLOW's query.
    numbers:
        The number of each step's node.
    maps:
        The maps among them, and the name that each goes over.
    """
    steps = config["steps"]
    number_of = {step["step"]: number for step, number in zip(steps, numbers, strict=True)}
    asked: dict[str, list[Any]] = {slug: [] for slug in number_of}
    dependents: dict[str, list[int]] = {slug: [] for slug in number_of}
    mapped_by: dict[str, list[int]] = {slug: [] for slug in number_of}
    for step in steps:
        for dependency in step.get("after", ()):
            dependents[dependency].append(number_of[step["step"]])
    for number, over in maps.items():
        if over in mapped_by:
            mapped_by[over].append(number)

    def tests(step: Mapping[str, Any], key: str) -> tuple[Test, ...] | None:
        found: list[Test] = []
        for dependency, pattern in step.get(key, {}).items():
            if dependency not in step.get("after", ()):
                return None
            found.append((number_of[dependency], len(asked[dependency])))
            asked[dependency].append(pattern)
        return tuple(found)

    conditions = [(tests(step, "if"), tests(step, "if_not")) for step in steps]
    return [
        Step(
            step["step"],
            number_of[step["step"]],
            tuple(number_of[dependency] for dependency in step.get("after", ())),
            tuple(dependents[step["step"]]),
            tuple(mapped_by[step["step"]]),
            tuple(asked[step["step"]]),
            *condition,
            step.get("if"),
            step.get("if_not"),
            number_of.get(step.get("if_skipped")),
            step.get("when_unmet", "skip"),
            step.get("when_exhausted", "fail"),
        )
        for step, condition in zip(steps, conditions, strict=True)
    ]
