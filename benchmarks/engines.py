"""An engine in this process that is told nothing: it hears NOTIFY, or polls. With it, when each run
has ended by its own word, and what it takes of the machine.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks.site import Site
from workbench.engine import life
from workbench.engine.worker import Engine
from workbench.store.listen import Listener

__all__ = ["MANNERS", "Deaf", "Ends", "cpu_share", "engine", "memory"]

_PATIENCE = 30.0  # seconds until a run that has not ended counts as stuck
_LOOK = 0.02  # seconds between looks at whether the engine listens


class Deaf(Listener):
    """Never listens, as where a pooler swallows notifications: the engine only polls."""

    async def run(self) -> None:
        self.working = False
        await asyncio.Event().wait()


MANNERS: tuple[tuple[str, type[Listener]], ...] = (
    ("woken by NOTIFY", Listener),
    ("polling only", Deaf),
)


class Ends:
    """When the engine said that a run had ended, on the clock of `time.perf_counter`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._times: dict[str, float] = {}

    def heard(self, run: str, ended: bool) -> None:
        if ended:
            now = time.perf_counter()
            with self._changed:
                self._times[run] = now
                self._changed.notify_all()

    def of(self, run: str) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: run in self._times, _PATIENCE):
                raise TimeoutError(f"run {run} has not ended after {_PATIENCE:g} s: no figure")
            return self._times.pop(run)


@contextmanager
def engine(site: Site, listener: type[Listener]) -> Iterator[Ends]:
    """Run an engine on a site that has none."""
    ends = Ends()
    running = Engine(site.dsn)
    running.on_change(ends.heard)
    with patch.object(life, "Listener", listener):
        running.start()
    try:
        _require_listening(running, listener is not Deaf)
        yield ends
    finally:
        running.stop()


def _require_listening(running: Engine, wanted: bool) -> None:
    deadline = time.perf_counter() + _PATIENCE
    while running.listening is not wanted:
        if time.perf_counter() > deadline:
            raise TimeoutError(
                f"the engine's listening is {running.listening}, not {wanted}: no figure"
            )
        time.sleep(_LOOK)


def cpu_share(seconds: float) -> float:
    """What this process takes of one core while its caller sleeps, in percent."""
    began, used = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    return 100 * (time.process_time() - used) / (time.perf_counter() - began)


def memory() -> float:
    """Resident memory of this process, in MB.

    Raises
    ------
    RuntimeError
        Not Linux: only its /proc tells.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError as absent:
        raise RuntimeError("memory is measured on Linux only: no figure") from absent
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
