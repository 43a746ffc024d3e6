"""SQL steps on another database of the same server: at least once, and said so."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql as text
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.engine.conftest import SpawnEngine, StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph import seq, sql


@pytest.fixture
def other(db: Database) -> Iterator[str]:
    """The name of a database without schema df; one that needs quoting."""
    name = f"{conninfo_to_dict(db.dsn)['dbname']} other's"
    db.execute(text.SQL("CREATE DATABASE {}").format(text.Identifier(name)).as_string())
    yield name
    db.execute(
        text.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        .format(text.Identifier(name))
        .as_string()
    )


def test_every_sql_step_runs_there(db: Database, engine: Engine, other: str) -> None:
    steps = seq(
        "CREATE TYPE mood AS ENUM ('glad')",
        sql("SELECT 'glad'::mood AS mood, current_database() AS name").named("x"),
        "SELECT $x.name AS name, $x.mood AS mood",
    )
    run = db.start(steps, database=other)
    db.wait(run)
    assert db.rows(run) == [{"name": other, "mood": "glad"}]
    assert {each.exactly_once for each in db.attempts(run)} == {False}


def test_nothing_of_a_steps_session_reaches_the_next(
    db: Database, engine: Engine, other: str
) -> None:
    run = db.start(
        seq("CREATE TEMP TABLE t (a int)", "SELECT to_regclass('t') IS NULL AS gone"),
        database=other,
    )
    db.wait(run)
    assert db.rows(run) == [{"gone": True}]


def test_the_own_database_by_name_is_the_own_database(db: Database, engine: Engine) -> None:
    run = db.start("SELECT 1", database=conninfo_to_dict(db.dsn)["dbname"])
    db.wait(run)
    assert db.attempts(run)[0].exactly_once


def test_a_database_that_has_gone_fails_the_step(
    db: Database, start_engine: StartEngine, other: str
) -> None:
    run = db.start("SELECT 1", database=other)
    db.execute(text.SQL("DROP DATABASE {}").format(text.Identifier(other)).as_string())
    start_engine()
    db.wait(run, "failed")
    assert "does not exist" in db.error(run)["message"]


def test_a_killed_engines_statement_is_ended_there_too(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine, other: str
) -> None:
    with psycopg.connect(make_conninfo(db.dsn, dbname=other), autocommit=True) as conn:
        conn.execute("CREATE TABLE seen (n int)")
    engine = spawn_engine()
    run = db.start(
        "WITH s AS (SELECT pg_sleep(0.2 + 60 * (1 - least(1, (SELECT count(*) FROM seen)))::float8))"
        " SELECT 1 AS n FROM s",
        database=other,
    )
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state = 'active'"
    wait_until(lambda: db.value(query, other) == 1)
    with psycopg.connect(make_conninfo(db.dsn, dbname=other), autocommit=True) as conn:
        conn.execute("INSERT INTO seen VALUES (1)")
    engine.kill()
    start_engine()
    db.wait(run)
    assert [outcome for _, outcome in db.outcomes(run)] == ["worker_lost", "completed"]
    assert db.value(query, other) == 0
