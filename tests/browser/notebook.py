"""`Notebook`: a notebook that is open in a browser, and what a person does with it.

Everything is looked for in the cells' outputs only: their source would match as well.
"""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.lab import Lab, write_notebook

__all__ = ["Notebook"]

_IDLE = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
_SHOTS = Path(os.environ.get("SHOTS", Path(__file__).parents[2] / "shots"))


class Notebook:
    """Open in JupyterLab, its kernel ready, no cell run yet."""

    def __init__(self, page: Page, lab: Lab, name: str, cells: list[str]) -> None:
        self.page = page
        self.path = lab.notebooks / f"{name}.ipynb"
        write_notebook(self.path, cells)
        self._address = lab.address(self.path.name)
        self._open()

    def _open(self) -> None:
        self.page.goto(self._address)
        self.page.wait_for_function(_IDLE, timeout=60_000)

    def output(self, cell: int) -> Locator:
        """The outputs of a cell, by its number from 0."""
        return self.page.locator(".jp-Notebook-cell").nth(cell).locator(".jp-OutputArea-output")

    def run(self, *cells: int) -> None:
        """Run these cells one after the other, as a person would press Shift-Enter."""
        for cell in cells:
            self._select(cell)
            self._command("notebook:run-cell")

    def run_all(self) -> None:
        self._command("notebook:run-all-cells")

    def idle(self) -> None:
        """Wait until no cell runs. The kernel's own sign flickers while widgets update."""
        running = self.page.locator(".jp-InputPrompt", has_text="[*]")
        expect(running).to_have_count(0, timeout=30_000)

    def clear(self, cell: int) -> None:
        """Clear a cell's output."""
        self._select(cell)
        self._command("notebook:clear-cell-output")

    def save(self) -> Path:
        """Save, and return the file."""
        self.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        return self.path

    def reload(self) -> None:
        """Save, leave the page and open the notebook again; its kernel goes on."""
        self.save()
        self.page.goto("about:blank")
        self._open()

    def shut_down(self) -> None:
        """End the kernel."""
        self.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")

    def _select(self, cell: int) -> None:
        place = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        self.page.evaluate(f"void ({place} = {cell})")

    def _command(self, name: str) -> None:
        self.page.evaluate(f"void window.jupyterapp.commands.execute({name!r})")

    def theme(self, name: str) -> None:
        """Change to the theme `Light` or `Dark`."""
        self.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
            f"JupyterLab {name}",
        )
        light = str(name == "Light").lower()
        expect(self.page.locator(f"body[data-jp-theme-light={light}]")).to_have_count(1)

    def shot(self, name: str, of: Locator | None = None) -> None:
        """Take a picture for people, into the directory SHOTS."""
        _SHOTS.mkdir(parents=True, exist_ok=True)
        (of or self.page).screenshot(path=_SHOTS / f"{name}.png")
