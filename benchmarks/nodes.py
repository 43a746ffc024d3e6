"""Whether a step costs the same in a run of ten thousand nodes as in one of a thousand: chains, and
a hundred chains side by side.

Runs of both sizes take turns, so that a machine which drifts does so for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import workbench as wb
from benchmarks.effects import chain, python_step, sql_step
from benchmarks.figures import Figure, Raw, at_most
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes

__all__ = ["benchmark"]


@dataclass(frozen=True)
class _Shape:
    """Graphs of so many steps; a graph of n steps has up to twice as many nodes."""

    title: str
    graph: Callable[[int], wb.Node]

    def seconds(self, site: Site, steps: int) -> float:
        """Seconds per step of one run, from its start to its end."""
        graph = self.graph(steps)
        with site.expecting_completions(1):
            began = time.perf_counter()
            site.bench.start(graph).wait()
            seconds = time.perf_counter() - began
        return seconds / steps


def _python_chain(steps: int) -> wb.Node:
    return wb.seq(*[python_step()] * steps)


def _side_by_side(step: wb.Node) -> Callable[[int], wb.Node]:
    """A hundred chains; fewer where each would be of one step."""

    def graph(steps: int) -> wb.Node:
        chains = min(100, steps // 2)
        return wb.join(*[wb.seq(*[step] * (steps // chains))] * chains)

    return graph


_SHAPES = (
    _Shape("chain of SQL steps", chain),
    _Shape("chain of Python steps", _python_chain),
    _Shape("JOIN of 100 chains of SQL steps", _side_by_side(sql_step())),
    _Shape("JOIN of 100 chains of Python steps", _side_by_side(python_step())),
)


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """The time of a step in a large run, against that in a small one."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        for shape in _SHAPES:
            yield _compare(shape, site, sizes)


def _compare(shape: _Shape, site: Site, sizes: Sizes) -> Figure:
    with raw_speed(site.conn, sizes.raw_seconds) as speed:
        turns = [
            (shape.seconds(site, sizes.small_run), shape.seconds(site, sizes.large_run))
            for _ in range(sizes.repetitions)
        ]
    return _figure(shape, turns, speed.reading)


def _figure(shape: _Shape, turns: list[tuple[float, float]], raw: Raw) -> Figure:
    small = median(each for each, _ in turns)
    large = median(each for _, each in turns)
    return Figure(
        title=f"10,000 nodes against 1,000: {shape.title}",
        value=large / small,
        unit="× the time",
        target=at_most(1.3),
        samples=tuple(one / other for other, one in turns),
        detail=f"{1 / large:,.0f} steps/s, of 1,000 {1 / small:,.0f} steps/s",
        raw=raw,
    )
