"""The view of what differs between two runs: a row a difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.store.lineage_records import DiffRow
from workbench.views.base import View, page
from workbench.views.markup import Safe, tag
from workbench.views.words import count, one_line, shorten

if TYPE_CHECKING:
    import pandas

__all__ = ["DiffView"]

_LONGEST = 160  # characters of a value


class DiffView(View):
    """What differs.

    Parameters:
        rows: what `store.lineage.run_diff` reads.
        before: the run that is compared with; None when there is none.
        after: the run that was asked of.
    """

    def __init__(self, rows: Sequence[DiffRow], before: str | None, after: str) -> None:
        self.rows = tuple(rows)
        self.before = before
        self.after = after

    @property
    def df(self) -> pandas.DataFrame:
        """One row a difference: `what`, `name`, `before`, `after` (text; missing: not set there)."""
        import pandas

        names = ("what", "name", "before", "after")
        dtype = pandas.Series(["text"]).dtype
        columns = {n: pandas.Series([getattr(r, n) for r in self.rows], dtype=dtype) for n in names}
        return pandas.DataFrame(columns)

    def html(self) -> Safe:
        line = tag(
            "div",
            tag("span", self._title(), class_="wb-label"),
            tag("span", count(len(self.rows), "difference"), class_="wb-long wb-quiet"),
            class_="wb-head-line",
        )
        head = tag("header", line, class_="wb-head")
        if not self.rows:
            said = tag("div", tag("p", self._nothing()), class_="wb-none")
            return page("Differences", None, head, said)
        names = ("what", "name", self.before or "before", self.after)
        cells = tag("tr", [tag("th", name, scope="col") for name in names])
        table = tag(
            "table",
            tag("thead", cells),
            tag("tbody", [tag("tr", _cells(row)) for row in self.rows]),
            class_="wb-wide",
        )
        return page("Differences", None, head, tag("div", table, class_="wb-list", tabindex="0"))

    def __str__(self) -> str:
        if not self.rows:
            return self._nothing()
        lines = [
            f"{r.what} {r.name}".rstrip() + f": {_said(r.before)} → {_said(r.after)}"
            for r in self.rows
        ]
        return "\n".join([self._title(), "", *lines])

    def __repr__(self) -> str:
        return f"<DiffView {count(len(self.rows), 'difference')}>"

    def _title(self) -> str:
        return f"{self.before} → {self.after}" if self.before else self.after

    def _nothing(self) -> str:
        if self.before is None:
            return (
                f"Run {self.after} was started and made from no other; run.diff(other) compares it."
            )
        return f"Nothing that is known differs between {self.before} and {self.after}."


def _cells(row: DiffRow) -> list[Safe]:
    values = (row.before, row.after)
    return [
        tag("td", row.what),
        tag("td", row.name),
        *(
            tag("td", "not set", class_="wb-null")
            if value is None
            else tag("td", tag("code", _said(value)), title=value)
            for value in values
        ),
    ]


def _said(value: str | None) -> str:
    return "not set" if value is None else shorten(one_line(value), _LONGEST)
