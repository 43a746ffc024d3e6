"""Plotly for the pages of a kernel: one hidden widget that carries its script, for all charts.

The script is 5 MB; a widget a chart with its own would be slow. It comes from the installed
package, so nothing is loaded from outside. Charts know it by its id (`timeline.js`).
"""

from __future__ import annotations

import threading
from importlib import resources
from typing import Any

import traitlets

from workbench.views.face import HiddenWidget

__all__ = ["loader_id"]

_lock = threading.Lock()
_made: list[PlotlyLoader] = []


class PlotlyLoader(HiddenWidget):
    """Carries the script; shows nothing."""

    source = traitlets.Unicode().tag(sync=True)


def loader_id() -> str:
    """Return the id of this kernel's loader, made when first asked for; empty without plotly."""
    with _lock:
        if not _made or _made[0].comm is None:  # closed with all widgets
            try:
                text = resources.files("plotly").joinpath("package_data/plotly.min.js")
                _made[:] = [PlotlyLoader(source=text.read_text("utf-8"))]
            except (ModuleNotFoundError, OSError):
                return ""
        model: Any = _made[0].model_id
        return str(model)
