"""How the dashboard looks, as HTML and as text: pure functions of its data."""

from __future__ import annotations

from functools import cache
from importlib import resources

from workbench.store.activity import ActivityRow
from workbench.store.lineage_records import FailureRow
from workbench.store.records import RunsRow
from workbench.views.activity_html import reason_html, reason_text, state_badge
from workbench.views.base import page
from workbench.views.clock import At, lasting, milliseconds, said
from workbench.views.dashboard_data import DashboardData, Overview
from workbench.views.markup import Child, Safe, tag
from workbench.views.run_view import run_html
from workbench.views.runs_view import error_of, runs_text, seconds_of, state_of
from workbench.views.status import badge
from workbench.views.words import as_of, count, one_line, shorten

__all__ = ["dashboard_css", "dashboard_html", "dashboard_text"]

_RUNS = 100  # rows drawn
_ATTENTION = 6
_FAILURES = 5


@cache
def dashboard_css() -> Safe:
    """The looks that only this view has."""
    return Safe(resources.files(__package__).joinpath("dashboard.css").read_text("utf-8"))


def dashboard_html(data: DashboardData, *, live: bool = False) -> Safe:
    """Return runs beside the one that is selected, below how everything stands; when `live` with what
    the front end's buttons hang on.
    """
    run = data.selected.run if data.selected else None
    overview = data.overview
    return page(
        _name(data),
        data.as_of,
        None if live else tag("style", dashboard_css()),
        _head(data),
        _attention(overview, live) if overview else None,
        tag("div", _runs(data, live), _selected(data, live), class_="wb-board"),
        _failures(overview) if overview else None,
        style=not live,
        data_start=milliseconds(run.started_at or run.created_at) if run else None,
        data_end=milliseconds(run.finished_at) if run and run.finished_at else None,
    )


def dashboard_text(data: DashboardData) -> str:
    """Return the same as text: how everything stands, what needs attention, then the runs."""
    listed = runs_text(data.chosen(), data.as_of)
    if data.overview is None:
        return listed
    overview = data.overview
    lines = [f"Dashboard: {', '.join(_standing(overview))}", ""]
    for row in overview.activity.rows[:_ATTENTION]:
        label = f"  {one_line(row.label)}" if row.label else ""
        lines.append(f"{row.state:<8}  {row.run_id}{label}  {reason_text(row)}")
    if overview.activity.rows:
        lines.append("")
    lines += [
        f"{failure.attempts:>5}× {failure.code}: {one_line(failure.message)}"
        for failure in overview.failures[:_FAILURES]
    ]
    if overview.failures:
        lines.append("")
    body = listed.removesuffix("\n\n" + as_of(data.as_of))
    return "\n".join([*lines, body, "", as_of(data.as_of)])


def _name(data: DashboardData) -> str:
    return "Runs" if data.overview is None else "Dashboard"


def _standing(overview: Overview) -> list[str]:
    states = [f"{number:,} {state}" for state, number in overview.states.items()]
    failed = sum(row.attempts for row in overview.failures)
    attempts = [f"{count(failed, 'failed attempt')} within a day"] if failed else []
    return [*(states or ["nothing unfinished"]), *attempts, _alive(overview.engines)]


def _alive(engines: int) -> str:
    return f"{count(engines, 'engine')} alive" if engines else "no engine alive"


def _head(data: DashboardData) -> Safe:
    facts: list[Child] = []
    if data.overview is None:
        facts = [
            tag("li", badge(state, f"{number:,} {state}")) for state, number in data.counts.items()
        ]
    else:
        states = data.overview.states
        facts = [
            tag("li", state_badge(state, f"{number:,} {state}")) for state, number in states.items()
        ]
        facts += [tag("li", words) for words in _standing(data.overview)[len(states) or 1 :]]
        if not states:
            facts.insert(0, tag("li", "nothing unfinished"))
    read_only = None if data.acts else tag("span", "read only", class_="wb-meta")
    line = tag("div", tag("span", _name(data), class_="wb-label"), read_only, class_="wb-head-line")
    return tag("header", line, tag("ul", facts, class_="wb-facts"), class_="wb-head")


def _attention(overview: Overview, live: bool) -> Safe | None:
    """What is wedged, tried again or waits, the worst first."""
    rows = [row for row in overview.activity.rows if row.state != "working"]
    if not rows:
        return None
    more = len(rows) - _ATTENTION
    return tag(
        "div",
        tag("div", "what does not move", class_="wb-cap"),
        tag("ul", [_waiting(row, live) for row in rows[:_ATTENTION]], class_="wb-needs"),
        tag("div", f"… {count(more, 'more run')}: bench.activity()", class_="wb-fold")
        if more > 0
        else None,
        class_="wb-part",
    )


