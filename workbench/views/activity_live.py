"""The activity view while it is shown: what it asks for, and what its buttons do.

`follow.Followed` looks, follows and fails; here is only what differs from the view of one run. The
question (how idle, which state, sorted how, which page) comes from the front end and stays with the
view, in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.store.activity import Activity
from workbench.views.activity_data import COLUMNS, STATES, ActivityData, Query
from workbench.views.follow import Face, Followed, present, unknown_button, updater

__all__ = ["ActivitySource", "LiveActivity", "widget"]

_LONGEST = 30 * 86_400.0  # seconds; further back the slider does not go


@dataclass(frozen=True)
class ActivitySource:
    """What the view is given by the layer that knows the database.

    Attributes:
        fetch: reads the live runs that have been idle for so many seconds.
        subscribe: has a callback called, on any thread, when any run moved on in this process;
            returns what ends that.
        cancel: cancels the run of this id, or raises what refuses it; may block, as the others.
        retry_now: ends a run's waits for another attempt.
        signal: sends a run a signal by its name and the text of its data.
    """

    fetch: Callable[[float], Activity]
    subscribe: Callable[[Callable[[], None]], Callable[[], None]]
    cancel: Callable[[str], None]
    retry_now: Callable[[str], None]
    signal: Callable[[str, str, str], None]


class LiveActivity(Followed[ActivityData]):
    """An activity view that is shown somewhere."""

    def __init__(
        self,
        source: ActivitySource,
        data: ActivityData,
        face: Callable[[LiveActivity, ActivityData], Face[ActivityData]],
    ) -> None:
        self.query = data.query
        self._source = source
        super().__init__(self._look_up, source.subscribe, data, face)

    def ask(self, changes: Mapping[str, Any]) -> None:
        """The front end wants something else; on any thread."""
        self.query = changed(self.query, changes)
        updater.add(self)

    def _look_up(self) -> ActivityData:
        query = self.query  # it may change meanwhile, and then there is another look
        return ActivityData(self._source.fetch(query.idle), query)

    def _done(self, name: str, *arguments: str) -> str:
        match name, *arguments:
            case ["cancel", run]:
                self._source.cancel(run)
                return f"{run} cancelled"
            case ["retry_now", run]:
                self._source.retry_now(run)
                return f"{run} tries again now"
            case ["signal", run, signal, text]:
                self._source.signal(run, signal, text.strip() or "null")
                return f"signal {signal} sent to {run}"
        raise unknown_button(name)


def changed(query: Query, changes: Mapping[str, Any]) -> Query:
    """Return the query with what a front end asks for; what it may not ask for is left out.

    Whatever changes what is shown leads back to the first page.
    """
    new = query
    match changes:
        case {"idle": float() | int() as idle} if 0 <= idle <= _LONGEST:
            new = replace(new, idle=float(idle), page=0)
    match changes:
        case {"state": str(state)}:
            new = replace(new, state=state if state in STATES else None, page=0)
    match changes:
        case {"find": str(find)}:
            new = replace(new, find=find[:200], page=0)
    match changes:
        case {"sort": str(sort)} if sort in COLUMNS:
            new = replace(new, sort=sort, backwards=sort == new.sort and not new.backwards, page=0)
    match changes:
        case {"page": int(page)} if page >= 0:
            new = replace(new, page=page)
    return new


def widget(source: ActivitySource, data: ActivityData) -> dict[str, Any]:
    """Return the MIME data of a new live widget; nothing where none can be shown."""
    return present(lambda: _shown(source, data))


def _shown(source: ActivitySource, data: ActivityData) -> LiveActivity:
    from workbench.views.activity_widget import ActivityWidget

    return LiveActivity(source, data, ActivityWidget)
