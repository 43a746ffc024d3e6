"""Cron schedules: what `wait_for_schedule` accepts, and when it fires next. Pure: no clock, no I/O.

Most schedules name local times. One that does not exist (clocks go forward) fires at the first
valid minute after it; one that occurs twice (clocks go back) fires once, the first time. A schedule
for every hour of the day says how often instead: it fires whenever the wall clock shows a minute of
it, so that half-hourly ticks stay half an hour apart through both changes.
The same acceptance in SQL is `df._cron_fault`.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, available_timezones

from workbench.errors import GraphError, UsageError

__all__ = ["fault", "next_after"]

_MINUTE = timedelta(minutes=1)
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: February 29 on a given weekday comes at most 40 years apart (across 2100); found long before that otherwise.
_YEARS_AHEAD = 41

_FIELD = re.compile(r"[^ \t\n\r\f\v]+")
_VALUE = r"([0-9]{1,2}|[A-Za-z]{3})"
_ITEM = re.compile(rf"(\*|{_VALUE}(?:-{_VALUE})?)(?:/([0-9]{{1,3}}))?")
#: Zones that depend on the machine, or are none.
_NO_ZONES = re.compile(r"localtime|posixrules|Factory|(posix|right)/.*", re.DOTALL)


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day-of-month", 1, 31, {}),
    _Field("month", 1, 12, {name: n for n, name in enumerate(_MONTHS, 1)}),
    _Field("day-of-week", 0, 7, {name: n for n, name in enumerate(_DAYS)}),
)


class _Refused(Exception):
    """Why an expression is none."""


@dataclass(frozen=True)
class _Schedule:
    """A parsed expression; minutes and hours in order, days of the week from Sunday, 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def has(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_month or by_week) if self.either_day else (by_month and by_week)

    def days_from(self, first: date) -> Iterator[date]:
        """The days of the schedule from `first` on."""
        for year in range(first.year, first.year + _YEARS_AHEAD):
            for month in sorted(self.months):
                if (year, month) < (first.year, first.month):
                    continue
                for number in range(1, calendar.monthrange(year, month)[1] + 1):
                    day = date(year, month, number)
                    if day >= first and self.has(day):
                        yield day

    def local_times_from(self, first: datetime) -> Iterator[datetime]:
        """The local times of the schedule from `first` on, without a zone."""
        for day in self.days_from(first.date()):
            for hour in self.hours:
                if day == first.date() and hour < first.hour:
                    continue
                for minute in self.minutes:
                    moment = datetime.combine(day, time(hour, minute))
                    if moment >= first:
                        yield moment


def fault(cron_expr: str, timezone: str = "UTC") -> str | None:
    """Why this schedule would be refused, None when it is fine.

    Parameters
    ----------
    cron_expr:
        Five fields: minute 0-59, hour 0-23, day of month 1-31, month 1-12 or JAN-DEC, day of week
        0-7 or SUN-SAT (Sunday is 0 and 7). Lists, ranges and steps; names in any case. When both
        day fields are restricted (begin with something else than `*`), either one matches.
    timezone:
        A name of the IANA database, spelt as there, such as `Europe/Berlin`.
    """
    try:
        _parse(cron_expr)
    except _Refused as refused:
        return f"Invalid cron expression '{cron_expr}': {refused}"
    if not _is_zone(timezone):
        return (
            f"Unknown time zone '{timezone}': "
            "write a name of the IANA database, such as 'Europe/Berlin' or 'UTC'"
        )
    return None


def next_after(cron_expr: str, timezone: str, moment: datetime) -> datetime:
    """The first time the schedule fires strictly after a moment.

    Parameters
    ----------
    cron_expr, timezone:
        As `fault` takes them.
    moment:
        With a time zone, whichever.

    Returns
    -------
    datetime
        In UTC, on the minute.

    Raises
    ------
    GraphError
        The schedule is refused; the text is that of `fault`.
    UsageError
        The moment has no time zone.
    """
    if refused := fault(cron_expr, timezone):
        raise GraphError(refused)
    if moment.tzinfo is None:
        raise UsageError(f"the moment {moment} has no time zone: give it one, such as UTC")
    schedule, zone = _parse(cron_expr), _zone(timezone)
    moment = moment.astimezone(UTC)
    if len(schedule.hours) == 24:
        return _next_shown(schedule, zone, moment)
    return _next_named(schedule, zone, moment)


