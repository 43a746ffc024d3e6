"""The reference for chains: a bare script that sends the statements of their steps over plain
psycopg connections, without an engine.

Once only what the steps do (BEGIN, the effect, COMMIT), once with the checkpoints of real runs in
the same transactions: the run's lock and what the decider would have had written. Everything is
composed before the clock starts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import NamedTuple

import psycopg

from benchmarks.effects import INSERT, chain
from benchmarks.figures import Aspect
from benchmarks.site import Site
from benchmarks.sizes import Sizes
from benchmarks.workload import Workload
from workbench.engine import documents
from workbench.engine.core import Core, Settled
from workbench.engine.model import Completed, Run, Start, Value
from workbench.engine.plan import Plan
from workbench.engine.policy import Policy
from workbench.engine.workload import Claim
from workbench.engine.workload import Workload as Claims
from workbench.store import verbs
from workbench.store.wire import Statement

__all__ = ["WORKLOADS"]

_THREADS = 8
_VALUE = Value('{"rows": [], "row_count": 1}')


class Call(NamedTuple):
    """A statement and its parameters."""

    sql: bytes
    parameters: Sequence[str | None] = ()

    @classmethod
    def of(cls, statement: Statement) -> Call:
        """An engine's statement as psycopg wants it."""
        values = [None if value is None else value.decode() for value in statement.params]
        return cls(re.sub(rb"\$\d+", b"%s", statement.sql), values)


class _Collector:
    """In place of an engine: keeps what it would execute."""

    def __init__(self) -> None:
        self.taken: list[Claim] = []

    def has_handler(self, name: str) -> bool:
        return False

    def execute(self, run: Run, claim: Claim) -> None:
        self.taken.append(claim)

    def look_in(self, seconds: float) -> None:
        pass

    def moved(self, run: str, ended: bool) -> None:
        pass


Step = Sequence[Call]
Script = Sequence[Step]
Compose = Callable[[Site, int], Script]


def _effects_only(site: Site, steps: int) -> Script:
    return [[Call(INSERT.encode())]] * steps


def _with_checkpoints(site: Site, steps: int) -> Script:
    """Start a run, and write down what an engine would send for each of its steps."""
    graph = chain(steps)
    run = Run(site.bench.start(graph).id, Plan.of(graph), Policy(1, 16.0, "fail"))
    host = _Collector()
    core = Core(site.dsn, site.conn.info.dbname, (1, 1), Claims(1, lambda: None), host)
    core.identity, core.claiming = "bare script", True
    opening = core.settle(run, Start(), datetime.now(UTC), 1)
    assert opening is not None
    _play(site.conn, [[_checkpoint(core, opening)]])
    core.committed(opening)
    script: list[Step] = []
    while host.taken:
        claim = host.taken.pop()
        event = Completed(claim.node, claim.token, _VALUE)
        settled = core.settle(run, event, datetime.now(UTC), 1)
        assert settled is not None
        settled.ended.append(claim)
        lock = Call.of(verbs.lock_one(run.id, run.version))
        script.append([Call(INSERT.encode()), lock, _checkpoint(core, settled)])
        core.committed(settled)
    return script


def _checkpoint(core: Core, settled: Settled) -> Call:
    decision = settled.decision
    return Call.of(documents.statement(core.identity, decision.at, [(settled.run.id, decision)]))


def _play(conn: psycopg.Connection, script: Script) -> None:
    for step in script:
        conn.execute("BEGIN")
        for call in step:
            conn.execute(call.sql, call.parameters)
        conn.execute("COMMIT")


def _alone(compose: Compose) -> Callable[[Site, Sizes], tuple[float]]:
    def once(site: Site, sizes: Sizes) -> tuple[float]:
        script = compose(site, sizes.chain_steps)
        with site.expecting_inserts(sizes.chain_steps):
            began = time.perf_counter()
            _play(site.conn, script)
            seconds = time.perf_counter() - began
        return (seconds / sizes.chain_steps,)

    return once


def _in_threads(compose: Compose) -> Callable[[Site, Sizes], tuple[float]]:
    def once(site: Site, sizes: Sizes) -> tuple[float]:
        steps = sizes.chains * sizes.steps_of_each
        scripts = [compose(site, sizes.steps_of_each) for _ in range(sizes.chains)]
        with site.expecting_inserts(steps):
            seconds = _play_in_threads(site.dsn, scripts)
        return (seconds / steps,)

    return once


def _play_in_threads(dsn: str, scripts: Sequence[Script]) -> float:
    """Each thread has a connection, opened beforehand, and takes the next chain when it has finished one."""
    with ExitStack() as stack:
        idle = [stack.enter_context(psycopg.connect(dsn, autocommit=True)) for _ in range(_THREADS)]

        def play(script: Script) -> None:
            conn = idle.pop()
            _play(conn, script)
            idle.append(conn)

        executor = stack.enter_context(ThreadPoolExecutor(_THREADS))
        began = time.perf_counter()
        list(executor.map(play, scripts))
        return time.perf_counter() - began


def _workload(title: str, once: Callable[[Site, Sizes], tuple[float, ...]]) -> Workload:
    return Workload((Aspect(title, "steps"),), once)


WORKLOADS = (
    _workload("bare script: effects, one chain", _alone(_effects_only)),
    _workload("bare script: effects, 50 chains over 8 threads", _in_threads(_effects_only)),
    _workload("bare script: with checkpoints, one chain", _alone(_with_checkpoints)),
    _workload(
        "bare script: with checkpoints, 50 chains over 8 threads", _in_threads(_with_checkpoints)
    ),
)
