"""Delay on an idle engine: from the call of `bench.start` to the return of `run.wait`, for a run of
one SQL step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import quantiles

from benchmarks.effects import sql_step
from benchmarks.figures import Aspect, Figure, at_most
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure

__all__ = ["IDLE", "benchmark"]

_PAUSE = 0.01  # seconds before each start: the engine resets its session after a step


def _start_to_finished(site: Site) -> float:
    time.sleep(_PAUSE)
    began = time.perf_counter()
    site.bench.start(sql_step()).wait()
    return time.perf_counter() - began


def _idle(site: Site, sizes: Sizes) -> tuple[float, float]:
    with site.expecting_inserts(sizes.starts):
        seconds = [_start_to_finished(site) for _ in range(sizes.starts)]
    percentiles = quantiles(seconds, n=100, method="inclusive")
    return percentiles[49], percentiles[98]


IDLE = Workload(
    (
        Aspect("idle engine, start to finished, p50", "starts", "delay", at_most(15)),
        Aspect("idle engine, start to finished, p99", "starts", "delay"),
    ),
    _idle,
)


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """One start after another on an engine that has nothing else to do."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        yield from measure(site, (IDLE,), sizes)
