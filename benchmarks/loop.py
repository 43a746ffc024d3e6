"""What an iteration of a loop costs beyond its steps, body and condition: against a chain of the
same steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import workbench as wb
from benchmarks import iterations, long_loop
from benchmarks.figures import Aspect, Figure, at_most
from benchmarks.iterations import Kind
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure

__all__ = ["benchmark"]


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """Short loops against chains, then a long loop of each kind."""
    with server.site() as site:
        site.conn.execute(iterations.SEQUENCE)
        site.warm_up(sizes.warm_up)
        kinds = (iterations.PYTHON, iterations.SQL)
        yield from measure(site, map(_workload, kinds), sizes)
        for kind in kinds:
            yield from long_loop.figures(kind, site, sizes)


def _workload(kind: Kind) -> Workload:
    def once(site: Site, sizes: Sizes) -> tuple[float, float, float]:
        in_chain = _seconds(site, kind, kind.chain(sizes.iterations), sizes)
        in_loop = _seconds(site, kind, kind.loop(sizes.iterations), sizes)
        return in_loop - in_chain, in_loop, in_chain

    what = f"{kind.name} body and condition"
    aspects = (
        Aspect(f"loop, {what}: beyond its steps", "iterations", "delay", at_most(4)),
        Aspect(f"loop, {what}: an iteration", "iterations", "delay"),
        Aspect(f"chain, {what}: both steps", "iterations", "delay"),
    )
    return Workload(aspects, once)


def _seconds(site: Site, kind: Kind, graph: wb.Node, sizes: Sizes) -> float:
    """Seconds per iteration."""
    with kind.expecting(site, sizes.iterations):
        began = time.perf_counter()
        site.bench.start(graph).wait()
        seconds = time.perf_counter() - began
    return seconds / sizes.iterations
