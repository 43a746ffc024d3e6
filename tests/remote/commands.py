"""The command line in processes of its own: commands that run to their end, workers that run until told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.engine.support import ROOT, wait_until

__all__ = ["Command", "Worker", "environment"]


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, in which the package is found from any directory."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path} | variables


class Command:
    """`workbench ARGUMENTS`, run to its end."""

    def __init__(self, *arguments: str, cwd: Path, **variables: str) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "workbench", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            env=environment(**variables),
        )
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr


class Worker:
    """`workbench worker ARGUMENTS` as a process; its log lines are collected."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "workbench", "worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=environment(),
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        self.lines.extend(iter(self._process.stderr.readline, ""))

    @property
    def log(self) -> str:
        return "".join(self.lines)

    @property
    def id(self) -> str:
        """Its identity, as it says."""
        found = re.search(r"engine (\S+) works on", self.log)
        assert found, self.log
        return found[1]

    def wait_for_line(self, text: str) -> str:
        """Wait until a line has this text, and return it."""

        def find() -> str:
            if text not in self.log and self._process.poll() is not None:
                self._reader.join()
                raise AssertionError(f"the worker ended: {self.log}")
            return next((line for line in list(self.lines) if text in line), "")

        return wait_until(find, what=f"the worker says {text!r}")

    def end(self, by: signal.Signals) -> tuple[int, float]:
        """Send a signal; the exit status, and the seconds until it had ended."""
        begun = time.monotonic()
        self._process.send_signal(by)
        status = self._process.wait(20)
        took = time.monotonic() - begun
        self._reader.join()
        return status, took

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._process.kill()
        self._process.wait(20)
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
