"""`workbench worker` processes on one database: started, known to listen, ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import psycopg

__all__ = ["Crew"]

_ROOT = Path(__file__).parents[1]
_PATIENCE = 60.0  # seconds until a worker that does not listen counts as stuck
_ORDERLY = 10.0  # seconds that one has to end
_LOOK = 0.02  # seconds between looks at whether one listens
# Its probe comes after its LISTEN: from then on a start wakes it.
_LISTENING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'workbench engine listen'
      AND state = 'idle' AND query LIKE 'SELECT pg_notify%'
"""


class Crew:
    """Workers with the handlers of one module. `with` ends those that have joined.

    Parameters
    ----------
    dsn:
        Their database; it goes by the environment, where `ps` does not show a password.
    conn:
        An autocommit connection to it.
    module:
        What they `--import`.
    """

    def __init__(self, dsn: str, conn: psycopg.Connection, module: str) -> None:
        self._dsn = dsn
        self._conn = conn
        self._module = module
        self._workers: list[subprocess.Popen[bytes]] = []

    def join(self) -> None:
        """Start one worker more, and return when it listens.

        Raises
        ------
        RuntimeError
            A worker has ended; its log is on stderr.
        TimeoutError
            It does not listen.
        """
        command = [sys.executable, "-m", "workbench", "worker", "--quiet", "--import", self._module]
        self._workers.append(
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=_ROOT,
                env=os.environ | {"WORKBENCH_DSN": self._dsn},
            )
        )
        deadline = time.perf_counter() + _PATIENCE
        while self._conn.execute(_LISTENING).fetchone() != (len(self._workers),):
            self.require_all()
            if time.perf_counter() > deadline:
                raise TimeoutError(f"a worker does not listen after {_PATIENCE:g} s: no figure")
            time.sleep(_LOOK)

    @property
    def size(self) -> int:
        """How many have joined."""
        return len(self._workers)

    def require_all(self) -> None:
        """RuntimeError when a worker has ended: what was measured meanwhile is void."""
        for worker in self._workers:
            if worker.poll() is not None:
                raise RuntimeError(
                    f"a worker ended with status {worker.returncode}: the measurement is void. "
                    "See its log on stderr."
                )

    def kill_first(self) -> None:
        """SIGKILL for the worker that joined first."""
        worker = self._workers.pop(0)
        worker.kill()
        worker.wait()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            try:
                worker.wait(_ORDERLY)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
