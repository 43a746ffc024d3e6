"""The timeline from sample runs: what lasted how long, and why each wait was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pandas
import pytest

from tests.unit.timeline_samples import case_five, everything, looping
from tests.unit.view_samples import at, attempt, node, run
from workbench.views.clock import milliseconds
from workbench.views.run_data import RunData
from workbench.views.timeline_data import Span, bounds, lines
from workbench.views.timeline_figure import figure, spec
from workbench.views.timeline_html import span_text, timeline_html, timeline_text
from workbench.views.timeline_view import TimelineView, timeline_frame


def spans(data: RunData, number: int, *, fold: bool = True) -> list[Span]:
    return [s for line in lines(data, fold=fold) for s in line.spans if s.node == number]


def brief(found: list[Span]) -> list[tuple[str, str, float | None]]:
    """Kind, word and seconds."""
    return [
        (s.kind, s.word, None if s.end is None else (s.end - s.start).total_seconds())
        for s in found
    ]


def test_failing_twice_and_passing_is_three_bars_and_two_labelled_waits() -> None:
    assert brief(spans(case_five(), 0)) == [
        ("attempt", "failed", 0.1),
        ("wait", "backoff", 1.0),
        ("attempt", "failed", 0.1),
        ("wait", "backoff", 2.0),
        ("attempt", "completed", 0.3),
    ]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, [("attempt", "completed", 2.0)]),
        (2, [("wait", "sleep", 6.0)]),
        (3, [("wait", "signal", None)]),
        (4, [("wait", "schedule", 32.0)]),
        (5, [("attempt", "failed", 2.0), ("wait", "http_retry_after", 25.0)]),
        (
            6,
            [
                ("attempt", "worker_lost", 11.0),
                ("wait", "worker_lost", 2.0),
                ("attempt", "running", None),
            ],
        ),
        (7, [("wait", "capacity", None)]),
    ],
)
def test_every_wait_has_its_source(number: int, expected: list[Any]) -> None:
    assert brief(spans(everything(), number)) == expected


def test_a_wait_that_somebody_ended_is_as_long_as_it_was() -> None:
    data = case_five()
    first, second, third = data.attempts
    data = replace(data, attempts=[replace(first, delay=600.0), second, third])
    assert brief(spans(data, 0))[1] == ("wait", "backoff", 1.05)


def test_waiting_longer_than_was_chosen_is_for_capacity() -> None:
    data = case_five()
    first, second, third = data.attempts
    late = replace(second, started_at=at(9.1), finished_at=at(9.2), delay=None, delay_source=None)
    data = replace(data, attempts=[first, late])
    assert brief(spans(data, 0))[1:3] == [("wait", "backoff", 1.0), ("wait", "capacity", 8.0)]
    assert third.attempt == 3


def test_loops_fold_to_iterations_and_unfold_to_all_attempts() -> None:
    loop = brief(spans(looping(), 0))
    assert loop == [
        ("iteration", "completed", 1.0),
        ("wait", "interval", 9.0),
        ("iteration", "abandoned", 1.0),
        ("wait", "interval", 9.0),
        ("iteration", "completed", 1.0),
        ("wait", "interval", 9.0),
        ("iteration", "running", None),
    ]
    assert brief(spans(looping(), 1)) == [("attempt", "running", None)]
    unfolded = spans(looping(), 1, fold=False)
    assert [(span.iteration, span.word) for span in unfolded] == [
        (1, "completed"),
        (2, "failed"),
        (3, "completed"),
        (None, "running"),
    ]


def test_a_wait_of_a_year_does_not_make_the_rest_invisible() -> None:
    data = RunData(
        run(as_of=at(10)),
        [
            node(
                0,
                None,
                None,
                "SLEEP",
                query="31536000",
                status="waiting",
                started_at=at(0),
                ready_at=at(31536000),
            )
        ],
    )
    first, last = bounds(data, lines(data))
    assert (first, last) == (at(0), at(10))


def test_the_figure_has_a_trace_a_word_and_a_now_line_while_live() -> None:
    data = everything()
    made = spec(data, lines(data))
    names = [trace["name"] for trace in made["data"]]
    assert names == [
        *("completed", "failed", "running", "worker lost", "Retry-After"),
        *("schedule", "signal", "sleep", "capacity"),
    ]
    hatched = {trace["name"]: "pattern" in trace["marker"] for trace in made["data"]}
    assert hatched == {name: name in names[4:] for name in names}
    assert made["layout"]["shapes"][0]["x0"] == milliseconds(data.as_of)
    growing = {names[trace] for trace, _ in made["open"]}
    assert growing == {"running", "signal", "capacity"}
    json.dumps(made)
    assert spec(case_five(), lines(case_five()))["layout"]["shapes"] == []


def test_hovering_says_error_sqlstate_delay_and_its_source() -> None:
    made = spec(case_five(), lines(case_five()))
    failed = next(trace for trace in made["data"] if trace["name"] == "failed")
    assert failed["hovertext"][1] == (
        "attempt 2 failed after 100 ms: e2 (40001)<br>OperationalError SQLSTATE 40001"
        "<br>next attempt 2.0 s later (backoff)"
    )


def test_values_of_runs_are_escaped_everywhere() -> None:
    nasty = {"type": "<i>", "message": "<script>x</script>"}
    data = RunData(
        run(label="<u>"),
        [node(0, None, None, "SQL", result_name="<b>", status="failed", attempt=1)],
        [attempt(0, 1, "failed", error=nasty)],
    )
    shown = json.dumps(spec(data, lines(data))) + timeline_html(data)
    for tag in ("<script>", "<u>", "<i>x", "<b>"):
        assert tag not in shown


def test_the_static_form_needs_no_script_and_the_text_draws_bars() -> None:
    html = timeline_html(everything())
    assert "<script" not in html
    assert html.count('role="row"') == 7
    assert "wb-nowline" in html
    text = timeline_text(case_five()).splitlines()
    assert text[2].startswith("fetch  ██░░░░")
    assert text[3].strip() == "; ".join(map(span_text, spans(case_five(), 0)))


def test_the_frame_has_fixed_columns_and_dtypes_also_when_it_is_empty() -> None:
    text = str(pandas.Series(["text"]).dtype)
    times = "datetime64[us, UTC]"
    expected = {
        "kind": text, "node_id": "int64", "name": text, "word": text, "attempt": "Int64",
        "iteration": "Int64", "started_at": times, "finished_at": times, "seconds": "float64",
        "error": text, "sqlstate": text, "delay": "float64", "delay_source": text,
    }  # fmt: skip
    for frame in (TimelineView(case_five()).df, timeline_frame([])):
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == expected
    frame = TimelineView(case_five()).df
    assert list(frame["seconds"]) == [0.1, 1.0, 0.1, 2.0, 0.3]
    assert list(frame["sqlstate"].dropna()) == ["40001"]


def test_a_plotly_figure_can_be_had() -> None:
    made = figure(case_five(), lines(case_five()))
    assert [trace.name for trace in made.data] == ["completed", "failed", "backoff"]
    assert made.data[0].marker.color == "#00704f"
