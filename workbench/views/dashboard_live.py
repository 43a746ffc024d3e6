"""The dashboard while it is shown: what it asks for, and what its buttons do to the selected run.

`follow.Followed` looks, follows and fails. The question comes from the front end and stays with the
view, in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import StateError
from workbench.store.records import RUN_STATUSES
from workbench.views.dashboard_data import DashboardData, Query
from workbench.views.follow import Face, Followed, present, unknown_button, updater

__all__ = ["DashboardSource", "LiveDashboard", "widget"]


@dataclass(frozen=True)
class DashboardSource:
    """What the view is given by the layer that knows the database.

    Attributes:
        fetch: reads what a query asks for.
        subscribe: has a callback called, on any thread, when any run moved on in this process;
            returns what ends that.
        cancel: cancels the run of this id, or raises what refuses it; may block, as the others.
        signal: sends a run a signal by its name and the text of its data.
        try_now: ends a run's waits for another attempt.
        retry, resume: make a new run of a failed one; its id.
    """

    fetch: Callable[[Query], DashboardData]
    subscribe: Callable[[Callable[[], None]], Callable[[], None]]
    cancel: Callable[[str], None]
    signal: Callable[[str, str, str], None]
    try_now: Callable[[str], None]
    retry: Callable[[str], str]
    resume: Callable[[str], str]


class LiveDashboard(Followed[DashboardData]):
    """A dashboard that is shown somewhere."""

    def __init__(
        self,
        source: DashboardSource,
        data: DashboardData,
        face: Callable[[LiveDashboard, DashboardData], Face[DashboardData]],
    ) -> None:
        self.query = data.query
        self._acts = data.acts
        self._source = source
        super().__init__(self._look_up, source.subscribe, data, face)

    def ask(self, changes: Mapping[str, Any]) -> None:
        """The front end wants something else; on any thread."""
        self.query = changed(self.query, changes)
        updater.add(self)

    def _look_up(self) -> DashboardData:
        return self._source.fetch(self.query)

    def _done(self, name: str, *arguments: str) -> str:
        if not self._acts:
            raise StateError("this dashboard is read only: bench.dashboard(read_only=False)")
        match name, *arguments:
            case ["cancel", run]:
                self._source.cancel(run)
                return f"{run} cancelled"
            case ["signal", run, signal, text]:
                self._source.signal(run, signal, text.strip() or "null")
                return f"signal {signal} sent to {run}"
            case ["try_now", run]:
                self._source.try_now(run)
                return f"{run} tries again now"
            case ["retry", run]:
                return self._made("retried", run, self._source.retry(run))
            case ["resume", run]:
                return self._made("resumed", run, self._source.resume(run))
        raise unknown_button(name)

    def _made(self, how: str, run: str, made: str) -> str:
        """A new run is what people look for next."""
        self.ask({"selected": made})
        return f"{run} {how} as {made}"


def changed(query: Query, changes: Mapping[str, Any]) -> Query:
    """Return the query with what a front end asks for; what it may not ask for is left out."""
    found = query
    for key, value in changes.items():
        match key, value:
            case "status", None | "":
                found = replace(found, status=None)
            case "status", str(status) if status in RUN_STATUSES:
                found = replace(found, status=status)
            case "find", str(text):
                found = replace(found, find=text[:200])
            case "selected", str(run):
                found = replace(found, selected=run[:64])
    return found


def widget(source: DashboardSource, data: DashboardData) -> dict[str, Any]:
    """Return the MIME data of a new live widget; nothing where none can be shown."""
    return present(lambda: _shown(source, data))


def _shown(source: DashboardSource, data: DashboardData) -> LiveDashboard:
    from workbench.views.dashboard_widget import DashboardWidget

    return LiveDashboard(source, data, DashboardWidget)
