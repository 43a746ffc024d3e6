"""`Handle`: what every part of a run's handle stands on, its id, its database and its bench.

The parts are in `run_acts` and `run_views`; `run` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import psycopg

from workbench.store import monitor
from workbench.store.database import Database
from workbench.store.records import RunRow

__all__ = ["Handle", "Waiter"]


class Waiter(Protocol):
    """What a run needs of its bench: to have runs executed, to be told what happens to them, and a
    connection for showing them live.
    """

    def work_unless_held(self) -> bool: ...

    def wake(self) -> None: ...

    def wait_for_news(self, run_id: str, timeout: float) -> None: ...

    def watch(self, run_id: str, listener: Callable[[], None]) -> Callable[[], None]: ...

    def watching(self) -> Database: ...


class Handle:
    """A run by its id. Two are equal when they mean the same run."""

    def __init__(self, run_id: str, database: Database, waiter: Waiter) -> None:
        self.id = run_id
        self._database = database
        self._waiter = waiter

    @property
    def status(self) -> str:
        """`pending`, `running`, `completed`, `failed` or `cancelled`."""
        with self._database.connection() as conn:
            return monitor.run_status(conn, self.id)

    def _row(self) -> RunRow:
        with self._database.connection() as conn:
            return monitor.run_row(conn, self.id)

    def _apart(self, act: Callable[[psycopg.Connection[Any]], object]) -> None:
        """Act over a connection of its own, for the others may be busy."""
        database = Database(self._database.dsn)
        try:
            with database.connection() as conn:
                act(conn)
        finally:
            database.close()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Handle)
            and other.id == self.id
            and other._database.dsn == self._database.dsn
        )

    def __hash__(self) -> int:
        return hash((self.id, self._database.dsn))
