"""The view of many runs: a table, its frame, and that no value becomes markup."""

from __future__ import annotations

import re

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.view_samples import at, listed
from workbench.views.runs_view import RunsView

FAILED = {"type": "UniqueViolation", "message": "duplicate\nkey", "sqlstate": "23505"}


def test_each_run_is_a_row() -> None:
    html = str(RunsView([listed("00000001"), listed("00000002", status="failed")]).html())
    body = html[html.index("<tbody>") :]
    assert body.count("<tr>") == 2
    assert re.findall(r"[0-9a-f]{8}", body) == ["00000001", "00000002"]


def test_a_row_says_status_duration_progress_and_error() -> None:
    row = listed("00000001", status="failed", steps_done=3, error=FAILED)
    assert (
        str(RunsView([row]))
        .splitlines()[2]
        .endswith("3/4 steps  1 min 35 s  nightly  duplicate key (23505)")
    )


def test_a_run_that_waits_for_an_attempt_is_retrying() -> None:
    row = listed("00000001", status="running", finished_at=None, retrying=True)
    assert RunsView([row]).df.loc["00000001", "state"] == "retrying"
    assert RunsView([row]).df.loc["00000001", "seconds"] == 120.0


def test_a_run_in_which_all_that_lives_waits_is_waiting_and_still_running() -> None:
    row = listed("00000001", status="running", finished_at=None, waiting=True)
    frame = RunsView([row]).df
    assert list(frame.loc["00000001", ["status", "state"]]) == ["running", "waiting"]
    assert "⏾ 00000001  waiting" in str(RunsView([row]))


def test_an_empty_list_says_how_to_start_a_run() -> None:
    assert "bench.start(graph)" in str(RunsView([]).html())


def test_a_long_list_is_cut_and_the_frame_is_not() -> None:
    view = RunsView([listed(f"{i:08x}") for i in range(1000)])
    assert str(view.html()).count("<tr>") == 201
    assert "and 800 more runs in .df" in str(view.html())
    assert len(view.df) == 1000


def test_the_frame_has_its_columns_and_dtypes_with_and_without_runs() -> None:
    text = str(pd.Series(["text"]).dtype)
    expected = {
        "label": text,
        "status": text,
        "state": text,
        "created_at": "datetime64[us, UTC]",
        "started_at": "datetime64[us, UTC]",
        "finished_at": "datetime64[us, UTC]",
        "seconds": "float64",
        "steps": "int64",
        "steps_done": "int64",
        "error": text,
        "restart_of": text,
        "submitted_by": text,
    }
    for view in (RunsView([]), RunsView([listed("00000001")], taken=at(5))):
        assert {str(k): str(v) for k, v in view.df.dtypes.items()} == expected
        assert view.df.index.name == "run_id"
        assert str(view.df.index.dtype) == text


PIECES = st.sampled_from(["<script>", "</td>", '"', "'", "<b>", "&", " "])


@given(evil=st.lists(PIECES).map("".join))
def test_no_value_of_a_run_becomes_markup(evil: str) -> None:
    error = {"type": evil, "message": evil, "sqlstate": evil}
    row = listed("00000001", label=evil, error=error, submitted_by=evil, restart_of_run_id=evil)
    html = str(RunsView([row], title=evil).html())
    assert not re.search(r"<script|<b>", html)
    assert html.count("</td>") == 7
