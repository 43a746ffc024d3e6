"""The view of when everything in a run happened. As a cell's last line it can be zoomed and panned,
and follows a run that has not ended.

What happened is in `timeline_data`, how it looks in `timeline_figure` and `timeline_html`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.views.base import View
from workbench.views.follow import Face, Followed, present, unknown_button
from workbench.views.markup import Safe
from workbench.views.run_data import RunData
from workbench.views.step_detail import error_text
from workbench.views.timeline_data import Line, Span, lines
from workbench.views.timeline_figure import figure
from workbench.views.timeline_html import timeline_html, timeline_text
from workbench.views.words import one_line

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects

__all__ = ["LiveTimeline", "TimelineSource", "TimelineView", "timeline_frame"]


@dataclass(frozen=True)
class TimelineSource:
    """What the view is given by the layer that knows the run.

    Attributes:
        fetch: reads the run.
        subscribe: has a callback called, on any thread, when the run changed in this process;
            returns what ends that.
    """

    fetch: Callable[[], RunData]
    subscribe: Callable[[Callable[[], None]], Callable[[], None]]


class TimelineView(View):
    """Attempts and waits of one run, over time.

    Parameters:
        data: the run, with its attempts and iterations.
        source: where newer data comes from; with it the view is live until the run has ended.
    """

    def __init__(self, data: RunData, source: TimelineSource | None = None) -> None:
        self.data = data
        self._source = source

    @property
    def df(self) -> pandas.DataFrame:
        """One row an attempt, wait or iteration; see `timeline_frame`."""
        return timeline_frame(lines(self.data, fold=False))

    @property
    def figure(self) -> plotly.graph_objects.Figure:
        """The picture as a plotly figure, to go on with."""
        return figure(self.data, lines(self.data))

    def html(self) -> Safe:
        return timeline_html(self.data)

    def __str__(self) -> str:
        return timeline_text(self.data)

    def __repr__(self) -> str:
        return f"<TimelineView of run {self.data.run.run_id}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        static = super()._repr_mimebundle_(include, exclude)
        return static | present(lambda: _shown(self._source or _still(self.data), self.data))


class LiveTimeline(Followed[RunData]):
    """A timeline that is shown somewhere. It has no buttons that act on the run."""

    def __init__(
        self,
        source: TimelineSource,
        data: RunData,
        face: Callable[[LiveTimeline, RunData], Face[RunData]],
    ) -> None:
        super().__init__(source.fetch, source.subscribe, data, face)

    def _done(self, name: str, *arguments: str) -> str:
        raise unknown_button(name)


def _shown(source: TimelineSource, data: RunData) -> LiveTimeline:
    from workbench.views.timeline_widget import TimelineWidget

    return LiveTimeline(source, data, TimelineWidget)


def _still(data: RunData) -> TimelineSource:
    """The source of a view that only shows what it was made from."""
    return TimelineSource(lambda: data, lambda listener: lambda: None)


def timeline_frame(shown: Sequence[Line]) -> pandas.DataFrame:
    """Return a timeline as a DataFrame, step by step in the order of starts.

    Columns: `kind` (attempt, wait, iteration), `name`, `word` (the outcome, or the source of a
    wait), `error`, `sqlstate`, `delay_source` (text); `node_id` (int64); `attempt`, `iteration`
    (Int64); `started_at`, `finished_at` (datetime64[us, UTC]; missing while it goes on); `seconds`,
    `delay` (float64).
    """
    import pandas

    text = pandas.Series(["text"]).dtype
    times = "datetime64[us, UTC]"
    dtypes: dict[str, Any] = {
        "kind": text, "node_id": "int64", "name": text, "word": text, "attempt": "Int64",
        "iteration": "Int64", "started_at": times, "finished_at": times, "seconds": "float64",
        "error": text, "sqlstate": text, "delay": "float64", "delay_source": text,
    }  # fmt: skip
    rows = [_values(line, span) for line in shown for span in line.spans]
    return pandas.DataFrame(
        {
            name: pandas.Series([row[name] for row in rows], dtype=kind)
            for name, kind in dtypes.items()
        }
    )


def _values(line: Line, span: Span) -> dict[str, Any]:
    error = span.error or {}
    return {
        "kind": span.kind,
        "node_id": span.node,
        "name": one_line(line.name),
        "word": span.word,
        "attempt": span.attempt,
        "iteration": span.iteration,
        "started_at": span.start,
        "finished_at": span.end,
        "seconds": None if span.end is None else (span.end - span.start).total_seconds(),
        "error": error_text(error) if error else None,
        "sqlstate": error.get("sqlstate"),
        "delay": span.delay,
        "delay_source": span.delay_source,
    }
