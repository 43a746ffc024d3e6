"""`Apart`: what the buttons of live views do to runs, each over a connection of its own.

The others may be busy: a button works on a thread while a cell runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from workbench.errors import StateError
from workbench.store import acting, lineage, monitor
from workbench.store.database import Database

__all__ = ["Apart"]


class Apart:
    """Acts on runs of one database.

    Parameters
    ----------
    dsn:
        The database.
    has_engine:
        Called before a run is made, so that something executes it.
    """

    def __init__(self, dsn: str, has_engine: Callable[[], object]) -> None:
        self._dsn = dsn
        self._has_engine = has_engine

    def cancel(self, run_id: str) -> None:
        """Cancel a run; StateError when it has ended already."""
        with self._connection() as conn:
            if not acting.cancel(conn, run_id, "Cancelled by user"):
                status = monitor.run_status(conn, run_id)
                raise StateError(f"not cancelled: the run had already ended ({status})")

    def retry_now(self, run_id: str) -> None:
        """End a run's waits for another attempt."""
        with self._connection() as conn:
            acting.retry_now(conn, run_id)

    def signal(self, run_id: str, name: str, text: str) -> None:
        """Send a run a signal with this text as its data."""
        with self._connection() as conn:
            acting.signal(conn, run_id, name, text)

    def retry(self, run_id: str) -> str:
        """Make a new run of a failed one; its id."""
        self._has_engine()
        with self._connection() as conn:
            return lineage.retry_run(conn, run_id)

    def resume(self, run_id: str) -> str:
        """Make a new run of a failed one with what that has completed; its id."""
        self._has_engine()
        with self._connection() as conn:
            return lineage.resume_run(conn, run_id)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        database = Database(self._dsn)
        try:
            with database.connection() as conn:
                yield conn
        finally:
            database.close()