def _waiting(row: ActivityRow, live: bool) -> Safe:
    return tag(
        "li",
        state_badge(row.state),
        _pick(row.run_id, live, row.label),
        tag("span", reason_html(row), class_="wb-needs-why"),
        tag("span", lasting(row.idle_seconds, row.last_activity_at), " idle", class_="wb-meta"),
        data_key=f"needs {row.run_id}",
    )


def _pick(run_id: str, live: bool, label: str | None = None, *, selected: bool = False) -> Safe:
    """A run's label, else its id; in a live view pressing it shows that run."""
    look = "wb-run-label" if label else "wb-id"
    if not live:
        return tag("b" if label else "code", label or run_id, class_=look)
    return tag(
        "button",
        label or run_id,
        type="button",
        class_=f"wb-pick {look}",
        title=label,
        data_select=run_id,
        aria_pressed="true" if selected else "false",
    )


def _runs(data: DashboardData, live: bool) -> Safe:
    rows = data.chosen()
    if not rows:
        none = "No run is as you ask." if data.runs else "No runs yet: bench.start(graph)"
        return tag("div", tag("p", none), class_="wb-pane wb-pane-runs wb-none")
    names = (("state", None), ("run", None), ("steps", "wb-num"), ("took", "wb-num"))
    head = tag("tr", [tag("th", name, class_=side, scope="col") for name, side in names])
    chosen = data.query.selected
    body = [_row(row, live, selected=row.run_id == chosen) for row in rows[:_RUNS]]
    table = tag("table", tag("thead", head), tag("tbody", body), class_="wb-wide wb-runs")
    more = len(rows) - _RUNS
    return tag(
        "div",
        tag("div", table, class_="wb-list", tabindex="0", role="region", aria_label="runs"),
        tag("p", f"and {count(more, 'more run')} in .df", class_="wb-none") if more > 0 else None,
        class_="wb-pane wb-pane-runs",
    )


def _row(row: RunsRow, live: bool, *, selected: bool) -> Safe:
    seconds = seconds_of(row)
    state, error = state_of(row), error_of(row)
    began = row.started_at or row.created_at
    ticking = None if row.finished_at else row.started_at
    below: Child = said((At(began),), row.as_of)
    if row.label:
        below = [tag("code", row.run_id, class_="wb-id"), " · ", below]
    return tag(
        "tr",
        tag("td", badge(state)),
        tag(
            "td",
            _pick(row.run_id, live, row.label, selected=selected),
            tag("div", below, class_="wb-second"),
            tag("div", error, class_="wb-second wb-is-failed", title=error) if error else None,
            class_="wb-grow",
        ),
        tag("td", f"{row.steps_done:,}/{row.steps:,}", class_="wb-num"),
        tag("td", "" if seconds is None else lasting(seconds, ticking), class_="wb-num"),
        class_="wb-picked" if selected else None,
        data_key=row.run_id,
    )


def _selected(data: DashboardData, live: bool) -> Safe | None:
    if data.selected is None:
        if not live:
            return None
        hint = "Choose a run to see its steps." if data.runs else ""
        return tag("div", tag("p", hint), class_="wb-pane wb-pane-run wb-none")
    shown = run_html(data.selected, style=False)
    key = data.selected.run.run_id
    return tag("div", tag("div", shown, data_key=f"run {key}"), class_="wb-pane wb-pane-run")


def _failures(overview: Overview) -> Safe | None:
    if not overview.failures:
        return None
    more = len(overview.failures) - _FAILURES
    return tag(
        "div",
        tag("div", "failed within a day", class_="wb-cap"),
        tag("ul", [_failure(row) for row in overview.failures[:_FAILURES]], class_="wb-needs"),
        tag("div", f"… {count(more, 'more failure')}: bench.failures()", class_="wb-fold")
        if more > 0
        else None,
        class_="wb-part",
    )


def _failure(row: FailureRow) -> Safe:
    message = shorten(one_line(row.message), 300)
    return tag(
        "li",
        tag("span", f"{row.attempts:,}×", class_="wb-times"),
        tag("code", row.code),
        tag("span", message, class_="wb-needs-why", title=message),
        tag("span", f"step {row.node} · {count(row.runs, 'run')}", class_="wb-meta"),
        data_key=row.fingerprint,
    )
