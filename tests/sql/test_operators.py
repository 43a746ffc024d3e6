"""The operators: what they mean, how they bind, where the installer puts them."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from workbench.store.migrate import migrate

HOMES = """SELECT oprname || ' ' || oprnamespace::regnamespace FROM pg_operator
           WHERE oprcode IN ('df.seq(text,text)'::regprocedure, 'df.as_op(text,text)'::regprocedure) ORDER BY 1"""


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
    return [message for message in messages if message.startswith("operator ")]


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
    ],
)
def test_both_operators_bind_alike_and_to_the_left(db: Database, flat: str, nested: str) -> None:
    assert same(db, flat, nested)


def test_other_types_than_text_do_not_become_steps(db: Database) -> None:
    for operand in ("1", "'{}'::jsonb"):
        with pytest.raises(psycopg.errors.UndefinedFunction):
            db.execute(f"SELECT 'SELECT 1' ~> {operand}")


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
    assert set(db.values(query)) >= {"as_op", "target_database"}
    assert set(db.values(query)).isdisjoint({"sql", "seq", "as", "start", "getvar"})


def test_operators_live_in_public_where_every_search_path_finds_them(db: Database) -> None:
    assert db.values(HOMES) == ["|=> public", "~> public"]


def test_a_second_installation_changes_nothing_and_says_nothing(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    assert reinstall(db.dsn, caplog) == []
    assert db.values(HOMES) == ["|=> public", "~> public"]


def test_somebody_elses_operator_is_left_alone(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute("DROP OPERATOR public.~> (text, text)")
    db.execute(
        "CREATE FUNCTION other(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'theirs' $$"
    )
    db.execute("CREATE OPERATOR public.~> (LEFTARG = text, RIGHTARG = text, FUNCTION = other)")
    (notice,) = reinstall(db.dsn, caplog)
    assert "operator public.~>(text,text) belongs to somebody else and was left alone" in notice
    assert db.value("SELECT 'a' ~> 'b'") == "theirs"
    assert db.values(HOMES) == ["|=> public", "~> df"]
    assert same(db, "'a' OPERATOR(df.~>) 'b'", "df.seq('a', 'b')")


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
    assert ["ALTER ROLE … SET search_path" in each for each in told(caplog)] == [True, True]
    assert db.values(HOMES) == ["|=> df", "~> df"]
    with psycopg.connect(db.dsn, user=owner) as conn:
        conn.execute("SET search_path = public, df")
        conn.execute("SELECT df.start('SELECT 1' ~> 'SELECT 2' |=> 'x')")
    assert reinstall(db.dsn, caplog) == []
