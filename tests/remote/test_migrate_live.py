"""Upgrading while engines work: runs go on, nobody is kept waiting, what was interrupted is mended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest

from tests.engine.conftest import SpawnEngine
from tests.engine.support import Database, wait_until
from workbench.errors import SchemaError
from workbench.graph.build import sql
from workbench.store import index_builds
from workbench.store.migrate import SCHEMA_VERSION, Migration, apply_all, migrations

NEXT = SCHEMA_VERSION + 1
INDEX = "-- A remark.\nCREATE INDEX CONCURRENTLY attempts_late ON df.attempts (finished_at) WHERE attempt > 1;\n"
BUILDING = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'CREATE INDEX CONCURRENTLY%'"
VALID = "SELECT i.indisvalid FROM pg_index i WHERE i.indexrelid = to_regclass('df.attempts_late')"
NEWEST = "SELECT max(version) FROM df.schema_migrations"


def with_next(text: str) -> list[Migration]:
    """The package's migrations and one of a later release."""
    return [*migrations(), Migration(NEXT, "later", text)]


@pytest.fixture
def apply(dsn: str) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as executor:
        yield executor


@contextlib.contextmanager
def old_reader(db: Database) -> Iterator[None]:
    """A transaction whose snapshot is older than the build: the build must wait for it."""
    with db.transaction() as conn:
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT 1")
        yield


def begin_build(db: Database, apply: ThreadPoolExecutor) -> Future[None]:
    future = apply.submit(apply_all, db.dsn, with_next(INDEX))
    wait_until(lambda: future.done() or db.values(BUILDING))
    assert not future.done(), future.exception()
    wait_until(lambda: db.values(VALID) == [False])
    return future


def test_runs_begin_and_end_while_an_index_is_built(
    db: Database, spawn_engine: SpawnEngine, apply: ThreadPoolExecutor
) -> None:
    spawn_engine()
    with old_reader(db):
        building = begin_build(db, apply)
        runs = [db.start("SELECT 1") for _ in range(20)]
        for run in runs:
            db.wait(run)
        assert not building.done()
        assert db.value(NEWEST) == SCHEMA_VERSION
    building.result(20)
    assert db.values(VALID) == [True]
    assert db.value(NEWEST) == NEXT


def test_two_who_migrate_build_an_index_once(db: Database, apply: ThreadPoolExecutor) -> None:
    with old_reader(db):
        first = begin_build(db, apply)
        second = apply.submit(apply_all, db.dsn, with_next(INDEX))
        waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_try_advisory%' AND pid <> pg_backend_pid()"
        wait_until(lambda: db.value(waits) >= 1)
    first.result(20)
    second.result(20)
    assert db.values(VALID) == [True]


def test_an_interrupted_build_is_dropped_and_built_again(
    db: Database, spawn_engine: SpawnEngine, apply: ThreadPoolExecutor
) -> None:
    spawn_engine()
    with old_reader(db):
        building = begin_build(db, apply)
        (pid,) = db.values(BUILDING)
        db.execute("SELECT pg_terminate_backend(%s)", pid)
        with pytest.raises(psycopg.OperationalError):
            building.result(20)
    assert db.values(VALID) == [False]
    assert db.value(NEWEST) == SCHEMA_VERSION
    db.wait(db.start("SELECT 1"))
    apply_all(db.dsn, with_next(INDEX))
    assert db.values(VALID) == [True]
    assert db.value(NEWEST) == NEXT


def test_a_migration_that_needs_a_table_for_itself_holds_nobody_up(
    db: Database, spawn_engine: SpawnEngine, apply: ThreadPoolExecutor
) -> None:
    spawn_engine()
    column = "ALTER TABLE df.attempts ADD COLUMN later text;"
    with db.transaction() as reader:
        reader.execute("SELECT count(*) FROM df.attempts")
        migrating = apply.submit(apply_all, db.dsn, with_next(column))
        waits = (
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'df.attempts'::regclass"
        )
        wait_until(lambda: db.value(waits) > 0)
        for _ in range(3):
            db.wait(db.start("SELECT 1"))
        assert not migrating.done()
    migrating.result(20)
    assert db.value(NEWEST) == NEXT


def test_a_table_that_is_never_free_is_given_up_and_its_holder_named(db: Database) -> None:
    column = "ALTER TABLE df.attempts ADD COLUMN later text;"
    with db.transaction() as reader:
        reader.execute("SELECT count(*) FROM df.attempts")
        with pytest.raises(SchemaError, match=f"pid {reader.info.backend_pid}"):
            apply_all(db.dsn, with_next(column), patience=0.1)
    assert db.value(NEWEST) == SCHEMA_VERSION


def test_functions_are_replaced_under_engines_at_work_and_no_run_fails(
    db: Database, spawn_engine: SpawnEngine
) -> None:
    spawn_engine()
    graph = sql("SELECT 1 AS n").named("x") >> sql("SELECT $x + 1 AS n")
    runs = []
    for _ in range(5):
        runs += [db.start(graph) for _ in range(20)]
        db.execute("UPDATE df.schema_functions SET digest = 'of an older release'")
        apply_all(db.dsn, migrations())
    for run in runs:
        db.wait(run)


def test_a_step_that_runs_through_an_upgrade_is_finished_by_its_engine(
    db: Database, spawn_engine: SpawnEngine
) -> None:
    engine = spawn_engine()
    with db.gate(1):
        run = db.start("SELECT pg_advisory_xact_lock_shared(1)::text")
        db.wait_at_gate(1)
        db.execute("UPDATE df.schema_functions SET digest = 'of an older release'")
        apply_all(db.dsn, with_next("CREATE TABLE df.later ();"))
    db.wait(run)
    assert [attempt.engine for attempt in db.attempts(run)] == [engine.id]


def test_a_migration_builds_indexes_or_does_something_else() -> None:
    assert index_builds.statements("CREATE INDEX a ON df.nodes (rev);") == {}
    assert list(index_builds.statements(INDEX)) == ["attempts_late"]
    with pytest.raises(ValueError, match="does nothing else: DROP TABLE x;"):
        index_builds.statements(INDEX + "DROP TABLE x;")
