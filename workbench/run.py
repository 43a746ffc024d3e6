"""`Run`: the handle of one run, as `bench.start` and `bench.get` return it.

It holds an id and asks the database for everything else, so that it shows the truth however old it
is. It follows `concurrent.futures.Future` where that has a word for something.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from workbench import run_texts
from workbench.attempts import Attempt
from workbench.companion import companion
from workbench.errors import NotFound, RunCancelled, RunFailed, StateError, UsageError
from workbench.graph.node import Node
from workbench.graph.values import decode
from workbench.run_views import Looks
from workbench.store import monitor
from workbench.store.records import Error, NodeRow

if TYPE_CHECKING:
    import pandas

__all__ = ["NodeResult", "Run"]

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


class Run(Looks):
    """One execution of a graph. As a cell's last line it shows itself; `await run` gives its
    result.
    """

    # How it stands.

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
        return self._definition()

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
    def attempts(self) -> list[Attempt]:
        """All ended attempts, in the order in which they ended. Each shows what it executed."""
        with self._database.connection() as conn:
            rows = monitor.run_attempts(conn, self.id)
        return [Attempt.of(row, self) for row in rows]

    @property
    def failure(self) -> Attempt | None:
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

    def wait(self, timeout: float | timedelta | None = None, *, show: bool | None = None) -> Run:
        """Wait until the run has ended, in whatever way; interrupting stops the waiting only.

        While it waits a notebook shows the run's view, live, and a terminal a line of progress. Says
        in a line what is missing when nothing can advance it.

        Parameters
        ----------
        timeout:
            Seconds, or a timedelta; None waits for as long as it takes.
        show:
            Whether to show how the run stands; None: where a person looks.

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
        with companion(self, show) as shown:
            while not self.done():
                waited = time.monotonic() - began
                shown.look(waited)
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

    def result(self, timeout: float | timedelta | None = None, *, show: bool | None = None) -> Any:
        """Wait, as `wait` does, then return the run's value: that of its last step.

        Raises
        ------
        RunFailed, RunCancelled
            It did not complete.
        TimeoutError
            It did not end within `timeout`.
        """
        if raised := self.exception(timeout, show=show):
            raise raised
        with self._database.connection() as conn:
            return decode(monitor.node_result(conn, self.id, 0).json or "null")

    def exception(
        self, timeout: float | timedelta | None = None, *, show: bool | None = None
    ) -> RunFailed | RunCancelled | None:
        """Wait, then return what `result` would raise; None when the run completed."""
        row = self.wait(timeout, show=show)._row()
        if row.status == "failed":
            return RunFailed(run_texts.failed(row, self.nodes))
        return RunCancelled(run_texts.cancelled(row)) if row.status == "cancelled" else None

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.to_thread(self.result).__await__()

    def __repr__(self) -> str:
        try:
            return f"<Run {self.id} {self.status}>"
        except Exception:
            return f"<Run {self.id}>"
