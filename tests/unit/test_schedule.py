"""When a cron schedule fires: against tables worked out by hand, and against the wall clock, minute by minute."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import GraphError, UsageError
from workbench.graph.schedule import fault, next_after

NEW_YORK, BERLIN, LORD_HOWE = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def ticks_of_day(cron_expr: str, zone: str, day: date) -> list[datetime]:
    """The local times at which a schedule fires on one local day."""
    tz = ZoneInfo(zone)
    start, end = (
        datetime(d.year, d.month, d.day, tzinfo=tz).astimezone(UTC)
        for d in (day, day + timedelta(days=1))
    )
    found, moment = [], start - timedelta(seconds=1)
    while (moment := next_after(cron_expr, zone, moment)) < end:
        found.append(moment.astimezone(tz))
    return found


@pytest.mark.parametrize(
    ("cron_expr", "expected"),
    [
        ("* * * * *", at(2026, 11, 30, 12, 31)),
        ("*/15 * * * *", at(2026, 11, 30, 12, 45)),
        ("5/20 * * * *", at(2026, 11, 30, 12, 45)),
        ("30 12 * * *", at(2026, 12, 1, 12, 30)),
        ("0 9-17/4 * * *", at(2026, 11, 30, 13, 0)),
        ("0 0 1,15 * *", at(2026, 12, 1, 0, 0)),
        ("0 0 * feb *", at(2027, 2, 1, 0, 0)),
        ("0 0 * * mon-fri", at(2026, 12, 1, 0, 0)),
        ("0 0 * * 0", at(2026, 12, 6, 0, 0)),
        ("0 0 * * 7", at(2026, 12, 6, 0, 0)),
        ("0 0 * * SUN", at(2026, 12, 6, 0, 0)),
        ("0 0 * * SAT-SUN", at(2026, 12, 5, 0, 0)),
        ("0 0 29 2 *", at(2028, 2, 29, 0, 0)),
        ("  0\t0 1 1  * ", at(2027, 1, 1, 0, 0)),
    ],
)
def test_next_after_half_past_twelve_of_a_monday(cron_expr: str, expected: datetime) -> None:
    assert next_after(cron_expr, "UTC", at(2026, 11, 30, 12, 30)) == expected


def test_a_match_is_strictly_after_the_moment() -> None:
    assert next_after("30 12 * * *", "UTC", at(2026, 11, 30, 12, 29, 59)) == at(
        2026, 11, 30, 12, 30
    )
    assert next_after("30 12 * * *", "UTC", at(2026, 11, 30, 12, 30)) == at(2026, 12, 1, 12, 30)


def test_either_day_field_matches_when_both_are_restricted() -> None:
    # The 13th of December 2026 is a Sunday; Fridays are the 4th, 11th and 18th.
    moments, moment = [], at(2026, 12, 1)
    for _ in range(4):
        moment = next_after("0 0 13 * FRI", "UTC", moment)
        moments.append(moment.day)
    assert moments == [4, 11, 13, 18]


def test_both_day_fields_must_match_when_one_begins_with_a_star() -> None:
    # Odd days that are Mondays.
    assert next_after("0 0 */2 * MON", "UTC", at(2026, 12, 1)) == at(2026, 12, 7)
    assert next_after("0 0 */2 * MON", "UTC", at(2026, 12, 7)) == at(2026, 12, 21)


def test_the_next_leap_day_across_a_century_that_has_none() -> None:
    assert next_after("0 0 29 2 *", "UTC", at(2096, 2, 29)) == at(2104, 2, 29)
    assert next_after("0 0 29 2 */7", "UTC", at(2088, 2, 29)) == at(2128, 2, 29)


def test_a_moment_of_another_zone_is_the_same_moment() -> None:
    moment = datetime(2026, 11, 30, 13, 30, tzinfo=ZoneInfo(BERLIN))
    found = next_after("0 * * * *", "UTC", moment)
    assert found == at(2026, 11, 30, 13, 0)
    assert found.tzinfo is UTC


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="has no time zone"):
        next_after("* * * * *", "UTC", datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("zone", "day", "local", "offset", "half_hours"),
    [
        # 02:00 to 03:00 does not exist: the first valid minute after 02:30 is 03:00.
        (NEW_YORK, date(2026, 3, 8), "03:00", -4, 46),
        # 01:00 to 02:00 occurs twice, 02:30 does not.
        (NEW_YORK, date(2026, 11, 1), "02:30", -5, 50),
        (BERLIN, date(2026, 3, 29), "03:00", 2, 46),
        # 02:30 occurs twice: the first is of summer time.
        (BERLIN, date(2026, 10, 25), "02:30", 2, 50),
        # The clocks of Lord Howe change by half an hour: from 02:00 to 02:30 in October, a day of 23½ hours,
        # and from 02:00 back to 01:30 in April, 24½ hours. 02:30 exists on both days, once.
        (LORD_HOWE, date(2026, 10, 4), "02:30", 11, 47),
        (LORD_HOWE, date(2026, 4, 5), "02:30", 10.5, 49),
    ],
)
def test_a_daily_time_comes_once_and_half_hours_go_on_through_a_change_of_clocks(
    zone: str, day: date, local: str, offset: float, half_hours: int
) -> None:
    (daily,) = ticks_of_day("30 2 * * *", zone, day)
    assert (daily.strftime("%H:%M"), daily.utcoffset()) == (local, timedelta(hours=offset))
    ticks = [tick.astimezone(UTC) for tick in ticks_of_day("*/30 * * * *", zone, day)]
    assert len(ticks) == half_hours
    assert {b - a for a, b in itertools.pairwise(ticks)} == {timedelta(minutes=30)}


def test_a_time_in_the_half_hour_that_lord_howe_skips_comes_at_its_end() -> None:
    (tick,) = ticks_of_day("15 2 * * *", LORD_HOWE, date(2026, 10, 4))
    assert tick.isoformat() == "2026-10-04T02:30:00+11:00"


def test_a_time_in_the_half_hour_that_lord_howe_repeats_comes_the_first_time() -> None:
    (tick,) = ticks_of_day("45 1 * * *", LORD_HOWE, date(2026, 4, 5))
    assert tick.isoformat() == "2026-04-05T01:45:00+11:00"


def test_several_times_in_a_gap_come_once_at_its_end() -> None:
    ticks = ticks_of_day("*/10 2-3 * * *", BERLIN, date(2026, 3, 29))
    assert [t.strftime("%H:%M") for t in ticks] == [f"03:{m:02}" for m in range(0, 60, 10)]


def test_an_hourly_schedule_ticks_in_both_of_the_repeated_hours() -> None:
    assert len(ticks_of_day("15 * * * *", BERLIN, date(2026, 10, 25))) == 25
    assert len(ticks_of_day("15 * * * *", BERLIN, date(2026, 3, 29))) == 23


def test_a_day_that_a_zone_skipped_comes_as_it_ends() -> None:
    # Samoa went from the end of 29 December 2011 to 31 December.
    found = next_after("30 2 30 12 *", "Pacific/Apia", at(2011, 12, 29))
    assert found == at(2011, 12, 30, 10, 0)
    assert found.astimezone(ZoneInfo("Pacific/Apia")).day == 31


@pytest.mark.parametrize(
    ("cron_expr", "reason"),
    [
        ("", "expected 5 fields (minute hour day-of-month month day-of-week), and it has 0"),
        (
            "* * * * * *",
            "expected 5 fields (minute hour day-of-month month day-of-week), and it has 6",
        ),
        ("60 * * * *", "minute '60' is outside 0-59"),
        ("* 0-24 * * *", "hour '0-24' is outside 0-23"),
        ("* * 0 * *", "day-of-month '0' is outside 1-31"),
        ("* * * FEB-13 *", "month 'FEB-13' is outside 1-12"),
        ("* * * * 8", "day-of-week '8' is outside 0-7"),
        ("MON * * * *", "minute 'MON' is no value, range or step"),
        ("* * * * MO", "day-of-week 'MO' is no value, range or step"),
        ("1,,2 * * * *", "minute '' is no value, range or step"),
        ("*-5 * * * *", "minute '*-5' is no value, range or step"),
        ("1-2-3 * * * *", "minute '1-2-3' is no value, range or step"),
        ("-1 * * * *", "minute '-1' is no value, range or step"),
        ("٣ * * * *", "minute '٣' is no value, range or step"),
        ("* 22-2 * * *", "hour '22-2' runs backwards: write it as two ranges"),
        ("*/0 * * * *", "minute '*/0' has a step of zero"),
        ("0 0 31 2 *", "it never matches, no such month has that day"),
        ("0 0 31 4,JUN,9-11/2 *", "it never matches, no such month has that day"),
    ],
)
def test_a_fault_names_the_expression_and_the_reason(cron_expr: str, reason: str) -> None:
    assert fault(cron_expr, "UTC") == f"Invalid cron expression '{cron_expr}': {reason}"
    with pytest.raises(GraphError, match="Invalid cron expression"):
        next_after(cron_expr, "UTC", at(2026, 1, 1))


def test_an_impossible_day_beside_a_weekday_is_no_fault() -> None:
    assert fault("0 0 31 2 MON", "UTC") is None
    assert next_after("0 0 31 2 MON", "UTC", at(2026, 3, 1)) == at(2027, 2, 1)


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Mars/Base",
        "europe/berlin",
        "../etc/passwd",
        "America",
        "posix/UTC",
        "localtime",
        "CEST",
        "\0",
    ],
)
def test_a_zone_that_nobody_knows_is_a_fault(zone: str) -> None:
    text = fault("* * * * *", zone)
    assert text is not None
    assert text.startswith(f"Unknown time zone '{zone}': ")


NUMBERS = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}


@st.composite
def field(draw: st.DrawFn, name: str) -> str:
    low, high = NUMBERS[name]
    kind = draw(st.sampled_from(["*", "*", "*/", "n", "a-b", "a-b/", "list"]))
    numbers = sorted(draw(st.lists(st.integers(low, high), min_size=2, max_size=2)))
    step = draw(st.integers(1, 30))
    return {
        "*": "*",
        "*/": f"*/{step}",
        "n": f"{numbers[0]}",
        "a-b": f"{numbers[0]}-{numbers[1]}",
        "a-b/": f"{numbers[0]}-{numbers[1]}/{step}",
        "list": f"{numbers[0]},{numbers[1]}",
    }[kind]


def numbers_of(text: str, name: str) -> set[int]:
    """What a valid field means, read in the plainest way."""
    low, high = NUMBERS[name]
    found: set[int] = set()
    for item in text.split(","):
        part, _, step = item.partition("/")
        first, _, last = (f"{low}-{high}" if part == "*" else part).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def by_minutes(cron_expr: str, zone: str, moment: datetime, limit: int) -> datetime | None:
    """Look at every minute of real time; None when none of `limit` fires.

    Every local minute that has been passed counts, shown or skipped, unless it was shown before.
    """
    texts = cron_expr.split()
    minutes, hours, days, months, weekdays = (
        numbers_of(text, name) for text, name in zip(texts, NUMBERS, strict=True)
    )
    either = not texts[2].startswith("*") and not texts[4].startswith("*")

    def matches(local: datetime) -> bool:
        by_month = local.day in days
        by_week = bool({local.isoweekday(), local.isoweekday() % 7} & weekdays)
        by_day = (by_month or by_week) if either else (by_month and by_week)
        in_day = local.minute in minutes and local.hour in hours
        return in_day and by_day and local.month in months

    tz, minute = ZoneInfo(zone), timedelta(minutes=1)
    instant = moment.replace(second=0, microsecond=0) - 300 * minute
    latest = instant.astimezone(tz).replace(tzinfo=None)
    for _ in range(limit + 300):
        instant += minute
        shown = instant.astimezone(tz).replace(tzinfo=None)
        if len(hours) == 24:
            passed = [shown]
        else:
            passed = [latest + n * minute for n in range(1, (shown - latest) // minute + 1)]
            latest = max(shown, latest)
        if instant > moment and any(matches(local) for local in passed):
            return instant
    return None


CHANGES = {
    NEW_YORK: [at(2026, 3, 8, 7), at(2026, 11, 1, 6)],
    BERLIN: [at(2026, 3, 29, 1), at(2026, 10, 25, 1)],
    LORD_HOWE: [at(2026, 4, 4, 15), at(2026, 10, 3, 15, 30)],
    "Asia/Beirut": [at(2026, 3, 28, 22), at(2026, 10, 24, 21)],  # at midnight
    "America/St_Johns": [at(2006, 4, 2, 3, 31), at(2006, 10, 29, 2, 31)],  # at one minute past it
    "UTC": [at(2026, 2, 28), at(2026, 6, 1)],
}


@given(st.data())
def test_the_same_as_looking_at_every_minute(data: st.DataObject) -> None:
    zone = data.draw(st.sampled_from(list(CHANGES)))
    seconds = data.draw(st.integers(-36 * 3600, 6 * 3600))
    moment = data.draw(st.sampled_from(CHANGES[zone])) + timedelta(seconds=seconds)
    cron_expr = " ".join(data.draw(field(name)) for name in NUMBERS)
    if fault(cron_expr, zone) is not None:
        return
    limit = 2 * 1440
    expected = by_minutes(cron_expr, zone, moment, limit)
    found = next_after(cron_expr, zone, moment)
    if expected is None:
        assert found > moment + timedelta(minutes=limit - 1)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("cron_expr", "milliseconds"),
    [("*/30 * * * *", 1.0), ("30 2 * * *", 1.0), ("0 0 1 1 *", 1.0), ("0 0 29 2 */7", 10.0)],
)
def test_the_next_time_is_found_quickly(cron_expr: str, milliseconds: float) -> None:
    moment, best = at(2096, 3, 1), 1e9
    for _ in range(20):  # the best of several: another process may have the processor
        begun = time.perf_counter()
        next_after(cron_expr, BERLIN, moment)
        best = min(best, time.perf_counter() - begun)
    assert best * 1000 < milliseconds
