"""The fixtures themselves: what every other test builds on."""

from __future__ import annotations

import psycopg
import pytest


def test_the_server_is_there_with_its_settings(admin: psycopg.Connection) -> None:
    assert admin.execute("SHOW fsync").fetchone() == ("off",)
    assert admin.execute("SHOW max_connections").fetchone() == ("200",)


@pytest.mark.parametrize("turn", [1, 2])
def test_an_empty_database_belongs_to_one_test(empty_dsn: str, turn: int) -> None:
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("CREATE TABLE seen (turn int)")
        assert connection.execute("SELECT count(*) FROM seen").fetchone() == (0,)


@pytest.mark.parametrize("turn", [1, 2])
def test_a_migrated_database_belongs_to_one_test(dsn: str, turn: int) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE df.seen (turn int)")
        assert connection.execute("SELECT count(*) FROM df.seen").fetchone() == (0,)
