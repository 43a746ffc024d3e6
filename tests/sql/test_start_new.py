"""`transaction_mode => 'new'`: a start that stays when the caller rolls back."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.engine.support import Database
from tests.sql.conftest import MakeRole

NEW = "transaction_mode => 'new'"


@pytest.fixture
def dblink(db: Database) -> Database:
    db.execute('CREATE SCHEMA "ext ra"')
    db.execute('CREATE EXTENSION dblink SCHEMA "ext ra"')
    return db


def test_without_dblink_the_next_move_is_named(db: Database) -> None:
    with pytest.raises(
        psycopg.errors.FeatureNotSupported, match="needs the extension dblink"
    ) as error:
        db.execute(f"SELECT df.start('SELECT 1', {NEW})")
    assert str(error.value.diag.message_hint).startswith("CREATE EXTENSION dblink")


def test_a_new_start_survives_the_callers_rollback(dblink: Database) -> None:
    with dblink.transaction() as conn:
        row = conn.execute("SELECT df.start('SELECT 1', 'kept', NULL, 'NEW')").fetchone()
    assert row is not None
    assert dblink.status(row[0]) == "pending"
    assert dblink.value("SELECT label FROM df.definitions WHERE instance_id = %s", row[0]) == "kept"


def test_all_arguments_arrive(dblink: Database) -> None:
    dblink.execute("SET intervalstyle = 'sql_standard'")
    run = dblink.value(
        """SELECT df.start('SELECT ''a\\''' ~> 'SELECT 2', E'it''s\\\\', current_database(), 'new', 3, '1 day 00:05',
                           'continue', 'key''s', 'replace', '{"a": "it''s"}')"""
    )
    row = dblink.execute(
        "SELECT label, graph::text, database = current_database(), max_attempts, extract(epoch FROM max_backoff)::int,"
        " on_failure, input, idempotency_key"
        " FROM df.definitions JOIN df.instances ON id = instance_id WHERE id = %s",
        run,
    ).fetchone()
    graph = dblink.value("SELECT 'SELECT ''a\\''' ~> 'SELECT 2'")
    assert row == ("it's\\", graph, True, 3, 86_700, "continue", {"a": "it's"}, "key's")


def test_only_committed_variables_are_seen(dblink: Database) -> None:
    dblink.execute("SELECT df.setvar('a', 'committed')")
    with dblink.transaction() as conn:
        conn.execute("SELECT df.setvar('a', 'pending')")
        row = conn.execute(f"SELECT df.start('SELECT 1', {NEW})").fetchone()
    assert row is not None
    assert dblink.value("SELECT vars FROM df.definitions WHERE instance_id = %s", row[0]) == {
        "a": "committed"
    }


def test_a_refusal_is_that_of_an_ordinary_start_and_no_session_stays(dblink: Database) -> None:
    for graph, options in (('\'{"node_type":"SQL"}\'', ""), ("'SELECT 1'", ", max_attempts => 0")):
        said = []
        for mode in ("caller", "new"):
            with pytest.raises(psycopg.Error) as error:
                dblink.execute(f"SELECT df.start({graph}, transaction_mode => '{mode}'{options})")
            said.append((error.value.sqlstate, error.value.diag.message_primary))
        assert said[0] == said[1]
    assert dblink.value('SELECT "ext ra".dblink_get_connections()') is None


def test_a_helper_is_no_step_for_a_new_start_either(dblink: Database) -> None:
    with pytest.raises(psycopg.Error, match=r"df\.setvar cannot be used as a workflow step"):
        dblink.execute(f"SELECT df.start(df.setvar('a', 'b'), {NEW})")


def test_a_role_that_may_not_connect_back_is_told_what_to_ask_for(
    dblink: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    role = make_role(name="it's q\"d")
    mine = session(role)
    dblink.conn.execute(
        sql.SQL('GRANT USAGE ON SCHEMA "ext ra" TO {}').format(sql.Identifier(role))
    )
    with pytest.raises(psycopg.errors.SqlclientUnableToEstablishSqlconnection) as error:
        mine.execute(f"SELECT df.start('SELECT 1', {NEW})")
    assert f'could not open a second session as "{role}"' in str(error.value.diag.message_primary)
    assert "foreign server df_loopback" in str(error.value.diag.message_hint)


def test_the_foreign_server_df_loopback_is_used_when_there_is_one(dblink: Database) -> None:
    target = conninfo_to_dict(dblink.dsn)
    options = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(str(target[name])))
        for name in ("host", "port", "dbname")
    )
    dblink.conn.execute(
        sql.SQL("CREATE SERVER df_loopback FOREIGN DATA WRAPPER dblink_fdw OPTIONS ({})").format(
            options
        )
    )
    dblink.execute(
        "CREATE USER MAPPING FOR CURRENT_USER SERVER df_loopback OPTIONS (user 'postgres')"
    )
    assert len(dblink.value(f"SELECT df.start('SELECT 1', {NEW})")) == 8


def test_a_session_of_another_role_starts_nothing(dblink: Database, make_role: MakeRole) -> None:
    role = make_role()
    target = conninfo_to_dict(dblink.dsn)
    options = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(str(target[name])))
        for name in ("host", "port", "dbname")
    )
    dblink.conn.execute(
        sql.SQL("CREATE SERVER df_loopback FOREIGN DATA WRAPPER dblink_fdw OPTIONS ({})").format(
            options
        )
    )
    dblink.conn.execute(
        sql.SQL("CREATE USER MAPPING FOR CURRENT_USER SERVER df_loopback OPTIONS (user {})").format(
            sql.Literal(role)
        )
    )
    with pytest.raises(psycopg.Error, match='reached a session of another role than "postgres"'):
        dblink.execute(f"SELECT df.start('SELECT 1', {NEW})")
    assert dblink.value("SELECT count(*) FROM df.instances") == 0
