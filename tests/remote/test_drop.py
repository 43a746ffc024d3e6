"""`workbench drop`: lists, asks, and takes away schema `df` and what needs it, nothing else."""

from __future__ import annotations

from tests.engine.conftest import StartEngine
from tests.engine.support import Database
from tests.remote.conftest import MakeRole, RunCommand, user_of

SCHEMA = "SELECT to_regnamespace('df') IS NOT NULL"


def test_without_yes_it_lists_what_would_go_and_removes_nothing(
    db: Database, make_role: MakeRole, run_command: RunCommand
) -> None:
    role = make_role(db.dsn)
    db.execute("SELECT df.grant_usage(%s)", user_of(role))
    db.start("SELECT 1")
    db.execute("CREATE VIEW my_runs AS SELECT id FROM df.instances")
    done = run_command("drop", "--dsn", db.dsn)
    assert (done.status, done.err) == (1, "")
    for words in (
        "unfinished runs         1 pending",
        "instances 1",
        user_of(role),
        "view my_runs",
    ):
        assert words in done.out
    assert "Nothing was removed" in done.out
    assert "workbench drop --yes" in done.out
    assert db.value(SCHEMA)


def test_with_yes_the_schema_goes_and_other_tables_stay(
    db: Database, run_command: RunCommand
) -> None:
    db.start("SELECT 1")
    done = run_command("drop", "--yes", "--dsn", db.dsn)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("removed\n")
    assert not db.value(SCHEMA)
    assert db.value("SELECT to_regclass('seen') IS NOT NULL")
    again = run_command("drop", "--yes", "--dsn", db.dsn)
    assert again.status == 0
    assert "nothing to remove" in again.out
    assert run_command("migrate", "--dsn", db.dsn).status == 0


def test_it_refuses_while_an_engine_is_at_work(
    db: Database, start_engine: StartEngine, run_command: RunCommand
) -> None:
    engine = start_engine()
    refused = run_command("drop", "--yes", "--dsn", db.dsn)
    assert refused.status == 1
    assert f"engines are at work here, and nothing was changed: {engine.id} on" in refused.err
    assert db.value(SCHEMA)
    engine.stop()
    assert run_command("drop", "--yes", "--dsn", db.dsn).status == 0


def test_only_the_owner_may(db: Database, make_role: MakeRole, run_command: RunCommand) -> None:
    role = make_role(db.dsn)
    db.execute("SELECT df.grant_usage(%s)", user_of(role))
    refused = run_command("drop", "--yes", "--dsn", role)
    assert refused.status == 1
    assert "only its owner may remove it" in refused.err
    assert "Traceback" not in refused.err
    assert db.value(SCHEMA)


def test_a_schema_of_somebody_else_is_left_alone(empty_dsn: str, run_command: RunCommand) -> None:
    foreign = Database(empty_dsn)
    foreign.execute("CREATE SCHEMA df; CREATE TABLE df.frames (x int)")
    refused = run_command("drop", "--yes", "--dsn", empty_dsn)
    assert refused.status == 1
    assert "belongs to another product" in refused.err
    assert foreign.value("SELECT to_regclass('df.frames') IS NOT NULL")
    foreign.close()
