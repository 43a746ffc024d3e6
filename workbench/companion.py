"""What a person sees while they wait for a run: in a notebook the run's view, live; in a terminal a
line of progress on stderr. Nothing in scripts whose output goes elsewhere, nor on other threads.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from workbench.views.follow import in_a_kernel

if TYPE_CHECKING:
    from workbench.run_views import Looks

__all__ = ["Companion", "companion"]

SHORT = 0.5  # seconds: who waits for less wants to see nothing
_PAUSE = 1.0  # seconds between lines


class Companion:
    """Shows nothing; the others do. `look` is called now and then while somebody waits."""

    def __enter__(self) -> Companion:
        return self

    def look(self, waited: float) -> None:
        """Show how the run stands after `waited` seconds."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The waiting is over."""


class _Cell(Companion):
    """The run's view below the cell. It goes when the run has ended: what a cell returns is shown in
    its place.
    """

    def __init__(self, run: Looks) -> None:
        self._run = run
        self._shown: Any = None

    def look(self, waited: float) -> None:
        if self._shown is None and waited >= SHORT:
            from IPython.display import display

            self._shown = display(self._run.view(), display_id=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown is not None and kind is None:
            self._shown.update({"text/html": "", "text/plain": ""}, raw=True)


class _Line(Companion):
    """One line of a terminal, written over again and again."""

    def __init__(self, run: Looks, terminal: TextIO) -> None:
        self._run = run
        self._terminal = terminal
        self._next = SHORT
        self._width = 0

    def look(self, waited: float) -> None:
        if waited >= self._next:
            began = time.monotonic()
            line = self._run.progress_line()
            # Large runs take a while to be read: never more than a tenth of the time.
            self._next = waited + max(_PAUSE, 10 * (time.monotonic() - began))
            self._say(line)

    def _say(self, line: str) -> None:
        self._terminal.write(f"\r{line:<{self._width}}")
        self._terminal.flush()
        self._width = len(line)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._width:
            self._say("")
            self._terminal.write("\r")
            self._terminal.flush()


def companion(run: Looks, show: bool | None) -> Companion:
    """Return what to show while somebody waits for a run.

    Parameters
    ----------
    show:
        Whether to show anything; None: when a person looks.
    """
    if show is False or threading.current_thread() is not threading.main_thread():
        return Companion()
    if in_a_kernel():
        return _Cell(run)
    if show or sys.stderr.isatty():
        return _Line(run, sys.stderr)
    return Companion()
