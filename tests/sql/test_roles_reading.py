"""A colleague may look at one's runs, and do nothing else about them."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from workbench.store import monitor

Session = Callable[[str], Database]

TABLES = ("instances", "definitions", "nodes")


def seen(database: Database, run: str) -> list[int]:
    """Rows of a run in each table."""
    column = {"instances": "id"}
    return [
        database.value(
            f"SELECT count(*) FROM df.{table} WHERE {column.get(table, 'instance_id')} = %s", run
        )
        for table in TABLES
    ]


def test_a_colleague_sees_what_was_shared_and_only_while_it_is(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    owner, reader, third = make_role(name='own"er'), make_role(name="labUser"), make_role()
    mine, theirs, others = session(owner), session(reader), session(third)
    run = mine.start("SELECT 1", label="shared")
    assert seen(theirs, run) == [0, 0, 0]
    mine.execute("SELECT df.grant_read(%s)", reader)
    later = mine.start("SELECT 2")
    for each in (run, later):
        assert (seen(theirs, each), seen(others, each)) == ([1, 1, 1], [0, 0, 0])
    assert {row.run_id for row in monitor.list_runs(theirs.conn)} == {run, later}
    assert monitor.run_row(theirs.conn, run).label == "shared"
    assert len(monitor.run_nodes(theirs.conn, run)) == 1
    assert theirs.status(run) == "pending"
    mine.execute("SELECT df.revoke_read(%s)", reader)
    assert seen(theirs, run) == [0, 0, 0]


def test_reading_is_not_mutual(db: Database, make_role: MakeRole, session: Session) -> None:
    owner, reader = make_role(), make_role()
    session(owner).execute("SELECT df.grant_read(%s)", reader)
    run = session(reader).start("SELECT 1")
    assert seen(session(owner), run) == [0, 0, 0]


def test_a_colleague_can_change_nothing(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    owner, reader = make_role(), make_role()
    mine, theirs = session(owner), session(reader)
    run = mine.start("SELECT 1")
    mine.execute("SELECT df.setvar('password', 'x')")
    mine.execute("SELECT df.grant_read(%s)", reader)
    with pytest.raises(psycopg.Error, match="Instance not found or access denied"):
        theirs.execute("SELECT df.cancel(%s)", run)
    for table in (*TABLES[:1], "nodes"):
        key = "id" if table == "instances" else "instance_id"
        for statement in (
            f"UPDATE df.{table} SET status = 'failed' WHERE {key} = %s",
            f"DELETE FROM df.{table} WHERE {key} = %s",
        ):
            assert theirs.execute(statement, run).rowcount == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        theirs.execute(
            "INSERT INTO df.values (instance_id, name, submitted_by, node_id, value)"
            " VALUES (%s, 'x', df._me(), 0, '1')",
            run,
        )
    assert theirs.value("SELECT count(*) FROM df._due(10)") == 0
    assert theirs.value("SELECT count(*) FROM df.vars") == 0
    assert mine.status(run) == "pending"


def test_a_colleague_cannot_pass_it_on(db: Database, make_role: MakeRole, session: Session) -> None:
    owner, reader, third = make_role(), make_role(), make_role()
    run = session(owner).start("SELECT 1")
    session(owner).execute("SELECT df.grant_read(%s)", reader)
    session(reader).execute("SELECT df.grant_read(%s)", third)
    assert seen(session(third), run) == [0, 0, 0]
    session(reader).execute("SELECT df.revoke_read(%s)", reader)
    assert seen(session(reader), run) == [1, 1, 1]


def test_a_group_may_look(db: Database, make_role: MakeRole, session: Session) -> None:
    group, owner, member = make_role("NOLOGIN"), make_role(), make_role()
    db.conn.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), sql.Identifier(member)))
    run = session(owner).start("SELECT 1")
    session(owner).execute("SELECT df.grant_read(%s)", group)
    assert seen(session(member), run) == [1, 1, 1]


def test_a_role_that_may_not_use_the_schema_cannot_be_let_look(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    owner, reader = make_role(), make_role()
    db.execute("SELECT df.revoke_usage(%s)", reader)
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as error:
        session(owner).execute("SELECT df.grant_read(%s)", reader)
    assert f'role "{reader}" may not use schema df' in str(error.value.diag.message_primary)
    assert f"SELECT df.grant_usage('{reader}')" in str(error.value.diag.message_hint)


def test_who_is_let_in_again_was_not_let_look_again(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    owner, reader = make_role(), make_role()
    run = session(owner).start("SELECT 1")
    session(owner).execute("SELECT df.grant_read(%s)", reader)
    db.execute("SELECT df.revoke_usage(%s)", reader)
    db.execute("SELECT df.grant_usage(%s)", reader)
    assert seen(session(reader), run) == [0, 0, 0]


def test_sharing_is_not_consulted_for_ones_own_rows(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    mine = session(make_role())
    for _ in range(3):
        mine.start("SELECT 1")
    mine.execute("SET enable_seqscan = off")
    query = (
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT n.node_id FROM df.nodes n"
        " WHERE n.status = 'ready' AND n.gate IS NULL AND n.submitted_by = df._me()"
        " ORDER BY n.ready_at LIMIT 4 FOR NO KEY UPDATE SKIP LOCKED"
    )
    mine.execute("UPDATE df.nodes SET status = 'ready', ready_at = now()")
    plan = "\n".join(mine.values(query))
    assert "Index Scan using nodes_ready" in plan
    assert "readers" not in plan
    assert "(never executed)" in plan
