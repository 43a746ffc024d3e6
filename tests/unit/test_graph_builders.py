"""The builders of control flow and waiting, and lengths of time."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench
from workbench.errors import GraphError, ValueRefused
from workbench.graph import (
    Node,
    break_,
    if_,
    if_rows,
    join,
    loop,
    race,
    ref,
    sleep,
    sql,
    wait_for_schedule,
    wait_for_signal,
)
from workbench.graph.durations import seconds

A, B, C, D = (sql(text) for text in "abcd")


def test_every_builder_is_exported() -> None:
    for name in (
        *("break_", "http", "http_multipart", "if_", "if_rows", "join", "loop", "race", "secret"),
        *("sleep", "wait_for_schedule", "wait_for_signal"),
    ):
        assert name in workbench.__all__
        assert callable(getattr(workbench, name))


def test_a_join_has_any_width() -> None:
    assert join("a", "b") == Node("JOIN", left=A, right=B) == A & B
    assert join("a", B, "c", D) == Node("JOIN", left=A, right=B, extra=(C, D))


def test_joined_by_operators_joins_nest_to_the_left() -> None:
    assert A & B & C == join(join(A, B), C) != join(A, B, C)


def test_a_race_of_more_than_two_nests_to_the_left() -> None:
    assert race("a", "b") == Node("RACE", left=A, right=B) == A | B
    assert race(A, B, C, D) == race(race(race(A, B), C), D) == A | B | C | D


def test_operators_take_text_on_either_side() -> None:
    assert "a" & B == A & "b" == A & B
    assert "a" | B == A | "b" == A | B


def test_sequences_bind_tighter_than_joins_and_joins_tighter_than_races() -> None:
    assert A >> B & C >> D == (A >> B) & (C >> D)
    assert A | B & C == A | (B & C)
    assert A & B | C & D == (A & B) | (C & D)


@pytest.mark.parametrize("build", [join, race])
def test_side_by_side_takes_two(build: Any) -> None:
    for steps in ((), ("a",)):
        with pytest.raises(GraphError, match=rf"{build.__name__}\(\) needs at least two steps"):
            build(*steps)
    with pytest.raises(GraphError, match=rf"write {build.__name__}\(\*steps\) for a list"):
        build(["a", "b"])


def test_a_choice_has_its_condition_in_its_own_slot() -> None:
    assert if_("a", "b", "c") == Node("IF", left=B, right=C, condition=A)


def test_a_choice_by_rows_names_a_result() -> None:
    choice = if_rows("r", "a", "b")
    assert (choice.left, choice.right, choice.condition) == (A, B, None)
    assert choice.query == '{"condition_type":"result_has_rows","result_name":"r"}'


@pytest.mark.parametrize("name", ["", "a b", 7, None])
def test_a_choice_by_rows_needs_a_name(name: Any) -> None:
    with pytest.raises(GraphError, match=r"df\.if_rows"):
        if_rows(name, "a", "b")


def test_a_loop_asks_after_its_body() -> None:
    assert "ask afterwards" in str(loop.__doc__).splitlines()[0]
    assert loop("a") == Node("LOOP", left=A)
    assert loop("a", "b") == loop("a", while_="b") == Node("LOOP", left=A, condition=B)


def test_until_is_an_option_of_the_loop() -> None:
    assert loop("a", until="b") == Node("LOOP", left=A, condition=B, options={"until": True})


@pytest.mark.parametrize(
    ("pace", "stored"),
    [(0, 0), (0.5, 0.5), (2.0, 2), ("10 minutes", 600), (datetime.timedelta(hours=1), 3600)],
)
def test_the_pace_of_a_loop_is_stored_in_seconds(pace: object, stored: float) -> None:
    options = loop("a", min_interval=pace).options
    assert options == {"min_interval": stored}
    assert type(options["min_interval"]) is type(stored)


def test_the_usual_pace_is_not_stored() -> None:
    assert loop("a", min_interval="1 s") == loop("a", min_interval=1.0) == loop("a")


def test_a_loop_has_one_condition() -> None:
    with pytest.raises(GraphError, match="while_ or until, not both"):
        loop("a", while_="b", until="c")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("done", "done"),
        ("", ""),
        ("$x.id", "$x.id"),
        (ref("x")["id"], "$x.id"),
        (7, "7"),
        (False, "false"),
        ([1, {"a": None}], '[1,{"a":null}]'),
    ],
)
def test_a_break_value_is_text_or_json(value: Any, text: str | None) -> None:
    assert json.loads(break_(value).query or "") == {"break_value": text}


def test_a_break_value_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueRefused, match=r"break_\(\)\[0\] is nan"):
        break_([math.nan])


@pytest.mark.parametrize(
    ("duration", "query"),
    [
        (0, "0"),
        (5, "5"),
        (0.5, "0.5"),
        (2.0, "2"),
        (1e-6, "0.000001"),
        ("10 minutes", "600"),
        (datetime.timedelta(milliseconds=1500), "1.5"),
    ],
)
def test_a_sleep_is_stored_in_seconds(duration: object, query: str) -> None:
    assert sleep(duration) == Node("SLEEP", query=query)


def test_a_schedule_names_its_time_zone_when_it_is_not_utc() -> None:
    assert wait_for_schedule("0 9 * * 1").query == '{"cron_expr":"0 9 * * 1"}'
    assert wait_for_schedule("0 9 * * 1", "Europe/Berlin").query == (
        '{"cron_expr":"0 9 * * 1","timezone":"Europe/Berlin"}'
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("* * *",), r"Invalid cron expression '\* \* \*'"),
        (("* * * * *", "Mars"), "Unknown time zone 'Mars'"),
        ((5,), "cron_expr in WAIT_SCHEDULE must be text, not number"),
        (("* * * * *", None), "timezone in WAIT_SCHEDULE must be text, not null"),
    ],
)
def test_a_schedule_that_is_none_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        wait_for_schedule(*arguments)


@pytest.mark.parametrize(
    ("timeout", "stored"), [(None, None), (60, 60), ("1 hour", 3600), (2.0, 2)]
)
def test_a_time_out_is_stored_in_whole_seconds(timeout: object, stored: int | None) -> None:
    config = json.loads(wait_for_signal("ok", timeout).query or "")
    assert config == {"signal_name": "ok", "timeout_seconds": stored}


@pytest.mark.parametrize(
    ("name", "timeout", "message"),
    [
        ("", None, "Signal name cannot be empty"),
        ("s", 0, "Timeout must be positive"),
        ("s", 0.5, "Timeout must be a whole number of seconds up to 2147483647, not 0.5"),
        ("s", 2**31, "Timeout must be a whole number of seconds"),
        ("s", -1, "wait_for_signal.* is not a finite time of at least 0"),
    ],
)
def test_a_signal_that_is_none_is_refused(name: str, timeout: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        wait_for_signal(name, timeout)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("90 seconds", 90),
        ("1h30m", 5400),
        ("1 hour 30 minutes", 5400),
        ("1 day, 2 hours", 93600),
        ("  2 Weeks ", 1209600),
        ("250 ms", 0.25),
        ("0.5 s", 0.5),
        ("1.5min", 90),
        ("0 s", 0),
    ],
)
def test_text_gives_a_length_of_time(text: str, found: float) -> None:
    assert seconds(text, "x") == found


@pytest.mark.parametrize(
    "value",
    [
        *("", "soon", "90", "1 fortnight", "1 month", "10 minutes ago", "- 5 s", "1e3 s", "5 s s"),
        *(None, True, False, [1], {"s": 1}, b"5 s", 5j),
    ],
)
def test_what_is_no_length_of_time_is_refused(value: object) -> None:
    with pytest.raises(GraphError, match=r"^sleep\(\): .* is no length of time; use seconds, a "):
        sleep(value)


@pytest.mark.parametrize("value", [-1, -0.1, math.nan, math.inf, datetime.timedelta(-1)])
def test_a_length_of_time_is_finite_and_not_negative(value: object) -> None:
    with pytest.raises(GraphError, match="is not a finite time of at least 0"):
        sleep(value)


@pytest.mark.parametrize("value", [31557600001, "99999999 weeks", 10**400])
def test_nothing_waits_longer_than_a_thousand_years(value: object) -> None:
    with pytest.raises(GraphError, match="is longer than 1,000 years"):
        sleep(value)


@given(st.timedeltas(datetime.timedelta(0), datetime.timedelta(days=36_500)))
def test_a_timedelta_survives_to_the_microsecond(delta: datetime.timedelta) -> None:
    found = seconds(delta, "x")
    assert datetime.timedelta(seconds=found) == delta


@pytest.mark.parametrize("build", [join, race, loop, lambda step: if_("a", "b", step)])
def test_what_is_no_step_is_refused(build: Any) -> None:
    with pytest.raises(GraphError):
        build(7)
