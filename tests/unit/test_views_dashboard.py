"""The dashboard's picture, text and question: pure functions of its data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.activity_samples import row as activity_row
from tests.unit.view_samples import START, at, listed, node, run
from workbench.errors import StateError
from workbench.store.activity import Activity
from workbench.views.dashboard_data import DashboardData, Overview, Query
from workbench.views.dashboard_html import dashboard_html, dashboard_text
from workbench.views.dashboard_live import DashboardSource, LiveDashboard, changed
from workbench.views.dashboard_view import DashboardView
from workbench.views.run_data import RunData

ROWS = (listed("aaaa0001", label="<load>", status="running"), listed("aaaa0002", status="failed"))
OVERVIEW = Overview(
    Activity((activity_row("aaaa0001", "waiting", "waits"),), 1, START), (), engines=0
)
DATA = DashboardData(ROWS, START, OVERVIEW, query=Query(selected="aaaa0001"))


def test_everything_is_escaped_and_a_run_can_be_chosen_only_where_it_is_live() -> None:
    static, live = dashboard_html(DATA), dashboard_html(DATA, live=True)
    assert "<load>" not in static
    assert "data-select" not in static
    assert '<button type="button"' in live
    assert 'data-select="aaaa0001" aria-pressed="true"' in live


def test_the_text_says_how_everything_stands() -> None:
    said = dashboard_text(DATA)
    assert said.startswith("Dashboard: 1 waiting, no engine alive")
    assert "aaaa0002" in said
    assert "as of 2026-11-30" in said
    assert dashboard_text(replace(DATA, overview=None)).startswith("Runs: 2")


def test_the_frame_is_that_of_the_runs() -> None:
    assert list(DashboardView(DATA).df.index) == ["aaaa0001", "aaaa0002"]
    assert repr(DashboardView(DATA)) == "<DashboardView 2 runs>"


def test_time_that_passes_is_no_change() -> None:
    later = replace(DATA, as_of=at(9), runs=[replace(row, as_of=at(9)) for row in ROWS])
    assert DATA.same_as(later)
    assert not DATA.same_as(replace(later, runs=later.runs[:1]))
    assert not DATA.same_as(replace(later, selected=RunData(run(), [node(0, None, None, "SQL")])))
    assert not DATA.same_as(replace(later, overview=replace(OVERVIEW, engines=1)))


def test_words_are_looked_for_in_ids_labels_and_errors() -> None:
    found = replace(DATA, query=Query(find="LOAD")).chosen()
    assert [row.run_id for row in found] == ["aaaa0001"]


def test_a_front_end_asks_for_what_there_is_and_nothing_else() -> None:
    asked = changed(Query(), {"status": "failed", "find": "x", "selected": "aaaa0001", "sort": 7})
    assert asked == Query("failed", "x", "aaaa0001")
    assert changed(asked, {"status": "nope", "find": 3, "selected": None}) == asked
    assert changed(asked, {"status": ""}).status is None


@pytest.fixture
def source() -> DashboardSource:
    def refuse(*_: str) -> str:
        raise AssertionError("a read-only dashboard acted")

    never: Callable[..., None] = refuse  # type: ignore[assignment]
    return DashboardSource(
        lambda _: DATA, lambda _: lambda: None, never, never, never, refuse, refuse
    )


@pytest.mark.parametrize("act", ["cancel", "signal", "try_now", "retry", "resume", "nonsense"])
def test_a_read_only_dashboard_refuses_whatever_a_front_end_says(
    act: str, source: DashboardSource
) -> None:
    view = LiveDashboard(source, replace(DATA, acts=False), lambda view, data: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(StateError, match="read only"):
        view._done(act, "aaaa0001")
