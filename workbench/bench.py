"""`Bench`: one database of runs, and this process's engine for it. Made by `connect`.

Every call works in a cell, in a script and inside a running event loop: the engine has a thread of
its own, and people's calls go over an ordinary connection. What a call means is in the layers
below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any

import psycopg

from workbench.bench_database import Administration
from workbench.bench_lists import Lists
from workbench.graph.build import Step, as_node
from workbench.graph.validate import validate
from workbench.graph.values import encode
from workbench.run import Run
from workbench.status import Status
from workbench.store import monitor, starting
from workbench.store.database import shown

__all__ = ["Bench", "Status"]

Seconds = float | int | timedelta


class Bench(Lists, Administration):
    """Starts runs and looks at them. `with connect() as bench:` closes it at the end."""

    # Starting.

    def start(
        self,
        graph: Step,
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

    # The end.

    def close(self) -> None:
        """Stop the engine, giving its claims back, and close the connection. Runs stay where they
        are.
        """
        self.closed = True
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
