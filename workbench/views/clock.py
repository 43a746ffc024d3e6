"""Moments and durations as elements that a live front end keeps current.

A static picture shows them as of its moment; `live.js` reads their attributes to put moments into
the browser's zone and to let running durations run. A sentence with such parts is a tuple of
pieces, said as HTML or as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from workbench.views.markup import Safe, join, tag
from workbench.views.words import clock, duration, moment

__all__ = ["At", "Left", "Piece", "countdown", "lasting", "milliseconds", "said", "told", "when"]


class At(NamedTuple):
    """A moment within a sentence: the time of day when that is enough."""

    at: datetime


class Left(NamedTuple):
    """How long it is to a moment, within a sentence."""

    until: datetime


Piece = str | At | Left


def said(pieces: Iterable[Piece], now: datetime) -> Safe:
    """Return a sentence as HTML."""
    return join(_piece(piece, now) for piece in pieces)


def told(pieces: Iterable[Piece], now: datetime) -> str:
    """Return a sentence as text."""
    return "".join(_word(piece, now) for piece in pieces)


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


def _piece(piece: Piece, now: datetime) -> str:
    if isinstance(piece, At):
        shown = clock(piece.at, now)
        return tag("time", shown, datetime=piece.at.isoformat(timespec="seconds"), data_short=True)
    return countdown(now, piece.until) if isinstance(piece, Left) else piece


def _word(piece: Piece, now: datetime) -> str:
    if isinstance(piece, At):
        return clock(piece.at, now)
    return duration((piece.until - now).total_seconds()) if isinstance(piece, Left) else piece
