"""Who may use the workbench: granting, handing on, revoking; and what a role cannot do to another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from workbench.store.migrate import _install_functions, migrate

Session = Callable[[str], Database]
Refused = psycopg.errors.InsufficientPrivilege

HELD = """
SELECT count(*) FROM (
    SELECT relacl AS acl FROM pg_class WHERE relnamespace = 'df'::regnamespace
    UNION ALL SELECT attacl FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid
              WHERE c.relnamespace = 'df'::regnamespace
    UNION ALL SELECT proacl FROM pg_proc WHERE pronamespace = 'df'::regnamespace
    UNION ALL SELECT nspacl FROM pg_namespace WHERE nspname = 'df') o, aclexplode(o.acl) a
WHERE a.grantee = (SELECT oid FROM pg_roles WHERE rolname = %s)
"""


@pytest.fixture
def stranger(make_role: MakeRole, db: Database) -> Callable[[str], str]:
    """Make a role to which nothing was granted: `stranger(name)`."""

    def make(name: str = "role") -> str:
        full = make_role(name=name)
        db.execute("SELECT df.revoke_usage(%s)", full)
        return full

    return make


@contextlib.contextmanager
def notices(database: Database) -> Iterator[list[str]]:
    seen: list[str] = []

    def handler(notice: psycopg.errors.Diagnostic) -> None:
        seen.append(f"{notice.severity}: {notice.message_primary}")

    database.conn.add_notice_handler(handler)
    yield seen
    database.conn.remove_notice_handler(handler)


def grant(database: Database, role: str, **options: bool) -> None:
    given = "".join(f", {name} => {value}" for name, value in options.items())
    database.execute(f"SELECT df.grant_usage(%s{given})", role)


def revoke(database: Database, role: str) -> None:
    database.execute("SELECT df.revoke_usage(%s)", role)


@pytest.mark.parametrize("name", ["plain", "labUser", "two words", 'quo"ted', "o'clock", "päth\\"])
def test_a_granted_role_starts_and_sees_its_runs(
    db: Database, stranger: Callable[[str], str], session: Session, name: str
) -> None:
    role = stranger(name)
    mine = session(role)
    with pytest.raises(Refused, match="schema df"):
        mine.start("SELECT 1")
    with notices(db) as seen:
        grant(db, role)
    assert seen == [f'NOTICE: role "{role}" may start workflows and execute its own']
    run = mine.start("SELECT 1")
    assert mine.status(run) == "pending"
    assert mine.execute("SELECT df.setvar('a', '1')").fetchone() == ("OK",)
    assert mine.value("SELECT df.cancel(%s)", run).startswith(f"Instance {run} cancelled")


def test_a_revoked_role_holds_nothing(db: Database, make_role: MakeRole, session: Session) -> None:
    role = make_role(name='quo"ted')
    grant(db, role, include_http=True, with_grant=True)
    mine = session(role)
    run = mine.start("SELECT 1")
    with notices(db) as seen:
        revoke(db, role)
    assert seen == [f'NOTICE: role "{role}" may not use schema df any more']
    assert db.value(HELD, role) == 0
    with pytest.raises(Refused):
        mine.status(run)
    assert db.status(run) == "pending"


def test_granting_and_revoking_twice_changes_nothing_more(
    db: Database, make_role: MakeRole
) -> None:
    role = make_role()
    held = db.value(HELD, role)
    grant(db, role)
    assert db.value(HELD, role) == held > 10
    revoke(db, role)
    revoke(db, role)
    assert db.value(HELD, role) == 0


@pytest.mark.parametrize("function", ["grant_usage", "revoke_usage", "grant_read", "revoke_read"])
@pytest.mark.parametrize("name", ["no such role", None])
def test_an_unknown_role_is_an_error(db: Database, function: str, name: str | None) -> None:
    shown = f'"{name}"' if name else "NULL"
    with pytest.raises(psycopg.errors.UndefinedObject, match=f"role {shown} does not exist"):
        db.execute(f"SELECT df.{function}(%s)", name)


def test_an_ordinary_role_cannot_let_others_in(
    db: Database, make_role: MakeRole, stranger: Callable[..., str], session: Session
) -> None:
    mine, other = session(make_role()), stranger()
    for call in ("grant_usage", "revoke_usage", "metrics"):
        arguments = "" if call == "metrics" else "'x'"
        with pytest.raises(Refused, match=f"permission denied for function {call}"):
            mine.execute(f"SELECT df.{call}({arguments})")
    # Not by EXECUTE alone either.
    db.execute("GRANT EXECUTE ON FUNCTION df.grant_usage(text, boolean, boolean) TO PUBLIC")
    with pytest.raises(Refused, match="may not let others use schema df"):
        grant(mine, other)


def test_a_delegate_lets_others_in_and_out_but_not_beyond_what_it_may(
    db: Database, make_role: MakeRole, stranger: Callable[..., str], session: Session
) -> None:
    delegate, other = make_role(), stranger("labUser")
    grant(db, delegate, with_grant=True)
    helper = session(delegate)
    with pytest.raises(Refused, match=r"may not grant df\.http\(.*: nothing was granted"):
        grant(helper, other, include_http=True)
    assert db.value(HELD, other) == 0
    grant(helper, other)
    run = session(other).start("SELECT 1")
    assert helper.value("SELECT df.status(%s)", run) is None
    revoke(helper, other)
    assert db.value(HELD, other) == 0
    grant(db, delegate, with_grant=True, include_http=True)
    grant(helper, other, include_http=True)
    http = "df.http(text,text,text,jsonb,integer)"
    assert db.value("SELECT has_function_privilege(%s, %s, 'EXECUTE')", other, http)


def test_execute_on_http_without_its_grant_option_cannot_be_handed_on(
    db: Database, make_role: MakeRole, stranger: Callable[..., str], session: Session
) -> None:
    delegate, other = make_role(), stranger()
    grant(db, delegate, include_http=True)
    grant(db, delegate, with_grant=True)
    with pytest.raises(Refused, match=r"may not grant df\.http\("):
        grant(session(delegate), other, include_http=True)


def test_revoking_a_delegate_revokes_what_it_granted(
    db: Database, make_role: MakeRole, stranger: Callable[..., str], session: Session
) -> None:
    delegate, other = make_role(), stranger()
    grant(db, delegate, with_grant=True)
    grant(session(delegate), other)
    assert db.value(HELD, other) > 0
    revoke(db, delegate)
    assert (db.value(HELD, delegate), db.value(HELD, other)) == (0, 0)


def test_an_administrator_revokes_what_a_delegate_granted(
    db: Database, make_role: MakeRole, stranger: Callable[..., str], session: Session
) -> None:
    delegate, other = make_role(name='dele"gate'), stranger()
    grant(db, delegate, with_grant=True)
    grant(session(delegate), other)
    revoke(db, other)
    assert db.value(HELD, other) == 0
    assert db.value("SELECT current_user") == "postgres"


def test_a_delegate_is_told_what_it_could_not_revoke(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    delegate, other = make_role(), make_role()
    grant(db, delegate, with_grant=True)
    helper = session(delegate)
    held = db.value(HELD, other)
    with notices(helper) as seen:
        revoke(helper, other)
    assert seen[-1].endswith(
        "keeps what was granted by postgres: only that role or a superuser can revoke it"
    )
    assert db.value(HELD, other) == held
    assert helper.value("SELECT current_user") == delegate


def test_the_owner_of_the_schema_cannot_be_revoked(db: Database) -> None:
    with pytest.raises(Refused, match=r'role "postgres" owns schema df'):
        revoke(db, "postgres")


def test_a_grant_on_a_closed_function_survives_installation(
    db: Database, make_role: MakeRole
) -> None:
    http = "df.http(text,text,text,jsonb,integer)"
    may = "SELECT has_function_privilege(%s, %s, 'EXECUTE')"
    role, other = make_role(), make_role()
    assert not db.value(may, role, http)
    grant(db, role, include_http=True)
    reinstall(db)
    assert (db.value(may, role, http), db.value(may, other, http)) == (True, False)
    db.execute(f"GRANT EXECUTE ON FUNCTION {http} TO PUBLIC")
    reinstall(db)
    assert db.value(may, other, http)


def test_a_closed_function_made_anew_is_closed_again(db: Database, make_role: MakeRole) -> None:
    role = make_role()
    db.execute("DROP FUNCTION df.revoke_usage(text)")
    reinstall(db)
    assert not db.value(
        "SELECT has_function_privilege(%s, 'df.revoke_usage(text)', 'EXECUTE')", role
    )


def test_who_was_let_in_keeps_up_with_new_tables(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    role, delegate = make_role(), make_role()
    grant(db, delegate, with_grant=True)
    for each in (role, delegate):
        db.conn.execute(
            sql.SQL("REVOKE ALL ON df.signals FROM {} CASCADE").format(sql.Identifier(each))
        )
    db.execute("ALTER TABLE df.nodes ADD COLUMN later integer")
    reinstall(db)
    mine = session(role)
    run = mine.start("SELECT 1")
    mine.execute("UPDATE df.nodes SET later = 1 WHERE instance_id = %s", run)
    assert mine.value("SELECT count(*) FROM df.signals") == 0
    option = "SELECT has_table_privilege(%s, 'df.signals', 'INSERT WITH GRANT OPTION')"
    assert (db.value(option, role), db.value(option, delegate)) == (False, True)


def reinstall(db: Database) -> None:
    db.execute("DELETE FROM df.schema_functions")
    with db.conn.transaction():
        _install_functions(db.conn)


def test_a_group_lets_its_members_in_each_with_runs_of_its_own(
    db: Database, stranger: Callable[..., str], make_role: MakeRole, session: Session
) -> None:
    group = make_role("NOLOGIN", name="analysts")
    members = [stranger(), stranger()]
    for each in members:
        db.conn.execute(
            sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), sql.Identifier(each))
        )
    one, two = map(session, members)
    run = one.start("SELECT 1")
    assert (one.status(run), two.value("SELECT df.status(%s)", run)) == ("pending", None)


def test_roles_can_be_dropped_once_what_they_own_is(
    db: Database, admin: psycopg.Connection, server: str
) -> None:
    for name in ("roles_dele gate", "roles_other"):
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    try:
        grant(db, "roles_dele gate", include_http=True, with_grant=True)
        with contextlib.closing(Database(make_conninfo(db.dsn, user="roles_dele gate"))) as helper:
            grant(helper, "roles_other")
            run = helper.start("SELECT 1")
            helper.execute("SELECT df.grant_read('roles_other')")
    finally:
        for name in ("roles_dele gate", "roles_other"):
            db.conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
    assert db.status(run) == "pending"


ENTER = (
    "INSERT INTO df.engines (id, role, host, pid, version, schema_version, backend_pid)"
    " VALUES ({}, {}, 'h', 1, '1', 1, 1)"
)

THEIRS = [
    "INSERT INTO df.instances (id, submitted_by, created_at, updated_at) VALUES ('0000000a', 'postgres', now(), now())",
    "INSERT INTO df.nodes (instance_id, node_id, submitted_by, node_type) VALUES (%(run)s, 9, df._me(), 'SQL')",
    "INSERT INTO df.values (instance_id, name, submitted_by, node_id, value) VALUES (%(run)s, 'x', df._me(), 0, '1')",
    "INSERT INTO df.signals (instance_id, name, submitted_by, sent_by, sent_at, data)"
    " VALUES (%(run)s, 's', df._me(), df._me(), now(), '1')",
    "INSERT INTO df.iterations VALUES (%(run)s, 0, 1, df._me(), 1, 1, 1, now(), now())",
    ENTER.format("'e'", "'postgres'"),
    "INSERT INTO df.sessions VALUES ('theirs', 1, now())",
    "INSERT INTO df.vars VALUES ('postgres', 'a', 'b')",
    "INSERT INTO df.readers VALUES ('postgres', df._me())",
    "UPDATE df.nodes SET instance_id = %(run)s",
    "UPDATE df.nodes SET submitted_by = 'postgres'",
    "UPDATE df.instances SET submitted_by = 'postgres'",
    "UPDATE df.engines SET role = 'postgres'",
    "UPDATE df.definitions SET label = 'x'",
    "INSERT INTO df.settings VALUES ('max_lost', '1')",
    "CREATE TRIGGER t BEFORE UPDATE ON df.nodes FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "TRUNCATE df.nodes",
    "CREATE TABLE df.mine ()",
]


@pytest.mark.parametrize("statement", THEIRS)
def test_a_role_cannot_write_what_is_not_its_own(
    db: Database, make_role: MakeRole, session: Session, statement: str
) -> None:
    run = db.start("SELECT 1")
    db.execute(ENTER.format("'theirs'", "df._me()"))
    mine = session(make_role())
    mine.start("SELECT 1")
    mine.execute(ENTER.format("'mine'", "df._me()"))
    with pytest.raises(Refused):
        mine.conn.execute(statement, {"run": run})


def test_another_roles_attempts_are_in_nobodys_way(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    mine, other = session(make_role()), session(make_role())
    run = mine.start("SELECT 1")
    insert = (
        "INSERT INTO df.attempts"
        " (instance_id, node_id, rev, submitted_by, attempt, outcome, token, finished_at, exactly_once)"
        " VALUES (%s, 0, 1, df._me(), 1, 'completed', gen_random_uuid(), now(), true)"
    )
    other.execute(insert, run)
    mine.execute(insert, run)
    assert mine.value("SELECT count(*) FROM df.attempts") == 1


def test_another_roles_engine_cannot_be_declared_dead(
    db: Database, make_role: MakeRole, session: Session
) -> None:
    db.execute(ENTER.format("'e'", "df._me()"))
    mine = session(make_role())
    assert mine.values("SELECT id FROM df.engines") == ["e"]
    mine.execute("UPDATE df.engines SET died_at = now()")
    mine.execute("SELECT df._leave('e')")
    mine.execute("DELETE FROM df.engines")
    assert db.value("SELECT died_at IS NULL AND stopped_at IS NULL FROM df.engines WHERE id = 'e'")


def test_installing_twice_is_the_same(db: Database) -> None:
    migrate(db.dsn)
    reinstall(db)
    assert (
        db.value("SELECT count(*) FROM df.closed_functions WHERE signature LIKE 'df.%%usage%%'")
        == 2
    )
