"""How more `workbench worker` processes drain one queue: one, two and three of them.

Server and workers share the machine's cores, whose number the table tells: what a second worker
adds on one machine says little about another. Nobody promises these figures.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import marks
from benchmarks.crew import Crew
from benchmarks.figures import Aspect, Figure, Raw
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from workbench.graph.node import Node

__all__ = ["benchmark"]

_COUNTS = (1, 2, 3)
_RUNS = "SELECT id FROM df.instances"


@dataclass(frozen=True)
class _Queue:
    """So many one-step runs that wait; `marked` tells the runs whose step had its effect, once for
    every effect.
    """

    title: str
    graph: Node
    runs: int
    marked: Callable[[], list[str]]


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """Queues of SQL steps and of Python steps, each on a database of its own."""
    with server.site(engine=False) as site:
        site.conn.execute(marks.TABLE)
        title = "1,000 one-step SQL runs waiting"
        yield from _compare(
            site,
            _Queue(title, marks.sql_step(), sizes.sql_runs, lambda: marks.in_table(site.conn)),
            sizes,
        )
    with (
        server.site(engine=False) as site,
        tempfile.TemporaryDirectory(prefix="workbench-benchmarks-") as directory,
    ):
        path = Path(directory) / "marks"
        title = "2,000 one-step Python runs waiting"
        yield from _compare(
            site,
            _Queue(title, marks.python_step(path), sizes.python_runs, lambda: marks.in_file(path)),
            sizes,
        )


def _compare(site: Site, queue: _Queue, sizes: Sizes) -> Iterator[Figure]:
    with raw_speed(site.conn, sizes.raw_seconds) as speed:
        turns = [_turn(site, queue, sizes) for _ in range(sizes.repetitions)]
    alone, *_ = by_count = list(zip(*turns, strict=True))
    for workers, seconds in zip(_COUNTS, by_count, strict=True):
        yield _rate(queue, workers, seconds, speed.reading)
    for workers, seconds in zip(_COUNTS[1:], by_count[1:], strict=True):
        yield _gain(queue, workers, alone, seconds, speed.reading)


def _turn(site: Site, queue: _Queue, sizes: Sizes) -> list[float]:
    """Seconds per run with one worker, with two, …; each new one joins those already there, so that
    a machine which drifts does so for every count.
    """
    seconds = []
    with Crew(site.dsn, site.conn, marks.__name__) as crew:
        for _ in _COUNTS:
            crew.join()
            site.drain(queue.graph, sizes.warm_up)
            seconds.append(site.drain(queue.graph, queue.runs) / queue.runs)
            crew.require_all()
            _require_one_effect_each(site, queue)
    return seconds


def _require_one_effect_each(site: Site, queue: _Queue) -> None:
    runs = sorted(str(run) for (run,) in site.conn.execute(_RUNS))
    marked = sorted(queue.marked())
    if marked != runs:
        raise RuntimeError(
            f"{len(marked)} effects, in {len(set(marked))} of {len(runs)} runs, instead of one in "
            "each: the measurement is void. See the log on stderr."
        )


def _rate(queue: _Queue, workers: int, seconds: tuple[float, ...], raw: Raw) -> Figure:
    aspect = Aspect(f"{queue.title}, {_told(workers)}", "runs")
    return Figure(
        title=aspect.title,
        value=aspect.ratio(median(seconds), raw.before),
        unit=aspect.ratio_unit,
        target=None,
        samples=tuple(aspect.ratio(each, raw.before) for each in seconds),
        detail=f"{aspect.absolute(median(seconds))} on {os.cpu_count()} cores",
        raw=raw,
    )


def _gain(
    queue: _Queue, workers: int, alone: tuple[float, ...], seconds: tuple[float, ...], raw: Raw
) -> Figure:
    return Figure(
        title=f"{queue.title}, {_told(workers)} against one",
        value=median(alone) / median(seconds),
        unit="× the speed",
        target=None,
        samples=tuple(one / several for one, several in zip(alone, seconds, strict=True)),
        detail=f"on {os.cpu_count()} cores",
        raw=raw,
    )


def _told(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"
