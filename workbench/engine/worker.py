"""The engine as other threads see it: one background thread with its own event loop, until stopped.

What happens on the loop is in `life.py`; nothing here decides, see `machine.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor

from workbench.engine.life import Life

__all__ = ["Engine"]

log = logging.getLogger("workbench")


class Engine:
    """Executes the runs of one role on one database.

    Parameters
    ----------
    dsn:
        Where; the role in it is the one whose runs are executed.
    ceiling:
        Leaves that may run at once here; None, and at most, the setting `max_activity_concurrency`,
        which counts over all engines.
    executor:
        Runs Python handlers; threads of its own by default.
    secrets:
        Gives the value of a secret that an HTTP step refers to, None when there is none; by default
        the environment's.
    """

    def __init__(
        self,
        dsn: str,
        *,
        ceiling: int | None = None,
        executor: Executor | None = None,
        secrets: Callable[[str], str | None] = os.environ.get,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._life = Life(dsn, ceiling, executor, secrets, self._call, self._tell)
        self._thread = threading.Thread(target=self._main, name="workbench-engine", daemon=True)
        self._settled = threading.Event()
        self._life.on_entered = self._settled.set
        self._refused: BaseException | None = None
        self._watchers: list[Callable[[str, bool], None]] = []

    def __repr__(self) -> str:
        return f"<Engine {self.id or '(not entered)'} {'alive' if self.alive else 'ended'}>"

    def start(self, timeout: float = 60.0) -> None:
        """Start the thread and return when the engine is in `df.engines`.

        Raises
        ------
        TimeoutError
            The database was not reached within `timeout` seconds; the engine goes on trying.
        DatabaseError
            A transaction pooler is in between.
        psycopg.Error
            The database refuses this engine.
        """
        self._thread.start()
        if not self._settled.wait(timeout):
            raise TimeoutError(
                f"the engine did not reach its database within {timeout:g} s; it goes on trying"
            )
        if self._refused is not None:
            raise self._refused

    def stop(self, timeout: float = 5.0) -> None:
        """End in order: claim nothing more, give claims back, leave.

        Handlers that do not end within a moment are abandoned, and their results refused.
        """
        self._call(self._life.stop)
        self._thread.join(timeout)

    def wake(self) -> None:
        """There may be a run to start."""
        self._call(self._life.start_due)

    def on_change(self, callback: Callable[[str, bool], None]) -> None:
        """Have `callback(run_id, ended)` called whenever this engine has moved a run on.

        It is called on the engine's thread and must not block.
        """
        self._watchers.append(callback)

    @property
    def listening(self) -> bool | None:
        """Whether notifications of other processes arrive; without them the engine only polls. None
        before that is known.
        """
        return self._life.listening

    @property
    def id(self) -> str:
        """The identity in `df.engines`; it changes when the engine was declared dead."""
        return self._life.identity

    @property
    def handlers_running(self) -> int:
        """Handlers that have not returned, also after `stop` has given up waiting for them."""
        return self._life.handlers_running

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _tell(self, run: str, ended: bool) -> None:
        for callback in self._watchers:
            try:
                callback(run, ended)
            except Exception:  # somebody else's code must not end the engine
                log.exception("run %s: a callback raised", run)

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the engine has ended
            self._loop.call_soon_threadsafe(function)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._life.run())
        except BaseException as refused:
            self._refused = refused  # for the thread that waits in start()
            if self._settled.is_set():
                log.exception("the engine has ended")
        finally:
            self._settled.set()
            self._loop.close()
