"""Delay of a start by another connection on an idle engine, with notifications and without: from
the call of `df.start` to the engine's own word that the run has ended, for a run of one SQL step.

Nobody calls the engine in its process, as `bench.start` would: it hears NOTIFY, or polls.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import quantiles
from unittest.mock import patch

from benchmarks.effects import INSERT, sql_step
from benchmarks.figures import Aspect, Figure
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure
from workbench.engine import life
from workbench.engine.worker import Engine
from workbench.store.listen import Listener

__all__ = ["benchmark"]

_PATIENCE = 30.0  # seconds until a run that has not ended counts as stuck
_LOOK = 0.02  # seconds between looks at whether the engine listens


class _Deaf(Listener):
    """Never listens, as where a pooler swallows notifications: the engine only polls."""

    async def run(self) -> None:
        self.working = False
        await asyncio.Event().wait()


class _Ends:
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


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """The same starts for an engine that listens and for one that only polls."""
    with server.site(engine=False) as site:
        for listener, how in ((Listener, "woken by NOTIFY"), (_Deaf, "polling only")):
            with _engine(site, listener) as ends:
                site.drain(sql_step(), sizes.warm_up)
                yield from measure(site, (_workload(how, ends),), sizes)


@contextmanager
def _engine(site: Site, listener: type[Listener]) -> Iterator[_Ends]:
    ends = _Ends()
    engine = Engine(site.dsn)
    engine.on_change(ends.heard)
    with patch.object(life, "Listener", listener):
        engine.start()
    try:
        _require_listening(engine, listener is not _Deaf)
        yield ends
    finally:
        engine.stop()


def _require_listening(engine: Engine, wanted: bool) -> None:
    deadline = time.perf_counter() + _PATIENCE
    while engine.listening is not wanted:
        if time.perf_counter() > deadline:
            raise TimeoutError(
                f"the engine's listening is {engine.listening}, not {wanted}: no figure"
            )
        time.sleep(_LOOK)


def _workload(how: str, ends: _Ends) -> Workload:
    def once(site: Site, sizes: Sizes) -> tuple[float, float]:
        pauses = random.Random(sizes.distant_starts)
        with site.expecting_inserts(sizes.distant_starts):
            seconds = [
                _start_to_ended(site, ends, pauses.uniform(0, life.POLL))
                for _ in range(sizes.distant_starts)
            ]
        percentiles = quantiles(seconds, n=100, method="inclusive")
        return percentiles[49], percentiles[98]

    title = f"start by another connection to finished, {how}"
    aspects = tuple(Aspect(f"{title}, {which}", "starts", "delay") for which in ("p50", "p99"))
    return Workload(aspects, once)


def _start_to_ended(site: Site, ends: _Ends, pause: float) -> float:
    """The pause puts the start anywhere between two polls: one run ends just after a poll, and
    without a pause each next one would wait for all of the interval.
    """
    time.sleep(pause)
    began = time.perf_counter()
    row = site.conn.execute("SELECT df.start(%s)", (INSERT,)).fetchone()
    assert row is not None
    return ends.of(str(row[0])) - began
