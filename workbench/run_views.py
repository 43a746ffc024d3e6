"""How a run is looked at: its picture, its explanation, its timeline, its lineage.

The views are in `workbench.views` and get plain data; what live ones fetch and what their buttons do
is put together here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from workbench.errors import StateError
from workbench.run_acts import Acts
from workbench.run_handle import Handle
from workbench.store import acting, explain, lineage, monitor
from workbench.store.database import Database
from workbench.store.lineage_records import DiffRow

if TYPE_CHECKING:
    import psycopg

    from workbench.views.diff_view import DiffView
    from workbench.views.explain_view import ExplainView
    from workbench.views.lineage_data import LineageData
    from workbench.views.lineage_view import LineageView
    from workbench.views.run_data import RunData
    from workbench.views.run_view import RunView
    from workbench.views.timeline_view import TimelineView

__all__ = ["Looks"]

_KEPT_ITERATIONS = 100  # of each loop, in the database: what the timeline shows
_SHOWN_ATTEMPTS = 10_000  # of a run, the last ones
_COMPARED = 50  # members of a lineage, the last ones, of which is said what differed


class Looks(Acts):
    """The views of a `Run`. As a cell's last line it shows itself."""

    def view(self) -> RunView:
        """The run's picture as of now: header, steps, result or error. As a cell's last line it
        stays live until the run ends.
        """
        from workbench.views.live import Source
        from workbench.views.run_view import RunView

        source = Source(
            fetch=lambda: self._data(self._waiter.watching()),
            subscribe=lambda listener: self._waiter.watch(self.id, listener),
            cancel=lambda: self._apart(self._cancel_or_refuse),
            signal=lambda name, text: self._apart(
                lambda conn: acting.signal(conn, self.id, name, text)
            ),
            try_now=lambda: self._apart(lambda conn: acting.retry_now(conn, self.id)),
            retry=lambda: self._beside(lambda run: run.retry()),
            resume=lambda: self._beside(lambda run: run.resume()),
        )
        return RunView(self._data(self._database), source=source)

    def progress_line(self) -> str:
        """How the run stands, in one line of a terminal."""
        from workbench.views.run_view import run_line

        return run_line(self._data(self._database))

    def explain(self) -> ExplainView:
        """What the run consists of and how far it is: the text of `df.explain`, and a picture."""
        from workbench.views.explain_view import ExplainView

        with self._database.connection() as conn:
            text = explain.explain(conn, self.id)
            rows = explain.run_rows(conn, self.id)
            scopes = explain.scope_rows(conn, self.id)
            held = explain.held_rows(conn, self.id)
        data = self._data(self._database)
        return ExplainView(text, rows, run=data, scopes=scopes, held=held)

    def timeline(self) -> TimelineView:
        """When everything happened: a bar an attempt, the waits between them with their source.

        Returns
        -------
        TimelineView
            As a cell's last line it can be zoomed and panned, and follows the run until it ends.
            `.df` has a row an attempt, wait or iteration; `.figure` is the plotly figure.
        """
        from workbench.views.timeline_view import TimelineSource, TimelineView

        source = TimelineSource(
            fetch=lambda: self._history(self._waiter.watching()),
            subscribe=lambda listener: self._waiter.watch(self.id, listener),
        )
        return TimelineView(self._history(self._database), source)

    def lineage(self) -> LineageView:
        """The tree of runs that this one is in: what was retried and resumed, and what became of it.

        Returns
        -------
        LineageView
            The same tree from each of its members, this one marked. As a cell's last line it is
            live; `.df` is the DataFrame behind it, index `run_id`.
        """
        from workbench.views.lineage_view import LineageSource, LineageView

        settled: dict[str, list[DiffRow]] = {}
        source = LineageSource(
            fetch=lambda: self._lineage(self._waiter.watching(), settled),
            subscribe=lambda listener: self._waiter.watch(self.id, listener),
            retry=lambda run_id: self._beside(lambda run: run.retry(), run_id),
        )
        return LineageView(self._lineage(self._database, settled), source)

    def diff(self, source: Handle | str | None = None) -> DiffView:
        """What differs between the run and the one it was made from: handlers, engine, settings.

        Parameters
        ----------
        source:
            Another run to compare with; None is the one that this was made from.

        Returns
        -------
        DiffView
            Empty for a run that was started. `.df` has `what`, `name`, `before`, `after`.

        Raises
        ------
        NotFound
            There is no such run, or it is not visible to this role.
        """
        from workbench.views.diff_view import DiffView

        other = source.id if isinstance(source, Handle) else source
        with self._database.connection() as conn:
            rows = lineage.run_diff(conn, self.id, other)
            before = other or monitor.run_row(conn, self.id).restart_of_run_id
        return DiffView(rows, before, self.id)

    def _data(self, database: Database) -> RunData:
        from workbench.run_reading import read_run

        with database.connection() as conn:
            return read_run(conn, self.id)

    def _history(self, database: Database) -> RunData:
        """The same with what a timeline shows."""
        from workbench.run_reading import read_run

        with database.connection() as conn:
            return read_run(conn, self.id, _KEPT_ITERATIONS, _SHOWN_ATTEMPTS)

    def _lineage(self, database: Database, settled: dict[str, list[DiffRow]]) -> LineageData:
        """Read the tree; what is known of runs that have ended is not read again."""
        from workbench.views.lineage_data import LineageData

        with database.connection() as conn:
            rows = lineage.lineage(conn, self.id)
            compared = [row for row in rows[-_COMPARED:] if row.restart_of_run_id]
            unknown = [row.run_id for row in compared if row.run_id not in settled]
            found = lineage.run_diffs(conn, unknown) if unknown else {}
            as_of = lineage.now(conn)
        diffs = settled | found
        settled.update({r.run_id: diffs[r.run_id] for r in compared if r.finished_at is not None})
        return LineageData(rows, diffs, self.id, as_of)

    def _cancel_or_refuse(self, conn: psycopg.Connection[Any]) -> None:
        if not acting.cancel(conn, self.id, "Cancelled by user"):
            status = monitor.run_status(conn, self.id)
            raise StateError(f"not cancelled: the run had already ended ({status})")

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return self.view()._repr_mimebundle_(include, exclude)
