"""What a handler prints and logs, kept with its attempt; it also goes where it would go anyway.

Many handlers run in one process, so a context variable says whose output it is: the thread that a
handler runs on, its coroutines and what it calls; not threads that it starts. `sys.stdout` is
replaced only while handlers run, and log records are seen as they are made: the user's handlers and
levels stay as they are.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

__all__ = ["LOGS_LIMIT", "Output", "recorded"]

#: Characters that an attempt keeps, the last ones: what came before an error says most.
LOGS_LIMIT = 16_000

_now: ContextVar[Output | None] = ContextVar("workbench_output", default=None)


class Output:
    """The end of what one attempt printed and logged."""

    def __init__(self, limit: int = LOGS_LIMIT) -> None:
        self._limit = limit
        self._parts: list[str] = []
        self._held = 0
        self._dropped = 0

    def write(self, text: str) -> None:
        """Add text, and forget what is too old from time to time."""
        self._parts.append(text)
        self._held += len(text)
        if self._held > 2 * self._limit:
            self._shorten()

    def text(self) -> str | None:
        """What is kept, with a remark where its beginning is missing; None when there was nothing."""
        if self._held > self._limit:
            self._shorten()
        kept = "".join(self._parts)
        if self._dropped:
            return f"… ({self._dropped} characters before this are not kept)\n{kept}"
        return kept or None

    def _shorten(self) -> None:
        whole = "".join(self._parts)
        kept = whole[-self._limit :]
        self._dropped += len(whole) - len(kept)
        self._parts, self._held = [kept], len(kept)


@contextmanager
def recorded() -> Iterator[Output]:
    """Record what this thread prints and logs within."""
    output = Output()
    token = _now.set(output)
    _taps.open()
    try:
        yield output
    finally:
        _taps.close()
        _now.reset(token)


class _Shared:
    """Writes to the stream that it stands for, and to the attempt that is writing."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        written = self.stream.write(text)
        if (output := _now.get()) is not None:
            output.write(text)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)  # flush, encoding, isatty, what a notebook adds


class _Taps:
    """Where output is seen: `sys.stdout` while handlers run, and log records as they are made.

    Somebody else may replace `sys.stdout` meanwhile, and keeps it so.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._make: Callable[..., logging.LogRecord] | None = None

    def open(self) -> None:
        with self._lock:
            self._running += 1
            if sys.stdout is not None and not isinstance(sys.stdout, _Shared):
                sys.stdout = cast("TextIO", _Shared(sys.stdout))
            if self._make is None:
                self._make = logging.getLogRecordFactory()
                logging.setLogRecordFactory(self._record)

    def close(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0 and isinstance(sys.stdout, _Shared):
                sys.stdout = sys.stdout.stream

    def _record(self, *arguments: Any, **keywords: Any) -> logging.LogRecord:
        assert self._make is not None
        record = self._make(*arguments, **keywords)
        if (output := _now.get()) is not None:
            output.write(f"{_line(record)}\n")
        return record


def _line(record: logging.LogRecord) -> str:
    try:
        return _FORMAT.format(record)
    except Exception:  # arguments that do not fit: logging reports it, no step fails of it
        return f"{record.levelname} {record.name}: {record.msg}"


_FORMAT = logging.Formatter("%(levelname)s %(name)s: %(message)s")
_taps = _Taps()
