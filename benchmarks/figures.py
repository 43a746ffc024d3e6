"""What is reported: figures, their targets, and the raw speed they are ratios to. Plain data:
nothing is measured here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Aspect", "Figure", "Outcome", "Raw", "Target", "at_least", "at_most"]


#: Raw readings further apart than this say more about the machine than about the engine: chosen, not
#: measured.
_STEADY = 1.25


@dataclass(frozen=True)
class Target:
    """The bound that a figure should keep."""

    bound: Literal[">=", "<="]
    number: float

    def met_by(self, value: float) -> bool:
        return value >= self.number if self.bound == ">=" else value <= self.number

    def __str__(self) -> str:
        return f"{self.bound} {self.number:g}"


def at_least(number: float) -> Target:
    return Target(">=", number)


def at_most(number: float) -> Target:
    return Target("<=", number)


@dataclass(frozen=True)
class Raw:
    """One-row INSERT commits per second on one connection: `samples` and their median `before` a
    measurement, one reading `after` it.
    """

    samples: tuple[float, ...]
    before: float
    after: float

    @property
    def steady(self) -> bool:
        """Whether the readings agree well enough for a ratio to them to mean something."""
        readings = (*self.samples, self.after)
        return max(readings) <= _STEADY * min(readings)


@dataclass(frozen=True)
class Aspect:
    """One number that a workload yields.

    Attributes
    ----------
    title:
        What was measured.
    unit:
        What is counted: `steps`, `runs`, `starts`.
    kind:
        `rate` is told as units per commit (more is better), `delay` as commit times (less is
        better).
    target:
        None for a reference, which nobody promises.
    """

    title: str
    unit: str
    kind: Literal["rate", "delay"] = "rate"
    target: Target | None = None

    def ratio(self, seconds: float, raw: float) -> float:
        """Seconds per unit as a ratio to `raw` commits per second."""
        return seconds * raw if self.kind == "delay" else 1 / (seconds * raw)

    @property
    def ratio_unit(self) -> str:
        return "commit times" if self.kind == "delay" else f"{self.unit}/commit"

    def absolute(self, seconds: float) -> str:
        return _duration(seconds) if self.kind == "delay" else f"{1 / seconds:,.0f} {self.unit}/s"


@dataclass(frozen=True)
class Figure:
    """One line of the table. `samples` are the repetitions whose median is `value`; `detail` tells
    it in seconds.
    """

    title: str
    value: float
    unit: str
    target: Target | None
    samples: tuple[float, ...]
    detail: str
    raw: Raw

    @property
    def verdict(self) -> str:
        """`pass`, `miss`, or `reference` where there is no target."""
        if self.target is None:
            return "reference"
        return "pass" if self.target.met_by(self.value) else "miss"


@dataclass(frozen=True)
class Outcome:
    """What came of one benchmark: its figures, or the error that ended it."""

    name: str
    figures: tuple[Figure, ...]
    error: str | None = None


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
