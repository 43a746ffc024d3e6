"""What the demo tells: lines with the seconds since its beginning, printed as they happen.

The lines are kept for `demo.html`. Colours only on a terminal that wants them (NO_COLOR).
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from dataclasses import dataclass
from typing import TextIO

from workbench.views.status import STATUSES

__all__ = ["Line", "Story"]

_WIDTH = 92  # columns
_INDENT = 12  # columns before a line's text
_BOLD, _DIM = "1", "2"
_COLOURS = {"completed": "32", "failed": "31", "retrying": "33", "running": "34"}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened.

    Attributes
    ----------
    seconds:
        Since the beginning.
    status:
        A word of `views.status` that gives its icon and colour, or None.
    step:
        The step it is about, or None.
    """

    seconds: float
    text: str
    status: str | None
    step: str | None


class Story:
    """Prints and remembers what happens.

    Parameters
    ----------
    out:
        Where to print; standard output by default.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._began = time.monotonic()
        self._colours = self._out.isatty() and not os.environ.get("NO_COLOR")
        self.lines: list[Line] = []

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def tell(self, text: str, status: str | None = None, step: str | None = None) -> None:
        """Print a line with its time; `status` and `step` as in `Line`."""
        line = Line(self.seconds, text, status, step)
        self.lines.append(line)
        icon = STATUSES[status].icon if status else "·"
        first, *more = textwrap.wrap(f"{step:<9}  {text}" if step else text, _WIDTH - _INDENT)
        clock = self._painted(f"{line.seconds:6.1f} s", _DIM)
        self._write(f"{clock}  {self._painted(icon, _COLOURS.get(status or '', _DIM))} {first}")
        for rest in more:
            self._write(" " * _INDENT + rest)

    def title(self, text: str) -> None:
        """Print a heading."""
        self._write(f"\n{self._painted(text, _BOLD)}\n")

    def block(self, text: str) -> None:
        """Print text as it is, set in from the left."""
        self._write(textwrap.indent(text, "  ", lambda line: not line.isspace()))

    def _painted(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text

    def _write(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()
