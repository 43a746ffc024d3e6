"""The view of a lineage: the tree of restarts, the oldest at its root.

As a cell's last line it is live: a Retry button on every failed run that nobody has retried yet.
What it looks like is in `lineage_html`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.views.base import View
from workbench.views.follow import Face, Followed, present, unknown_button
from workbench.views.lineage_data import LineageData
from workbench.views.lineage_html import lineage_html, lineage_text, took, what_differed
from workbench.views.markup import Safe
from workbench.views.words import count

if TYPE_CHECKING:
    import pandas

__all__ = ["LineageSource", "LineageView", "LiveLineage", "lineage_frame"]


@dataclass(frozen=True)
class LineageSource:
    """What the view is given by the layer that knows the database.

    Attributes:
        fetch: reads the lineage.
        subscribe: has a callback called, on any thread, when the run changed in this process;
            returns what ends that.
        retry: retries the run of this id; the new run's id. May block.
    """

    fetch: Callable[[], LineageData]
    subscribe: Callable[[Callable[[], None]], Callable[[], None]]
    retry: Callable[[str], str]


class LineageView(View):
    """A tree of runs.

    Parameters:
        data: what it shows.
        source: where a live view looks again and what its buttons do; None for one moment only.
    """

    def __init__(self, data: LineageData, source: LineageSource | None = None) -> None:
        self.data = data
        self._source = source

    @property
    def df(self) -> pandas.DataFrame:
        """One row a run; see `lineage_frame`."""
        return lineage_frame(self.data)

    def html(self) -> Safe:
        return lineage_html(self.data)

    def __str__(self) -> str:
        return lineage_text(self.data)

    def __repr__(self) -> str:
        return f"<LineageView {count(len(self.data.rows), 'run')}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        static = super()._repr_mimebundle_(include, exclude)
        source = self._source
        return static if source is None else static | present(lambda: _shown(source, self.data))


def lineage_frame(data: LineageData) -> pandas.DataFrame:
    """Return a lineage as a DataFrame, in the order of the tree.

    Index `run_id`. Columns: `depth` (int64); `kind` (start, retry, resume), `status`, `label`,
    `restart_of`, `error`, `differs` (text; what differed from its source, among the last 50);
    `created_at`, `started_at`, `finished_at` (datetime64[us, UTC]); `seconds` (float64);
    `is_latest`, `is_current` (bool).
    """
    import pandas

    rows = data.rows
    text = pandas.Series(["text"]).dtype
    times = "datetime64[us, UTC]"
    columns = {
        "depth": ([r.depth for r in rows], "int64"),
        "kind": ([r.kind for r in rows], text),
        "status": ([r.status for r in rows], text),
        "label": ([r.label for r in rows], text),
        "restart_of": ([r.restart_of_run_id for r in rows], text),
        "created_at": ([r.created_at for r in rows], times),
        "started_at": ([r.started_at for r in rows], times),
        "finished_at": ([r.finished_at for r in rows], times),
        "seconds": ([took(data, r) for r in rows], "float64"),
        "error": ([r.error for r in rows], text),
        "differs": ([what_differed(data, r) or None for r in rows], text),
        "is_latest": ([r.is_latest for r in rows], "bool"),
        "is_current": ([r.run_id == data.current for r in rows], "bool"),
    }
    index = pandas.Index([r.run_id for r in rows], name="run_id", dtype=text)
    return pandas.DataFrame(
        {name: pandas.Series(values, index, dtype) for name, (values, dtype) in columns.items()},
        index=index,
    )


class LiveLineage(Followed[LineageData]):
    """A lineage that is shown somewhere."""

    def __init__(
        self,
        source: LineageSource,
        data: LineageData,
        face: Callable[[LiveLineage, LineageData], Face[LineageData]],
    ) -> None:
        self._source = source
        super().__init__(source.fetch, source.subscribe, data, face)

    def _done(self, name: str, *arguments: str) -> str:
        match name, *arguments:
            case ["retry", run]:
                return f"{run} retried as {self._source.retry(run)}"
        raise unknown_button(name)


def _shown(source: LineageSource, data: LineageData) -> LiveLineage:
    from workbench.views.lineage_widget import LineageWidget

    return LiveLineage(source, data, LineageWidget)
