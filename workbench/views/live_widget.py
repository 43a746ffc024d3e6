"""The widget of one run's view. What all live views' widgets do is in `face`; `actions.js` has the
buttons.
"""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.views.face import FaceWidget, module, style
from workbench.views.run_data import RunData
from workbench.views.run_view import run_html, signal_names
from workbench.views.status import of_node

__all__ = ["LiveWidget", "actions_of"]


class LiveWidget(FaceWidget):
    """Shows one run. More traits: `actions`, the buttons; `waits`, the signals that steps wait
    for.
    """

    _esm = module("actions.js", "live.js")
    _css = style()

    actions = traitlets.List(traitlets.Unicode()).tag(sync=True)
    waits = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def _traits_of(self, data: RunData) -> dict[str, Any]:
        waits = [] if data.ended else signal_names(data)
        return {
            "html": str(run_html(data, style=False)),
            "actions": actions_of(data, waits=bool(waits)),
            "waits": waits,
        }

    def _act(self, content: dict[str, Any]) -> bool:
        match content:
            case {"type": "act", "name": str(name), "signal": str(signal), "data": str(text)}:
                self._live.act(name, signal, text)
                return True
        return super()._act(content)


def actions_of(data: RunData, *, waits: bool) -> list[str]:
    """Return the buttons of a run; `waits` for a signal or not."""
    if data.run.status == "failed":
        return ["retry", "resume"]
    if data.ended:
        return []
    tries = any(of_node(node) == "retrying" for node in data.nodes)
    return [*(["try_now"] if tries else []), *(["signal"] if waits else []), "cancel"]
