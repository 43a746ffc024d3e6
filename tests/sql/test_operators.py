"""The operators: what they mean, how they bind, where the installer puts them."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from workbench.store.migrate import migrate

HOMES = """SELECT o.oprname || ' ' || o.oprnamespace::regnamespace
           FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode
           WHERE p.pronamespace = 'df'::regnamespace ORDER BY o.oprname::text COLLATE "C" """
ALL = ("!>", "&", "?>", "@>", "|", "|=>", "~>")


def reinstall(dsn: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Replay the function files as after an upgrade; what the installer is told."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DELETE FROM df.schema_functions")
    caplog.clear()
    migrate(dsn)
    return told(caplog)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the installer was told about operators."""
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if message.startswith("operators ")]


def same(db: Database, left: str, right: str) -> bool:
    return bool(db.value(f"SELECT ({left}) = ({right})"))


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ("'a' ~> 'b' ~> 'c'", "df.seq(df.seq('a', 'b'), 'c')"),
        ("'a' ~> 'b' |=> 'x' ~> 'c'", "df.seq(df.\"as\"(df.seq('a', 'b'), 'x'), 'c')"),
        ("'a' ~> ('b' |=> 'x') ~> 'c'", "df.seq(df.seq('a', df.\"as\"('b', 'x')), 'c')"),
        ("'a' |=> 'x' |=> 'y'", "df.\"as\"('a', 'y')"),
        ("'a' || 'b' ~> 'c' || 'd'", "df.seq('ab', 'c') || 'd'"),
        ("'a'::text ~> 'b'::varchar", "df.seq('a', 'b')"),
        ("'a' ~> 'b' = df.seq('a', 'b')", "true"),
        ("'a' ~> 'b' IS NULL", "false"),
        ("'a' ~> 'b' & 'c'", "df.\"join\"(df.seq('a', 'b'), 'c')"),
        (
            "'a' & 'b' ~> 'c' & 'd'",
            "df.\"join\"(df.seq(df.\"join\"('a', 'b'), 'c'), 'd')",
        ),
        ("'a' | 'b' & 'c'", "df.\"join\"(df.race('a', 'b'), 'c')"),
        (
            "'a' ~> 'c' ?> 't' !> 'e' ~> 'z'",
            "df.seq(df.\"if\"(df.seq('a', 'c'), 't', 'e'), 'z')",
        ),
        (
            "'c1' ?> 't1' !> 'c2' ?> 't2' !> 'e2'",
            "df.\"if\"(df.\"if\"('c1', 't1', 'c2'), 't2', 'e2')",
        ),
        ("'c' ?> ('t' ~> 'u') !> 'e'", "df.\"if\"('c', df.seq('t', 'u'), 'e')"),
        ("@> 'a' ~> 'b'", "df.seq(df.loop('a'), 'b')"),
        ("@> ('a' ~> 'b')", "df.loop(df.seq('a', 'b'))"),
        ("@> @> 'a'", "df.loop(df.loop('a'))"),
        ("@> 'a' |=> 'x'", "df.\"as\"(df.loop('a'), 'x')"),
        ("'a' & 'b'::varchar | 'c'::name", "df.race(df.\"join\"('a', 'b'), 'c')"),
    ],
)
def test_all_operators_bind_alike_and_to_the_left(db: Database, flat: str, nested: str) -> None:
    assert same(db, flat, nested)


@pytest.mark.parametrize("operator", ["~>", "&", "|", "?>", "!>", "|=>"])
def test_other_types_than_text_do_not_become_steps(db: Database, operator: str) -> None:
    for operand in ("1", "'{}'::jsonb"):
        with pytest.raises(psycopg.errors.UndefinedFunction):
            db.execute(f"SELECT 'SELECT 1'::text {operator} {operand}")


def test_operators_of_other_types_go_on_working(db: Database) -> None:
    assert db.value("SELECT 6 & 3") == 2
    assert db.value("SELECT 6 | 3") == 7
    assert db.value("SELECT ARRAY[1, 2] @> ARRAY[1]") is True


def test_half_an_if_keeps_its_operands_as_text(db: Database) -> None:
    assert json.loads(db.value("SELECT 'c' ?> df.sql('t')")) == {
        "_partial_if": True,
        "condition": "c",
        "then_branch": '{"node_type":"SQL","query":"t"}',
    }


def test_half_an_if_is_a_statement_that_cannot_succeed(db: Database) -> None:
    run = db.value("SELECT df.start('c' ?> 't')")
    graph = db.value("SELECT graph FROM df.definitions WHERE instance_id = %s", run)
    assert graph["node_type"] == "SQL"
    assert "_partial_if" in graph["query"]


