"""The widget of the dashboard. What all live views' widgets do is in `face`; `dashboard.js` has the
filters and the choice of a run, `actions.js` the buttons of the run that is chosen.
"""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.store.records import RUN_STATUSES
from workbench.views.dashboard_data import DashboardData
from workbench.views.dashboard_html import dashboard_html
from workbench.views.dashboard_live import LiveDashboard
from workbench.views.face import FaceWidget, module, style
from workbench.views.live_widget import actions_of
from workbench.views.run_view import signal_names

__all__ = ["DashboardWidget"]


class DashboardWidget(FaceWidget):
    """Shows runs and one of them. More traits: `selected`, its id; `actions`, its buttons; `waits`,
    the signals that its steps wait for; `statuses`, those to choose from.
    """

    _esm = module("actions.js", "dashboard.js")
    _css = style("dashboard.css")

    selected = traitlets.Unicode().tag(sync=True)
    actions = traitlets.List(traitlets.Unicode()).tag(sync=True)
    waits = traitlets.List(traitlets.Unicode()).tag(sync=True)
    statuses = traitlets.List(traitlets.Unicode(), list(RUN_STATUSES)).tag(sync=True)

    def __init__(self, view: LiveDashboard, data: DashboardData) -> None:
        self._dashboard = view
        super().__init__(view, data)

    def _traits_of(self, data: DashboardData) -> dict[str, Any]:
        run = data.selected
        waits = signal_names(run) if run and not run.ended else []
        return {
            "html": str(dashboard_html(data, live=True)),
            "selected": run.run.run_id if run else "",
            "actions": actions_of(run, waits=bool(waits)) if run and data.acts else [],
            "waits": waits,
        }

    def _act(self, content: dict[str, Any]) -> bool:
        match content:
            case {"type": "ask", "query": dict(changes)}:
                self._dashboard.ask(changes)
            case {
                "type": "act",
                "name": str(name),
                "run": str(run),
                "signal": str(signal),
                "data": str(text),
            }:
                self._live.act(name, run, signal, text)
            case {"type": "act", "name": str(name), "run": str(run)}:
                self._live.act(name, run)
            case _:
                return False
        return True
