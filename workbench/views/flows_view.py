"""The view of flows: which versions of each there are, and what became of their runs.

`flows_html`, `flows_text` and `flows_frame` are pure functions of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from workbench.store.records import FlowRow
from workbench.views.base import View, page
from workbench.views.markup import Safe, tag
from workbench.views.status import badge
from workbench.views.words import as_of, count, moment

if TYPE_CHECKING:
    import pandas

__all__ = ["FlowsView", "flows_frame", "flows_html", "flows_text"]


class FlowsView(View):
    """A list of flows, a row a version.

    Parameters:
        rows: what `store.monitor.list_flows` reads.
        taken: the moment, by the database's clock.
    """

    def __init__(self, rows: Sequence[FlowRow], taken: datetime) -> None:
        self.rows = tuple(rows)
        self.taken = taken

    @property
    def df(self) -> pandas.DataFrame:
        """One row a version; see `flows_frame`."""
        return flows_frame(self.rows)

    def html(self) -> Safe:
        return flows_html(self.rows, self.taken)

    def __str__(self) -> str:
        return flows_text(self.rows, self.taken)

    def __repr__(self) -> str:
        return f"<FlowsView {count(len({row.slug for row in self.rows}), 'flow')}>"


def flows_frame(rows: Sequence[FlowRow]) -> pandas.DataFrame:
    """Return versions of flows as a DataFrame, those of a flow together, the newest first.

    Index `flow`. Columns: `version`, `runs`, `unfinished`, `failed` (int64); `steps` (object, lists of
    names); `owner` (text); `created_at`, `last_started_at` (datetime64[us, UTC]).
    """
    import pandas

    text = pandas.Series(["text"]).dtype
    times = "datetime64[us, UTC]"
    columns = {
        "version": ([r.version for r in rows], "int64"),
        "steps": ([r.steps for r in rows], "object"),
        "runs": ([r.runs for r in rows], "int64"),
        "unfinished": ([r.unfinished for r in rows], "int64"),
        "failed": ([r.failed for r in rows], "int64"),
        "owner": ([r.owner for r in rows], text),
        "created_at": ([r.created_at for r in rows], times),
        "last_started_at": ([r.last_started_at for r in rows], times),
    }
    index = pandas.Index([r.slug for r in rows], name="flow", dtype=text)
    return pandas.DataFrame(
        {name: pandas.Series(values, index, dtype) for name, (values, dtype) in columns.items()},
        index=index,
    )


def flows_text(rows: Sequence[FlowRow], taken: datetime) -> str:
    """Return versions of flows as text, one a line."""
    lines = [f"Flows: {len({row.slug for row in rows})}", ""]
    for row in rows:
        started = f", last {moment(row.last_started_at)}" if row.last_started_at else ""
        lines.append(
            f"{row.slug} version {row.version}  {count(row.runs, 'run')} ({row.unfinished} unfinished, "
            f"{row.failed} failed){started}  {', '.join(row.steps)}"
        )
    if not rows:
        lines.append("none: bench.start(flow) notes one, and so does df.create_flow in SQL")
    return "\n".join([*lines, "", as_of(taken)])


def flows_html(rows: Sequence[FlowRow], taken: datetime) -> Safe:
    """Return versions of flows as a table."""
    flows = count(len({row.slug for row in rows}), "flow")
    heading = tag(
        "header",
        tag(
            "div",
            tag("span", "Flows", class_="wb-label"),
            tag("span", flows, class_="wb-long wb-quiet"),
            class_="wb-head-line",
        ),
        class_="wb-head",
    )
    if not rows:
        hint = tag("p", "No flow is known. ", tag("code", "bench.start(flow)"), " notes one.")
        return page("Flows", taken, heading, tag("div", hint, class_="wb-none"))
    names = (("flow", None), ("version", "wb-num"), ("runs", "wb-num"), ("unfinished", None),
             ("failed", None), ("last started", None), ("steps", None))  # fmt: skip
    head = tag("tr", [tag("th", name, class_=side, scope="col") for name, side in names])
    table = tag(
        "table", tag("thead", head), tag("tbody", [_row(row) for row in rows]), class_="wb-wide"
    )
    return page("Flows", taken, heading, tag("div", table, class_="wb-list", tabindex="0"))


def _row(row: FlowRow) -> Safe:
    steps = ", ".join(row.steps)
    last = moment(row.last_started_at) if row.last_started_at else "not started"
    return tag(
        "tr",
        tag("td", tag("b", row.slug)),
        tag("td", row.version, class_="wb-num"),
        tag("td", row.runs, class_="wb-num"),
        tag("td", badge("running", f"{row.unfinished:,}") if row.unfinished else None),
        tag("td", badge("failed", f"{row.failed:,}") if row.failed else None),
        tag("td", last),
        tag("td", steps, class_="wb-grow", title=steps or None),
    )
