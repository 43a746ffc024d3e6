"""The widget of a lineage. What all live views' widgets do is in `face`; `lineage.js` has the Retry
buttons.
"""

from __future__ import annotations

from typing import Any

from workbench.views.face import FaceWidget, module, style
from workbench.views.lineage_data import LineageData
from workbench.views.lineage_html import lineage_html

__all__ = ["LineageWidget"]


class LineageWidget(FaceWidget):
    """Shows a tree of runs."""

    _esm = module("lineage.js")
    _css = style("history.css")

    def _traits_of(self, data: LineageData) -> dict[str, Any]:
        return {"html": str(lineage_html(data, live=True))}

    def _act(self, content: dict[str, Any]) -> bool:
        match content:
            case {"type": "act", "name": "retry", "run": str(run)}:
                self._live.act("retry", run)
                return True
        return super()._act(content)
