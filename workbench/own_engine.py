"""`OwnEngine`: the engine of this process for one database; running, held, or not allowed here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import psycopg

from workbench.engine.worker import Engine
from workbench.errors import StateError, WorkbenchError
from workbench.news import News

__all__ = ["OwnEngine"]


class OwnEngine:
    """Starts an engine when one is called for, and keeps it to one.

    Parameters
    ----------
    dsn:
        The database.
    news:
        Is told what the engine does.
    allowed:
        False for a bench that only looks.

    Attributes
    ----------
    secrets:
        Gives the value of a secret that an HTTP step refers to; may be replaced at any time.
    """

    def __init__(self, dsn: str, news: News, *, allowed: bool) -> None:
        self.allowed = allowed
        self.held = False
        self.secrets: Callable[[str], str | None] = os.environ.get
        self._dsn = dsn
        self._news = news
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    @property
    def running(self) -> Engine | None:
        """The engine, while its thread lives."""
        engine = self._engine
        return engine if engine is not None and engine.alive else None

    @property
    def state(self) -> str:
        """In words."""
        if self.running is not None:
            return "working"
        return "held" if self.held else "no engine started" if self.allowed else "looking only"

    def work(self) -> None:
        """Run, also after `hold`.

        Raises
        ------
        StateError
            No engine is allowed here.
        """
        if not self.allowed:
            raise StateError(
                "this bench was opened with engine=False: it only looks. Close it and connect() again "
                "to work here, or run `workbench worker` elsewhere."
            )
        self.held = False
        self.ensure()

    def hold(self) -> None:
        """Stop; only `work` starts it again."""
        self.held = True
        self.stop()

    def ensure(self) -> Engine | None:
        """Have an engine running, unless held or not allowed."""
        with self._lock:
            if self.held or not self.allowed:  # asked here: `hold` may have come in between
                return None
            if self.running is None:
                engine = Engine(self._dsn, secrets=self._secret)
                engine.on_change(self._news.heard)
                self._engine = engine  # also when it goes on trying after this
                try:
                    engine.start()
                except (WorkbenchError, psycopg.Error):
                    self._engine = None
                    raise
            return self._engine

    def _secret(self, name: str) -> str | None:
        return self.secrets(name)

    def stop(self) -> None:
        """End the engine in order, if there is one."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()
