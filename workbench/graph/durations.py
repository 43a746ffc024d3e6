"""Lengths of time as people give them: seconds, a timedelta, or text such as "10 minutes".

One function for every builder. Stored are seconds, as the shortest JSON number.
"""

from __future__ import annotations

import datetime
import math
import re
from typing import Final

from workbench.errors import GraphError

MAX_SECONDS: Final = 31_557_600_000
"""The longest wait, 1,000 years: later than that no clock of ours can say."""

_UNITS: Final = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hr": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
    "w": 604800,
    "week": 604800,
}
_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*,?", re.ASCII)
_EXAMPLES: Final = 'use seconds, a timedelta, or text such as "90 seconds", "10 minutes", "1h 30m"'


def seconds(value: object, what: str) -> int | float:
    """Return a length of time in seconds, exact to the microsecond; whole ones as int.

    Parameters:
        value: a number of seconds, a timedelta, or text with units from milliseconds to weeks.
        what: the name of the value in error texts, as in `sleep()`.

    Raises:
        GraphError: anything else, a negative or infinite time, or more than 1,000 years.
    """
    found = _number(value)
    if found is None:
        raise GraphError(f"{what}: {value!r} is no length of time; {_EXAMPLES}")
    if found < 0 or (isinstance(found, float) and not math.isfinite(found)):
        raise GraphError(f"{what}: {value!r} is not a finite time of at least 0; {_EXAMPLES}")
    if found > MAX_SECONDS:
        raise GraphError(f"{what}: {value!r} is longer than 1,000 years; choose a shorter time")
    exact = round(found, 6)
    return int(exact) if exact == int(exact) else exact


def _number(value: object) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return _parsed(value) if isinstance(value, str) else None


def _parsed(text: str) -> float | None:
    """Add up `<number> <unit>` parts, or return None when the text is not made of them."""
    total, at = 0.0, 0
    while match := _PART.match(text, at):
        unit = match[2].lower()
        factor = _UNITS.get(unit, _UNITS.get(unit.removesuffix("s")))
        if factor is None:
            return None
        total += float(match[1]) * factor
        at = match.end()
    return total if at and at == len(text) else None
