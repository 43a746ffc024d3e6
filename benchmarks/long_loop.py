"""Whether the iterations of a long loop slow down, leave rows behind or take memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import workbench as wb
from benchmarks import engines
from benchmarks.figures import Figure, Raw, at_most
from benchmarks.iterations import Kind
from benchmarks.raw import raw_speed
from benchmarks.site import Site
from benchmarks.sizes import Sizes

__all__ = ["figures"]

_LOOK = 0.02  # seconds between looks at where the loop is
_ITERATION = "SELECT iteration, status FROM df.nodes WHERE instance_id = %s AND node_id = 0"
_LEFT = """
    SELECT (SELECT count(*) FROM df.nodes WHERE instance_id = %(run)s) AS nodes,
           (SELECT count(*) FROM df.attempts WHERE instance_id = %(run)s) AS attempts,
           (SELECT count(*) FROM df.iterations WHERE instance_id = %(run)s) AS iterations,
           (SELECT count(*) FROM df.values WHERE instance_id = %(run)s) AS values,
           (SELECT count(*) FROM df.signals WHERE instance_id = %(run)s) AS signals
"""


class _Sight(NamedTuple):
    """What was seen when the loop came to an iteration: `time.perf_counter`, and memory in MB."""

    seconds: float
    memory: float


@dataclass(frozen=True)
class _Passage:
    """A loop of `count` iterations that was watched: sights by iteration."""

    count: int
    sights: Mapping[int, _Sight]

    def pace(self, first: int, last: int) -> float:
        """Seconds per iteration between two that were seen."""
        return (self.sights[last].seconds - self.sights[first].seconds) / (last - first)

    @property
    def tenths(self) -> list[float]:
        """The pace of each tenth part."""
        return [self.pace(*part) for part in pairwise([1, *_tenths(self.count)])]


def figures(kind: Kind, site: Site, sizes: Sizes) -> Iterable[Figure]:
    """What one long loop shows."""
    count = sizes.long_iterations
    with raw_speed(site.conn, sizes.raw_seconds) as speed, kind.expecting(site, count):
        run = site.bench.start(kind.loop(count))
        passage = _Passage(count, _watch(site, run, count))
        run.wait()
    title = f"200,000 iterations, {kind.name} body and condition"
    yield _slowing(title, passage, speed.reading)
    yield _growth(title, passage, speed.reading)
    yield _rows(title, site, run, speed.reading)


def _edge(count: int) -> int:
    """The length of its beginning and of its end."""
    return min(1_000, count // 10)


def _tenths(count: int) -> list[int]:
    return [count * part // 10 for part in range(1, 11)]


def _watch(site: Site, run: wb.Run, count: int) -> dict[int, _Sight]:
    sights = {}
    for landmark in sorted({1, _edge(count), *_tenths(count), count - _edge(count)}):
        while _iteration(site, run) < landmark:
            time.sleep(_LOOK)
        sights[landmark] = _Sight(time.perf_counter(), engines.memory())
    return sights


def _iteration(site: Site, run: wb.Run) -> int:
    """The one under way; beyond all when the loop has ended."""
    row = site.conn.execute(_ITERATION, (run.id,)).fetchone()
    assert row is not None
    iteration, status = row
    return int(iteration) if status in ("pending", "running", "waiting") else sys.maxsize


def _slowing(title: str, passage: _Passage, raw: Raw) -> Figure:
    edge = _edge(passage.count)
    first = passage.pace(1, edge)
    last = passage.pace(passage.count - edge, passage.count)
    tenths = passage.tenths
    told = " ".join(f"{pace * 1000:.2f}" for pace in tenths)
    return Figure(
        title=f"{title}: the last thousand against the first",
        value=last / first,
        unit="× the time",
        target=at_most(1.3),
        samples=tuple(pace / first for pace in tenths),
        detail=f"{last * 1000:.2f} ms, first {first * 1000:.2f} ms, by tenths {told}",
        raw=raw,
    )


def _growth(title: str, passage: _Passage, raw: Raw) -> Figure:
    memory = [passage.sights[tenth].memory for tenth in _tenths(passage.count)]
    return Figure(
        title=f"{title}: memory at the end against the first tenth",
        value=memory[-1] / memory[0],
        unit="× the memory",
        target=at_most(1.1),
        samples=tuple(each / memory[0] for each in memory),
        detail=f"{memory[-1]:.1f} MB, first tenth {memory[0]:.1f} MB",
        raw=raw,
    )


def _rows(title: str, site: Site, run: wb.Run, raw: Raw) -> Figure:
    cursor = site.conn.execute(_LEFT, {"run": run.id})
    names = [column.name for column in cursor.description or ()]
    counts = cursor.fetchone() or ()
    total = float(sum(counts))
    return Figure(
        title=f"{title}: rows left",
        value=total,
        unit="rows",
        target=at_most(500),
        samples=(total,),
        detail=", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True)),
        raw=raw,
    )
