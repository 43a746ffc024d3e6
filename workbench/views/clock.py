"""Moments and durations as elements that a live front end keeps current.

A static picture shows them as of its moment; `live.js` reads their attributes to put moments into
the browser's zone and to let running durations run.
"""

from __future__ import annotations

from datetime import datetime

from workbench.views.markup import Safe, tag
from workbench.views.words import duration, moment

__all__ = ["countdown", "lasting", "milliseconds", "when"]


def when(at: datetime) -> Safe:
    """Return a moment, here in the machine's zone."""
    return tag("time", moment(at), datetime=at.isoformat(timespec="seconds"))


def lasting(seconds: float, since: datetime | None, class_: str | None = None) -> Safe:
    """Return a duration; one that goes on names the moment `since` which it does."""
    running = None if since is None else milliseconds(since)
    return tag("span", duration(seconds), class_=class_, data_since=running)


def countdown(now: datetime, until: datetime) -> Safe:
    """Return how long it is to a moment that is to come."""
    left = duration((until - now).total_seconds())
    return tag("span", left, data_until=milliseconds(until))


def milliseconds(at: datetime) -> int:
    """Return a moment as browsers count: milliseconds since 1970."""
    return round(at.timestamp() * 1000)
