"""What the demo is played on: a database and an engine process of its own, gone afterwards.

Both are context managers that clean up however the demo ends, Ctrl-C in the middle included.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.bench import Bench
from workbench.connecting import connect
from workbench.errors import StateError
from workbench.store import embedded

__all__ = ["EngineProcess", "engine_process", "temporary_bench", "temporary_home"]


@contextmanager
def temporary_home() -> Iterator[Path]:
    """A directory for an embedded server, which is stopped and removed at the end."""
    # The server of root runs as another user, who may not be able to enter root's TMPDIR.
    where = "/tmp" if sys.platform != "win32" and os.geteuid() == 0 else None
    home = Path(tempfile.mkdtemp(prefix="workbench-demo-", dir=where))
    try:
        yield home
    finally:
        with _undisturbed():
            try:
                embedded.stop(home)
            finally:
                shutil.rmtree(home)


@contextmanager
def temporary_bench(home: Path) -> Iterator[Bench]:
    """A bench on the server of `home`; no engine runs here until `work()`."""
    bench = connect(home=home).hold()
    try:
        yield bench
    finally:
        with _undisturbed():
            bench.close()


class EngineProcess:
    """An engine in another process."""

    def __init__(self, dsn: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "workbench.demo.engine"],
            env={**os.environ, "WORKBENCH_DSN": dsn},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt of our terminal is not meant for it
        )
        self.pid = self._process.pid
        self.id = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not self.id:
            said = self._process.communicate()[1].strip().splitlines()
            raise StateError(
                f"the demo's engine process ended before it began: {said[-1] if said else 'no word'}"
            )

    def kill(self) -> int:
        """Send SIGKILL, wait for the end, and return the signal that ended it."""
        self._process.kill()
        return -self._process.wait()

    def close(self) -> None:
        """End it if it has not ended, and release its pipes."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@contextmanager
def engine_process(dsn: str) -> Iterator[EngineProcess]:
    """An engine process, killed at the end if it still lives."""
    engine = EngineProcess(dsn)
    try:
        yield engine
    finally:
        with _undisturbed():
            engine.close()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Clean up to the end, also when Ctrl-C is pressed again or the terminal is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = [signal.signal(name, signal.SIG_IGN) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
