"""The list of benchmarks, by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from benchmarks import (
    chain,
    failures,
    flows,
    idle,
    join,
    latency,
    loop,
    million,
    nodes,
    policies,
    signals,
    sleepers,
    starts,
    views,
    waiting,
    workers,
)
from benchmarks.figures import Figure
from benchmarks.site import Server
from benchmarks.sizes import Sizes

__all__ = ["BENCHMARKS", "Benchmark"]

Benchmark = Callable[[Server, Sizes], Iterator[Figure]]

BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        "chain": chain.benchmark,
        "sql": waiting.sql_benchmark,
        "python": waiting.python_benchmark,
        "idle": idle.benchmark,
        "latency": latency.benchmark,
        "starts": starts.benchmark,
        "workers": workers.benchmark,
        "million": million.benchmark,
        "join": join.benchmark,
        "flows": flows.benchmark,
        "loop": loop.benchmark,
        "nodes": nodes.benchmark,
        "sleepers": sleepers.benchmark,
        "signals": signals.benchmark,
        "policies": policies.benchmark,
        "failures": failures.benchmark,
        "views": views.benchmark,
    }
)
