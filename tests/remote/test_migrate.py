"""`workbench migrate`: any number of times and at once; nobody else's schema is touched, missing rights are named."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.engine.conftest import StartEngine
from tests.engine.support import Database, wait_until
from tests.remote.commands import environment
from tests.remote.conftest import MakeRole, RunCommand, user_of
from tests.remote.pooler import Pooler
from workbench.connecting import connect
from workbench.engine.worker import Engine
from workbench.errors import SchemaError
from workbench.graph.build import sql
from workbench.store.migrate import SCHEMA_VERSION, migrate

CONTENTS = """
    SELECT n.nspname, obj_description(n.oid, 'pg_namespace'), n.nspacl::text,
           (SELECT array_agg(c.relname || c.relfilenode::text ORDER BY c.relname) FROM pg_class c
            WHERE c.relnamespace = n.oid),
           (SELECT array_agg(p.oid::regprocedure::text || md5(p.prosrc) ORDER BY p.oid) FROM pg_proc p
            WHERE p.pronamespace = n.oid)
    FROM pg_namespace n WHERE n.nspname = 'df'
"""


@pytest.fixture
def empty(empty_dsn: str) -> Iterator[Database]:
    """A database without the schema."""
    with contextlib.closing(Database(empty_dsn)) as database:
        yield database


def contents(database: Database) -> list[tuple[object, ...]]:
    """Schema `df` as it stands in the catalogue; none when there is no such schema."""
    return database.execute(CONTENTS).fetchall()


def named_sql(text: str) -> list[str]:
    """The statements that a refusal asks an administrator to run."""
    return [line.strip() for line in re.findall(r"^    \S.*;$", text, re.MULTILINE)]


def test_a_fresh_database_gets_the_schema_and_the_second_time_changes_nothing(
    empty: Database, run_command: RunCommand
) -> None:
    first = run_command("migrate", "--dsn", empty.dsn)
    name = conninfo_to_dict(empty.dsn)["dbname"]
    said = f"schema df is at version {SCHEMA_VERSION} in {name} on this machine\n"
    assert (first.status, first.out, first.err) == (0, said, "")
    before = contents(empty)
    assert before
    second = run_command("migrate", "--dsn", empty.dsn)
    assert (second.status, second.out, second.err) == (0, said, "")
    assert contents(empty) == before


def test_the_environment_names_the_database(empty: Database, run_command: RunCommand) -> None:
    done = run_command(
        "migrate", WORKBENCH_DSN=empty.dsn, DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing"
    )
    assert (done.status, done.err) == (0, "")
    assert contents(empty)


def test_four_processes_at_once_make_one_schema(empty: Database, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "workbench", "migrate", "--dsn", empty.dsn]
    processes = [
        subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    assert ended == [("", 0)] * 4
    versions = "SELECT version FROM df.schema_migrations ORDER BY version"
    assert empty.values(versions) == list(range(1, SCHEMA_VERSION + 1))
    assert empty.value("SELECT count(*) FROM df.schema_functions") == 1


def test_a_migration_that_waits_for_another_does_not_fail(empty: Database) -> None:
    with psycopg.connect(empty.dsn) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (0x6466_7363_6865_6D61,))
        process = subprocess.Popen(
            [sys.executable, "-m", "workbench", "migrate", "--dsn", empty.dsn], env=environment()
        )
        tries = (
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_try_advisory_xact_lock%'"
        )
        others = f"{tries} AND pid <> pg_backend_pid() AND datname = current_database()"
        wait_until(lambda: empty.value(others) == 1)
        other.rollback()
        assert process.wait(30) == 0
    assert contents(empty)


def test_missing_rights_name_the_sql_that_makes_the_second_try_succeed(
    empty: Database, make_role: MakeRole, run_command: RunCommand
) -> None:
    role = make_role(empty.dsn)
    refused = run_command("migrate", "--dsn", role)
    assert (refused.status, refused.out) == (1, "")
    assert "Traceback" not in refused.err
    assert "may not create schema df" in refused.err
    statements = named_sql(refused.err)
    assert statements == [f"CREATE SCHEMA df AUTHORIZATION {user_of(role)};"]
    assert contents(empty) == []
    for statement in statements:
        empty.execute(statement)
    done = run_command("migrate", "--dsn", role)
    assert (done.status, "Traceback" in done.err) == (0, False)
    assert contents(empty)


def test_an_empty_schema_of_another_role_asks_to_be_handed_over(
    empty: Database, make_role: MakeRole
) -> None:
    role = make_role(empty.dsn)
    empty.execute("CREATE SCHEMA df")
    before = contents(empty)
    with pytest.raises(SchemaError, match=r"empty schema df .* belongs to postgres") as refused:
        migrate(role)
    assert contents(empty) == before
    assert named_sql(str(refused.value)) == [f"ALTER SCHEMA df OWNER TO {user_of(role)};"]
    for statement in named_sql(str(refused.value)):
        empty.execute(statement)
    assert migrate(role) == SCHEMA_VERSION


def test_operators_that_cannot_be_public_are_remarked_on(
    empty: Database, make_role: MakeRole, run_command: RunCommand
) -> None:
    role = make_role(empty.dsn)
    empty.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # the default since PostgreSQL 15
    empty.execute(f"CREATE SCHEMA df AUTHORIZATION {user_of(role)}")
    done = run_command("migrate", "--dsn", role)
    may_not = f"because {user_of(role)} may not create in schema public. Add df to the search_path"
    assert may_not in done.err


def test_a_plain_role_that_owns_the_schema_works_on_it(
    empty: Database, make_role: MakeRole
) -> None:
    role = make_role(empty.dsn)
    empty.execute(f"CREATE SCHEMA df AUTHORIZATION {user_of(role)}")
    migrate(role)
    with connect(role) as bench:
        run = bench.start(sql("SELECT current_user::text AS me"))
        assert run.result(timeout=20) == {"rows": [{"me": user_of(role)}], "row_count": 1}


def test_a_role_that_does_not_own_the_schema_is_told_whom_to_ask(
    empty: Database, make_role: MakeRole
) -> None:
    owner, other = make_role(empty.dsn), make_role(empty.dsn)
    empty.execute(f"CREATE SCHEMA df AUTHORIZATION {user_of(owner)}")
    migrate(owner)
    empty.execute("UPDATE df.schema_functions SET digest = 'of an older release'")
    before = contents(empty)
    with pytest.raises(SchemaError, match=f"belongs to {user_of(owner)}") as refused:
        migrate(other)
    assert contents(empty) == before
    for statement in named_sql(str(refused.value)):
        empty.execute(statement)
    assert migrate(other) == SCHEMA_VERSION


FOREIGN = {
    "empty, with a comment": "CREATE SCHEMA df; COMMENT ON SCHEMA df IS 'data frames'",
    "a table": "CREATE SCHEMA df; CREATE TABLE df.frames (x int)",
    "a function": "CREATE SCHEMA df; CREATE FUNCTION df.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "a type": "CREATE SCHEMA df; CREATE TYPE df.colour AS ENUM ('red')",
    "another's tables of our names": (
        "CREATE SCHEMA df; CREATE TABLE df.instances (id text);"
        " CREATE TABLE df.schema_migrations (version int); INSERT INTO df.schema_migrations VALUES (1)"
    ),
}


@pytest.mark.parametrize("script", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_schema_of_somebody_else_is_refused_and_left_untouched(
    empty: Database, run_command: RunCommand, script: str
) -> None:
    empty.execute(script)
    before = contents(empty)
    done = run_command("migrate", "--dsn", empty.dsn)
    assert (done.status, done.out) == (1, "")
    assert "schema df of database" in done.err
    assert "belongs to another product" in done.err
    assert "left untouched" in done.err
    assert done.err.count("\n") == 1
    assert contents(empty) == before
    with pytest.raises(SchemaError, match="another product"):
        connect(empty.dsn)


def test_the_extension_that_owns_the_schema_is_named(empty: Database) -> None:
    empty.execute("CREATE SCHEMA df")
    available = empty.values(
        "SELECT name FROM pg_available_extensions WHERE installed_version IS NULL"
        " AND name IN ('pgcrypto', 'pg_trgm', 'citext', 'hstore') LIMIT 1"
    )
    if not available:
        pytest.skip("needs a server with an extension that can be put into a schema")
    empty.execute(f"CREATE EXTENSION {available[0]} SCHEMA df")
    with pytest.raises(SchemaError, match=rf"another product \(extension {available[0]}\)"):
        migrate(empty.dsn)


def test_a_newer_schema_is_refused_and_left_untouched(
    db: Database, run_command: RunCommand
) -> None:
    newer = SCHEMA_VERSION + 1
    db.execute("INSERT INTO df.schema_migrations (version, name) VALUES (%s, 'later')", newer)
    before = contents(db)
    done = run_command("migrate", "--dsn", db.dsn)
    assert (done.status, done.out) == (1, "")
    assert f"at version {newer}, newer than this package knows ({SCHEMA_VERSION})" in done.err
    assert "Upgrade durable-workbench" in done.err
    assert contents(db) == before
    with pytest.raises(SchemaError, match="newer than this package knows"):
        connect(db.dsn)
    assert run_command("worker", "--dsn", db.dsn).status == 1


def test_an_older_schema_asks_for_migration(db: Database) -> None:
    db.execute("UPDATE df.schema_migrations SET version = version - %s", SCHEMA_VERSION)
    with pytest.raises(SchemaError, match=r"needs .*: bring it up to date with wb.migrate\(dsn\)"):
        connect(db.dsn)


def test_an_engine_that_sees_a_newer_schema_claims_nothing_more_and_says_so(
    db: Database, start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start_engine()
    ready = functools.partial(db.value, "SELECT ready FROM df.engines WHERE id = %s", engine.id)
    assert ready()
    with db.gate(1), caplog.at_level(logging.WARNING, "workbench"):
        running = db.start("SELECT pg_advisory_xact_lock_shared(1)::text")
        db.wait_at_gate(1)
        newer = "INSERT INTO df.schema_migrations (version, name) VALUES (%s, 'later')"
        db.execute(newer, SCHEMA_VERSION + 1)
        wait_until(lambda: "newer than this engine" in caplog.text)
        later = db.start("SELECT 1")
        look_twice(db, engine)
    db.wait(running)  # what was running is finished
    look_twice(db, engine)
    assert db.attempts(later) == []
    assert not ready()
    assert "restart it" in caplog.text


def look_twice(db: Database, engine: Engine) -> None:
    """Wait for two heartbeats: the engine has polled meanwhile."""
    beat = "SELECT last_seen_at > %s FROM df.engines WHERE id = %s"
    for _ in range(2):
        now = db.value("SELECT clock_timestamp()")
        wait_until(functools.partial(db.value, beat, now, engine.id))


def test_a_missing_schema_names_migrate(empty_dsn: str) -> None:
    with pytest.raises(SchemaError, match=r"has no workbench schema.*wb\.migrate\(dsn\)"):
        connect(empty_dsn)


def test_migrating_goes_through_a_transaction_pool(empty: Database, tmp_path: Path) -> None:
    with contextlib.closing(Pooler(empty.dsn, "transaction")) as pooler:
        assert migrate(pooler.dsn) == SCHEMA_VERSION
    assert contents(empty)
