"""The widget of a live view: a thin anywidget that shows HTML made in the kernel.

Imported only when a view is shown, because it needs anywidget. The kernel writes traits and the
front end sends messages, never the other way round, so that there is one writer. `front.js` has the
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
from workbench.views.follow import Followed, Shown

__all__ = ["FaceWidget", "HiddenWidget", "module", "style"]

log = logging.getLogger("workbench")

_MIME = "application/vnd.jupyter.widget-view+json"


def module(*names: str) -> str:
    """Return a view's JavaScript module: what all share, then its own files."""
    return "\n".join(map(_file, ["front.js", *names]))


def style(*names: str) -> str:
    """Return a live view's style sheet, with the files that it has of its own."""
    return "\n".join([stylesheet(), *map(_file, ["live.css", *names])])


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


class HiddenWidget(anywidget.AnyWidget):
    """Carries something that other widgets of the page need."""

    _esm = "export default {};"


class FaceWidget(anywidget.AnyWidget):
    """Shows one view; its subclasses say how data becomes traits.

    Traits, all written here: `html`; `as_of`, milliseconds since 1970 by the database's clock;
    `state`, `live`, `stale` (wrong for now) or `over`; `reason` for being stale or over too early;
    `outcome`, what came of the last action.
    """

    html = traitlets.Unicode().tag(sync=True)
    as_of = traitlets.Int().tag(sync=True)
    state = traitlets.Unicode("live").tag(sync=True)
    reason = traitlets.Unicode().tag(sync=True)
    outcome = traitlets.Dict().tag(sync=True)

    def __init__(self, view: Followed[Any], data: Shown) -> None:
        super().__init__(**self._all_traits(data))
        self._live = view
        self.on_msg(self._heard)
        self.comm.on_close(lambda message: view.drop())
        self.observe(self._closed, "comm")

    def _traits_of(self, data: Any) -> dict[str, Any]:
        """Return the traits that show this data, `html` among them."""
        raise NotImplementedError

    def _act(self, content: dict[str, Any]) -> bool:
        """Hand over what a front end asks for; False when it is not understood."""
        match content:
            case {"type": "act", "name": str(name)}:
                self._live.act(name)
                return True
        return False

    def mime_data(self) -> dict[str, Any]:
        """The entry of a cell's output that shows this widget."""
        return {_MIME: {"version_major": 2, "version_minor": 1, "model_id": self.model_id}}

    def draw(self, data: Shown) -> None:
        with self.hold_sync():
            for name, value in self._all_traits(data).items():
                setattr(self, name, value)

    def beat(self, data: Shown) -> None:
        self.as_of = milliseconds(data.as_of)

    def trouble(self, text: str, *, final: bool) -> None:
        with self.hold_sync():
            self.reason = text
            self.state = "over" if final else "stale"

    def answer(self, done: str, refusal: str) -> None:
        number = self.outcome.get("number", 0) + 1  # the same answer twice is two answers
        self.outcome = {"number": number, "done": done, "refusal": refusal}

    def _all_traits(self, data: Shown) -> dict[str, Any]:
        common = {
            "as_of": milliseconds(data.as_of),
            "state": "over" if data.ended else "live",
            "reason": "",
        }
        return common | self._traits_of(data)

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
            case _ if not self._act(content):
                log.warning("a live view does not know the message %.200r", content)
