"""`Updater`: one thread that keeps all shown views current, and decides when each looks again.

At once when there is news, but at most four times a second, less often the more views there are and
the longer a look takes; and once a second in case nobody tells. It ends when no view is left. What
a look does is the view's business.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Protocol

__all__ = ["Updated", "Updater"]

_GAP = 0.25  # seconds between two looks of a view: at most 4 updates a second
_GAP_EACH = 0.1  # and for all views together at most 10; front ends may lose more
_SHARE = (
    9  # after a look that took long, a pause that many times as long: a tenth of a core at most
)
_HIDDEN = 16  # views kept although nobody shows them: a closed notebook may be opened again


class Updated(Protocol):
    """A view as the updater sees it."""

    @property
    def wanted(self) -> bool:
        """Whether somebody shows it."""

    def look(self) -> float | None:
        """Look and show; return seconds until the next look, None when there need be none."""

    def close(self) -> None:
        """Nobody will show it any more."""


class _Turn:
    """When a view's next look is: `due`, or with `news` as soon as `earliest`."""

    __slots__ = ("due", "earliest", "news")

    def __init__(self) -> None:
        self.due = self.earliest = 0.0
        self.news = False


class Updater:
    """Keeps views current. All methods return at once and may be called on any thread."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._turns: dict[Updated, _Turn] = {}
        self._hidden: deque[Updated] = deque()
        self._thread: threading.Thread | None = None

    def add(self, view: Updated) -> None:
        """Keep a view current, beginning now; one that is here already looks now."""
        with self._condition:
            if view in self._hidden:
                self._hidden.remove(view)
            turn = self._turns.setdefault(view, _Turn())
            turn.due, turn.news = 0.0, True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._main, name="workbench-views", daemon=True
                )
                self._thread.start()
            self._condition.notify_all()

    def hurry(self, view: Updated) -> None:
        """There is news for a view."""
        with self._condition:
            turn = self._turns.get(view)
            if turn is not None and not turn.news:
                turn.news = True
                turn.due = min(turn.due, turn.earliest)
                self._condition.notify_all()

    def shown(self) -> list[Updated]:
        """The views that are kept current."""
        with self._condition:
            return list(self._turns)

    def _main(self) -> None:
        while (view := self._next()) is not None:
            began = time.monotonic()
            pause = view.look()
            self._looked(view, began, pause)

    def _next(self) -> Updated | None:
        """Wait for the first view that is due; without any view the thread ends."""
        with self._condition:
            while self._turns:
                view, turn = min(self._turns.items(), key=lambda item: item[1].due)
                wait = turn.due - time.monotonic()
                if wait <= 0:
                    turn.news = False
                    return view
                self._condition.wait(wait)
            self._thread = None
            return None

    def _looked(self, view: Updated, began: float, pause: float | None) -> None:
        now = time.monotonic()
        old = None
        with self._condition:
            turn = self._turns[view]
            gap = max(_GAP, _GAP_EACH * len(self._turns), _SHARE * (now - began))
            turn.earliest = now + gap
            turn.due = turn.earliest if turn.news else now + max(gap, pause or 0.0)
            if pause is None and not turn.news:  # else it was added again meanwhile
                del self._turns[view]
                old = self._hide(view)
        if old is not None:
            old.close()

    def _hide(self, view: Updated) -> Updated | None:
        """Note that nobody shows a view; return the one that has not been shown for longest."""
        if view.wanted or view in self._hidden:
            return None
        self._hidden.append(view)
        return self._hidden.popleft() if len(self._hidden) > _HIDDEN else None
