"""Engines for tests: in this process, or in processes of their own that can be killed; all gone after the test."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.engine.proxy import Proxy, proxy_before
from tests.engine.step_handlers import SEEN
from tests.engine.support import Database, EngineProcess
from workbench.engine.worker import Engine

CEILING = 8

StartEngine = Callable[..., Engine]
SpawnEngine = Callable[..., EngineProcess]


@pytest.fixture
def db(dsn: str) -> Iterator[Database]:
    """A database of the test's own, with the table `seen` and the sequence `calls`."""
    with contextlib.closing(Database(dsn)) as database:
        database.execute(SEEN)
        database.execute("CREATE SEQUENCE calls")
        yield database


@pytest.fixture
def start_engine(dsn: str) -> Iterator[StartEngine]:
    """Start engines in this process: `start_engine(dsn=…, ceiling=…)`."""
    engines: list[Engine] = []

    def start(dsn: str = dsn, ceiling: int = CEILING) -> Engine:
        engine = Engine(dsn, ceiling=ceiling)
        engines.append(engine)
        engine.start()
        return engine

    yield start
    for engine in engines:
        engine.stop()
    engines.clear()
    gc.collect()  # a session left open is warned of here, and not in some later test


@pytest.fixture
def engine(db: Database, start_engine: StartEngine) -> Engine:
    """An engine in this process, on the test's database."""
    return start_engine()


@pytest.fixture
def spawn_engine(dsn: str) -> Iterator[SpawnEngine]:
    """Start engines in processes of their own; each is there when this returns."""
    processes: list[EngineProcess] = []

    def spawn(dsn: str = dsn, ceiling: int = CEILING) -> EngineProcess:
        process = EngineProcess(dsn, ceiling)
        processes.append(process)
        assert process.id
        return process

    yield spawn
    for process in processes:
        process.kill()


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    with proxy_before(dsn) as proxy:
        yield proxy


class Role(NamedTuple):
    """A plain role, and the test's database as seen by it."""

    name: str
    dsn: str


@pytest.fixture
def roles(db: Database) -> Iterator[tuple[Role, Role]]:
    """Two roles that may use the workbench and are no superusers."""
    prefix = conninfo_to_dict(db.dsn)["dbname"]
    names = f"{prefix}_a", f"{prefix}_b"
    for name in names:
        db.execute(f"CREATE ROLE {name} LOGIN")
        db.execute("SELECT df.grant_usage(%s)", name)
    one, two = [Role(name, make_conninfo(db.dsn, user=name)) for name in names]
    yield one, two
    for name in names:
        db.execute(f"DROP OWNED BY {name}")
        db.execute(f"DROP ROLE {name}")
