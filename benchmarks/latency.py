"""Delay of a start by another connection on an idle engine, with notifications and without: from
the call of `df.start` to the engine's own word that the run has ended, for a run of one SQL step.

Nobody calls the engine in its process, as `bench.start` would: it hears NOTIFY, or polls.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from statistics import quantiles

from benchmarks import engines
from benchmarks.effects import INSERT, sql_step
from benchmarks.engines import Ends
from benchmarks.figures import Aspect, Figure
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure
from workbench.engine import life

__all__ = ["benchmark", "workload"]


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """The same starts for an engine that listens and for one that only polls."""
    with server.site(engine=False) as site:
        for how, listener in engines.MANNERS:
            with engines.engine(site, listener) as ends:
                site.drain(sql_step(), sizes.warm_up)
                yield from measure(site, (workload(how, ends),), sizes)


def workload(how: str, ends: Ends) -> Workload:
    """Starts by another connection, one after another, for the engine whose `ends` these are."""

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


def _start_to_ended(site: Site, ends: Ends, pause: float) -> float:
    """The pause puts the start anywhere between two polls: one run ends just after a poll, and
    without a pause each next one would wait for all of the interval.
    """
    time.sleep(pause)
    began = time.perf_counter()
    row = site.conn.execute("SELECT df.start(%s)", (INSERT,)).fetchone()
    assert row is not None
    return ends.of(str(row[0])) - began
