"""Durations, moments, sizes and counts as people say them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

__all__ = ["as_of", "clock", "count", "duration", "listed", "moment", "one_line", "shorten", "size"]

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """Say a duration: `35 ms`, `4.2 s`, `4 min 12 s`, `2 d 4 h`; at most two units."""
    seconds = max(seconds, 0.0)
    if seconds < 0.9995:
        return "0 s" if seconds == 0 else f"{max(round(seconds * 1000), 1)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for index, (unit, name) in enumerate(_UNITS):
        if whole >= unit:
            said = f"{whole // unit} {name}"
            if index + 1 < len(_UNITS):
                smaller, smaller_name = _UNITS[index + 1]
                rest = whole % unit // smaller
                said += f" {rest} {smaller_name}" if rest else ""
            return said
    return "0 s"


def moment(at: datetime, zone: tzinfo | None = None) -> str:
    """Say a moment in `zone` or the machine's own: `2026-11-30 09:12:05 +01:00`."""
    local = at.astimezone(zone)
    offset = local.strftime("%z")
    return f"{local:%Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]}"


def clock(at: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Say a moment by the time of day when it is today: `09:12:05`, else `2026-12-01 09:12:05`."""
    local = at.astimezone(zone)
    today = local.date() == now.astimezone(zone).date()
    return f"{local:%H:%M:%S}" if today else f"{local:%Y-%m-%d %H:%M:%S}"


def listed(items: Sequence[object]) -> str:
    """List things: `2`, `2 and 4`, `2, 4 and 7`."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def as_of(at: datetime, zone: tzinfo | None = None) -> str:
    """Say when a picture was taken."""
    return f"as of {moment(at, zone)}"


def size(octets: int) -> str:
    """Say a size: `812 B`, `14 kB`, `3.2 MB`; decimal units."""
    if octets < 1000:
        return f"{octets} B"
    if octets < 999_500:
        return f"{octets / 1000:.0f} kB"
    return f"{octets / 1_000_000:.1f} MB"


def count(number: int, noun: str) -> str:
    """Count things: `1 row`, `12,400 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def one_line(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())


def shorten(text: str, limit: int) -> str:
    """Cut a text to `limit` characters, the last one an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
