"""What it takes to look: big views until their first picture, what an update of a live one sends, and
what a live view costs the engine of its kernel.

No browser takes part: a picture is there when its HTML is, an update when the widget has been given it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from unittest.mock import patch

import workbench as wb
from benchmarks.effects import chain, python_step
from benchmarks.figures import Figure, Raw, Target, at_most
from benchmarks.fill import fill
from benchmarks.join import side_by_side
from benchmarks.raw import raw_speed
from benchmarks.site import Server, Site
from benchmarks.sizes import Sizes
from workbench.engine.context import Context
from workbench.run import Run
from workbench.views import follow
from workbench.views.base import View
from workbench.views.follow import updater

__all__ = ["benchmark"]

_NODES_OF_EACH = 5  # of the finished runs in a list
_SOON = 1000.0  # milliseconds until a first picture
_SMALL = 300.0  # kilobytes of a picture
_OFTEN = 4.4  # updates a second: 4, and one that was due when the clock began
_CHEAP = 1.1  # times as long, with a live view beside it


def benchmark(server: Server, sizes: Sizes) -> Iterator[Figure]:
    """First pictures, then updates, then the price."""
    with server.site() as site:
        site.warm_up(sizes.warm_up)
        for title, make in _large_views(site, sizes):
            yield from _first_picture(site, sizes, title, make)
        yield from _updates(site, sizes)
        for title, beside in _BESIDE:
            yield _price(site, sizes, title, beside)


def _large_views(site: Site, sizes: Sizes) -> Iterator[tuple[str, Callable[[], View]]]:
    bench = site.bench
    fill(site.conn, _NODES_OF_EACH * sizes.listed_runs)
    yield "10,000 runs", lambda: bench.runs(limit=sizes.listed_runs)
    graph = chain(sizes.large_run)
    yield "graph of 10,000 nodes", lambda: bench.explain(graph)
    run = bench.start(graph)
    run.wait()
    yield "run of 10,000 nodes", run.view
    yield "run of 10,000 nodes, explained", run.explain
    mapped = wb.Flow("mapped")
    mapped.map(max_attempts=2, base_delay=0)(over_and_over)
    twice = bench.start(mapped, input=list(range(5 * sizes.branches)))
    twice.wait()
    yield "map of 5,000 elements", twice.view
    yield "timeline of 10,000 attempts", twice.timeline
    last = _retried(bench.start(wb.sql("SELECT 1 / 0")), sizes.branches)
    yield "lineage of 1,000 runs", last.lineage


def over_and_over(_item: int, ctx: Context) -> None:
    if ctx.attempt == 1:
        raise ValueError("once more")


def _retried(run: Run, times: int) -> Run:
    for _ in range(times):
        run.wait()
        run = run.retry()
    run.wait()
    return run


def _first_picture(
    site: Site, sizes: Sizes, title: str, make: Callable[[], View]
) -> Iterator[Figure]:
    taken, size = [], 0
    with raw_speed(site.conn, sizes.raw_seconds) as speed:
        for _ in range(sizes.repetitions):
            began = time.perf_counter()
            size = len(str(make().html()).encode())
            taken.append(1000 * (time.perf_counter() - began))
    yield _figure(f"{title}: first picture", taken, "ms", at_most(_SOON), speed.reading)
    yield _figure(f"{title}: size", [size / 1000], "kB", at_most(_SMALL), speed.reading)


@dataclass
class _Updates:
    """What a live view has been given meanwhile."""

    count: int = 0
    largest: int = 0

    def note(self, change: dict[str, str]) -> None:
        self.count += 1
        self.largest = max(self.largest, len(change["new"].encode()))


@contextmanager
def _live(view: View) -> Iterator[_Updates]:
    """Show a view, as a cell does; one of a run that has ended already gets no updates."""
    before = updater.shown()
    with patch.object(follow, "in_a_kernel", lambda: True):
        view._repr_mimebundle_()
    shown = [each for each in updater.shown() if each not in before]
    updates = _Updates()
    for each in shown:
        each.face.observe(updates.note, "html")  # type: ignore[attr-defined]
    try:
        yield updates
    finally:
        for each in shown:
            each.drop()  # type: ignore[attr-defined]


def _updates(site: Site, sizes: Sizes) -> Iterator[Figure]:
    """Of a run that changes all the time, and of a large one."""
    bench = site.bench
    large = chain(sizes.large_run - 1) >> wb.wait_for_signal("end")
    for title, graph, target in (
        ("run that changes hundreds of times a second", wb.loop(python_step(), min_interval=0), at_most(_OFTEN)),
        ("run of 10,000 nodes", large, at_most(_OFTEN)),
    ):  # fmt: skip
        run = bench.start(graph)
        with raw_speed(site.conn, sizes.raw_seconds) as speed, _live(run.view()) as updates:
            began = time.perf_counter()
            time.sleep(sizes.watched_seconds)
            often = updates.count / (time.perf_counter() - began)
        run.cancel()
        run.wait()
        yield _figure(f"{title}: updates a second", [often], "/s", target, speed.reading)
        size = updates.largest / 1000
        yield _figure(f"{title}: largest update", [size], "kB", at_most(_SMALL), speed.reading)


_BESIDE: tuple[tuple[str, Callable[[Site, Run], View]], ...] = (
    ("its view", lambda site, run: run.view()),
    ("its timeline", lambda site, run: run.timeline()),
    ("the activity", lambda site, run: site.bench.activity()),
)


def _price(site: Site, sizes: Sizes, title: str, make: Callable[[Site, Run], View]) -> Figure:
    graph = side_by_side(python_step(), 2 * sizes.branches)

    def seconds(shown: bool) -> float:
        with site.expecting_notes(2 * sizes.branches):
            began = time.perf_counter()
            run = site.bench.start(graph)
            if shown:
                with _live(make(site, run)):
                    run.wait()
            else:
                run.wait()
            return time.perf_counter() - began

    with raw_speed(site.conn, sizes.raw_seconds) as speed:
        turns = [(seconds(False), seconds(True)) for _ in range(sizes.repetitions)]
    alone, beside = (median(each) for each in zip(*turns, strict=True))
    return Figure(
        title=f"JOIN of 2,000 Python steps with {title} live, against none",
        value=beside / alone,
        unit="× the time",
        target=at_most(_CHEAP),
        samples=tuple(b / a for a, b in turns),
        detail=f"{beside:.2f} s, without {alone:.2f} s",
        raw=speed.reading,
    )


def _figure(title: str, values: list[float], unit: str, target: Target, raw: Raw) -> Figure:
    return Figure(title, median(values), unit, target, tuple(values), "", raw)
