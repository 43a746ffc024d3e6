"""What a bench shows of many runs: lists, what works and waits, failures, lineages, engines.

Every one is a view over plain data. The views of one run are in `run_views`.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from workbench.apart import Apart
from workbench.attempts import Attempt
from workbench.bench_base import Opened
from workbench.errors import NotFound, UsageError
from workbench.graph.build import AsNode, Step, as_node
from workbench.graph.codec import loads
from workbench.graph.durations import seconds
from workbench.graph.node import Node
from workbench.graph.validate import validate
from workbench.run import Run
from workbench.status import Status
from workbench.store import activity, explain, lineage, monitor
from workbench.store.database import shown
from workbench.store.lineage_records import FailureRow
from workbench.store.migrate import SCHEMA_VERSION
from workbench.store.records import RunsRow

if TYPE_CHECKING:
    from workbench.dashboard_source import Listing
    from workbench.simulated import Outcomes
    from workbench.views.activity_view import ActivityView
    from workbench.views.dashboard_data import DashboardData
    from workbench.views.dashboard_live import DashboardSource
    from workbench.views.dashboard_view import DashboardView
    from workbench.views.engines_view import EnginesView
    from workbench.views.explain_view import ExplainView
    from workbench.views.failures_view import FailuresView
    from workbench.views.flows_view import FlowsView
    from workbench.views.lineage_view import LineageView
    from workbench.views.runs_view import RunsView
    from workbench.views.simulation_view import SimulationView
    from workbench.views.unresolved_view import UnresolvedView

__all__ = ["Lists"]

Seconds = float | int | timedelta
Since = datetime | Seconds | str | None


class Lists(Opened):
    """The views of a `Bench`."""

    def runs(
        self,
        status: str | None = None,
        *,
        label: str | None = None,
        since: datetime | timedelta | None = None,
        limit: int = 100,
    ) -> RunsView:
        """Runs of this role, newest first.

        Parameters
        ----------
        status, label:
            Only those with this status or label.
        since:
            Only those created since then, or within the last timedelta.
        limit:
            At most so many.

        Returns
        -------
        RunsView
            As a cell's last line it is live, and shows the run that is chosen; `.df` is the
            DataFrame behind it, index `run_id`.
        """
        from workbench.views.dashboard_live import widget
        from workbench.views.runs_view import RunsView

        def listing(conn: psycopg.Connection[Any], chosen: str | None) -> list[RunsRow]:
            return monitor.list_runs(conn, chosen or status, label, since, limit)

        data, source = self._dashboard(listing, whole=False, acts=not is_voila())
        return RunsView(data.runs, taken=data.as_of, live=lambda: widget(source, data))

    def dashboard(self, *, read_only: bool | None = None) -> DashboardView:
        """Everything at a glance: runs, what does not move and why, failures, and one run in full.

        Parameters
        ----------
        read_only:
            Whether there are no buttons that change things; None says so under Voilà, where
            strangers may look.

        Returns
        -------
        DashboardView
            As a cell's last line it is live. `.df` is the DataFrame of the runs, index `run_id`.
        """
        from workbench.views.dashboard_view import DashboardView

        acts = not (is_voila() if read_only is None else read_only)
        return DashboardView(*self._dashboard(monitor.list_runs, whole=True, acts=acts))

    def _dashboard(
        self, listing: Listing, *, whole: bool, acts: bool
    ) -> tuple[DashboardData, DashboardSource]:
        """What a dashboard shows now, the newest run chosen, and what keeps it live."""
        from workbench.dashboard_source import Reading, dashboard_source
        from workbench.views.dashboard_data import Query

        reading = Reading(listing, whole, acts)
        source = dashboard_source(reading, self._apart(), self.watching, self._news)
        with self._database.connection() as conn:
            data = reading(conn, Query())
            if whole and data.runs:
                data = reading(conn, Query(selected=data.runs[0].run_id))
        return data, source

    def activity(self, idle_for: Seconds | str | None = None) -> ActivityView:
        """What is unfinished: which runs work, wait, try again or are wedged, and why.

        Parameters
        ----------
        idle_for:
            Only runs in which nothing has moved for so long: seconds, a timedelta, or text such as
            "10 minutes". None shows all.

        Returns
        -------
        ActivityView
            The worst first. Shows itself as a live table, with buttons; `.df` is the DataFrame
            behind it, index `run_id`.

        Raises
        ------
        UsageError
            `idle_for` is no length of time.
        """
        from workbench.activity_source import activity_source
        from workbench.views.activity_data import ActivityData, Query
        from workbench.views.activity_view import ActivityView

        idle = float(seconds(0 if idle_for is None else idle_for, "activity(idle_for=…)"))
        with self._database.connection() as conn:
            found = activity.activity(conn, timedelta(seconds=idle))
        source = activity_source(self._apart(), self.watching, self._news)
        return ActivityView(ActivityData(found, Query(idle=idle)), source)

    def explain(self, what: Node | Run | str) -> ExplainView:
        """What something would do, or a run does, without starting anything.

        Parameters
        ----------
        what:
            A graph; text: graph JSON, a SQL statement, an expression such as `'a' ~> 'b'` (it is
            evaluated), or a run's id; a Run.

        Returns
        -------
        ExplainView
            Its text is that of `df.explain`, `.df` the rows behind that; shows itself as a picture.

        Raises
        ------
        psycopg.Error
            An expression failed. What is no graph is told in the text.
        """
        from workbench.views.explain_view import ExplainView

        if isinstance(what, Run):
            return what.explain()
        if not isinstance(what, Node | str | AsNode):
            raise UsageError(
                f"explain() takes a graph, text or a Run, not {type(what).__name__}: wb.sql(…), "
                "wb.seq(…) and their like build graphs"
            )
        with self._database.connection() as conn:
            found = monitor.explained(
                conn, what if isinstance(what, str) else as_node(what).to_json()
            )
            rows = explain.graph_rows(conn, found.graph) if found.graph else []
        if found.run is not None:
            return self._run(found.run).explain()
        graph = loads(found.graph) if found.graph else None
        return ExplainView(found.picture, rows, graph=graph)

    def simulate(
        self,
        graph: Step,
        outcomes: Outcomes | None = None,
        *,
        max_attempts: int = 1,
        max_backoff: Seconds | str = 16,
        on_failure: str = "fail",
        at: datetime | None = None,
        most: int = 1000,
    ) -> SimulationView:
        """What would happen to a graph, on a virtual clock: nothing is stored, executed or waited
        for.

        Parameters
        ----------
        graph:
            A graph, or SQL text for a single step.
        outcomes:
            How the attempts of each step come out, by its name or number (`"fetch"`, `"#3"`): one
            of `Succeeds`, `Fails`, `Crashes`, an exception (also `RetryAfter`), or a list of them,
            an attempt each. What is not said succeeds with null.
        max_attempts, max_backoff, on_failure:
            As in `start`.
        at:
            When it begins, with a zone; schedules go by that. None is the beginning of 2000 in UTC.
        most:
            Attempts and waits after which to stop: a loop need not end.

        Returns
        -------
        SimulationView
            The timeline as a picture; `.df` is the table of attempts, `.status` how it would end.

        Raises
        ------
        UsageError
            The graph or an argument was refused, or the graph has no such step.
        """
        from workbench.simulated import checked_policy, simulate

        node = as_node(graph)
        validate(node)
        policy = checked_policy(max_attempts, max_backoff, on_failure)
        return simulate(node, outcomes or {}, policy, at, most)

    def lineage(self, run: Run | str) -> LineageView:
        """The tree of runs that a run is in, as `run.lineage()`.

        Parameters
        ----------
        run:
            A run, its id or the beginning of that.

        Raises
        ------
        NotFound
            There is no such run, or several.
        """
        return self.get(run).lineage()

    def unresolved_failures(self, since: Since = None) -> UnresolvedView:
        """Failed runs of which no retry, and no retry of a retry, has completed; the newest first.

        Parameters
        ----------
        since:
            Only runs that failed since then: a moment with a zone, or how long ago ("1 day",
            seconds, a timedelta). None shows all.

        Returns
        -------
        UnresolvedView
            Shows itself as a table; `.df` is the DataFrame behind it, index `run_id`.

        Raises
        ------
        UsageError
            `since` is no moment and no length of time.
        """
        from workbench.views.unresolved_view import UnresolvedView

        with self._database.connection() as conn:
            rows = lineage.unresolved_failures(conn, _since(since, "unresolved_failures"))
            return UnresolvedView(rows, lineage.now(conn))

    def failures(self, since: Since = "1 day", *, limit: int = 100) -> FailuresView:
        """What failed and how often: failed attempts whose messages differ only in their literals
        are one failure.

        Parameters
        ----------
        since:
            As in `unresolved_failures`, of attempts.
        limit:
            At most so many, those seen last.

        Returns
        -------
        FailuresView
            Opens to an example of each; `.attempt(fingerprint)` is that attempt. `.df` is the
            DataFrame behind it, index `fingerprint`.

        Raises
        ------
        UsageError
            `since` is no moment and no length of time, or the limit is below 1.
        """
        from workbench.views.failures_view import FailuresView

        with self._database.connection() as conn:
            rows = lineage.failures(conn, _since(since, "failures"), limit)
            as_of = lineage.now(conn)
        return FailuresView(rows, as_of, self._attempt)

    def _attempt(self, failure: FailureRow) -> Attempt:
        """The attempt that is a failure's example."""
        for attempt in self._run(failure.example_run_id).attempts:
            if (attempt.node_id, attempt.rev) == (failure.example_node_id, failure.example_rev):
                return attempt
        raise NotFound(
            f"the example of {failure.fingerprint} in run {failure.example_run_id} is not kept any more; "
            "look again: bench.failures()"
        )

    def engines(self, *, ended: bool = False) -> EnginesView:
        """Who is alive to execute runs: kernels and workers, of all roles.

        Parameters
        ----------
        ended:
            Also those that stopped or died.
        """
        from workbench.views.engines_view import EnginesView

        with self._database.connection() as conn:
            return EnginesView(monitor.list_engines(conn, ended=ended))

    def flows(self) -> FlowsView:
        """The versions of flows that runs were started with or that SQL defines, and their runs.

        Returns
        -------
        FlowsView
            Those of a flow together, the newest first; `.df` is the DataFrame behind it.
        """
        from workbench.views.flows_view import FlowsView

        with self._database.connection() as conn:
            return FlowsView(monitor.list_flows(conn), lineage.now(conn))

    def _apart(self) -> Apart:
        return Apart(self._database.dsn, self.work_unless_held)

    def status(self) -> Status:
        """Where this bench works and how: database, engine, notifications, what waits."""
        with self._database.connection() as conn:
            runs, engines = monitor.unfinished(conn)
        engine = self._own.running
        return Status(
            database=shown(self._database.dsn),
            schema_version=SCHEMA_VERSION,
            engine=None if engine is None else engine.id,
            listening=None if engine is None else engine.listening,
            unfinished_runs=runs,
            live_engines=engines,
        )


def is_voila() -> bool:
    """Whether this kernel serves a page of Voilà."""
    return os.environ.get("SERVER_SOFTWARE", "").startswith("voila")


def _since(since: Since, call: str) -> datetime | timedelta | None:
    """A moment, or how long ago."""
    if since is None or isinstance(since, datetime):
        return since
    return timedelta(seconds=float(seconds(since, f"{call}(since=…)")))
