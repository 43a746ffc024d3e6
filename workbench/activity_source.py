"""What the live activity view is given: where it looks, and what its buttons do to a run.

It looks over the connection of live views; buttons act over one of their own, for the others may be
busy.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg

from workbench.errors import StateError
from workbench.news import News
from workbench.store import acting, monitor
from workbench.store.activity import Activity, activity
from workbench.store.database import Database
from workbench.views.activity_live import ActivitySource

__all__ = ["activity_source"]


def activity_source(dsn: str, watching: Callable[[], Database], news: News) -> ActivitySource:
    """Return the source of a bench's live activity views.

    Parameters
    ----------
    dsn:
        The bench's database, for acting.
    watching:
        Gives the connection of live views; raises when the bench is closed.
    news:
        Tells when the engine here has moved a run on.
    """

    def fetch(idle: float) -> Activity:
        with watching().connection() as conn:
            return activity(conn, timedelta(seconds=idle))

    def act(what: Callable[[psycopg.Connection[Any]], object]) -> None:
        database = Database(dsn)
        try:
            with database.connection() as conn:
                what(conn)
        finally:
            database.close()

    return ActivitySource(
        fetch=fetch,
        subscribe=news.subscribe_all,
        cancel=lambda run: act(lambda conn: _cancel_or_refuse(conn, run)),
        retry_now=lambda run: act(lambda conn: acting.retry_now(conn, run)),
        signal=lambda run, name, text: act(lambda conn: acting.signal(conn, run, name, text)),
    )


def _cancel_or_refuse(conn: psycopg.Connection[Any], run_id: str) -> None:
    if not acting.cancel(conn, run_id, "Cancelled by user"):
        status = monitor.run_status(conn, run_id)
        raise StateError(f"not cancelled: the run had already ended ({status})")
