"""What a bench and a worker meet elsewhere: poolers, worker processes, other roles, other kernels.

The engine's own fixtures (`db`, `start_engine`, …) are those of `tests/engine`; the helpers behind
these here are in `pooler.py` and `commands.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.engine.conftest import db, engine, spawn_engine, start_engine
from tests.engine.support import Database
from tests.remote.commands import Command, Worker
from tests.remote.kernel import Kernel
from tests.remote.pooler import Pooler
from workbench.bench import Bench
from workbench.connecting import connect

__all__ = ["db", "engine", "spawn_engine", "start_engine"]

StartKernel = Callable[..., Kernel]
StartPooler = Callable[..., Pooler]
StartWorker = Callable[..., Worker]
Connect = Callable[..., Bench]
MakeRole = Callable[..., str]
RunCommand = Callable[..., Command]


@pytest.fixture
def start_kernel(db: Database, tmp_path: Path) -> Iterator[StartKernel]:
    """Start a kernel that has a bench on the test's database."""
    with contextlib.ExitStack() as started:

        def start(said: str = "") -> Kernel:
            kernel = Kernel(tmp_path, WORKBENCH_DSN=db.dsn)
            started.enter_context(contextlib.closing(kernel))
            assert kernel.run("import workbench as wb; bench = wb.connect(namespace='nb')") == said
            return kernel

        yield start


@pytest.fixture
def start_pooler(dsn: str) -> Iterator[StartPooler]:
    """Start a PgBouncer before the test's database: `start_pooler(mode, pool_size=…, …)`."""
    with contextlib.ExitStack() as started:

        def start(mode: str = "transaction", **settings: Any) -> Pooler:
            return started.enter_context(contextlib.closing(Pooler(dsn, mode, **settings)))

        yield start


@pytest.fixture
def open_bench(dsn: str) -> Iterator[Connect]:
    """`connect`, by default to the test's database; all closed at the end."""
    benches: list[Bench] = []

    def open_(target: str = dsn, **options: Any) -> Bench:
        benches.append(connect(target, **options))
        return benches[-1]

    yield open_
    for bench in benches:
        bench.close()


@pytest.fixture
def bench(open_bench: Connect) -> Bench:
    """A bench on the test's database."""
    return open_bench()


@pytest.fixture
def start_worker(dsn: str, tmp_path: Path) -> Iterator[StartWorker]:
    """Start `workbench worker` in `tmp_path`: `start_worker("--import", "jobs", dsn=…)`; each works on return."""
    workers: list[Worker] = []

    def start(*arguments: str, dsn: str = dsn) -> Worker:
        workers.append(Worker("--dsn", dsn, *arguments, cwd=tmp_path))
        workers[-1].wait_for_line("works on")
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()


@pytest.fixture
def run_command(tmp_path: Path) -> RunCommand:
    """Run `workbench …` to its end in `tmp_path`."""
    return lambda *arguments, **variables: Command(*arguments, cwd=tmp_path, **variables)


@pytest.fixture
def make_role(server: str) -> Iterator[MakeRole]:
    """Make a role that may log in and nothing else: `make_role(dsn)` returns the DSN as that role."""
    made: list[tuple[str, str]] = []

    def make(dsn: str, options: str = "LOGIN") -> str:
        name = f"remote_{os.getpid()}_{len(made)}"
        with contextlib.closing(Database(dsn)) as admin:
            admin.execute(f"CREATE ROLE {name} {options}")
        made.append((name, dsn))
        return make_conninfo(dsn, user=name)

    yield make
    for name, dsn in made:
        with contextlib.closing(Database(dsn)) as admin:
            admin.execute(f"DROP OWNED BY {name} CASCADE")
            admin.execute(f"DROP ROLE {name}")


def user_of(dsn: str) -> str:
    """The role in a DSN."""
    return str(conninfo_to_dict(dsn)["user"])
