"""What the dashboard shows at one moment, and the question that it answers.

The list of runs alone is a dashboard without the other parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from workbench.store.activity import Activity
from workbench.store.lineage_records import FailureRow
from workbench.store.records import RunsRow
from workbench.views.activity_data import ActivityData
from workbench.views.run_data import RunData
from workbench.views.runs_view import state_of

__all__ = ["DashboardData", "Overview", "Query"]


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for: runs with this stored `status`, with `find` in their id, label or error; and
    the run that is `selected`.
    """

    status: str | None = None
    find: str = ""
    selected: str | None = None


@dataclass(frozen=True)
class Overview:
    """How things stand beyond single runs: what is unfinished, what failed within a day, and how many
    engines are alive.
    """

    activity: Activity
    failures: Sequence[FailureRow]
    engines: int

    @property
    def states(self) -> dict[str, int]:
        """How many live runs there are in each state, the worst first."""
        return ActivityData(self.activity).counts

    def same_as(self, other: Overview) -> bool:
        mine, theirs = ActivityData(self.activity), ActivityData(other.activity)
        return mine.same_as(theirs) and (self.failures, self.engines) == (
            other.failures,
            other.engines,
        )


@dataclass(frozen=True)
class DashboardData:
    """Runs, newest first, and the one that is selected.

    Attributes:
        overview: None where only runs are shown.
        selected: None when there is none, or it is gone.
        acts: whether there are buttons that change things.
    """

    runs: Sequence[RunsRow]
    as_of: datetime
    overview: Overview | None = None
    selected: RunData | None = None
    query: Query = Query()
    acts: bool = True

    @property
    def ended(self) -> bool:
        """There may always be another run."""
        return False

    @property
    def counts(self) -> Counter[str]:
        """How many of the runs there are of each state."""
        return Counter(map(state_of, self.runs))

    def chosen(self) -> list[RunsRow]:
        """The runs that the query asks for."""
        find = self.query.find.casefold()
        return [row for row in self.runs if not find or find in _text(row)]

    def same_as(self, other: DashboardData) -> bool:
        """Whether the other shows the same, but for time that has passed."""
        return (
            (self.query, self.acts) == (other.query, other.acts)
            and self._lasting() == other._lasting()
            and _same(self.selected, other.selected)
            and _same(self.overview, other.overview)
        )

    def _lasting(self) -> list[RunsRow]:
        return [replace(row, as_of=row.created_at) for row in self.runs]


def _same(mine: Any, theirs: Any) -> bool:
    return mine is theirs if mine is None or theirs is None else bool(mine.same_as(theirs))


def _text(row: RunsRow) -> str:
    error = (row.error or {}).get("message") or ""
    return f"{row.run_id} {row.label or ''} {error}".casefold()
