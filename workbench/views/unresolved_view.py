"""The view of failures that nothing has resolved: a table, the newest failure first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from workbench.store.lineage_records import UnresolvedRow
from workbench.views.base import View, page
from workbench.views.clock import when
from workbench.views.markup import Safe, tag
from workbench.views.status import STATUSES, badge
from workbench.views.words import as_of, count, moment, one_line

if TYPE_CHECKING:
    import pandas

__all__ = ["UnresolvedView"]

_SHOWN = 200  # rows drawn; `.df` has them all


class UnresolvedView(View):
    """Failed runs without a completed descendant.

    Parameters:
        rows: what `store.lineage.unresolved_failures` reads.
        taken: the moment they show.
    """

    def __init__(self, rows: Sequence[UnresolvedRow], taken: datetime) -> None:
        self.rows = tuple(rows)
        self.taken = taken

    @property
    def df(self) -> pandas.DataFrame:
        """One row a run, the newest failure first.

        Index `run_id`. Columns: `label`, `error`, `restart_of`, `newest_retry`,
        `newest_retry_status` (text); `created_at`, `started_at`, `finished_at`
        (datetime64[us, UTC]).
        """
        import pandas

        rows = self.rows
        text = pandas.Series(["text"]).dtype
        times = "datetime64[us, UTC]"
        columns = {
            "label": ([r.label for r in rows], text),
            "created_at": ([r.created_at for r in rows], times),
            "started_at": ([r.started_at for r in rows], times),
            "finished_at": ([r.finished_at for r in rows], times),
            "error": ([r.error for r in rows], text),
            "restart_of": ([r.restart_of_run_id for r in rows], text),
            "newest_retry": ([r.newest_retry for r in rows], text),
            "newest_retry_status": ([r.newest_retry_status for r in rows], text),
        }
        index = pandas.Index([r.run_id for r in rows], name="run_id", dtype=text)
        return pandas.DataFrame(
            {n: pandas.Series(values, index, dtype) for n, (values, dtype) in columns.items()},
            index=index,
        )

    def html(self) -> Safe:
        line = tag(
            "div",
            tag("span", "Unresolved failures", class_="wb-label"),
            tag("span", count(len(self.rows), "run"), class_="wb-long wb-quiet"),
            class_="wb-head-line",
        )
        head = tag("header", line, class_="wb-head")
        if not self.rows:
            nothing = tag("p", "Nothing is broken that has not been mended since.")
            return page(
                "Unresolved failures", self.taken, head, tag("div", nothing, class_="wb-none")
            )
        names = ("run", "label", "failed", "newest retry", "error")
        cells = tag("tr", [tag("th", name, scope="col") for name in names])
        body = [_row(row) for row in self.rows[:_SHOWN]]
        table = tag("table", tag("thead", cells), tag("tbody", body), class_="wb-wide")
        more = len(self.rows) - _SHOWN
        rest = tag("p", f"and {count(more, 'more run')} in .df", class_="wb-none")
        return page(
            "Unresolved failures",
            self.taken,
            head,
            tag("div", table, class_="wb-list", tabindex="0"),
            rest if more > 0 else None,
        )

    def __str__(self) -> str:
        lines = [f"Unresolved failures: {len(self.rows)}", ""]
        for row in self.rows[:_SHOWN]:
            retry = f"retried as {row.newest_retry} ({row.newest_retry_status})"
            parts = [
                f"{STATUSES['failed'].icon} {row.run_id}  {moment(row.finished_at)}",
                one_line(row.label or ""),
                retry if row.newest_retry else "",
                row.error or "",
            ]
            lines.append("  ".join(part for part in parts if part))
        if len(self.rows) > _SHOWN:
            lines.append(f"and {len(self.rows) - _SHOWN:,} more in .df")
        return "\n".join([*lines, "", as_of(self.taken)])

    def __repr__(self) -> str:
        return f"<UnresolvedView {count(len(self.rows), 'run')}>"


def _row(row: UnresolvedRow) -> Safe:
    retry: list[Safe | str] = []
    if row.newest_retry and row.newest_retry_status:
        retry = [badge(row.newest_retry_status), " ", tag("code", row.newest_retry, class_="wb-id")]
    return tag(
        "tr",
        tag("td", tag("code", row.run_id, class_="wb-id")),
        tag("td", row.label or "", title=row.label),
        tag("td", when(row.finished_at)),
        tag("td", retry),
        tag(
            "td",
            tag("span", row.error or "", class_="wb-errline wb-is-failed"),
            class_="wb-grow",
            title=row.error,
        ),
    )