def _next_named(schedule: _Schedule, zone: tzinfo, moment: datetime) -> datetime:
    """Of local times that are named: the first whose instant lies after the moment.

    Instants rise with local times, so nothing that the wall clock has passed can still come; what
    it shows a second time is skipped here.
    """
    shown = moment.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0)
    for local in schedule.local_times_from(shown + _MINUTE):
        instant = _instant(local, zone)
        if instant > moment:
            return instant
    raise AssertionError("a parsed schedule has a day in every 40 years")


def _next_shown(schedule: _Schedule, zone: tzinfo, moment: datetime) -> datetime:
    """Of a schedule for every hour: the first minute at which the wall clock shows one of it.

    Goes through real time, from one minute to another only where the clocks do not change between.
    """
    instant = _whole_minute(moment, zone) + _MINUTE
    while True:
        local = instant.astimezone(zone)
        if not schedule.has(local.date()):
            later = next(schedule.days_from(local.date() + timedelta(days=1)))
            instant = max(instant + _MINUTE, _instant(datetime.combine(later, time()), zone))
            continue
        if local.minute in schedule.minutes:
            return instant
        to_come = next((m for m in schedule.minutes if m > local.minute), 60)
        ahead = instant + (to_come - local.minute) * _MINUTE
        unchanged = ahead.astimezone(zone).utcoffset() == local.utcoffset()
        instant = ahead if unchanged else instant + _MINUTE


def _whole_minute(moment: datetime, zone: tzinfo) -> datetime:
    local = moment.astimezone(zone)
    return moment - timedelta(seconds=local.second, microseconds=local.microsecond)


def _instant(local: datetime, zone: tzinfo) -> datetime:
    """When a wall clock first shows a local time; when clocks skip it, the minute they go on from."""
    first = local.replace(tzinfo=zone).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == local:
        return first
    # In a gap the two folds are the offsets before and after it, and the change lies between them.
    after = local.replace(tzinfo=zone, fold=1)
    low, high = after.astimezone(UTC), first
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == after.utcoffset():
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=256)
def _zone(timezone: str) -> tzinfo:
    return UTC if timezone == "UTC" else ZoneInfo(timezone)


@lru_cache(maxsize=256)
def _is_zone(timezone: str) -> bool:
    return timezone == "UTC" or (timezone in _zones() and not _NO_ZONES.fullmatch(timezone))


@cache
def _zones() -> set[str]:
    return available_timezones()


@lru_cache(maxsize=256)
def _parse(cron_expr: str) -> _Schedule:
    fields = _FIELD.findall(cron_expr)
    if len(fields) != 5:
        raise _Refused(
            "expected 5 fields (minute hour day-of-month month day-of-week), "
            f"and it has {len(fields)}"
        )
    minutes, hours, days, months, weekdays = (
        _values(field, text) for field, text in zip(_FIELDS, fields, strict=True)
    )
    either_day = not fields[2].startswith("*") and not fields[4].startswith("*")
    if not either_day and min(days) > max(_LONGEST_MONTHS[month - 1] for month in months):
        raise _Refused("it never matches, no such month has that day")
    return _Schedule(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=either_day,
    )


def _values(field: _Field, text: str) -> set[int]:
    values: set[int] = set()
    for item in text.split(","):
        values.update(_item(field, item))
    return values


def _item(field: _Field, item: str) -> range:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _Refused(f"{field.name} '{item}' is no value, range or step")
    whole, first, last, step = match.groups()
    low, high = field.low, field.high
    if whole != "*":
        low = _value(field, item, first)
        # `5/15` goes on to the end, as other schedulers have it.
        high = _value(field, item, last) if last else high if step else low
    if field.name == "day-of-week" and low > 0 and high == 0:
        high = 7  # FRI-SUN
    if low > high:
        raise _Refused(f"{field.name} '{item}' runs backwards: write it as two ranges")
    if step and int(step) == 0:
        raise _Refused(f"{field.name} '{item}' has a step of zero")
    return range(low, high + 1, int(step or 1))


def _value(field: _Field, item: str, text: str) -> int:
    value = int(text) if text[0].isdigit() else field.names.get(text.upper())
    if value is None:
        raise _Refused(f"{field.name} '{item}' is no value, range or step")
    if not field.low <= value <= field.high:
        raise _Refused(f"{field.name} '{item}' is outside {field.low}-{field.high}")
    return value
