"""A role is told who lets it in, and then works; its colleague looks on through a bench."""

from __future__ import annotations

import contextlib

import pytest
from psycopg.conninfo import make_conninfo

from tests.engine.support import Database
from tests.remote.conftest import Connect, MakeRole, user_of
from workbench.errors import DatabaseError, NotFound, SchemaError, UsageError
from workbench.store import roles


def test_a_role_that_was_not_let_in_is_told_what_to_ask_for(
    db: Database, make_role: MakeRole, open_bench: Connect
) -> None:
    role = make_role(db.dsn)
    with pytest.raises(SchemaError, match=r"permission denied for schema df\)") as error:
        open_bench(role, engine=False).runs()
    call = f"SELECT df.grant_usage('{user_of(role)}')"
    assert str(error.value).endswith(call)
    db.execute(call)
    bench = open_bench(role)
    assert bench.start("SELECT 1 AS one").result(timeout=20)["rows"] == [{"one": 1}]


def test_a_colleague_gets_a_shared_run_from_its_bench_and_cannot_cancel_it(
    db: Database, make_role: MakeRole, open_bench: Connect
) -> None:
    mine, theirs = make_role(db.dsn), make_role(db.dsn)
    for role in (mine, theirs):
        db.execute("SELECT df.grant_usage(%s)", user_of(role))
    owner, reader = open_bench(mine, engine=False), open_bench(theirs, engine=False)
    run = owner.start("SELECT 1", label="shared")
    with pytest.raises(NotFound):
        reader.get(run.id)
    owner.query(f"SELECT df.grant_read('{user_of(theirs)}')")
    assert reader.get(run.id).status == "pending"
    assert "shared" in str(reader.runs())
    with pytest.raises(NotFound):
        reader.get(run.id).cancel()
    assert run.status == "pending"


def test_letting_in_and_letting_look_from_python(db: Database, make_role: MakeRole) -> None:
    mine, theirs = make_role(db.dsn), make_role(db.dsn)
    for role in (mine, theirs):
        roles.grant_usage(db.conn, user_of(role), http=True)
    with (
        contextlib.closing(Database(mine)) as owner,
        contextlib.closing(Database(theirs)) as reader,
    ):
        run = owner.start("SELECT 1")
        roles.grant_read(owner.conn, user_of(theirs))
        assert reader.value("SELECT df.status(%s)", run) == "pending"
        roles.revoke_read(owner.conn, user_of(theirs))
        assert reader.value("SELECT df.status(%s)", run) is None
    roles.revoke_usage(db.conn, user_of(theirs))
    assert not db.value("SELECT has_schema_privilege(%s, 'df', 'USAGE')", user_of(theirs))


def test_refusals_are_the_workbenchs_own_errors(db: Database, make_role: MakeRole) -> None:
    mine, other = make_role(db.dsn), make_role(db.dsn)
    roles.grant_usage(db.conn, user_of(mine))
    with pytest.raises(UsageError, match='role "nobody here" does not exist: nothing was changed'):
        roles.grant_usage(db.conn, "nobody here")
    with pytest.raises(UsageError, match="a role is named by text, not None"):
        roles.grant_read(db.conn, None)  # type: ignore[arg-type]
    with contextlib.closing(Database(mine)) as owner:
        with pytest.raises(DatabaseError, match=r"permission denied .* The schema's owner can"):
            roles.grant_usage(owner.conn, user_of(other))
        with pytest.raises(DatabaseError, match="may not use schema df, so it could not look"):
            roles.grant_read(owner.conn, user_of(other))


@pytest.mark.parametrize("way", ["option", "setting"])
def test_an_engine_that_would_work_for_another_role_than_it_logs_in_as_is_refused(
    db: Database, make_role: MakeRole, open_bench: Connect, way: str
) -> None:
    shared, login = make_role(db.dsn), make_role(db.dsn)
    db.execute("SELECT df.grant_usage(%s)", user_of(shared))
    db.execute(f"GRANT {user_of(shared)} TO {user_of(login)}")
    if way == "setting":
        db.execute(f"ALTER ROLE {user_of(login)} SET role = '{user_of(shared)}'")
        dsn = login
    else:
        dsn = make_conninfo(login, options=f"-c role={user_of(shared)}")
    with pytest.raises(DatabaseError, match=f"Log in as {user_of(shared)}"):
        open_bench(dsn).start("SELECT 1")
    assert len(open_bench(dsn, engine=False).runs().df) == 0
