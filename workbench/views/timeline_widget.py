"""The widget of the timeline. What all live views' widgets do is in `face`; `timeline.js` draws the
figure with plotly, which comes once a page from `plotly_loader`.
"""

from __future__ import annotations

import json
from typing import Any

import traitlets

from workbench.views.face import FaceWidget, module, style
from workbench.views.plotly_loader import loader_id
from workbench.views.run_data import RunData
from workbench.views.timeline_data import drawn, lines
from workbench.views.timeline_figure import spec
from workbench.views.timeline_html import timeline_html

__all__ = ["TimelineWidget"]


class TimelineWidget(FaceWidget):
    """Shows one timeline. More traits: `spec`, the figure as JSON text; `loader`, the id of the
    widget that has plotly, empty where it cannot be had: then the HTML form stays.
    """

    _esm = module("timeline.js")
    _css = style("timeline.css")

    spec = traitlets.Unicode().tag(sync=True)
    loader = traitlets.Unicode().tag(sync=True)

    def __init__(self, view: Any, data: RunData) -> None:
        self._data = data
        self._find, self._fold = "", True
        super().__init__(view, data)
        self.loader = loader_id()

    def _traits_of(self, data: RunData) -> dict[str, Any]:
        self._data = data
        return {"html": str(timeline_html(data, live=True)), "spec": self._spec()}

    def _spec(self) -> str:
        wanted = self._find.casefold()
        shown = lines(self._data, fold=self._fold)
        found = [line for line in shown if wanted in f"#{line.node.node_id} {line.name}".casefold()]
        return json.dumps(spec(self._data, drawn(found)))

    def _act(self, content: dict[str, Any]) -> bool:
        match content:
            case {"type": "ask", "find": str(find), "fold": bool(fold)}:
                self._find, self._fold = find[:200], fold
                self.spec = self._spec()
                return True
        return False
