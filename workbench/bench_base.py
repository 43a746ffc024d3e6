"""`Opened`: what every part of a bench stands on, its connections, its engine and its runs by id.

The parts are in `bench_lists` and `bench_database`; `bench` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from workbench.errors import StateError, UsageError
from workbench.news import News
from workbench.own_engine import OwnEngine
from workbench.run import Run
from workbench.store import monitor
from workbench.store.database import Database

__all__ = ["Opened"]


class Opened:
    """A database that is open, and this process's engine for it."""

    def __init__(self, dsn: str, *, engine: bool = True) -> None:
        self._database = Database(dsn)
        self._views = Database(dsn)  # connects when a live view is shown
        self._news = News()
        self._own = OwnEngine(dsn, self._news, allowed=engine)
        self.closed = False
        with self._database.connection():
            pass  # refuse here, in connect(), what cannot be used

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

    # The engine.

    def work(self) -> Self:
        """Run this process's engine, also after `hold`."""
        self._check_open()
        self._own.work()
        return self

    def hold(self) -> Self:
        """Stop this process's engine: claims go back, and nothing starts it again but `work`."""
        self._own.hold()
        return self

    def work_unless_held(self) -> bool:
        """Have an engine running here, unless held or looking only; whether there is one."""
        return not self.closed and self._own.ensure() is not None

    def wake(self) -> None:
        """Have the engine here, if there is one, look at what is new."""
        if (engine := self._own.running) is not None:
            engine.wake()

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

    def _check_open(self) -> None:
        if self.closed:
            raise StateError("this bench is closed: call workbench.connect() again")
