"""`Bench`: one database of runs, and this process's engine for it. Made by `connect`.

Every call works in a cell, in a script and inside a running event loop: the engine has a thread of
its own, and people's calls go over an ordinary connection. What a call means is in the layers
below.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psycopg

from workbench.errors import StateError, UsageError
from workbench.graph.build import as_node
from workbench.graph.codec import loads
from workbench.graph.durations import seconds
from workbench.graph.handlers import set_namespace
from workbench.graph.node import Node
from workbench.graph.validate import validate
from workbench.graph.values import encode
from workbench.news import News
from workbench.own_engine import OwnEngine
from workbench.run import Run
from workbench.status import Status
from workbench.store import activity, explain, monitor, roles, starting, tables
from workbench.store.database import Database, conninfo, shown
from workbench.store.mappings import Settings, Variables
from workbench.store.migrate import SCHEMA_VERSION

if TYPE_CHECKING:
    import pandas

    from workbench.simulated import Outcomes
    from workbench.views.activity_view import ActivityView
    from workbench.views.engines_view import EnginesView
    from workbench.views.explain_view import ExplainView
    from workbench.views.runs_view import RunsView
    from workbench.views.simulation_view import SimulationView

__all__ = ["Bench", "Status", "connect"]

Seconds = float | int | timedelta

#: The open ones, by target and by whether an engine may run: kept here, for an engine at work needs
#: its bench also when nobody else holds that.
_benches: dict[tuple[str, bool], Bench] = {}
_lock = threading.Lock()


def connect(
    dsn: str | None = None,
    *,
    engine: bool = True,
    home: str | Path | None = None,
    namespace: str | None = None,
    secrets: Callable[[str], str | None] | None = None,
) -> Bench:
    """Open the workbench on a database.

    Parameters
    ----------
    dsn:
        A libpq connection string or URL (`postgresql://…`, also `postgresql+psycopg://…`). None
        takes the environment variable `WORKBENCH_DSN`, else the embedded server, which is started
        or attached to.
    engine:
        False never runs an engine here: for looking only.
    home:
        The embedded server's directory; None takes `WORKBENCH_HOME`, else the user's data
        directory.
    namespace:
        Stands for `__main__` in the stored names of handlers; in a notebook its file's stem does,
        without being told.
    secrets:
        Gives the value of a `secret("NAME")` in an HTTP step, None when it has none; None takes the
        environment variable of that name.

    Returns
    -------
    Bench
        The same one for the same target and `engine`, so that cells can be run again. No engine is
        started yet.

    Raises
    ------
    SchemaError
        The server has no schema `df` (make it with `migrate(dsn)`), a newer one, or somebody
        else's.
    EmbeddedError, DatabaseError
        The server cannot be started or reached.
    """
    if dsn is not None and home is not None:
        raise UsageError(
            "connect() takes a dsn or a home, not both: home is the embedded server's directory"
        )
    if namespace is not None:
        set_namespace(namespace)
    target = conninfo(dsn) if dsn is not None else starting.target(home)
    with _lock:
        bench = _benches.get((target, engine))
        if bench is None:
            bench = _benches[target, engine] = Bench(target, engine=engine)
    if secrets is not None:
        bench._own.secrets = secrets
    bench._say_what_waits()
    return bench


class Bench:
    """Starts runs and looks at them. `with connect() as bench:` closes it at the end."""

    def __init__(self, dsn: str, *, engine: bool = True) -> None:
        self._database = Database(dsn)
        self._views = Database(dsn)  # connects when a live view is shown
        self._news = News()
        self._own = OwnEngine(dsn, self._news, allowed=engine)
        self.closed = False
        with self._database.connection():
            pass  # refuse here, in connect(), what cannot be used

    # Starting.

    def start(
        self,
        graph: Node | str,
        *,
        input: Any = None,
        label: str | None = None,
        vars: Mapping[str, str] | None = None,
        max_attempts: int = 1,
        max_backoff: Seconds | str = 16,
        on_failure: str = "fail",
        database: str | None = None,
        idempotency_key: str | None = None,
        on_conflict: str = "return",
        connection: psycopg.Connection[Any] | None = None,
    ) -> Run:
        """Start a run of a graph.

        Parameters
        ----------
        graph:
            A graph, or SQL text for a single step.
        input:
            Any JSON value; steps see it by the name `input` (`$input.day`).
        label:
            Free text to find the run by, at most 1,000 characters.
        vars:
            Variables for `{name}` in steps, over those stored with `df.setvar`.
        max_attempts:
            Tries of a failing step, the first included.
        max_backoff:
            Upper bound of the wait between tries, in seconds, as a timedelta or as Postgres writes
            intervals ("10 minutes").
        on_failure:
            `fail`, or `continue` with the next iteration of an enclosing loop.
        database:
            Where SQL steps run, when not in the workbench's own database.
        idempotency_key, on_conflict:
            The same key, graph and input again return the run that is there (`return`), or cancel
            it and start anew (`replace`).
        connection:
            Start inside this connection's transaction: the run exists when, and only when, that
            commits.

        Raises
        ------
        GraphError, ValueRefused, UsageError
            The graph, the input or an argument was refused; nothing was stored.
        """
        node = as_node(graph)
        validate(node)
        call = starting.Start(
            graph=node.to_json(),
            label=label,
            database=database,
            max_attempts=max_attempts,
            max_backoff=max_backoff,
            on_failure=on_failure,
            idempotency_key=idempotency_key,
            on_conflict=on_conflict,
            input=encode(input, "input"),
            vars={} if vars is None else vars,
        )
        self._check_open()
        self.work_unless_held()  # before anything is stored: an engine may be refused here
        if connection is not None:
            return self._run(starting.start(connection, call))
        engine = self._own.running
        with self._database.connection() as conn:
            run = self._run(starting.start(conn, replace(call, tell=engine is None)))
        if engine is not None:
            engine.wake()
        return run

    def get(self, run: str | Run) -> Run:
        """The run with this id, or with the only id that begins so.

        Raises
        ------
        NotFound
            There is none, or several.
        """
        if isinstance(run, Run):
            return run
        if not isinstance(run, str):
            raise UsageError(f"bench.get() takes a Run or an id, not {type(run).__name__}")
        with self._database.connection() as conn:
            return self._run(monitor.resolve_prefix(conn, run))

    def _run(self, run_id: str) -> Run:
        return Run(run_id, self._database, self)

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
            Shows itself as a table; `.df` is the DataFrame behind it, index `run_id`.
        """
        from workbench.views.runs_view import RunsView

        with self._database.connection() as conn:
            return RunsView(monitor.list_runs(conn, status, label, since, limit))

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
        source = activity_source(self._database.dsn, self.watching, self._news)
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
        if not isinstance(what, Node | str):
            raise UsageError(
                f"explain() takes a graph, text or a Run, not {type(what).__name__}: wb.sql(…), "
                "wb.seq(…) and their like build graphs"
            )
        with self._database.connection() as conn:
            found = monitor.explained(conn, what if isinstance(what, str) else what.to_json())
            rows = explain.graph_rows(conn, found.graph) if found.graph else []
        if found.run is not None:
            return self._run(found.run).explain()
        graph = loads(found.graph) if found.graph else None
        return ExplainView(found.picture, rows, graph=graph)

    def simulate(
        self,
        graph: Node | str,
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

    # The engine.

    def work(self) -> Bench:
        """Run this process's engine, also after `hold`."""
        self._check_open()
        self._own.work()
        return self

    def hold(self) -> Bench:
        """Stop this process's engine: claims go back, and nothing starts it again but `work`."""
        self._own.hold()
        return self

    def work_unless_held(self) -> bool:
        """Have an engine running here, unless held or looking only; whether there is one."""
        return not self.closed and self._own.ensure() is not None

    def wait_for_news(self, run_id: str, timeout: float) -> None:
        """Return when the engine here has ended this run, or after `timeout` seconds."""
        self._news.wait(run_id, timeout)

    def watch(self, run_id: str, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener()` called whenever this process's engine has moved a run on.

        It is called on the engine's thread and must not block. What other engines do is not heard.

        Returns
        -------
        Callable
            Ends it; calling it again does nothing.
        """
        return self._news.subscribe(run_id, listener)

    def watching(self) -> Database:
        """The connection of live views: they show a run also while a cell's query is under way.

        Raises
        ------
        StateError
            The bench is closed.
        """
        self._check_open()
        return self._views

    # What runs see, and what engines go by.

    @property
    def vars(self) -> Variables:
        """The caller's variables, as a mapping: `bench.vars["region"] = "eu"`."""
        return Variables(self._database)

    @property
    def settings(self) -> Settings:
        """The settings of this database, as a mapping: `bench.settings["heartbeat_limit"]`."""
        return Settings(self._database)

    # Who may use it.

    def grant(self, role: str, *, http: bool = False) -> None:
        """Let a role start runs and execute its own; with `http`, also HTTP steps.

        Raises
        ------
        UsageError
            There is no such role; its name is written as it is stored, without quotes.
        DatabaseError
            This role may not let others in.
        """
        with self._database.connection() as conn:
            roles.grant_usage(conn, role, http=http)

    def revoke(self, role: str) -> None:
        """End whatever a role may do here; its runs stay. Errors as `grant`."""
        with self._database.connection() as conn:
            roles.revoke_usage(conn, role)

    def grant_read(self, role: str) -> None:
        """Let a role that uses the workbench look at one's own runs, those to come as well.

        Raises
        ------
        UsageError
            There is no such role.
        DatabaseError
            It may not use the workbench itself: `grant` comes first.
        """
        with self._database.connection() as conn:
            roles.grant_read(conn, role)

    def revoke_read(self, role: str) -> None:
        """Undo `grant_read`; nothing happens when there is nothing to undo."""
        with self._database.connection() as conn:
            roles.revoke_read(conn, role)

    # The database as a database.

    def query(self, sql: str, parameters: Any = None) -> pandas.DataFrame:
        """Rows of a query as a DataFrame; `%s` placeholders take `parameters`.

        Raises
        ------
        psycopg.Error
            The statement failed.
        """
        with self._database.connection() as conn:
            return tables.query(conn, sql, parameters)

    def load(self, frame: pandas.DataFrame, table: str, *, replace: bool = False) -> int:
        """Make a table of a DataFrame: columns by their dtypes, the index left out.

        Parameters
        ----------
        table:
            `name` or `schema.name`.
        replace:
            Drop a table of that name first; else it must not exist.

        Returns
        -------
        int
            Rows written.

        Raises
        ------
        UsageError
            The table exists, or the frame has no columns or doubly named ones.
        """
        with self._database.connection() as conn:
            return tables.load(conn, frame, table, replace=replace)

    # The end.

    def close(self) -> None:
        """Stop the engine, giving its claims back, and close the connection. Runs stay where they
        are.
        """
        self.closed = True
        key = self._database.dsn, self._own.allowed
        if _benches.get(key) is self:
            del _benches[key]
        self._own.stop()
        self._views.close()
        self._database.close()

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise StateError("this bench is closed: call workbench.connect() again")

    def _say_what_waits(self) -> None:
        with self._database.connection() as conn:
            runs, engines = monitor.unfinished(conn)
        if runs and not engines:
            print(  # noqa: T201 - the one line that connect() says in its cell
                f"{runs} {'run' if runs == 1 else 'runs'} unfinished, no engine alive: bench.work()"
            )

    def __repr__(self) -> str:
        state = "closed" if self.closed else self._own.state
        return f"<Bench {shown(self._database.dsn)}, {state}>"


@atexit.register
def _close_all() -> None:
    for bench in tuple(_benches.values()):
        bench.close()
