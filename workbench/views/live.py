"""The view of one run while it is shown: where its data comes from, and what its buttons do.

How a live view follows what it shows is in `follow`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.views.follow import Face, Followed, present, unknown_button, updater
from workbench.views.run_data import RunData

__all__ = ["LiveView", "Source", "updater", "widget"]


@dataclass(frozen=True)
class Source:
    """What a live view is given by the layer that knows the run.

    Attributes:
        fetch: reads the run. What it raises is shown; a `DatabaseError`, or what is not the
            workbench's own, may go by, everything else is final.
        subscribe: has a callback called, on any thread, when the run changed in this process;
            returns what ends that.
        cancel: cancels the run, or raises what refuses it; may block.
        signal: sends the run a signal by its name and the text of its data; likewise.
        try_now: ends its waits for another attempt.
        retry, resume: make a new run of the failed one; its id. None: not offered.
    """

    fetch: Callable[[], RunData]
    subscribe: Callable[[Callable[[], None]], Callable[[], None]]
    cancel: Callable[[], None]
    signal: Callable[[str, str], None]
    try_now: Callable[[], object]
    retry: Callable[[], str] | None = None
    resume: Callable[[], str] | None = None


class LiveView(Followed[RunData]):
    """One run's view that is shown somewhere.

    Parameters:
        source: where its data comes from.
        data: what it shows at first.
        face: makes what it is shown with.
    """

    def __init__(
        self, source: Source, data: RunData, face: Callable[[LiveView, RunData], Face[RunData]]
    ) -> None:
        self._source = source
        super().__init__(source.fetch, source.subscribe, data, face)

    def _done(self, name: str, *arguments: str) -> str:
        """Do what a button says; return what to say of it when the picture does not."""
        match name, *arguments:
            case ["cancel"]:
                self._source.cancel()
                return ""
            case ["signal", signal, text]:
                self._source.signal(signal, text.strip() or "null")
                return f"signal {signal} sent"
            case ["try_now"]:
                self._source.try_now()
                return "tries again now"
            case ["retry"] if self._source.retry:
                made = self._source.retry()
                return f'retried as {made}: bench.get("{made}")'
            case ["resume"] if self._source.resume:
                made = self._source.resume()
                return f'resumed as {made}: bench.get("{made}")'
        raise unknown_button(name)


def widget(source: Source, data: RunData) -> dict[str, Any]:
    """Return the MIME data of a new live widget; nothing where none can be shown."""
    return present(lambda: _shown(source, data))


def _shown(source: Source, data: RunData) -> LiveView:
    from workbench.views.live_widget import LiveWidget

    return LiveView(source, data, LiveWidget)
