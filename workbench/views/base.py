"""`View`: data behind it, an HTML picture, a text; and the frame around every picture.

A view is made from plain data and shows it as of one moment. The picture carries its own style
sheet, once, and refers to nothing outside, so that it survives in an exported notebook.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from workbench.views import words
from workbench.views.markup import Child, Safe, tag
from workbench.views.status import colours, status_css

if TYPE_CHECKING:
    import pandas

__all__ = ["View", "page", "stylesheet"]


class View(ABC):
    """Something to look at. As a cell's last line it shows itself."""

    @property
    @abstractmethod
    def df(self) -> pandas.DataFrame:
        """The data behind the view."""

    @abstractmethod
    def html(self) -> Safe:
        """Return the picture as HTML that needs nothing else."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the picture as text."""

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return {"text/plain": str(self), "text/html": str(self.html())}


def page(
    label: str,
    as_of: datetime | None,
    *children: Child,
    style: bool = True,
    **attributes: str | int | float | None,
) -> Safe:
    """Return a view's whole HTML: its style, its content and when it was taken.

    Parameters:
        label: the view's name for people who do not see it.
        as_of: the moment that the data shows; None for what does not change.
        style: False where the style sheet is there already: in a live view.
        attributes: more of the outermost element.
    """
    taken = None
    if as_of is not None:
        taken = tag("time", words.as_of(as_of), datetime=as_of.isoformat(timespec="seconds"))
    return tag(
        "section",
        tag("style", stylesheet()) if style else None,
        *children,
        tag("footer", taken, class_="wb-foot") if taken else None,
        class_="wb-view",
        aria_label=label,
        **attributes,
    )


@cache
def stylesheet() -> Safe:
    """Return the style sheet that all views share.

    A notebook's own theme wins (JupyterLab's and VS Code's variables); without one, the reader's
    preference decides between light and dark.
    """
    file = resources.files(__package__).joinpath("style.css")
    light = f"color-scheme:light;--wb-fg0:#1f2328;--wb-bg0:#fff;{colours('light')}"
    dark = f"color-scheme:dark;--wb-fg0:#dfe3e8;--wb-bg0:#16191d;{colours('dark')}"
    lit = ":is([data-jp-theme-light=true],.vscode-light,.wb-light) .wb-view"
    unlit = ":is([data-jp-theme-light=false],.vscode-dark,.wb-dark) .wb-view"
    themes = (
        f".wb-view{{{light}}}\n@media (prefers-color-scheme:dark){{.wb-view{{{dark}}}}}\n"
        f"{lit}{{{light}}}\n{unlit}{{{dark}}}\n"
    )
    return Safe(f"{themes}{status_css()}\n{file.read_text('utf-8')}")