@pytest.mark.parametrize(
    "left",
    [
        "'c' ?> 't' ~> 'u'",
        "df.sql('c')",
        "'{}'",
        "'[]'",
        "'7'",
        """'{"_partial_if":"true"}'""",
        """'{"_partial_if":true}'""",
    ],
)
def test_else_needs_half_an_if(db: Database, left: str) -> None:
    with pytest.raises(psycopg.Error) as error:
        db.execute(f"SELECT {left} !> 'e'")
    assert error.value.diag.message_primary == (
        "Invalid if-then-else: left side of !> must be a ?> expression"
    )


def test_else_after_what_is_no_json_fails_as_the_server_says(db: Database) -> None:
    with pytest.raises(psycopg.Error, match="invalid input syntax for type json"):
        db.execute("SELECT 'SELECT 1' !> 'e'")


def test_the_same_expression_gives_the_same_text(db: Database) -> None:
    query = "SELECT 'a' ~> 'b' |=> 'x'"
    assert db.value(query) == db.value(query)
    assert not same(db, "'a' ~> ('b' ~> 'c')", "('a' ~> 'b') ~> 'c'")


def test_a_graph_may_be_kept_in_a_table_and_started_twice(db: Database) -> None:
    db.execute("CREATE TABLE kept AS SELECT 'SELECT 1' ~> 'SELECT 2' AS graph")
    first, second = db.values("SELECT df.start(graph) FROM kept, generate_series(1, 2)")
    assert first != second


def test_support_functions_are_declared_immutable(db: Database) -> None:
    query = (
        "SELECT proname FROM pg_proc WHERE pronamespace = 'df'::regnamespace AND provolatile = 'i'"
    )
    assert set(db.values(query)) >= {
        *("as_op", "if_then_op", "if_else_op", "loop_prefix_op", "target_database")
    }
    assert set(db.values(query)).isdisjoint(
        {"sql", "seq", "as", "join", "race", "if", "loop", "http", "start", "getvar"}
    )


def test_operators_live_in_public_where_every_search_path_finds_them(db: Database) -> None:
    assert db.values(HOMES) == [f"{name} public" for name in ALL]


def test_a_second_installation_changes_nothing_and_says_nothing(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    assert reinstall(db.dsn, caplog) == []
    assert db.values(HOMES) == [f"{name} public" for name in ALL]


def test_somebody_elses_operator_is_left_alone(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute("DROP OPERATOR public.~> (text, text)")
    db.execute(
        "CREATE FUNCTION other(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'theirs' $$"
    )
    db.execute("CREATE OPERATOR public.~> (LEFTARG = text, RIGHTARG = text, FUNCTION = other)")
    (notice,) = reinstall(db.dsn, caplog)
    assert notice.startswith("operators on text in schema public belong to somebody else")
    assert ": ~> (call df.seq)" in notice
    assert db.value("SELECT 'a' ~> 'b'") == "theirs"
    assert db.values(HOMES) == [*[f"{name} public" for name in ALL[:-1]], "~> df"]
    assert same(db, "'a' OPERATOR(df.~>) 'b'", "df.seq('a', 'b')")


def test_somebody_elses_prefix_operator_is_left_alone(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute("DROP OPERATOR public.@> (NONE, text)")
    db.execute("CREATE FUNCTION other(text) RETURNS text LANGUAGE sql AS $$ SELECT 'theirs' $$")
    db.execute("CREATE OPERATOR public.@> (RIGHTARG = text, FUNCTION = other)")
    (notice,) = reinstall(db.dsn, caplog)
    assert ": @> (call df.loop_prefix_op)" in notice
    assert db.value("SELECT @> 'b'") == "theirs"
    assert same(db, "OPERATOR(df.@>) 'b'", "df.loop('b')")


def test_an_installer_who_may_not_create_in_public_gets_them_in_df(
    db: Database, make_role: MakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    owner = make_role()
    db.execute("DROP SCHEMA df CASCADE")
    db.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}")
    names = sql.Identifier(db.conn.info.dbname), sql.Identifier(owner)
    db.conn.execute(grant.format(*names))
    migrate(make_conninfo(db.dsn, user=owner))
    (notice,) = told(caplog)
    assert notice.startswith("operators ~> |=> & | ?> !> @> were made in schema df")
    assert "ALTER ROLE … SET search_path" in notice
    assert db.values(HOMES) == [f"{name} df" for name in ALL]
    with psycopg.connect(db.dsn, user=owner) as conn:
        conn.execute("SET search_path = public, df")
        conn.execute("SELECT df.start(@> ('SELECT 1' ~> 'SELECT 2' |=> 'x' & 'SELECT 3'))")
    assert reinstall(db.dsn, caplog) == []
