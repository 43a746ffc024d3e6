"""The view of engines: who is alive to execute runs.

`engines_html`, `engines_text` and `engines_frame` are pure functions of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from workbench.store.records import EngineRow
from workbench.views.base import View, page
from workbench.views.markup import Safe, tag
from workbench.views.status import STATUSES, badge
from workbench.views.words import as_of, count, duration, moment

if TYPE_CHECKING:
    import pandas

__all__ = ["EnginesView", "engines_frame", "engines_html", "engines_text"]

#: An engine's state looks like the status that means the same for a run.
_LOOKS: Final = {"alive": "running", "silent": "waiting", "stopped": "cancelled", "dead": "failed"}


class EnginesView(View):
    """A list of engines.

    Parameters:
        rows: what `store.monitor.list_engines` reads.
    """

    def __init__(self, rows: Sequence[EngineRow]) -> None:
        self.rows = tuple(rows)
        self.taken = rows[0].as_of if rows else datetime.now(UTC)

    @property
    def df(self) -> pandas.DataFrame:
        """One row an engine; see `engines_frame`."""
        return engines_frame(self.rows)

    def html(self) -> Safe:
        return engines_html(self.rows, self.taken)

    def __str__(self) -> str:
        return engines_text(self.rows, self.taken)

    def __repr__(self) -> str:
        return f"<EnginesView {count(len(self.rows), 'engine')}>"


def engines_frame(rows: Sequence[EngineRow]) -> pandas.DataFrame:
    """Return engines as a DataFrame, the youngest first.

    Index `engine_id`. Columns: `state` (alive, silent, stopped, dead), `role`, `host`, `version`
    (text); `pid`, `running` (int64); `handlers` (object, lists of names); `started_at`,
    `last_seen_at`, `ended_at` (datetime64[us, UTC]).
    """
    import pandas

    text = pandas.Series(["text"]).dtype
    times = "datetime64[us, UTC]"
    columns = {
        "state": ([r.state for r in rows], text),
        "role": ([r.role for r in rows], text),
        "host": ([r.host for r in rows], text),
        "pid": ([r.pid for r in rows], "int64"),
        "version": ([r.version for r in rows], text),
        "running": ([r.running for r in rows], "int64"),
        "handlers": ([r.handlers for r in rows], "object"),
        "started_at": ([r.started_at for r in rows], times),
        "last_seen_at": ([r.last_seen_at for r in rows], times),
        "ended_at": ([r.ended_at for r in rows], times),
    }
    index = pandas.Index([r.engine_id for r in rows], name="engine_id", dtype=text)
    return pandas.DataFrame(
        {name: pandas.Series(values, index, dtype) for name, (values, dtype) in columns.items()},
        index=index,
    )


def engines_text(rows: Sequence[EngineRow], taken: datetime) -> str:
    """Return engines as text, one a line."""
    lines = [f"Engines: {len(rows)}", ""]
    for row in rows:
        icon = STATUSES[_LOOKS[row.state]].icon
        place = f"{row.role} on {row.host}, pid {row.pid}"
        lines.append(
            f"{icon} {row.engine_id}  {row.state:<7}  {place}  {row.running} running  "
            f"since {moment(row.started_at)}, last seen {_ago(row)}"
        )
    if not rows:
        lines.append("none: bench.work() starts one here, `workbench worker` elsewhere")
    return "\n".join([*lines, "", as_of(taken)])


def engines_html(rows: Sequence[EngineRow], taken: datetime) -> Safe:
    """Return engines as a table."""
    heading = tag(
        "header",
        tag(
            "div",
            tag("span", "Engines", class_="wb-label"),
            tag("span", count(len(rows), "engine"), class_="wb-long wb-quiet"),
            class_="wb-head-line",
        ),
        class_="wb-head",
    )
    if not rows:
        hint = tag("p", "No engine is alive. ", tag("code", "bench.work()"), " starts one here.")
        return page("Engines", taken, heading, tag("div", hint, class_="wb-none"))
    names = (("state", None), ("engine", None), ("role", None), ("host", None), ("pid", "wb-num"),
             ("running", "wb-num"), ("since", None), ("last seen", None), ("handlers", None))  # fmt: skip
    head = tag("tr", [tag("th", name, class_=side, scope="col") for name, side in names])
    table = tag(
        "table", tag("thead", head), tag("tbody", [_row(row) for row in rows]), class_="wb-wide"
    )
    return page("Engines", taken, heading, tag("div", table, class_="wb-list", tabindex="0"))


def _row(row: EngineRow) -> Safe:
    handlers = ", ".join(row.handlers)
    return tag(
        "tr",
        tag("td", badge(_LOOKS[row.state], row.state)),
        tag("td", tag("code", row.engine_id, class_="wb-id")),
        tag("td", row.role),
        tag("td", row.host),
        tag("td", row.pid, class_="wb-num"),
        tag("td", row.running, class_="wb-num"),
        tag("td", moment(row.started_at)),
        tag("td", _ago(row)),
        tag("td", handlers, class_="wb-grow", title=handlers or None),
    )


def _ago(row: EngineRow) -> str:
    seconds = max(0.0, (row.as_of - row.last_seen_at).total_seconds())
    return f"{duration(seconds)} ago"
