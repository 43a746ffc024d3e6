"""What the live activity view is given: where it looks, and what its buttons do to a run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from workbench.apart import Apart
from workbench.news import News
from workbench.store.activity import Activity, activity
from workbench.store.database import Database
from workbench.views.activity_live import ActivitySource

__all__ = ["activity_source"]


def activity_source(apart: Apart, watching: Callable[[], Database], news: News) -> ActivitySource:
    """Return the source of a bench's live activity views.

    Parameters
    ----------
    apart:
        What its buttons do.
    watching:
        Gives the connection of live views; raises when the bench is closed.
    news:
        Tells when the engine here has moved a run on.
    """

    def fetch(idle: float) -> Activity:
        with watching().connection() as conn:
            return activity(conn, timedelta(seconds=idle))

    return ActivitySource(
        fetch=fetch,
        subscribe=news.subscribe_all,
        cancel=apart.cancel,
        retry_now=apart.retry_now,
        signal=apart.signal,
    )
