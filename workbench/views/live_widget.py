"""The widget of a live view: a thin anywidget that shows HTML made in the kernel.

Imported only when a view is shown, because it needs anywidget. The kernel writes traits and the
front end sends messages, never the other way round, so that there is one writer. `live.js` has the
other half. Nothing is loaded from outside.
"""

from __future__ import annotations

import logging
from importlib import resources
from typing import Any

import anywidget
import traitlets

from workbench.views.base import stylesheet
from workbench.views.clock import milliseconds
from workbench.views.live import LiveView
from workbench.views.run_data import RunData
from workbench.views.run_view import run_html, signal_names

__all__ = ["LiveWidget"]

log = logging.getLogger("workbench")

_MIME = "application/vnd.jupyter.widget-view+json"


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


class LiveWidget(anywidget.AnyWidget):
    """Shows one view.

    Traits, all written here: `html`; `as_of`, milliseconds since 1970 by the database's clock;
    `state`, `live`, `stale` (wrong for now) or `over`; `reason` for being stale or over too early;
    `actions`, the buttons; `waits`, the signals that steps wait for; `outcome`, what came of the
    last action.
    """

    _esm = _file("live.js")
    _css = f"{stylesheet()}\n{_file('live.css')}"

    html = traitlets.Unicode().tag(sync=True)
    as_of = traitlets.Int().tag(sync=True)
    state = traitlets.Unicode("live").tag(sync=True)
    reason = traitlets.Unicode().tag(sync=True)
    actions = traitlets.List(traitlets.Unicode()).tag(sync=True)
    waits = traitlets.List(traitlets.Unicode()).tag(sync=True)
    outcome = traitlets.Dict().tag(sync=True)

    def __init__(self, view: LiveView, data: RunData) -> None:
        super().__init__(**self._traits_of(data))
        self._live = view
        self.on_msg(self._heard)
        self.comm.on_close(lambda message: view.drop())
        self.observe(self._closed, "comm")

    def mime_data(self) -> dict[str, Any]:
        """The entry of a cell's output that shows this widget."""
        return {_MIME: {"version_major": 2, "version_minor": 1, "model_id": self.model_id}}

    def draw(self, data: RunData) -> None:
        with self.hold_sync():
            for name, value in self._traits_of(data).items():
                setattr(self, name, value)

    def beat(self, data: RunData) -> None:
        self.as_of = milliseconds(data.run.as_of)

    def trouble(self, text: str, *, final: bool) -> None:
        with self.hold_sync():
            self.reason = text
            self.state = "over" if final else "stale"

    def answer(self, done: str, refusal: str) -> None:
        number = self.outcome.get("number", 0) + 1  # the same answer twice is two answers
        self.outcome = {"number": number, "done": done, "refusal": refusal}

    def _traits_of(self, data: RunData) -> dict[str, Any]:
        waits = [] if data.ended else signal_names(data)
        return {
            "html": str(run_html(data, style=False)),
            "as_of": milliseconds(data.run.as_of),
            "state": "over" if data.ended else "live",
            "reason": "",
            "actions": [] if data.ended else ["signal", "cancel"] if waits else ["cancel"],
            "waits": waits,
        }

    def _closed(self, change: Any) -> None:
        if change["new"] is None:
            self._live.drop()

    def _heard(self, widget: Any, content: Any, buffers: Any) -> None:
        """A message of the front end, on whichever thread: only handed over."""
        match content:
            case {"type": "shown", "front_end": str(front_end)}:
                self._live.shown(front_end)
            case {"type": "hidden", "front_end": str(front_end)}:
                self._live.hidden(front_end)
            case {"type": "act", "name": str(name), "signal": str(signal), "data": str(text)}:
                self._live.act(name, signal, text)
            case {"type": "act", "name": str(name)}:
                self._live.act(name)
            case _:
                log.warning("a live view does not know the message %.200r", content)
