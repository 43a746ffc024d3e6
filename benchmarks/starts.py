"""What a start costs by itself, with no engine at work: `df.start` from SQL, a commit each or many
in one transaction, and `bench.start`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.effects import sql_step
from benchmarks.figures import Aspect, Figure
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload, measure

__all__ = ["benchmark"]

_START = "SELECT df.start('SELECT 1')"


def _in_sql(site: Site, starts: int) -> None:
    for _ in range(starts):
        site.conn.execute(_START, prepare=False)  # as psql sends it


def _a_commit_each(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_starts(sizes.bare_starts):
        began = time.perf_counter()
        _in_sql(site, sizes.bare_starts)
        seconds = time.perf_counter() - began
    return (seconds / sizes.bare_starts,)


def _in_one_transaction(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_starts(sizes.bare_starts):
        began = time.perf_counter()
        with site.conn.transaction():
            _in_sql(site, sizes.bare_starts)
        seconds = time.perf_counter() - began
    return (seconds / sizes.bare_starts,)


def _from_python(site: Site, sizes: Sizes) -> tuple[float]:
    with site.expecting_starts(sizes.bare_starts):
        began = time.perf_counter()
        for _ in range(sizes.bare_starts):
            site.bench.start(sql_step())
        seconds = time.perf_counter() - began
    return (seconds / sizes.bare_starts,)


_WORKLOADS = (
    Workload((Aspect("df.start, a commit each", "starts"),), _a_commit_each),
    Workload((Aspect("df.start, 1,000 in one transaction", "starts"),), _in_one_transaction),
    Workload((Aspect("bench.start, engine held", "starts"),), _from_python),
)


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """Starts alone: no engine takes what they leave, and the runs wait to the end."""
    with server.site() as site:
        site.bench.hold()
        yield from measure(site, _WORKLOADS, sizes)
