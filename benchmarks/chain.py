"""Chains of SQL steps, each step's effect and checkpoint in one commit: one run at a time, and many
at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import bare
from benchmarks.effects import chain
from benchmarks.figures import Aspect, Figure, at_least
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure

__all__ = ["AT_ONCE", "ONE_AT_A_TIME", "benchmark"]


def _one_at_a_time(site: Site, sizes: Sizes) -> tuple[float]:
    steps = sizes.chain_steps
    with site.expecting_inserts(steps):
        began = time.perf_counter()
        site.bench.start(chain(steps)).wait()
        seconds = time.perf_counter() - began
    return (seconds / steps,)


def _at_once(site: Site, sizes: Sizes) -> tuple[float]:
    steps = sizes.chains * sizes.steps_of_each
    with site.expecting_inserts(steps):
        seconds = site.drain(chain(sizes.steps_of_each), sizes.chains)
    return (seconds / steps,)


ONE_AT_A_TIME = Workload(
    (Aspect("chain of SQL steps, one run at a time", "steps", target=at_least(0.3)),),
    _one_at_a_time,
)
AT_ONCE = Workload(
    (Aspect("chains of SQL steps, 50 runs at once", "steps", target=at_least(0.5)),), _at_once
)


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """Chains through the engine, then the same statements as a bare script."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        yield from measure(site, (ONE_AT_A_TIME, AT_ONCE), sizes)
    with server.site(engine=False) as site:
        yield from measure(site, bare.WORKLOADS, sizes)
