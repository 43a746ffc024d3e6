"""What failures cost: how soon the steps of a killed worker are given back, and what ten thousand
steps that wait for their next attempt cost an idle engine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import LiteralString

import workbench as wb
from benchmarks import engines, marks
from benchmarks.crew import Crew
from benchmarks.figures import Figure, at_most
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from workbench.store.listen import Listener

__all__ = ["benchmark"]

_START = "SELECT count(df.start(%s)) FROM generate_series(1, %s)"
_RETRYING: LiteralString = "SELECT count(*) FROM df.nodes WHERE status = 'ready' AND attempt = 1"
_RUNNING: LiteralString = (
    "SELECT count(*) FROM df.nodes WHERE status = 'running' AND token IS NOT NULL"
)
_ENGINES: LiteralString = (
    "SELECT array_agg(DISTINCT engine_id) FROM df.nodes WHERE token IS NOT NULL"
)
_LOOK = 0.01  # seconds between looks at what is still lost
_PATIENCE = 60.0


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """A kill with many steps in flight, then many that wait."""
    with server.site(engine=False) as site:
        yield _recovery(site, sizes)
    with server.site(engine=False) as site:
        yield _idle(site, sizes)


def _recovery(site: Site, sizes: Sizes) -> Figure:
    """Seconds from the kill until none of the victim's steps counts as running there."""
    site.conn.execute(
        "SELECT df.set_setting('max_activity_concurrency', to_jsonb(%s::int))", (sizes.in_flight,)
    )
    graph = wb.sql("SELECT pg_sleep(600)").to_json()
    with (
        raw_speed(site.conn, sizes.raw_seconds) as speed,
        Crew(site.dsn, site.conn, marks.__name__) as crew,
    ):
        crew.join()
        site.conn.execute(_START, (graph, sizes.in_flight))
        site.until(_RUNNING, sizes.in_flight)
        victims = site.conn.execute(_ENGINES).fetchone()
        assert victims is not None
        crew.join()
        began = time.perf_counter()
        crew.kill_first()
        while _count(site, victims[0]):
            if time.perf_counter() - began > _PATIENCE:
                raise TimeoutError("the steps of the killed worker are not given back: no figure")
            time.sleep(_LOOK)
        seconds = time.perf_counter() - began
        site.conn.execute("SELECT df.cancel(id) FROM df.instances WHERE status = 'running'")
    title = "100 steps of a killed worker given back"
    return Figure(title, seconds, "s", at_most(1), (seconds,), "", speed.reading)


def _count(site: Site, victims: list[str]) -> int:
    """Steps that run under a dead engine's name."""
    row = site.conn.execute(
        "SELECT count(*) FROM df.nodes WHERE status = 'running' AND token IS NOT NULL"
        " AND engine_id = ANY (%s)",
        (victims,),
    ).fetchone()
    assert row is not None
    return int(row[0])


def _idle(site: Site, sizes: Sizes) -> Figure:
    graph = wb.with_retry("SELECT 1/0", max_attempts=2, base_delay="1 day", max_backoff="1 day")
    with raw_speed(site.conn, sizes.raw_seconds) as speed, engines.engine(site, Listener):
        site.conn.execute(_START, (graph.to_json(), sizes.waking))
        site.until(_RETRYING, sizes.waking)
        site.conn.execute("VACUUM (ANALYZE)")
        site.conn.execute("CHECKPOINT")
        share = engines.cpu_share(sizes.idle_seconds)
    title = "idle engine beside 10,000 steps that wait for another attempt: CPU"
    return Figure(title, share, "% of a core", at_most(2), (share,), "", speed.reading)
