"""`Run`: the handle of one run, as `bench.start` and `bench.get` return it.

It holds an id and asks the database for everything else, so that it shows the truth however old it
is. It follows `concurrent.futures.Future` where that has a word for something.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from workbench import run_texts
from workbench.errors import NotFound, RunCancelled, RunFailed, StateError, UsageError
from workbench.graph.codec import loads
from workbench.graph.node import Node
from workbench.graph.values import decode, encode
from workbench.store import acting, explain, monitor
from workbench.store.database import Database
from workbench.store.records import AttemptRow, Error, NodeRow, RunRow

if TYPE_CHECKING:
    import pandas

    from workbench.views.explain_view import ExplainView
    from workbench.views.run_data import RunData
    from workbench.views.run_view import RunView
    from workbench.views.timeline_view import TimelineView

__all__ = ["NodeResult", "Run"]

_KEPT_ITERATIONS = 100  # of each loop, in the database: what the timeline shows
_FINISHED = ("completed", "failed", "cancelled")
_PATIENCE = 4.0  # seconds of waiting after which a look at what is missing is worth it
_POLL = (0.01, 0.25)  # seconds between looks at a run that another engine executes: from, to


def _seconds(timeout: object) -> float | None:
    """A length of time in seconds, checked."""
    if timeout is None:
        return None
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
        raise UsageError(
            f"timeout takes seconds or a timedelta, not {timeout!r}: nothing was waited for"
        )
    return timeout


class Waiter(Protocol):
    """What a run needs of its bench: to have runs executed, to be told what happens to them, and a
    connection for showing them live.
    """

    def work_unless_held(self) -> bool: ...

    def wait_for_news(self, run_id: str, timeout: float) -> None: ...

    def watch(self, run_id: str, listener: Callable[[], None]) -> Callable[[], None]: ...

    def watching(self) -> Database: ...


@dataclass(frozen=True)
class NodeResult:
    """The value of one node of a run.

    Attributes
    ----------
    value:
        The JSON value; a SQL step's is `{"rows": [...], "row_count": n}`.
    columns:
        Name and PostgreSQL type of each column of a SQL result, in select-list order; None for
        other values.
    """

    value: Any
    columns: tuple[tuple[str, str], ...] | None = None

    @property
    def df(self) -> pandas.DataFrame:
        """The rows as a DataFrame with the dtypes that `pandas.read_sql` would give."""
        return self.frame()

    def frame(self, *, decimal: bool = False) -> pandas.DataFrame:
        """`df`; with `decimal`, numeric columns hold exact `Decimal` objects instead of float64."""
        from workbench.frames import frame

        return frame(self.value, self.columns, decimal=decimal)


class Run:
    """One execution of a graph. As a cell's last line it shows itself; `await run` gives its
    result.
    """

    def __init__(self, run_id: str, database: Database, waiter: Waiter) -> None:
        self.id = run_id
        self._database = database
        self._waiter = waiter

    # How it stands.

    def _row(self) -> RunRow:
        with self._database.connection() as conn:
            return monitor.run_row(conn, self.id)

    @property
    def status(self) -> str:
        """`pending`, `running`, `completed`, `failed` or `cancelled`."""
        with self._database.connection() as conn:
            return monitor.run_status(conn, self.id)

    @property
    def label(self) -> str | None:
        return self._row().label

    @property
    def error(self) -> Error | None:
        """Of a failed run the error that decided it, as plain data; of a cancelled one the
        reason.
        """
        return self._row().error

    def done(self) -> bool:
        """Whether the run has ended, in whatever way."""
        return self.status in _FINISHED

    @property
    def definition(self) -> Node:
        """The graph that the run executes."""
        with self._database.connection() as conn:
            return loads(monitor.definition(conn, self.id).graph)

    @property
    def input(self) -> Any:
        """The run's input, as later steps see it by the name `input`."""
        with self._database.connection() as conn:
            return decode(monitor.definition(conn, self.id).input)

    @property
    def nodes(self) -> list[NodeRow]:
        """All nodes in pre-order, with status, attempts, times and a preview of the result."""
        with self._database.connection() as conn:
            return monitor.run_nodes(conn, self.id)

    @property
    def attempts(self) -> list[AttemptRow]:
        """All ended attempts, in the order in which they ended."""
        with self._database.connection() as conn:
            return monitor.run_attempts(conn, self.id)

    @property
    def failure(self) -> AttemptRow | None:
        """The attempt that decided the run's failure; None unless the run failed."""
        row = self._row()
        if row.status != "failed" or row.error is None:
            return None
        node = row.error.get("node")
        ended = [
            a for a in self.attempts if a.node_id == node and a.outcome in ("failed", "worker_lost")
        ]
        return ended[-1] if ended else None

    def node(self, name: str | int) -> NodeRow:
        """A node by its name or its number in pre-order (`"staged"`, `3`, `"#3"`).

        Raises
        ------
        NotFound
            No node of this run is called so; the text lists the names.
        """
        nodes = self.nodes
        number = (
            name
            if isinstance(name, int)
            else int(name[1:])
            if name[:1] == "#" and name[1:].isdigit()
            else None
        )
        for node in nodes:
            if node.node_id == number or (number is None and node.result_name == name):
                return node
        names = (
            ", ".join(sorted({n.result_name for n in nodes if n.result_name})) or "none is named"
        )
        raise NotFound(
            f"run {self.id} has no node {name!r}; its names: {names}; its numbers: #0 to #{len(nodes) - 1}"
        )

    def __getitem__(self, name: str | int) -> NodeResult:
        """The result of a node, by its name or number: `run["staged"].df`.

        Raises
        ------
        NotFound
            There is no such node.
        StateError
            It has no result (yet).
        """
        node = self.node(name)
        with self._database.connection() as conn:
            result = monitor.node_result(conn, self.id, node.node_id)
        if result.json is None:
            move = (
                "run.failure has the error that decided"
                if self.done()
                else "run.wait() waits for the run to end"
            )
            raise StateError(
                f"node {name!r} of run {self.id} is {result.status} and has no result; {move}"
            )
        return NodeResult(decode(result.json), result.columns)

    # Waiting.

    def wait(self, timeout: float | timedelta | None = None) -> Run:
        """Wait until the run has ended, in whatever way; interrupting stops the waiting only.

        Says in a line what is missing when nothing can advance it.

        Parameters
        ----------
        timeout:
            Seconds, or a timedelta; None waits for as long as it takes.

        Raises
        ------
        TimeoutError
            The run goes on; the text says what it is doing.
        """
        limit = _seconds(timeout)
        began = time.monotonic()
        said = False
        pause = _POLL[0]
        look = _PATIENCE if self._waiter.work_unless_held() else 0.0
        while not self.done():
            waited = time.monotonic() - began
            if not said and waited >= look:
                said = self._say_what_is_missing()
                look = waited + _PATIENCE
            if limit is not None and (pause := min(pause, limit - waited)) <= 0:
                raise TimeoutError(run_texts.timed_out(self._row(), limit))
            self._waiter.wait_for_news(self.id, pause)
            pause = min(pause * 1.5, _POLL[1])
        return self

    def _say_what_is_missing(self) -> bool:
        """Print what keeps the run from going on; whether there was anything to say."""
        missing = self._row().waits_for
        if missing is not None:
            print(f"run {self.id} waits, {missing.replace('`', '')}")  # noqa: T201 - in the waiting cell
        return missing is not None

    def result(self, timeout: float | timedelta | None = None) -> Any:
        """Wait, then return the run's value: that of its last step.

        Raises
        ------
        RunFailed, RunCancelled
            It did not complete.
        TimeoutError
            It did not end within `timeout`.
        """
        if raised := self.exception(timeout):
            raise raised
        with self._database.connection() as conn:
            return decode(monitor.node_result(conn, self.id, 0).json or "null")

    def exception(
        self, timeout: float | timedelta | None = None
    ) -> RunFailed | RunCancelled | None:
        """Wait, then return what `result` would raise; None when the run completed."""
        row = self.wait(timeout)._row()
        if row.status == "failed":
            return RunFailed(run_texts.failed(row, self.nodes))
        return RunCancelled(run_texts.cancelled(row)) if row.status == "cancelled" else None

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.to_thread(self.result).__await__()

    # Acting.

    def cancel(self, reason: str = "Cancelled by user") -> bool:
        """Cancel the run: at once, also when no engine is alive. A running SQL step is rolled back.

        Returns
        -------
        bool
            True when the run is now cancelled (also when it was before), False when it had ended
            otherwise.
        """
        with self._database.connection() as conn:
            return acting.cancel(conn, self.id, reason)

    def signal(self, name: str, data: Any = None) -> None:
        """Send a signal: a step that waits for one of this name goes on with `data`.

        Kept until a step takes it, when none waits yet.

        Parameters
        ----------
        name:
            As in `wait_for_signal`; upper and lower case differ.
        data:
            Any JSON value; later steps see it as `$step.data`.

        Raises
        ------
        NotFound
            There is no such run, or it is another role's.
        StateError
            The run has ended, or 1,000 signals of this name are unread.
        ValueRefused
            `data` holds something that JSON cannot.
        """
        text = encode(data, "data")
        with self._database.connection() as conn:
            acting.signal(conn, self.id, name, text)

    def retry_now(self, node: str | int | None = None) -> int:
        """End the wait for the next attempt at once: of a node, or of all that wait for one.

        Parameters
        ----------
        node:
            Its name or its number in pre-order (`"fetch"`, `3`, `"#3"`).

        Returns
        -------
        int
            How many waits ended.

        Raises
        ------
        NotFound
            There is no such run or node.
        StateError
            Nothing waits for another attempt.
        """
        name = f"#{node}" if isinstance(node, int) else node
        with self._database.connection() as conn:
            return acting.retry_now(conn, self.id, name)

    # Looking.

    def view(self) -> RunView:
        """The run's picture as of now: header, steps, result or error. As a cell's last line it
        stays live until the run ends.
        """
        from workbench.views.live import Source
        from workbench.views.run_view import RunView

        source = Source(
            fetch=lambda: self._data(self._waiter.watching()),
            subscribe=lambda listener: self._waiter.watch(self.id, listener),
            cancel=lambda: self._apart(_cancel_or_refuse),
            signal=lambda name, text: self._apart(
                lambda conn, run_id: acting.signal(conn, run_id, name, text)
            ),
        )
        return RunView(self._data(self._database), source=source)

    def explain(self) -> ExplainView:
        """What the run consists of and how far it is: the text of `df.explain`, and a picture."""
        from workbench.views.explain_view import ExplainView

        with self._database.connection() as conn:
            text = explain.explain(conn, self.id)
            rows = explain.run_rows(conn, self.id)
        return ExplainView(text, rows, run=self._data(self._database))

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
            fetch=lambda: self._data(self._waiter.watching(), _KEPT_ITERATIONS),
            subscribe=lambda listener: self._waiter.watch(self.id, listener),
        )
        return TimelineView(self._data(self._database, _KEPT_ITERATIONS), source)

    def _data(self, database: Database, iterations: int | None = None) -> RunData:
        from workbench.views.run_data import ATTEMPTS, ITERATIONS, RunData

        with database.connection() as conn:  # the run first: one that has ended changes no more
            return RunData(
                monitor.run_row(conn, self.id),
                monitor.run_nodes(conn, self.id),
                monitor.run_attempts(conn, self.id, ATTEMPTS),
                monitor.run_iterations(conn, self.id, iterations or ITERATIONS),
                monitor.unread_signals(conn, self.id),
            )

    def _apart(self, act: Callable[[psycopg.Connection[Any], str], None]) -> None:
        """Act over a connection of its own, for the others may be busy."""
        database = Database(self._database.dsn)
        try:
            with database.connection() as conn:
                act(conn, self.id)
        finally:
            database.close()

    def __repr__(self) -> str:
        try:
            return f"<Run {self.id} {self.status}>"
        except Exception:
            return f"<Run {self.id}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return self.view()._repr_mimebundle_(include, exclude)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Run)
            and other.id == self.id
            and other._database.dsn == self._database.dsn
        )

    def __hash__(self) -> int:
        return hash((self.id, self._database.dsn))


def _cancel_or_refuse(conn: psycopg.Connection[Any], run_id: str) -> None:
    if not acting.cancel(conn, run_id, "Cancelled by user"):
        status = monitor.run_status(conn, run_id)
        raise StateError(f"not cancelled: the run had already ended ({status})")
