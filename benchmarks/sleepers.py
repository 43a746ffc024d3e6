"""A hundred thousand runs that sleep: what starting them takes, what an idle engine costs beside
them, whether a new run begins as fast as without them, and how fast many wake that are due at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import workbench as wb
from benchmarks import engines, latency
from benchmarks.effects import sql_step
from benchmarks.figures import Aspect, Figure, Raw, Target, at_most
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from workbench.store.listen import Listener

__all__ = ["benchmark"]

_LONG = 365 * 86_400  # seconds; nobody wakes by itself
_START = "SELECT count(df.start(%s)) FROM generate_series(1, %s)"
#: Seconds from the statement that wakes sleepers to the moment at which they are due: in any case,
#: and for each of them.
_LEAD = 0.3, 3e-4
_MOMENT = "SELECT df.now() + make_interval(secs => %s)"
#: As if they had been put to sleep to be due at one moment.
_WAKE = """
    WITH due AS (SELECT instance_id FROM df.nodes WHERE status = 'waiting' LIMIT %(count)s),
    nodes AS (
        UPDATE df.nodes n SET ready_at = %(at)s FROM due
        WHERE n.instance_id = due.instance_id AND n.status = 'waiting'
    )
    UPDATE df.instances i SET wake_at = %(at)s FROM due WHERE i.id = due.instance_id
"""
_WOKEN = """
    SELECT count(*), extract(epoch FROM max(finished_at) - %s)::float8
    FROM df.nodes WHERE node_type = 'SLEEP' AND status = 'completed'
"""
_LOOK = 0.2  # seconds between counts of those that have woken
_PATIENCE = 300.0


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """The same starts without sleepers and with them, for an engine that listens and for one that
    polls.
    """
    with server.site(engine=False) as site:
        before = {}
        for how, listener in engines.MANNERS:
            with engines.engine(site, listener) as ends:
                site.drain(sql_step(), sizes.warm_up)
                before[how] = latency.workload(how, ends).once(site, sizes)
        yield from _put_to_sleep(site, sizes)
        for how, listener in engines.MANNERS:
            yield from _beside(site, sizes, how, listener, before[how])
        yield _waking(site, sizes)


def _put_to_sleep(site: Site, sizes: Sizes) -> Iterator[Figure]:
    count = sizes.sleepers
    graph = wb.sleep(_LONG).to_json()
    with raw_speed(site.conn, sizes.raw_seconds) as speed:
        began = time.perf_counter()
        site.conn.execute(_START, (graph, count))
        started = time.perf_counter()
        with engines.engine(site, Listener):
            site.until_waiting(count)
            asleep = time.perf_counter()
    yield _rate(
        "100,000 sleepers started by one statement", (started - began) / count, speed.reading
    )
    yield _rate("100,000 sleepers put to sleep", (asleep - started) / count, speed.reading)
    # VACUUM and CHECKPOINT too: else both would begin by themselves in the middle of a measurement.
    site.conn.execute("VACUUM (ANALYZE)")
    site.conn.execute("CHECKPOINT")


def _beside(
    site: Site, sizes: Sizes, how: str, listener: type[Listener], before: tuple[float, ...]
) -> Iterator[Figure]:
    with raw_speed(site.conn, sizes.raw_seconds) as speed, engines.engine(site, listener) as ends:
        workload = latency.workload(how, ends)
        workload.once(site, sizes)  # opens sessions, makes plans
        share = engines.cpu_share(sizes.idle_seconds)
        memory = engines.memory()
        after = workload.once(site, sizes)
    yield _single(
        f"idle engine beside 100,000 sleepers, {how}: CPU",
        share,
        "% of a core",
        at_most(2),
        speed.reading,
    )
    yield _single(
        f"idle engine beside 100,000 sleepers, {how}: memory",
        memory,
        "MB",
        at_most(200),
        speed.reading,
    )
    for aspect, without, beside in zip(workload.aspects, before, after, strict=True):
        yield Figure(
            title=f"100,000 sleepers against none: {aspect.title}",
            value=beside / without,
            unit="× the time",
            target=at_most(1.5) if aspect.title.endswith("p50") else None,
            samples=(beside / without,),
            detail=f"{aspect.absolute(beside)}, without {aspect.absolute(without)}",
            raw=speed.reading,
        )


def _waking(site: Site, sizes: Sizes) -> Figure:
    """Runs per commit, from the moment at which all are due until the last has ended."""
    with raw_speed(site.conn, sizes.raw_seconds) as speed, engines.engine(site, Listener):
        at_least, each = _LEAD
        row = site.conn.execute(_MOMENT, (at_least + each * sizes.waking,)).fetchone()
        assert row is not None
        site.conn.execute(_WAKE, {"at": row[0], "count": sizes.waking})
        seconds = _until_woken(site, row[0], sizes.waking)
    return _rate("10,000 sleepers due at once", seconds / sizes.waking, speed.reading)


def _until_woken(site: Site, due: object, count: int) -> float:
    deadline = time.perf_counter() + _PATIENCE
    while True:
        row = site.conn.execute(_WOKEN, (due,)).fetchone()
        assert row is not None
        woken, seconds = row
        if woken == count:
            return float(seconds)
        if woken > count or time.perf_counter() > deadline:
            raise RuntimeError(f"{woken} sleepers woke instead of {count}: no figure")
        time.sleep(_LOOK)


def _rate(title: str, seconds: float, raw: Raw) -> Figure:
    aspect = Aspect(title, "runs")
    ratio = aspect.ratio(seconds, raw.before)
    return Figure(title, ratio, aspect.ratio_unit, None, (ratio,), aspect.absolute(seconds), raw)


def _single(title: str, value: float, unit: str, target: Target, raw: Raw) -> Figure:
    return Figure(title, value, unit, target, (value,), "", raw)
