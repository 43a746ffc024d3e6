"""The dashboard: runs, what does not move, failures and the selected run in one view."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from workbench.views.base import View
from workbench.views.dashboard_data import DashboardData
from workbench.views.dashboard_html import dashboard_html, dashboard_text
from workbench.views.markup import Safe
from workbench.views.runs_view import runs_frame
from workbench.views.words import count

if TYPE_CHECKING:
    import pandas

    from workbench.views.dashboard_live import DashboardSource

__all__ = ["DashboardView"]


class DashboardView(View):
    """Runs, and how everything stands.

    Parameters:
        data: what it shows.
        source: where a live view looks again and what its buttons do; None for one moment only.
    """

    def __init__(self, data: DashboardData, source: DashboardSource | None = None) -> None:
        self.data = data
        self._source = source

    @property
    def df(self) -> pandas.DataFrame:
        """One row a run, newest first; see `runs_frame`."""
        return runs_frame(self.data.runs)

    def html(self) -> Safe:
        return dashboard_html(self.data)

    def __str__(self) -> str:
        return dashboard_text(self.data)

    def __repr__(self) -> str:
        return f"<DashboardView {count(len(self.data.runs), 'run')}>"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        static = super()._repr_mimebundle_(include, exclude)
        if self._source is None:
            return static
        from workbench.views.dashboard_live import widget

        return static | widget(self._source, self.data)
