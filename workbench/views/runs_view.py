"""The view of many runs: a table, newest first.

`runs_html`, `runs_text` and `runs_frame` are pure functions of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from workbench.store.records import RunsRow
from workbench.views.base import View, page
from workbench.views.markup import Safe, tag
from workbench.views.status import STATUSES, badge
from workbench.views.step_detail import error_text
from workbench.views.words import as_of, count, duration, moment, one_line, shorten

if TYPE_CHECKING:
    import pandas

__all__ = [
    "RunsView",
    "error_of",
    "progress",
    "runs_frame",
    "runs_html",
    "runs_text",
    "seconds_of",
    "state_of",
]

_SHOWN = 200  # rows drawn; `.df` has them all


class RunsView(View):
    """A list of runs.

    Parameters:
        rows: what `store.monitor.list_runs` reads.
        taken: the moment they show; by default that of the first row, or now for none.
        title: what the list is, as a heading.
        live: the MIME data of a new live widget that shows them; None for one moment only.
    """

    def __init__(
        self,
        rows: Sequence[RunsRow],
        *,
        taken: datetime | None = None,
        title: str = "Runs",
        live: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._live = live
        self.rows = tuple(rows)
        self.title = title
        self.taken = taken or (rows[0].as_of if rows else datetime.now(UTC))

    @property
    def df(self) -> pandas.DataFrame:
        """One row a run; see `runs_frame`."""
        return runs_frame(self.rows)

    def html(self) -> Safe:
        return runs_html(self.rows, self.taken, self.title)

    def __str__(self) -> str:
        return runs_text(self.rows, self.taken, self.title)

    def __repr__(self) -> str:
        return f"<RunsView {count(len(self.rows), 'run')}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        static = super()._repr_mimebundle_(include, exclude)
        return static if self._live is None else static | self._live()


def runs_frame(rows: Sequence[RunsRow]) -> pandas.DataFrame:
    """Return runs as a DataFrame, newest first.

    Index `run_id`. Columns: `label`, `status` (as `run.status`), `state` (of a running run what
    goes on: running, retrying or waiting), `error`, `restart_of`, `submitted_by` (text);
    `created_at`, `started_at`, `finished_at` (datetime64[us, UTC]); `seconds` (float64, from start
    to end or to now); `steps`, `steps_done` (int64).
    """
    import pandas

    text = pandas.Series(["text"]).dtype
    times = "datetime64[us, UTC]"
    columns = {
        "label": ([r.label for r in rows], text),
        "status": ([r.status for r in rows], text),
        "state": ([state_of(r) for r in rows], text),
        "created_at": ([r.created_at for r in rows], times),
        "started_at": ([r.started_at for r in rows], times),
        "finished_at": ([r.finished_at for r in rows], times),
        "seconds": ([seconds_of(r) for r in rows], "float64"),
        "steps": ([r.steps for r in rows], "int64"),
        "steps_done": ([r.steps_done for r in rows], "int64"),
        "error": ([error_of(r) or None for r in rows], text),
        "restart_of": ([r.restart_of_run_id for r in rows], text),
        "submitted_by": ([r.submitted_by for r in rows], text),
    }
    index = pandas.Index([r.run_id for r in rows], name="run_id", dtype=text)
    return pandas.DataFrame(
        {name: pandas.Series(values, index, dtype) for name, (values, dtype) in columns.items()},
        index=index,
    )


def state_of(row: RunsRow) -> str:
    """Tell which status a run shows in a list, as `status.of_run` does for one whose steps are
    known.
    """
    return "retrying" if row.retrying else "waiting" if row.waiting else row.status


def runs_text(rows: Sequence[RunsRow], taken: datetime, title: str = "Runs") -> str:
    """Return runs as text, one a line."""
    lines = [f"{title}: {len(rows)}", ""]
    for row in rows[:_SHOWN]:
        status = state_of(row)
        seconds = seconds_of(row)
        parts = [
            f"{STATUSES[status].icon} {row.run_id}  {status:<9}  {moment(row.created_at)}",
            f"{row.steps_done}/{row.steps} steps",
            "" if seconds is None else duration(seconds),
            one_line(row.label or ""),
            error_of(row),
        ]
        lines.append("  ".join(part for part in parts if part))
    if len(rows) > _SHOWN:
        lines.append(f"and {len(rows) - _SHOWN:,} more in .df")
    return "\n".join([*lines, "", as_of(taken)])


def runs_html(rows: Sequence[RunsRow], taken: datetime, title: str = "Runs") -> Safe:
    """Return runs as a table."""
    heading = tag(
        "header",
        tag(
            "div",
            tag("span", title, class_="wb-label"),
            tag("span", count(len(rows), "run"), class_="wb-long wb-quiet"),
            class_="wb-head-line",
        ),
        tag("ul", [_tally(word, number) for word, number in _counts(rows)], class_="wb-facts"),
        class_="wb-head",
    )
    if not rows:
        nothing = tag("p", "No runs here. ", tag("code", "bench.start(graph)"), " starts one.")
        return page(title, taken, heading, tag("div", nothing, class_="wb-none"))
    more = len(rows) - _SHOWN
    return page(
        title,
        taken,
        heading,
        _table(rows[:_SHOWN]),
        tag("p", f"and {count(more, 'more run')} in .df", class_="wb-none") if more > 0 else None,
    )


def _counts(rows: Sequence[RunsRow]) -> list[tuple[str, int]]:
    words = [state_of(row) for row in rows]
    return [(word, words.count(word)) for word in STATUSES if word in words]


def _tally(word: str, number: int) -> Safe:
    return tag("li", badge(word, f"{number:,} {word}"))


def _table(rows: Sequence[RunsRow]) -> Safe:
    names = (("state", None), ("run", None), ("label", None), ("started", None),
             ("took", "wb-num"), ("steps", None), ("", None))  # fmt: skip
    head = tag("tr", [tag("th", name, class_=side, scope="col") for name, side in names])
    body = [_row(row) for row in rows]
    table = tag("table", tag("thead", head), tag("tbody", body), class_="wb-wide")
    return tag("div", table, class_="wb-list", tabindex="0")


def _row(row: RunsRow) -> Safe:
    seconds = seconds_of(row)
    error = error_of(row)
    look = f"wb-errline wb-is-{'failed' if row.parked else row.status}"
    return tag(
        "tr",
        tag("td", badge(state_of(row))),
        tag("td", tag("code", row.run_id, class_="wb-id")),
        tag("td", row.label or "", title=row.label),
        tag("td", moment(row.started_at or row.created_at)),
        tag("td", "" if seconds is None else duration(seconds), class_="wb-num"),
        tag("td", progress(row)),
        tag("td", tag("span", error, class_=look), class_="wb-grow", title=error or None),
    )


def progress(row: RunsRow) -> Safe:
    """Return how many of its steps a run has done, as a bar and in numbers."""
    share = 100 * row.steps_done / row.steps if row.steps else 0
    bar = tag("i", style=f"left:0;width:{share:.0f}%") if share else None
    return tag(
        "span",
        tag("span", bar, class_=f"wb-bar wb-is-{state_of(row)}", aria_hidden="true"),
        f"{row.steps_done:,}/{row.steps:,}",
        class_="wb-progress",
    )


def seconds_of(row: RunsRow) -> float | None:
    """Return how long a run has taken; None before it has started."""
    if row.started_at is None:
        return None
    return ((row.finished_at or row.as_of) - row.started_at).total_seconds()


def error_of(row: RunsRow) -> str:
    """Return why a run failed or is parked, in one line."""
    error = row.parked or row.error
    return shorten(one_line(error_text(error)), 200) if error else ""
