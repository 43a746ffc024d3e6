"""df.start: what is stored for whom, and when nothing is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from workbench.engine.worker import Engine

STORED = """SELECT (SELECT count(*) FROM df.instances), (SELECT count(*) FROM df.nodes),
                   (SELECT count(*) FROM df.definitions)"""


def stored(db: Database) -> Any:
    return db.execute(STORED).fetchone()


@pytest.mark.parametrize(
    ("call", "label"),
    [
        ("df.start('SELECT 1')", None),
        ("df.start('SELECT 1', 'a')", "a"),
        ("df.start('SELECT 1'::varchar, 'a'::varchar)", "a"),
        ("df.start('SELECT 1', 'a'::char(3))", "a"),
        ("df.start('SELECT 1', 'a'::name)", "a"),
        ("df.start('SELECT 1', NULL)", None),
        ("df.start('SELECT 1', 'a', NULL)", "a"),
        ("df.start('SELECT 1', 'a', current_database())", "a"),
        ("df.start('SELECT 1', 'a', NULL, 'caller')", "a"),
        ("df.start('SELECT 1', 'a', NULL, 'CALLER', 3, '5 s', 'continue')", "a"),
        ("df.start('SELECT 1' ~> 'SELECT 2', label => 'a', input => '7')", "a"),
    ],
)
def test_every_form_of_the_call_resolves(db: Database, call: str, label: str | None) -> None:
    run = db.value(f"SELECT {call}")
    assert len(run) == 8
    assert db.value("SELECT label FROM df.definitions WHERE instance_id = %s", run) == label
    assert db.status(run) == "pending"


def test_there_is_one_start(db: Database) -> None:
    query = "SELECT pg_get_function_identity_arguments(oid) FROM pg_proc WHERE oid::regproc::text = 'df.start'"
    assert db.values(query) == [
        "fut text, label text, database text, transaction_mode text, max_attempts integer, max_backoff interval,"
        " on_failure text, idempotency_key text, on_conflict text, input jsonb"
    ]


def test_a_start_that_is_rolled_back_leaves_nothing(db: Database) -> None:
    with db.transaction() as conn:
        conn.execute("SELECT df.start('SELECT 1' ~> 'SELECT 2', idempotency_key => 'k')")
    assert stored(db) == (0, 0, 0)


def test_a_start_runs_once_its_transaction_commits(db: Database, engine: Engine) -> None:
    with db.transaction() as conn:
        row = conn.execute("SELECT df.start('SELECT 1 AS one')").fetchone()
        assert row is not None
        assert stored(db) == (0, 0, 0)
        conn.commit()
    engine.wake()
    db.wait(row[0])
    assert db.rows(row[0]) == [{"one": 1}]


@pytest.mark.parametrize("name", ["labUser", "two words", 'quo"ted', "o'clock", "päth\\"])
def test_a_run_belongs_to_the_role_that_started_it(
    db: Database, make_role: MakeRole, session: Callable[[str], Database], name: str
) -> None:
    role = make_role(name=name)
    mine = session(role)
    run = mine.start("SELECT 1")
    owner = "SELECT rolname FROM df.instances JOIN pg_roles r ON r.oid = submitted_by WHERE id = %s"
    assert db.value(owner, run) == role
    assert (mine.status(run), session(make_role()).value("SELECT df.status(%s)", run)) == (
        "pending",
        None,
    )


def test_set_role_and_security_definer_decide_whose_run_it_is(
    db: Database, make_role: MakeRole
) -> None:
    role = make_role()
    owner = "SELECT rolname FROM df.instances JOIN pg_roles r ON r.oid = submitted_by WHERE id = %s"
    with db.conn.transaction():
        db.conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
        run = db.start("SELECT 1")
    assert db.value(owner, run) == role
    db.execute(
        "CREATE FUNCTION begin_it() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT df.start('SELECT 1') $$"
    )
    with db.conn.transaction():
        db.conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
        run = db.value("SELECT begin_it()")
    assert db.value(owner, run) == "postgres"


def test_a_role_without_login_is_refused(db: Database, make_role: MakeRole) -> None:
    role = make_role("NOLOGIN", name='no "door"')
    db.conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as error:
        db.start("SELECT 1")
    db.execute("RESET ROLE")
    assert error.value.diag.message_primary == (
        f'role "{role}" has no LOGIN, so no engine could run its workflows'
    )
    assert stored(db) == (0, 0, 0)


def test_the_database_is_stored_only_when_given(db: Database) -> None:
    name = db.conn.info.dbname
    runs = db.start("SELECT 1"), db.start("SELECT 1", database=name)
    query = "SELECT database FROM df.definitions WHERE instance_id = %s"
    assert [db.value(query, run) for run in runs] == [None, name]


def test_a_graph_is_stored_byte_for_byte(db: Database) -> None:
    text = db.value("SELECT df.sql(E'SELECT ''\\u00e9\\\\'' \\n\\t') ~> 'SELECT 2'")
    run = db.start(text)
    assert db.value("SELECT graph::text FROM df.definitions WHERE instance_id = %s", run) == text


def test_start_may_be_called_for_each_row_of_a_query(db: Database) -> None:
    assert (
        len(set(db.values("SELECT df.start('SELECT ' || n) FROM generate_series(1, 50) n"))) == 50
    )


def test_a_run_is_seen_by_the_statement_that_starts_it(db: Database) -> None:
    assert db.value("SELECT df.status(df.start('SELECT 1'))") == "pending"
