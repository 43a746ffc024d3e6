"""The settings `http_allow` and `http_deny`, and what an engine asks before a request."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.engine.support import Database
from tests.sql.conftest import MakeRole

ENTRIES = [
    "127.0.0.1",
    "10.0.0.0/8",
    "10.1.2.3/8",
    "::1",
    "fd00::/8",
    "::ffff:10.0.0.0/104",
    "localhost",
    "api.example.com",
    ".example.com",
    "my_host",
    "münchen.example",
]

NOT_ENTRIES = [
    "",
    ".",
    "*",
    "*.example.com",
    "http://example.com",
    "example.com:8080",
    "example.com/path",
    "10.0.0.0/33",
    "10.0.0",
    "10/8",
    "300.1.1.1",
    "a b",
    "::g",
    "1:2",
]


def set_allow(db: Database, value: object) -> None:
    db.execute("SELECT df.set_setting('http_allow', %s::jsonb)", json.dumps(value))


@pytest.mark.parametrize("entry", ENTRIES)
def test_hosts_addresses_and_ranges_are_destinations(db: Database, entry: str) -> None:
    set_allow(db, [entry])
    assert db.value("SELECT df._setting('http_allow')") == [entry]


@pytest.mark.parametrize("entry", NOT_ENTRIES)
def test_anything_else_is_refused_and_named(db: Database, entry: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        set_allow(db, ["127.0.0.1", entry])
    assert json.dumps(entry) in str(refused.value)
    assert db.value("SELECT df._setting('http_allow')") == []


@pytest.mark.parametrize("value", ["127.0.0.1", {"host": "x"}, 5, [5], [None], [["a"]]])
def test_only_a_list_of_texts_is_a_list_of_destinations(db: Database, value: object) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        set_allow(db, value)


def test_null_puts_the_default_back(db: Database) -> None:
    set_allow(db, ["127.0.0.1"])
    db.execute("SELECT df.set_setting('http_allow', NULL)")
    assert db.value("SELECT df._setting('http_allow')") == []


def test_a_superuser_passes_the_gate(db: Database) -> None:
    set_allow(db, ["127.0.0.1"])
    gate = "SELECT allowed, allow, deny FROM df._http_gate('http')"
    assert db.execute(gate).fetchone() == (True, ["127.0.0.1"], [])


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("http", "df.http(text,text,text,jsonb,integer)"),
        ("http_multipart", "df.http_multipart(text,text,jsonb,jsonb,integer)"),
    ],
)
def test_the_gate_follows_the_privilege(
    db: Database, make_role: MakeRole, kind: str, function: str
) -> None:
    if db.value("SELECT to_regprocedure(%s)::text", function) is None:
        pytest.skip("the constructor does not exist yet")
    name = make_role()
    gate = f"SELECT allowed, role, function FROM df._http_gate('{kind}')"
    db.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
    with psycopg.connect(make_conninfo(db.dsn, user=name), autocommit=True) as conn:
        assert conn.execute(gate).fetchone() == (False, name, function)
        db.execute(f'GRANT EXECUTE ON FUNCTION {function} TO "{name}"')
        assert conn.execute(gate).fetchone() == (True, name, function)
