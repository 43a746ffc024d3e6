"""One-step runs that wait for the engine, all at once: SQL steps, and Python steps."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.effects import python_step, sql_step
from benchmarks.figures import Aspect, Figure, at_least
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure

__all__ = ["PYTHON", "SQL", "python_benchmark", "sql_benchmark"]


def _sql(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_inserts(sizes.sql_runs):
        seconds = site.drain(sql_step(), sizes.sql_runs)
    return (seconds / sizes.sql_runs,)


def _python(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_notes(sizes.python_runs):
        seconds = site.drain(python_step(), sizes.python_runs)
    return (seconds / sizes.python_runs,)


SQL = Workload((Aspect("1,000 one-step SQL runs waiting", "runs", target=at_least(0.45)),), _sql)
PYTHON = Workload(
    (Aspect("2,000 one-step Python runs waiting", "runs", target=at_least(2)),), _python
)


def sql_benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """SQL runs waiting: the effect and the checkpoint of each are one commit."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        yield from measure(site, (SQL,), sizes)


def python_benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """Python runs waiting: a commit holds the checkpoints of many."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        yield from measure(site, (PYTHON,), sizes)
