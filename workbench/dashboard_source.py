"""What the dashboard is given: where it looks, and what its buttons do.

What is dear to read is read again only after ten times as long as that took: an open dashboard takes
a tenth of one connection's time at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

import psycopg

from workbench.apart import Apart
from workbench.errors import NotFound
from workbench.news import News
from workbench.run_reading import read_run
from workbench.store import activity, lineage, monitor
from workbench.store.database import Database
from workbench.store.records import RunsRow
from workbench.views.dashboard_data import DashboardData, Overview, Query
from workbench.views.dashboard_live import DashboardSource
from workbench.views.run_data import RunData

__all__ = ["Listing", "Reading", "dashboard_source"]

_DAY = timedelta(days=1)
_REST = 10  # times as long as a reading took

T = TypeVar("T")
Connection = psycopg.Connection[Any]
Listing = Callable[[Connection, str | None], list[RunsRow]]


class _Paced(Generic[T]):
    """Reads again, but not all the time."""

    def __init__(self, read: Callable[[Connection], T]) -> None:
        self._read = read
        self._value: T | None = None
        self._not_before = 0.0

    def __call__(self, conn: Connection) -> T:
        began = time.monotonic()
        if self._value is None or began >= self._not_before:
            self._value = self._read(conn)
            ended = time.monotonic()
            self._not_before = ended + _REST * (ended - began)
        return self._value


@dataclass
class Reading:
    """Reads what dashboards show.

    Parameters
    ----------
    listing:
        Reads the runs, those of one status when that is given.
    whole:
        Whether more is shown than runs.
    acts:
        Whether there are buttons that change things.
    """

    listing: Listing
    whole: bool
    acts: bool
    _overview: _Paced[Overview] = field(default_factory=lambda: _Paced(_overview), init=False)
    _runs: dict[str | None, _Paced[list[RunsRow]]] = field(default_factory=dict, init=False)

    def __call__(self, conn: Connection, query: Query) -> DashboardData:
        status = query.status
        if status not in self._runs:
            self._runs[status] = _Paced(lambda conn: self.listing(conn, status))
        return DashboardData(
            runs=self._runs[status](conn),
            as_of=lineage.now(conn),
            overview=self._overview(conn) if self.whole else None,
            selected=_selected(conn, query.selected) if query.selected else None,
            query=query,
            acts=self.acts,
        )


def _selected(conn: Connection, run_id: str) -> RunData | None:
    try:
        return read_run(conn, run_id)
    except NotFound:  # past retention
        return None


def _overview(conn: Connection) -> Overview:
    found = activity.activity(conn), lineage.failures(conn, _DAY)
    return Overview(*found, engines=monitor.unfinished(conn).engines)


def dashboard_source(
    reading: Reading, apart: Apart, watching: Callable[[], Database], news: News
) -> DashboardSource:
    """Return the source of live dashboards.

    Parameters
    ----------
    reading:
        Reads what they show.
    apart:
        What their buttons do.
    watching:
        Gives the connection of live views; raises when the bench is closed.
    news:
        Tells when the engine here has moved a run on.
    """

    def fetch(query: Query) -> DashboardData:
        with watching().connection() as conn:
            return reading(conn, query)

    return DashboardSource(
        fetch=fetch,
        subscribe=news.subscribe_all,
        cancel=apart.cancel,
        signal=apart.signal,
        try_now=apart.retry_now,
        retry=apart.retry,
        resume=apart.resume,
    )
