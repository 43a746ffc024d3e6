"""Cron expressions in SQL: accepted and refused as in Python, in the same words."""

from __future__ import annotations

from zoneinfo import available_timezones

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.support import Database
from workbench.graph import schedule

WORDS = [
    "*",
    "0",
    "1",
    "7",
    "8",
    "12",
    "13",
    "23",
    "24",
    "29",
    "30",
    "31",
    "59",
    "60",
    "007",
    "1000",
]
NAMES = ["JAN", "feb", "DEC", "mon", "SUN", "Fri", "FRY", "x", "", "?", "٣", "ı"]
value = st.sampled_from(WORDS + NAMES)
step = st.sampled_from(["0", "1", "2", "15", "999", "-1", "x", ""])
item = st.one_of(
    value,
    st.builds("{}-{}".format, value, value),
    st.builds("{}/{}".format, value, step),
    st.builds("{}-{}/{}".format, value, value, step),
)
field = st.one_of(st.just("*"), item, st.lists(item, min_size=1, max_size=3).map(",".join))
likely = st.tuples(
    st.sampled_from(["0", "*/15", "1-5"]),
    st.sampled_from(["*", "0", "22-2"]),
    st.sampled_from(["*", "*/2", "29", "30", "31", "30-31", "31,30", "1"]),
    st.sampled_from(
        ["*", "2", "FEB", "2,4", "2/3", "4-6/2", "1-12/3", "feb-Feb", "*/11", "4,JUN,9-11/2"]
    ),
    st.sampled_from(["*", "*/2", "MON", "1-5", "FRI-SUN", "5-0", "0-0"]),
).map(" ".join)
expressions = st.one_of(
    likely,
    st.lists(field, min_size=4, max_size=6).map(" ".join),
    st.lists(field, min_size=5, max_size=5).map(" ".join),
    st.lists(field, min_size=5, max_size=5).map("\t \n".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
)


def in_sql(connection: psycopg.Connection, cron_expr: str | None, zone: str | None) -> str | None:
    row = connection.execute("SELECT df._cron_fault(%s, %s)", (cron_expr, zone)).fetchone()
    assert row is not None
    text = row[0]
    assert text is None or isinstance(text, str)
    return text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
@given(cron_expr=expressions)
def test_both_sides_refuse_the_same_expressions_in_the_same_words(
    db: Database, cron_expr: str
) -> None:
    assert in_sql(db.conn, cron_expr, "UTC") == schedule.fault(cron_expr, "UTC")


def test_a_zone_that_both_sides_know_is_accepted_by_both(db: Database) -> None:
    names = {row[0] for row in db.conn.execute("SELECT name FROM pg_timezone_names")}
    both = [name for name in sorted(names & available_timezones()) if name != "localtime"]
    assert len(both) > 400
    assert [name for name in both if schedule.fault("* * * * *", name)] == ["Factory"]
    refused = db.conn.execute(
        "SELECT name FROM unnest(%s::text[]) AS name WHERE df._timezone_fault(name) IS NOT NULL",
        ([*both[::40], "Factory", "Europe/Berlin", "UTC"],),
    )
    assert [row[0] for row in refused] == ["Factory"]


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Mars/Base",
        "europe/berlin",
        "../etc/passwd",
        "posix/UTC",
        "localtime",
        "CEST",
        "EST5",
        "<+02>-2",
        "UTC\n",
        "America",
    ],
)
def test_both_sides_refuse_the_same_zones_in_the_same_words(db: Database, zone: str) -> None:
    text = in_sql(db.conn, "* * * * *", zone)
    assert text is not None
    assert text == schedule.fault("* * * * *", zone)


def test_utc_is_always_accepted(db: Database) -> None:
    assert in_sql(db.conn, "* * * * *", "UTC") is None


def test_null_is_a_fault(db: Database) -> None:
    assert str(in_sql(db.conn, None, "UTC")).startswith("Invalid cron expression NULL: ")
    assert str(in_sql(db.conn, "* * * * *", None)).startswith("Unknown time zone NULL: ")
