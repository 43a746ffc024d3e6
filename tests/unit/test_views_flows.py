"""The view of flows: plain functions of rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from workbench.store.records import FlowRow
from workbench.views.flows_view import FlowsView

TAKEN = datetime(2026, 12, 1, 12, tzinfo=UTC)
ROW = FlowRow("shop", 2, ["pages", "<b>"], "me", TAKEN, TAKEN, runs=3, unfinished=1, failed=2)


def test_both_versions_of_a_flow_are_rows_of_the_frame() -> None:
    df = FlowsView([ROW, replace(ROW, version=1)], TAKEN).df
    assert df.index.name == "flow"
    assert list(df["version"]) == [2, 1]
    assert df["steps"].iloc[0] == ["pages", "<b>"]


def test_text_and_picture_say_the_same() -> None:
    view = FlowsView([ROW, replace(ROW, version=1, last_started_at=None)], TAKEN)
    assert "shop version 2  3 runs (1 unfinished, 2 failed)" in str(view)
    assert "pages, &lt;b&gt;" in view.html()
    assert "not started" in view.html()
    assert repr(view) == "<FlowsView 1 flow>"


def test_without_flows_it_says_how_to_make_one() -> None:
    view = FlowsView([], TAKEN)
    assert "bench.start(flow)" in str(view)
    assert "bench.start(flow)" in view.html()
