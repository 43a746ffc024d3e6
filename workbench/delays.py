"""Delays until a next attempt that somebody asks for: how long they may be, and what a `Retry-After`
header says.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["LONGEST", "checked", "from_headers"]

LONGEST: Final = 30 * 86_400.0
"""Seconds: the longest delay that may be asked for, 30 days."""

_SECONDS: Final = re.compile(r"[0-9]+", re.ASCII)


def checked(delay: object) -> float:
    """A delay in seconds.

    Parameters
    ----------
    delay:
        Seconds from 0 to 30 days, or a timedelta.

    Raises
    ------
    TypeError
        It is no number (a bool is none).
    ValueError
        It is negative, not finite, or longer than 30 days.
    """
    if isinstance(delay, datetime.timedelta):
        delay = delay.total_seconds()
    if isinstance(delay, bool) or not isinstance(delay, int | float):
        raise TypeError(f"RetryAfter takes seconds or a timedelta, not {delay!r}")
    if not 0 <= delay <= LONGEST:  # false for NaN, too
        raise ValueError(f"RetryAfter takes 0 to {LONGEST:.0f} seconds (30 days), not {delay!r}")
    return float(delay)


def from_headers(headers: Mapping[str, str]) -> float | None:
    """Seconds until a failing response's `Retry-After`, at most 30 days.

    A date is measured against the response's own `Date`, so that nobody's clock has to be right.
    None when there is no such header, or it makes no sense.
    """
    known = {name.lower(): value.strip() for name, value in headers.items()}
    value = known.get("retry-after", "")
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST)
    try:
        until = _date(value)
        sent = _date(known["date"]) if "date" in known else datetime.datetime.now(datetime.UTC)
    except (ValueError, OverflowError):
        return None
    seconds = (until - sent).total_seconds()
    return None if seconds < 0 else min(seconds, LONGEST)


def _date(text: str) -> datetime.datetime:
    date = parsedate_to_datetime(text)
    return date if date.tzinfo is not None else date.replace(tzinfo=datetime.UTC)
