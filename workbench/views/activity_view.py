"""The view of everything that is unfinished: what works, waits, is tried again or is wedged, why.

As a cell's last line it is live: `activity_live` looks again and again, `activity_widget` shows it.
What it looks like is in `activity_html`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from workbench.store.activity import ActivityRow
from workbench.views.activity_data import ActivityData
from workbench.views.activity_html import activity_html, activity_text, reason_text
from workbench.views.base import View
from workbench.views.markup import Safe
from workbench.views.words import count

if TYPE_CHECKING:
    import pandas

    from workbench.views.activity_live import ActivitySource

__all__ = ["ActivityView", "activity_frame"]


class ActivityView(View):
    """Live runs and the reason for every wait, the worst first.

    Parameters:
        data: what it shows.
        source: where a live view looks again and what its buttons do; None for one moment only.
    """

    def __init__(self, data: ActivityData, source: ActivitySource | None = None) -> None:
        self.data = data
        self._source = source

    @property
    def rows(self) -> tuple[ActivityRow, ...]:
        """The rows as they were read, the worst first."""
        return self.data.activity.rows

    @property
    def df(self) -> pandas.DataFrame:
        """One row a run; see `activity_frame`."""
        return activity_frame(self.rows)

    def html(self) -> Safe:
        return activity_html(self.data)

    def __str__(self) -> str:
        return activity_text(self.data)

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {state}" for state, number in self.data.counts.items())
        return f"<ActivityView {count(len(self.rows), 'run')}{': ' if counts else ''}{counts}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        static = super()._repr_mimebundle_(include, exclude)
        if self._source is None:
            return static
        from workbench.views.activity_live import widget

        return static | widget(self._source, self.data)


def activity_frame(rows: Sequence[ActivityRow]) -> pandas.DataFrame:
    """Return live runs as a DataFrame, the worst first.

    Index `run_id`. Columns: `label`, `state` (wedged, retrying, waiting, working), `reason`,
    `status`, `submitted_by`, `last_error`, `signal` (text); `idle_seconds` (float64);
    `last_activity_at`, `last_error_at`, `next_wake_at` (datetime64[us, UTC]); `running`, `failed`,
    `abandoned` (int64); `node_id`, `attempt`, `max_attempts` (Int64); `engine_alive` (bool).
    """
    import pandas

    text = pandas.Series(["text"]).dtype
    times = "datetime64[us, UTC]"
    dtypes: dict[str, Any] = {
        "label": text, "state": text, "reason": text, "idle_seconds": "float64",
        "last_activity_at": times, "running": "int64", "failed": "int64", "last_error": text,
        "last_error_at": times, "next_wake_at": times, "node_id": "Int64", "attempt": "Int64",
        "max_attempts": "Int64", "abandoned": "int64", "engine_alive": "bool", "signal": text,
        "status": text, "submitted_by": text,
    }  # fmt: skip
    index = pandas.Index([row.run_id for row in rows], name="run_id", dtype=text)
    columns = {
        name: pandas.Series(
            [reason_text(row) if name == "reason" else getattr(row, name) for row in rows],
            index,
            dtype,
        )
        for name, dtype in dtypes.items()
    }
    return pandas.DataFrame(columns, index=index)
