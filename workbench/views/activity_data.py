"""What the activity view shows at one moment: the rows, and the question they answer.

Filtering, sorting and paging are done here, in the kernel, so that a front end is sent one page
however many runs there are. How it looks is in `activity_html`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from workbench.store.activity import Activity, ActivityRow

__all__ = ["COLUMNS", "PAGE", "STATES", "ActivityData", "Query"]

STATES: Final = ("wedged", "retrying", "waiting", "working")
"""The worst first."""

PAGE = 50  # rows shown at once

_NEVER = float("inf")
_LASTING = attrgetter(
    *("run_id", "label", "state", "reason_parts", "last_activity_at", "running", "failed"),
    *("last_error", "next_wake_at", "node_id", "signal"),
)

#: What a column is sorted by; equal ones stay in the order of the query: the worst first.
COLUMNS: Final[dict[str, Callable[[ActivityRow], Any]]] = {
    "state": lambda row: STATES.index(row.state),
    "run": lambda row: ((row.label or "").casefold(), row.run_id),
    "reason": attrgetter("reason"),
    "idle": lambda row: -row.idle_seconds,  # the longest first
    "running": lambda row: -row.running,
    "failed": lambda row: -row.failed,
    "next wake": lambda row: row.next_wake_at.timestamp() if row.next_wake_at else _NEVER,
}


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for: runs idle for `idle` seconds, of one `state` if given, with `find` in
    their id, label, reason or error; sorted by a column, or the other way round; from a page, from
    0.
    """

    idle: float = 0.0
    state: str | None = None
    find: str = ""
    sort: str = "state"
    backwards: bool = False
    page: int = 0


@dataclass(frozen=True)
class ActivityData:
    """Rows that were read for `query.idle`, and what the rest of the query makes of them."""

    activity: Activity
    query: Query = Query()

    @property
    def as_of(self) -> datetime:
        return self.activity.as_of

    @property
    def ended(self) -> bool:
        """There may always be another run."""
        return False

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each state, the worst first."""
        found = Counter(row.state for row in self.activity.rows)
        return {state: found[state] for state in STATES if found[state]}

    def chosen(self) -> list[ActivityRow]:
        """The rows that the query asks for, sorted; all pages."""
        query, find = self.query, self.query.find.casefold()
        rows = [
            row
            for row in self.activity.rows
            if query.state in (None, row.state) and (not find or find in _text(row))
        ]
        rows.sort(key=COLUMNS.get(query.sort, COLUMNS["state"]), reverse=query.backwards)
        return rows

    def same_as(self, other: ActivityData) -> bool:
        """Whether the other shows the same, but for time that has passed."""
        return self.query == other.query and self._lasting() == other._lasting()

    def _lasting(self) -> tuple[Any, ...]:
        return self.activity.live, [_LASTING(row) for row in self.activity.rows]


def _text(row: ActivityRow) -> str:
    return " ".join((row.run_id, row.label or "", row.reason, row.last_error or "")).casefold()
