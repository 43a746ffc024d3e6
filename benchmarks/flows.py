"""Flows: the elements of a map, chains of steps in many runs, and a DAG of a thousand steps."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from statistics import median

import workbench as wb
from benchmarks.effects import note
from benchmarks.figures import Aspect, Figure, at_least, at_most
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure
from workbench.graph.node import Node

__all__ = ["benchmark"]

_STEPS_OF_EACH = 10
_SEED = 8


def element(_item: int) -> None:
    note()


def _mapped(site: Site, elements: int) -> float:
    """Seconds of one run with so many elements."""
    flow = wb.Flow("mapped")
    flow.map(element)
    with site.expecting_notes(elements):
        began = time.perf_counter()
        site.bench.start(flow, input=list(range(elements))).wait()
        return time.perf_counter() - began


def _elements(site: Site, sizes: Sizes) -> tuple[float]:
    return (_mapped(site, sizes.branches) / sizes.branches,)


def _chains(site: Site, sizes: Sizes) -> tuple[float]:
    steps = sizes.flow_runs * _STEPS_OF_EACH
    graph = _dag([[n - 1] if n else [] for n in range(_STEPS_OF_EACH)])
    with site.expecting_notes(steps):
        return (site.drain(graph, sizes.flow_runs) / steps,)


def _random_dag(site: Site, sizes: Sizes) -> tuple[float]:
    chosen = random.Random(_SEED)
    needs = [
        sorted(chosen.sample(range(n), min(n, chosen.randint(0, 3)))) for n in range(sizes.branches)
    ]
    with site.expecting_notes(sizes.branches):
        return (site.drain(_dag(needs), 1) / sizes.branches,)


def _dag(needs: list[list[int]]) -> Node:
    """Steps that depend on earlier ones, by their places."""
    flow = wb.Flow("dag")
    for place, earlier in enumerate(needs):
        flow.add(f"s{place}", wb.py(note), after=[f"s{each}" for each in earlier])
    return flow.graph()


_WORKLOADS = (
    Workload((Aspect("a map of 1,000 elements", "steps", target=at_least(2)),), _elements),
    Workload(
        (Aspect("200 runs of a flow of 10 steps", "steps", target=at_least(1)),), _chains
    ),
    Workload((Aspect("a flow of 1,000 steps, a random DAG", "steps"),), _random_dag),
)  # fmt: skip


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """Steps per commit, then an element of a large map against one of a small."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        yield from measure(site, _WORKLOADS, sizes)
        yield _linear(site, sizes)


def _linear(site: Site, sizes: Sizes) -> Figure:
    small, large = sizes.branches, 10 * sizes.branches
    with raw_speed(site.conn, sizes.raw_seconds) as speed:
        turns = [
            (_mapped(site, small) / small, _mapped(site, large) / large)
            for _ in range(sizes.repetitions)
        ]
    one, other = (median(each) for each in zip(*turns, strict=True))
    return Figure(
        title="10,000 elements of a map against 1,000",
        value=other / one,
        unit="× the time",
        target=at_most(1.5),
        samples=tuple(b / a for a, b in turns),
        detail=f"{1 / other:,.0f} elements/s, of 1,000 {1 / one:,.0f} elements/s",
        raw=speed.reading,
    )
