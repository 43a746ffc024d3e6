"""Signals: one that a thousand branches of a run wait for, and a thousand runs of which each waits
for its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import workbench as wb
from benchmarks.figures import Aspect, Figure
from benchmarks.join import side_by_side
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure

__all__ = ["benchmark"]

_SEND = "SELECT df.signal(%s, 'go')"


def _to_branches(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_completions(1):
        run = site.bench.start(side_by_side(wb.wait_for_signal("go"), sizes.branches))
        site.until_waiting(sizes.branches)
        began = time.perf_counter()
        site.conn.execute(_SEND, (run.id,))
        run.wait()
        seconds = time.perf_counter() - began
    return (seconds / sizes.branches,)


def _to_runs(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_completions(sizes.signalled_runs):
        graph = wb.wait_for_signal("go")
        with site.conn.transaction():
            runs = [
                site.bench.start(graph, connection=site.conn) for _ in range(sizes.signalled_runs)
            ]
        site.until_waiting(sizes.signalled_runs)
        began = time.perf_counter()
        for run in runs:
            site.conn.execute(_SEND, (run.id,))
        site.until_all_ended()
        seconds = time.perf_counter() - began
    return (seconds / sizes.signalled_runs,)


_WORKLOADS = (
    Workload((Aspect("one signal to 1,000 waiting branches", "branches"),), _to_branches),
    Workload((Aspect("1,000 waiting runs, signalled one by one", "runs"),), _to_runs),
)


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """From the first signal until everything that waited has ended."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        yield from measure(site, _WORKLOADS, sizes)
