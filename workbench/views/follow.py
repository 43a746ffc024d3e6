"""What every live view does: look when there is news, show what it sees, say what went wrong.

A view's widget is known here only as a `Face`. Messages of front ends come on threads of all kinds
and are only noted; looking and showing is for the updater's thread alone. What is looked at, and
what a view's buttons do, is in the modules of the views.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from workbench.errors import DatabaseError, StateError, WorkbenchError
from workbench.views.updater import Updater

__all__ = ["Face", "Followed", "Shown", "in_a_kernel", "present", "unknown_button", "updater"]

log = logging.getLogger("workbench")

_POLL = 1.0  # seconds between looks when nobody says that something changed
_AGAIN = 5.0  # seconds after a look that went wrong
_BEAT = 5.0  # seconds after which a front end hears that all is still as it was

updater = Updater()
"""The one of this process."""


class Shown(Protocol):
    """Data that a view shows at one moment."""

    @property
    def as_of(self) -> datetime:
        """The moment, by the database's clock."""

    @property
    def ended(self) -> bool:
        """Whether nothing of it changes any more."""

    def same_as(self, other: Any) -> bool:
        """Whether the other shows the same, but for time that has passed."""


Data = TypeVar("Data", bound=Shown)
Data_contra = TypeVar("Data_contra", bound=Shown, contravariant=True)


class Face(Protocol[Data_contra]):
    """What a view is shown with; used on the updater's thread only."""

    def mime_data(self) -> dict[str, Any]:
        """The entry of a cell's output that shows it."""

    def draw(self, data: Data_contra) -> None:
        """Show this."""

    def beat(self, data: Data_contra) -> None:
        """All is as it was, now as of this data's moment."""

    def trouble(self, text: str, *, final: bool) -> None:
        """What is shown is not current, for this reason; when `final`, for good."""

    def answer(self, done: str, refusal: str) -> None:
        """What the last action has done, or the reason for which it was refused."""

    def close(self) -> None:
        """Nobody will show it any more."""


class Followed(ABC, Generic[Data]):
    """A view that is shown somewhere.

    Parameters:
        fetch: reads what it shows. What it raises is shown; a `DatabaseError`, or what is not the
            workbench's own, may go by, everything else is final.
        subscribe: has a callback called, on any thread, when that may have changed; returns what
            ends it.
        data: what it shows at first.
        face: makes what it is shown with.
    """

    def __init__(
        self,
        fetch: Callable[[], Data],
        subscribe: Callable[[Callable[[], None]], Callable[[], None]],
        data: Data,
        face: Callable[[Any, Data], Face[Data]],
    ) -> None:
        self.wanted = True  # until a front end says otherwise: one may be busy, or never come
        self._fetch = fetch
        self._subscribe = subscribe
        self._data = data
        self._front_ends: set[str] = set()
        self._answers: deque[tuple[str, str]] = deque()
        self._unsubscribe: Callable[[], None] | None = None
        self._trouble = self._final = False
        self._told = time.monotonic()  # when the front end last heard something
        self.face = face(self, data)

    @abstractmethod
    def _done(self, name: str, *arguments: str) -> str:
        """Do what a button says; return what to say of it when the picture does not.

        What it raises is shown as the reason for a refusal. It may block.
        """

    # On any thread: only noted.

    def shown(self, front_end: str) -> None:
        """A front end shows it."""
        self._front_ends.add(front_end)
        self.wanted, self._told = True, 0.0
        updater.add(self)

    def hidden(self, front_end: str) -> None:
        """A front end shows it no more."""
        self._front_ends.discard(front_end)
        if not self._front_ends:
            self.drop()

    def drop(self) -> None:
        """Nobody shows it."""
        if self.wanted:
            self.wanted = False
            updater.add(self)

    def act(self, name: str, *arguments: str) -> None:
        """Somebody pressed a button. What it does may block, so it has a thread of its own."""
        threading.Thread(
            target=self._act, args=(name, *arguments), name=f"workbench-{name}", daemon=True
        ).start()

    def _act(self, name: str, *arguments: str) -> None:
        try:
            answer = self._done(name, *arguments), ""
        except Exception as refused:
            answer = "", _said(refused)
        self._answers.append(answer)
        updater.add(self)

    # On the updater's thread.

    def look(self) -> float | None:
        """Bring the face up to date; return seconds until the next look, None for the last."""
        try:
            self._follow()
            if self.wanted and not self._over:
                self._update()
            while self._answers:
                self.face.answer(*self._answers.popleft())
        except Exception as wrong:
            self._fail(wrong)
        if self._over or not self.wanted:
            self._follow()
            return None
        return _AGAIN if self._trouble else _POLL

    def close(self) -> None:
        """Free what it is shown with."""
        self.face.close()

    @property
    def _over(self) -> bool:
        return self._final or self._data.ended

    def _follow(self) -> None:
        """Listen to the source while that is of use, and only then."""
        if self.wanted and not self._over:
            if self._unsubscribe is None:
                self._unsubscribe = self._subscribe(lambda: updater.hurry(self))
        elif self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _update(self) -> None:
        data = self._fetch()
        now = time.monotonic()
        if self._trouble or not data.same_as(self._data):
            self.face.draw(data)
            self._data, self._trouble, self._told = data, False, now
        elif now - self._told >= _BEAT:
            self.face.beat(data)
            self._told = now

    def _fail(self, wrong: Exception) -> None:
        """Say in the view what went wrong; only the workbench's own refusals are final."""
        self._trouble = True
        self._final = isinstance(wrong, WorkbenchError) and not isinstance(wrong, DatabaseError)
        text = _said(wrong)
        try:
            self.face.trouble(text, final=self._final)
        except Exception:
            log.exception("a live view that cannot be shown")


def _said(wrong: Exception) -> str:
    """The text of an error for people; one that is not the workbench's own is logged as well."""
    if isinstance(wrong, WorkbenchError):
        return str(wrong)
    log.error("a live view", exc_info=wrong)
    return f"{type(wrong).__name__}: {wrong}"


def unknown_button(name: str) -> StateError:
    """Return the error for a button that a view has not, as one of an older version may."""
    return StateError(f"this view has no button {name!r}: run its cell again")


def present(make: Callable[[], Followed[Any]]) -> dict[str, Any]:
    """Return the MIME data of a new live view's widget; nothing where none can be shown.

    That is outside a kernel, or without anywidget. What keeps a widget from being made is no reason
    not to show the static picture.
    """
    if not in_a_kernel():
        return {}
    try:
        view = make()
        mime = view.face.mime_data()
    except ImportError:
        return {}
    except Exception:
        log.exception("no live view could be made: this one shows one moment")
        return {}
    updater.add(view)
    return mime


def in_a_kernel() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None
