"""The view of a simulation: the picture of the timeline over the table of its attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.store.records import Error
from workbench.views.run_data import RunData
from workbench.views.step_detail import error_text
from workbench.views.timeline_view import TimelineView
from workbench.views.titles import title
from workbench.views.words import count

if TYPE_CHECKING:
    import pandas

__all__ = ["SimulationView", "attempts_frame"]


class SimulationView(TimelineView):
    """What would have happened. Shows itself as a timeline; `.df` is the attempts table."""

    @property
    def status(self) -> str:
        """How the run would have ended; `running` when it waits for a signal, or goes on."""
        return self.data.run.status

    @property
    def error(self) -> Error | None:
        """Why it would have failed."""
        return self.data.run.error

    @property
    def df(self) -> pandas.DataFrame:
        """One row an attempt; see `attempts_frame`."""
        return attempts_frame(self.data)

    def __repr__(self) -> str:
        return f"<SimulationView {self.status} after {count(len(self.data.attempts), 'attempt')}>"


def attempts_frame(data: RunData) -> pandas.DataFrame:
    """Return the attempts as a DataFrame, in the order of their ends.

    Columns: `node_id`, `attempt` (int64); `name`, `outcome`, `error`, `sqlstate`, `delay_source`
    (text); `started`, `ended` (float64, seconds from the start of the run); `delay` (float64,
    seconds until the next attempt).
    """
    import pandas

    text = pandas.Series(["text"]).dtype
    dtypes: dict[str, Any] = {
        "node_id": "int64", "name": text, "attempt": "int64", "outcome": text, "started": "float64",
        "ended": "float64", "error": text, "sqlstate": text, "delay": "float64",
        "delay_source": text,
    }  # fmt: skip
    names = {node.node_id: node.result_name or str(title(node)) for node in data.nodes}
    began = data.run.created_at
    rows = [
        {
            "node_id": row.node_id,
            "name": names[row.node_id],
            "attempt": row.attempt,
            "outcome": row.outcome,
            "started": ((row.started_at or row.finished_at) - began).total_seconds(),
            "ended": (row.finished_at - began).total_seconds(),
            "error": error_text(row.error) if row.error else None,
            "sqlstate": (row.error or {}).get("sqlstate"),
            "delay": row.delay,
            "delay_source": row.delay_source,
        }
        for row in data.attempts
    ]
    return pandas.DataFrame(
        {
            name: pandas.Series([row[name] for row in rows], dtype=kind)
            for name, kind in dtypes.items()
        }
    )
