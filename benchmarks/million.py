"""Whether finished work slows new work down: every workload on tables with a million finished nodes
and on empty ones.

Two databases of one server take turns, so that a machine which drifts does so for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks import chain, idle, waiting
from benchmarks.figures import Aspect, Figure, Raw, at_most
from benchmarks.fill import fill
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload

__all__ = ["benchmark"]

_WORKLOADS = (chain.ONE_AT_A_TIME, chain.AT_ONCE, waiting.SQL, waiting.PYTHON, idle.IDLE)


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """How many times as long each workload takes with a million finished nodes in the tables."""
    with server.site() as empty, server.site() as full:
        fill(full.conn, sizes.finished_nodes)
        for site in (empty, full):
            site.warm_up(sizes.warm_up)
        for workload in _WORKLOADS:
            yield from _compare(workload, empty, full, sizes)


def _compare(workload: Workload, empty: Site, full: Site, sizes: Sizes) -> Iterator[Figure]:
    with raw_speed(full.conn, sizes.raw_seconds) as speed:
        turns = [
            (workload.once(empty, sizes), workload.once(full, sizes))
            for _ in range(sizes.repetitions)
        ]
    for number, aspect in enumerate(workload.aspects):
        pairs = [(on_empty[number], on_full[number]) for on_empty, on_full in turns]
        yield _figure(aspect, pairs, speed.reading)


def _figure(aspect: Aspect, pairs: list[tuple[float, float]], raw: Raw) -> Figure:
    on_empty = median(empty for empty, _ in pairs)
    on_full = median(full for _, full in pairs)
    return Figure(
        title=f"full against empty: {aspect.title}",
        value=on_full / on_empty,
        unit="× the time",
        target=None if aspect.target is None else at_most(1.2),
        samples=tuple(full / empty for empty, full in pairs),
        detail=f"{aspect.absolute(on_full)}, empty {aspect.absolute(on_empty)}",
        raw=raw,
    )
