"""`News`: who wants to hear, in this process, that a run has moved on.

The engine tells it from its own thread; waiting cells and shown views listen. It holds no state of
runs: whoever hears something looks into the database.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

__all__ = ["News"]


class News:
    """Passes on what the engine here has done."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waited: Counter[str] = Counter()
        self._ended: set[str] = set()
        self._listeners: dict[str | None, list[Callable[[], None]]] = {}  # None: to all runs

    def heard(self, run_id: str, ended: bool) -> None:
        """The engine has moved a run on; called on its thread."""
        with self._changed:
            listeners = (*self._listeners.get(run_id, ()), *self._listeners.get(None, ()))
            if ended and run_id in self._waited:
                self._ended.add(run_id)
                self._changed.notify_all()
        for listener in listeners:
            listener()

    def wait(self, run_id: str, timeout: float) -> None:
        """Return when the engine here has ended this run, or after `timeout` seconds."""
        with self._changed:
            self._waited[run_id] += 1
            self._changed.wait_for(lambda: run_id in self._ended, timeout)
            self._waited[run_id] -= 1
            if not self._waited[run_id]:
                del self._waited[run_id]
                self._ended.discard(run_id)

    def subscribe(self, run_id: str, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener()` called whenever the engine here has moved this run on.

        It is called on the engine's thread and must not block.

        Returns
        -------
        Callable
            Ends the subscription; calling it again does nothing.
        """
        return self._subscribe(run_id, listener)

    def subscribe_all(self, listener: Callable[[], None]) -> Callable[[], None]:
        """`subscribe` to whatever run is moved on."""
        return self._subscribe(None, listener)

    def _subscribe(self, run_id: str | None, listener: Callable[[], None]) -> Callable[[], None]:
        with self._changed:
            self._listeners.setdefault(run_id, []).append(listener)

        def unsubscribe() -> None:
            with self._changed:
                listeners = self._listeners.get(run_id, [])
                if listener in listeners:
                    listeners.remove(listener)
                if not listeners:
                    self._listeners.pop(run_id, None)

        return unsubscribe

    @property
    def subscribers(self) -> int:
        """How many listen."""
        with self._changed:
            return sum(map(len, self._listeners.values()))
