"""The widget of the activity view. What all live views' widgets do is in `face`; `activity.js` has
the slider, the filters and the buttons.
"""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.views.activity_data import STATES, ActivityData
from workbench.views.activity_html import activity_html
from workbench.views.activity_live import LiveActivity
from workbench.views.face import FaceWidget, module, style

__all__ = ["ActivityWidget"]


class ActivityWidget(FaceWidget):
    """Shows live runs. More traits: `idle`, the seconds asked for; `states`, those to choose from."""

    _esm = module("activity.js")
    _css = style("activity.css")

    idle = traitlets.Float().tag(sync=True)
    states = traitlets.List(traitlets.Unicode(), list(STATES)).tag(sync=True)

    def __init__(self, view: LiveActivity, data: ActivityData) -> None:
        self._activity = view
        super().__init__(view, data)

    def _traits_of(self, data: ActivityData) -> dict[str, Any]:
        return {"html": str(activity_html(data, live=True)), "idle": data.query.idle}

    def _act(self, content: dict[str, Any]) -> bool:
        match content:
            case {"type": "ask", "query": dict(changes)}:
                self._activity.ask(changes)
            case {
                "type": "act",
                "name": "signal",
                "run": str(run),
                "signal": str(signal),
                "data": str(text),
            }:
                self._live.act("signal", run, signal, text)
            case {"type": "act", "name": str(name), "run": str(run)}:
                self._live.act(name, run)
            case _:
                return False
        return True
