"""Ordinary roles execute their own runs, and nobody else's; what becomes of runs whose role has changed or is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.engine.conftest import Role, StartEngine
from tests.engine.support import Database, wait_until
from workbench.graph import seq
from workbench.graph.build import sql as step


@pytest.fixture
def sessions(db: Database) -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as opened:
        yield opened


def open_session(sessions: contextlib.ExitStack, role: Role) -> Database:
    return sessions.enter_context(contextlib.closing(Database(role.dsn)))


def test_usage_is_all_that_an_engine_needs(
    db: Database,
    start_engine: StartEngine,
    roles: tuple[Role, Role],
    sessions: contextlib.ExitStack,
) -> None:
    role = roles[0]
    mine = open_session(sessions, role)
    engine = start_engine(role.dsn)
    run = mine.start(
        seq(step("SELECT 20 AS n").named("x"), step("SELECT $x + 1 AS n")), max_attempts=2
    )
    mine.wait(run)
    assert mine.rows(run) == [{"n": 21}]
    failing = mine.start("SELECT 1 / 0", max_attempts=2, max_backoff="0.1 s")
    mine.wait(failing, "failed")
    assert [a.outcome for a in mine.attempts(failing)] == ["failed", "failed"]
    engine.stop()
    assert mine.value("SELECT count(*) FROM df.engines WHERE stopped_at IS NOT NULL") == 1
    assert mine.value("SELECT count(*) FROM df.sessions") == 0


def test_an_engine_executes_its_own_roles_runs_only_also_a_superusers_and_a_readers(
    db: Database,
    start_engine: StartEngine,
    roles: tuple[Role, Role],
    sessions: contextlib.ExitStack,
) -> None:
    owner, reader = roles
    mine, theirs = open_session(sessions, owner), open_session(sessions, reader)
    mine.execute("SELECT df.grant_read(%s)", reader.name)
    run = mine.start("SELECT current_user::text AS me")
    start_engine()
    start_engine(reader.dsn)
    for database in (db, theirs):
        database.wait(database.start("SELECT 1"))
    assert (mine.status(run), theirs.status(run)) == ("pending", "pending")
    start_engine(owner.dsn)
    mine.wait(run)
    assert theirs.rows(run) == [{"me": owner.name}]


def test_a_role_that_lost_a_privilege_fails_at_its_next_node(
    db: Database,
    start_engine: StartEngine,
    roles: tuple[Role, Role],
    sessions: contextlib.ExitStack,
) -> None:
    role = roles[0]
    db.execute("CREATE TABLE private (n integer)")
    db.execute("INSERT INTO private VALUES (1)")
    db.execute(f"GRANT SELECT ON private TO {role.name}")
    db.execute(
        "CREATE FUNCTION lose() RETURNS void SECURITY DEFINER LANGUAGE sql"
        f" AS 'REVOKE SELECT ON private FROM {role.name}'"
    )
    mine = open_session(sessions, role)
    start_engine(role.dsn)
    run = mine.start(
        seq(step("SELECT n FROM private"), step("SELECT lose()"), step("SELECT n FROM private")),
        max_attempts=3,
    )
    mine.wait(run, "failed")
    assert mine.error(run)["message"] == "permission denied for table private"
    statuses = [node["status"] for node in mine.nodes(run) if node["node_type"] == "SQL"]
    assert statuses == ["completed", "completed", "failed"]
    assert [a.outcome for a in mine.attempts(run)].count("failed") == 1


def drop(db: Database, name: str) -> None:
    role = sql.Identifier(name)
    db.conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
    db.conn.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.fixture
def doomed(db: Database) -> Iterator[Role]:
    """A role that the test is to drop."""
    name = f"{db.conn.info.dbname} doomed"
    db.conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    db.execute("SELECT df.grant_usage(%s)", name)
    yield Role(name, make_conninfo(db.dsn, user=name))
    if db.value("SELECT count(*) FROM pg_roles WHERE rolname = %s", name):
        drop(db, name)


def test_the_runs_of_a_dropped_role_fail_and_nothing_else_does(
    db: Database, roles: tuple[Role, Role], doomed: Role, sessions: contextlib.ExitStack
) -> None:
    mine = open_session(sessions, roles[0])
    with contextlib.closing(Database(doomed.dsn)) as theirs:
        runs = [theirs.start(seq(step("SELECT 1"), step("SELECT 2"))) for _ in range(3)]
        theirs.execute("SELECT df.cancel(%s)", runs[0])
        theirs.execute("SELECT df.setvar('a', 'b')")
        theirs.execute("SELECT df.grant_read(%s)", roles[0].name)
        theirs.execute("SELECT df._enter('gone', 'h', 1, '1', 1, 2, 2)")
        assert theirs.value("SELECT df._fail_orphaned_runs(10)") == 0
    alive = mine.start("SELECT 1")
    mine.execute("SELECT df.grant_read(%s)", doomed.name)
    assert db.value("SELECT df._fail_orphaned_runs(10)") == 0
    oid = db.value("SELECT oid FROM pg_roles WHERE rolname = %s", doomed.name)
    drop(db, doomed.name)
    assert mine.value("SELECT df._fail_orphaned_runs(10)") == 0
    assert [db.value("SELECT df._fail_orphaned_runs(1)") for _ in range(3)] == [1, 1, 0]
    assert [db.status(run) for run in runs] == ["cancelled", "failed", "failed"]
    error = db.error(runs[1])
    assert error["type"] == "RoleDropped"
    assert f"(oid {oid}) was dropped" in error["message"]
    assert {node["status"] for node in db.nodes(runs[1])} == {"cancelled"}
    assert db.status(alive) == "pending"
    for rows_left in ("df.vars", "df.readers", "df.engines WHERE died_at IS NULL"):
        assert db.value(f"SELECT count(*) FROM {rows_left}") == 0


def test_the_schemas_owner_fails_them_too(empty_dsn: str, admin: psycopg.Connection) -> None:
    from workbench.store.migrate import migrate

    name = str(psycopg.conninfo.conninfo_to_dict(empty_dsn)["dbname"])
    for role in (f"{name}_owner", f"{name}_gone"):
        admin.execute(f"CREATE ROLE {role} LOGIN")
    try:
        with contextlib.closing(Database(empty_dsn)) as database:
            database.execute(f"GRANT CREATE ON DATABASE {name} TO {name}_owner")
            migrate(make_conninfo(empty_dsn, user=f"{name}_owner"))
            with contextlib.closing(
                Database(make_conninfo(empty_dsn, user=f"{name}_owner"))
            ) as owner:
                owner.execute("SELECT df.grant_usage(%s)", f"{name}_gone")
                with contextlib.closing(
                    Database(make_conninfo(empty_dsn, user=f"{name}_gone"))
                ) as theirs:
                    run = theirs.start("SELECT 1")
                drop(database, f"{name}_gone")
                assert owner.value("SELECT df._fail_orphaned_runs(10)") == 1
                assert owner.status(run) == "failed"
            drop_all = f"DROP SCHEMA df CASCADE; DROP OWNED BY {name}_owner CASCADE"
            database.execute(drop_all)
    finally:
        admin.execute(f"DROP ROLE {name}_owner")
        admin.execute(f"DROP ROLE IF EXISTS {name}_gone")


def test_an_engine_of_a_revoked_role_stops_advancing_and_goes_on_when_it_is_let_in_again(
    db: Database,
    start_engine: StartEngine,
    roles: tuple[Role, Role],
    sessions: contextlib.ExitStack,
) -> None:
    role = roles[0]
    start_engine(role.dsn)
    mine = open_session(sessions, role)
    db.execute("SELECT df.revoke_usage(%s)", role.name)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema df"):
        mine.start("SELECT 1")
    db.execute("SELECT df.grant_usage(%s)", role.name)
    run = mine.start("SELECT 1")
    wait_until(lambda: mine.status(run) == "completed", what="the engine works again")
