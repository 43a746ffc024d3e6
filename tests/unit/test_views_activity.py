"""The activity view from sample rows: order, filters, pages, words, the DataFrame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pandas
import pytest

from tests.unit.activity_samples import NOW, ROWS, activity, row
from workbench.errors import StateError
from workbench.store.activity import Activity
from workbench.views.activity_data import PAGE, ActivityData, Query
from workbench.views.activity_html import activity_html, activity_text
from workbench.views.activity_live import ActivitySource, LiveActivity, changed
from workbench.views.activity_view import ActivityView, activity_frame
from workbench.views.clock import milliseconds


def ids(data: ActivityData) -> list[str]:
    return [each.run_id for each in data.chosen()]


def test_the_worst_come_first() -> None:
    assert ids(activity(*reversed(ROWS))) == [
        *("aaaaaaa2", "aaaaaaa1", "bbbbbbb1", "ccccccc1", "ddddddd1"),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"state": "retrying"}, ["bbbbbbb1"]),
        ({"find": "RELEASE"}, ["ccccccc1"]),
        ({"find": "lock timeout"}, ["aaaaaaa2"]),
        ({"sort": "idle"}, ["ccccccc1", "aaaaaaa1", "ddddddd1", "bbbbbbb1", "aaaaaaa2"]),
        (
            {"sort": "run", "backwards": True},
            ["ccccccc1", "bbbbbbb1", "aaaaaaa1", "aaaaaaa2", "ddddddd1"],
        ),
    ],
)
def test_rows_are_filtered_and_sorted_here(query: dict[str, Any], expected: list[str]) -> None:
    assert ids(activity(*ROWS, **query)) == expected


def test_one_page_is_drawn_however_many_rows_there_are() -> None:
    many = [row(f"{number:08x}", "waiting", "wakes") for number in range(10_000)]
    first = activity_html(activity(*many), live=True)
    assert first.count("data-key=") == PAGE
    assert "1 to 50 of 10,000" in first
    last = activity_html(activity(*many, page=999), live=True)
    assert "9,951 to 10,000 of 10,000" in last


def test_moments_in_a_reason_are_elements_that_a_front_end_keeps_current() -> None:
    html = activity_html(activity(*ROWS))
    assert (
        f'3rd of 5 attempts in <span data-until="{milliseconds(NOW) + 6000}">6.0 s</span>' in html
    )
    assert 'since <time datetime="2026-11-30T09:12:05+00:00" data-short>' in html
    assert f'for <span data-since="{milliseconds(NOW) - 480_000}">8 min</span>' in html


def test_values_of_runs_are_escaped() -> None:
    nasty = row("eeeeeee1", "waiting", "waits for signal <script>", label="<i>", last_error="<b>")
    html = activity_html(activity(nasty))
    assert "<script>" not in html
    assert "<i>" not in html
    assert "<b>" not in html.partition("<tbody>")[2]


def test_a_state_is_never_colour_alone() -> None:
    html = activity_html(activity(*ROWS))
    for icon, word in (("⚠", "wedged"), ("↻", "retrying"), ("⏾", "waiting"), ("◉", "working")):
        assert f'>{icon}</span><span class="wb-word">{word}</span>' in html


def test_buttons_are_offered_where_they_can_do_something() -> None:
    html = activity_html(activity(*ROWS), live=True)
    assert 'data-run="aaaaaaa1" data-can="cancel"' in html
    assert 'data-run="bbbbbbb1" data-can="retry_now cancel"' in html
    assert 'data-run="ccccccc1" data-signal="approval" data-can="signal cancel"' in html


def test_the_static_form_has_no_buttons_and_says_as_of_when() -> None:
    html = activity_html(activity(*ROWS))
    assert "<button" not in html
    assert "as of 2026-11-30" in html


def test_the_text_has_a_line_a_run_and_its_error_below() -> None:
    lines = activity_text(activity(*ROWS, live=9, idle=60)).splitlines()
    assert lines[0] == "Activity: 5 of 9 live runs idle for at least 1 min"
    assert (
        lines[2] == "⚠ aaaaaaa1  wedged    lock wait: blocked by pid 4711 (UPDATE orders SET n=2)"
        " for 8 min  nightly orders  (idle 8 min)"
    )
    assert "            last error: e2 <b>" in lines


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (activity(), "Nothing is unfinished."),
        (
            activity(live=3, idle=600),
            "Nothing is idle for at least 10 min: all that is unfinished moves.",
        ),
        (activity(*ROWS, find="nowhere"), "No run is as you ask."),
    ],
)
def test_an_empty_table_says_why(data: ActivityData, expected: str) -> None:
    assert expected in activity_html(data)


def test_the_frame_has_fixed_columns_and_dtypes_also_when_it_is_empty() -> None:
    expected = {
        "label": "str", "state": "str", "reason": "str", "idle_seconds": "float64",
        "last_activity_at": "datetime64[us, UTC]", "running": "int64", "failed": "int64",
        "last_error": "str", "last_error_at": "datetime64[us, UTC]",
        "next_wake_at": "datetime64[us, UTC]", "node_id": "Int64", "attempt": "Int64",
        "max_attempts": "Int64", "abandoned": "int64", "engine_alive": "bool", "signal": "str",
        "status": "str", "submitted_by": "str",
    }  # fmt: skip
    text = str(pandas.Series(["text"]).dtype)
    expected = {name: text if kind == "str" else kind for name, kind in expected.items()}
    for rows in (ROWS, ()):
        frame = activity_frame(rows)
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == expected
        assert frame.index.name == "run_id"
    assert activity_frame(ROWS).loc["bbbbbbb1", "attempt"] == 3


def test_time_that_passes_is_no_change() -> None:
    later = timedelta(seconds=5)
    before = activity(*ROWS)
    moved = [
        replace(each, as_of=each.as_of + later, idle_seconds=each.idle_seconds + 5, reason="other")
        for each in ROWS
    ]
    after = ActivityData(Activity(tuple(moved), 5, NOW + later))
    assert after.same_as(before)
    assert not activity(*ROWS[:4], live=5).same_as(before)
    assert not activity(*ROWS, idle=60).same_as(before)


def test_what_a_front_end_may_not_ask_for_changes_nothing() -> None:
    query = Query(page=3)
    for nonsense in ({"idle": -1}, {"idle": "x"}, {"sort": "__class__"}, {"page": -1}, {"run": 1}):
        assert changed(query, nonsense) == query
    assert changed(query, {"state": "nonsense"}).state is None


def test_a_second_press_on_a_heading_turns_the_order_round() -> None:
    once = changed(Query(page=2), {"sort": "idle"})
    assert once == Query(sort="idle")
    assert changed(once, {"sort": "idle"}) == Query(sort="idle", backwards=True)
    assert changed(once, {"page": 1}) == Query(sort="idle", page=1)


class Face:
    """What a view is shown with, for a test to look at."""

    def __init__(self, view: LiveActivity, data: ActivityData) -> None:
        self.drawn: list[ActivityData] = []
        self.answers: list[tuple[str, str]] = []
        self.answered = threading.Event()

    def mime_data(self) -> dict[str, Any]:
        return {}

    def draw(self, data: ActivityData) -> None:
        self.drawn.append(data)

    def beat(self, data: ActivityData) -> None: ...

    def trouble(self, text: str, *, final: bool) -> None: ...

    def answer(self, done: str, refusal: str) -> None:
        self.answers.append((done, refusal))
        self.answered.set()

    def close(self) -> None: ...


def shown(**acts: Callable[..., None]) -> tuple[LiveActivity, Face, list[float]]:
    asked: list[float] = []

    def fetch(idle: float) -> Activity:
        asked.append(idle)
        return activity(*ROWS).activity

    def refuse(*_: str) -> None:
        raise StateError("not today")

    given = {"cancel": refuse, "retry_now": refuse, "signal": refuse} | acts
    source = ActivitySource(fetch=fetch, subscribe=lambda listener: lambda: None, **given)
    faces: list[Face] = []

    def face(view: LiveActivity, data: ActivityData) -> Face:
        faces.append(Face(view, data))
        return faces[0]

    view = LiveActivity(source, activity(*ROWS), face)
    return view, faces[0], asked


def test_what_the_front_end_asks_for_is_fetched_and_drawn() -> None:
    view, face, asked = shown()
    view.query = changed(view.query, {"idle": 600, "state": "wedged"})
    view.look()
    assert asked == [600.0]
    assert ids(face.drawn[-1]) == ["aaaaaaa1", "aaaaaaa2"]
    view.drop()


@pytest.mark.parametrize(
    ("button", "called", "said"),
    [
        (("cancel", "aaaaaaa1"), ("aaaaaaa1",), "aaaaaaa1 cancelled"),
        (("retry_now", "bbbbbbb1"), ("bbbbbbb1",), "bbbbbbb1 tries again now"),
        (
            ("signal", "ccccccc1", "approval", " "),
            ("ccccccc1", "approval", "null"),
            "signal approval sent to ccccccc1",
        ),
    ],
)
def test_a_button_acts_on_its_run_and_says_what_happened(
    button: tuple[str, ...], called: tuple[str, ...], said: str
) -> None:
    calls: list[tuple[str, ...]] = []
    view, face, _ = shown(**{button[0]: lambda *given: calls.append(given)})
    view.act(*button)
    assert face.answered.wait(10)
    assert calls == [called]
    assert face.answers == [(said, "")]
    view.drop()


def test_a_refused_button_says_why() -> None:
    view, face, _ = shown()
    view.act("retry_now", "aaaaaaa1")
    assert face.answered.wait(10)
    assert face.answers == [("", "not today")]
    view.drop()


def test_the_repr_counts() -> None:
    view = ActivityView(activity(*ROWS))
    assert repr(view) == "<ActivityView 5 runs: 2 wedged, 1 retrying, 1 waiting, 1 working>"
