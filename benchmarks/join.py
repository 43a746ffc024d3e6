"""One run with a thousand branches: a JOIN of Python steps and of SQL steps, and a JOIN that three
`workbench worker` processes share.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import workbench as wb
from benchmarks import marks
from benchmarks.crew import Crew
from benchmarks.effects import python_step, sql_step
from benchmarks.figures import Aspect, Figure, at_least
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure

__all__ = ["benchmark"]

_ENGINES = 3


def _python(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_notes(sizes.branches):
        seconds = site.drain(side_by_side(python_step(), sizes.branches), 1)
    return (seconds / sizes.branches,)


def _sql(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_inserts(sizes.branches):
        seconds = site.drain(side_by_side(sql_step(), sizes.branches), 1)
    return (seconds / sizes.branches,)


_WORKLOADS = (
    Workload((Aspect("JOIN of 1,000 Python steps", "steps", target=at_least(1.5)),), _python),
    Workload((Aspect("JOIN of 1,000 SQL steps", "steps"),), _sql),
)


def side_by_side(step: wb.Node, branches: int) -> wb.Node:
    """So many times the same step, as the branches of one JOIN."""
    return wb.join(*[step] * branches)


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """Branches by the engine in this process, then more of them by several engines."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        yield from measure(site, _WORKLOADS, sizes)
    with (
        server.site(engine=False) as site,
        tempfile.TemporaryDirectory(prefix="workbench-benchmarks-") as directory,
        Crew(site.dsn, site.conn, marks.__name__) as crew,
    ):
        for _ in range(_ENGINES):
            crew.join()
        yield _shared(site, crew, Path(directory), sizes)


def _shared(site: Site, crew: Crew, directory: Path, sizes: Sizes) -> Figure:
    site.drain(marks.python_step(directory / "warm-up"), sizes.warm_up)
    with raw_speed(site.conn, sizes.raw_seconds) as speed:
        samples = tuple(
            _one_shared(site, directory / str(number), sizes.shared_branches)
            for number in range(sizes.repetitions)
        )
        crew.require_all()
    steps = sizes.shared_branches / median(samples)
    return Figure(
        title=f"JOIN of 4,000 Python steps, {_ENGINES} workers",
        value=median(samples),
        unit="s",
        target=None,
        samples=samples,
        detail=f"{steps:,.0f} steps/s on {os.cpu_count()} cores",
        raw=speed.reading,
    )


def _one_shared(site: Site, path: Path, branches: int) -> float:
    """Seconds of one run, each of whose steps has marked it once."""
    graph = side_by_side(marks.python_step(path), branches)
    began = time.perf_counter()
    site.bench.start(graph)
    site.until_all_ended()
    seconds = time.perf_counter() - began
    if (found := len(marks.in_file(path))) != branches:
        raise RuntimeError(
            f"{found} effects of {branches} branches: the measurement is void. See the log on stderr."
        )
    return seconds
