"""HTTP steps that wait for room: how fast they are admitted, whether a long line makes that slower,
and what it does to a SQL step beside it. The server answers at once, so that admission is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import workbench as wb
from benchmarks import engines, latency, marks
from benchmarks.crew import Crew
from benchmarks.effects import sql_step
from benchmarks.figures import Aspect, Figure, Raw, at_most
from benchmarks.join import side_by_side
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from benchmarks.web import serving
from workbench.store.listen import Listener

__all__ = ["benchmark"]

_LIMIT = 8  # as the ceiling of a site
_ENGINES = (1, 3)
_ALLOW = "SELECT df.set_setting('http_allow', '[\"127.0.0.1\"]')"
#: Seconds per admission among the first and among the last of a run.
_PACE = """
    WITH begun AS (
        SELECT started_at, row_number() OVER (ORDER BY started_at) AS n, count(*) OVER () AS total
        FROM df.attempts WHERE instance_id = %(run)s
    )
    SELECT extract(epoch FROM max(started_at) FILTER (WHERE n <= %(edge)s) - min(started_at))::float8
           / (%(edge)s - 1),
           extract(epoch FROM max(started_at) - min(started_at) FILTER (WHERE n > total - %(edge)s))::float8
           / (%(edge)s - 1)
    FROM begun
"""
_HELD = "SELECT coalesce(max(waiting), 0) FROM df.policy_scopes(%s)"


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """Short lines drained by one and by three workers; then one long line."""
    with serving() as url:
        with server.site(engine=False) as site:
            site.conn.execute(_ALLOW)
            yield from _admissions(site, sizes, url)
        with server.site(engine=False) as site:
            site.conn.execute(_ALLOW)
            yield from _beside(site, sizes, url)
        with server.site(engine=False) as site:
            site.conn.execute(_ALLOW)
            yield _long_line(site, sizes, url)


def _admissions(site: Site, sizes: Sizes, url: str) -> Iterator[Figure]:
    graph = _limited(side_by_side(wb.http(url), sizes.requests), _LIMIT)
    with (
        raw_speed(site.conn, sizes.raw_seconds) as speed,
        Crew(site.dsn, site.conn, marks.__name__) as crew,
    ):
        by_count = {}
        for count in _ENGINES:
            while crew.size < count:
                crew.join()
            site.drain(sql_step(), sizes.warm_up)
            with site.expecting_completions(sizes.repetitions):
                by_count[count] = [
                    site.drain(graph, 1) / sizes.requests for _ in range(sizes.repetitions)
                ]
            crew.require_all()
    for count, seconds in by_count.items():
        told = "1 engine" if count == 1 else f"{count} engines"
        yield _rate(f"HTTP steps under a limit of {_LIMIT}, {told}", seconds, speed.reading)


def _beside(site: Site, sizes: Sizes, url: str) -> Iterator[Figure]:
    """The same starts without the line and beside it; its first request is never answered."""
    with (
        raw_speed(site.conn, sizes.raw_seconds) as speed,
        engines.engine(site, Listener) as ends,
    ):
        workload = latency.workload("woken by NOTIFY", ends)
        site.drain(sql_step(), sizes.warm_up)
        before = workload.once(site, sizes)
        line = [wb.http(f"{url}/held"), *[wb.http(url)] * (sizes.line - 1)]
        row = site.conn.execute(
            "SELECT df.start(%s)", (_limited(wb.join(*line), 1).to_json(),)
        ).fetchone()
        assert row is not None
        site.until(_HELD, sizes.line - 1, row[0])
        workload.once(site, sizes)  # makes plans
        after = workload.once(site, sizes)
        site.conn.execute("SELECT df.cancel(%s)", (row[0],))
    for aspect, without, beside in zip(workload.aspects, before, after, strict=True):
        yield Figure(
            title=f"10,000 HTTP steps in line against none: {aspect.title}",
            value=beside / without,
            unit="× the time",
            target=at_most(1.5) if aspect.title.endswith("p50") else None,
            samples=(beside / without,),
            detail=f"{aspect.absolute(beside)}, without {aspect.absolute(without)}",
            raw=speed.reading,
        )


def _long_line(site: Site, sizes: Sizes, url: str) -> Figure:
    """Admissions one at a time: the first of the line, when all others wait, and the last."""
    edge = min(500, sizes.line // 3)
    with (
        raw_speed(site.conn, sizes.raw_seconds) as speed,
        engines.engine(site, Listener),
        site.expecting_completions(1),
    ):
        graph = _limited(side_by_side(wb.http(url), sizes.line), 1)
        run = site.bench.start(graph)
        site.until_all_ended()
        row = site.conn.execute(_PACE, {"run": run.id, "edge": edge}).fetchone()
    assert row is not None
    first, last = row
    return Figure(
        title="10,000 HTTP steps under a limit of 1: an admission at the start against the end",
        value=first / last,
        unit="× the time",
        target=at_most(1.3),
        samples=(first / last,),
        detail=f"{first * 1000:.2f} ms, at the end {last * 1000:.2f} ms",
        raw=speed.reading,
    )


def _limited(graph: wb.Node, limit: int) -> wb.Node:
    return wb.with_policy(graph, http={"max_concurrency": limit})


def _rate(title: str, seconds: list[float], raw: Raw) -> Figure:
    aspect = Aspect(title, "admissions")
    return Figure(
        title=title,
        value=aspect.ratio(median(seconds), raw.before),
        unit=aspect.ratio_unit,
        target=None,
        samples=tuple(aspect.ratio(each, raw.before) for each in seconds),
        detail=aspect.absolute(median(seconds)),
        raw=raw,
    )
