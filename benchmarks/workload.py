"""A workload, and how it is measured: several times, between readings of the raw speed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Aspect, Figure, Raw
from benchmarks.raw import raw_speed
from benchmarks.site import Site
from benchmarks.sizes import Sizes

__all__ = ["Workload", "measure"]


@dataclass(frozen=True)
class Workload:
    """Something to do on a site; `once` gives seconds per unit, one number for each aspect."""

    aspects: tuple[Aspect, ...]
    once: Callable[[Site, Sizes], tuple[float, ...]]


def measure(site: Site, workloads: Iterable[Workload], sizes: Sizes) -> Iterator[Figure]:
    """The figures of workloads on a site that is warm, each with the raw speed around it."""
    for workload in workloads:
        with raw_speed(site.conn, sizes.raw_seconds) as speed:
            repetitions = [workload.once(site, sizes) for _ in range(sizes.repetitions)]
        for aspect, seconds in zip(workload.aspects, zip(*repetitions, strict=True), strict=True):
            yield _figure(aspect, seconds, speed.reading)


def _figure(aspect: Aspect, seconds: tuple[float, ...], raw: Raw) -> Figure:
    return Figure(
        title=aspect.title,
        value=aspect.ratio(median(seconds), raw.before),
        unit=aspect.ratio_unit,
        target=aspect.target,
        samples=tuple(aspect.ratio(each, raw.before) for each in seconds),
        detail=aspect.absolute(median(seconds)),
        raw=raw,
    )
