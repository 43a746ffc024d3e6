"""What a handler may know about the attempt that it is: asked for by a parameter named `ctx`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """The attempt a handler is executing.

    Attributes
    ----------
    run_id, node:
        The run, and the node's number in pre-order.
    attempt, max_attempts:
        This try, from 1, and how many there may be.
    iterations:
        Which iteration of each loop around the node this is, the outermost loop first.
    element:
        Which element of the map this is, from 0, after those of the maps around it; empty outside of
        maps.
    step:
        The name of the step, if it has one.
    idempotency_key:
        The same for every attempt of this node and element in these iterations: give it to services
        that deduplicate.
    """

    run_id: str
    node: int
    attempt: int
    max_attempts: int
    dsn: str = field(repr=False)
    iterations: tuple[int, ...] = ()
    pattern: int | None = None
    element: tuple[int, ...] = ()
    step: str | None = None
    _tell: Callable[[float, str | None], None] | None = field(default=None, repr=False)
    _cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    _noticed: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def idempotency_key(self) -> str:
        place = self.node if self.pattern is None else self.pattern
        return "/".join(map(str, (self.run_id, place, *self.iterations, *self.element)))

    @property
    def cancelled(self) -> bool:
        """Whether the result is not wanted any more: the run was cancelled or has failed. Long
        handlers should look and return.
        """
        if self._cancelled.is_set():
            self._noticed.set()
        return self._cancelled.is_set()

    @property
    def noticed(self) -> bool:
        """Whether the handler has seen that it is cancelled: it may have returned early."""
        return self._noticed.is_set()

    def cancel(self) -> None:
        """Called by the engine."""
        self._cancelled.set()

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Say how far this attempt is: shown in the views, a few times a second at most.

        Parameters
        ----------
        fraction:
            From 0 to 1.
        note:
            A few words, at most 200 characters of which are shown.

        Raises
        ------
        ValueError, TypeError
            The fraction is no number from 0 to 1, or the note no text.
        """
        if isinstance(fraction, bool) or not isinstance(fraction, int | float):
            raise TypeError(f"progress takes a number from 0 to 1, not {fraction!r}")
        if not 0 <= fraction <= 1:  # NaN is not
            raise ValueError(f"progress goes from 0 to 1, {fraction!r} does not lie between")
        if note is not None and not isinstance(note, str):
            raise TypeError(f"the note of progress is text, not {type(note).__name__}")
        if self._tell is not None:
            self._tell(float(fraction), note)

    def connect(self) -> psycopg.Connection:
        """A new connection to the workbench's database, in autocommit; close it, or use it in a
        `with` block.
        """
        return psycopg.connect(self.dsn, autocommit=True)
