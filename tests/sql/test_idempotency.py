"""Idempotency keys: one key, one piece of work, whatever happens at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from tests.engine.support import Database, start, wait_until
from tests.sql.conftest import MakeRole

WAITING = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def keyed(db: Database, graph: str = "SELECT 1", **options: object) -> str:
    return db.start(graph, idempotency_key="order-42", **options)


def test_the_same_start_returns_the_same_run(db: Database) -> None:
    first = keyed(db, input="7", label="one")
    assert keyed(db, input="7", label="another label") == first
    assert db.value("SELECT count(*) FROM df.instances") == 1


def test_a_graph_printed_in_another_way_is_the_same(db: Database) -> None:
    first = keyed(db, '{"node_type":"SQL","query":"SELECT 1"}')
    assert keyed(db, '{ "query": "SELECT 1", "node_type": "SQL" }') == first
    assert keyed(db, "SELECT 1") == first


@pytest.mark.parametrize(
    "other",
    [
        {"graph": "SELECT 2"},
        {"input": "8"},
        {"max_attempts": 2},
        {"max_backoff": "1 minute"},
        {"on_failure": "continue"},
        {"database": "postgres"},
    ],
)
def test_another_start_under_the_key_is_refused_and_names_the_holder(
    db: Database, other: dict[str, str]
) -> None:
    holder = keyed(db, input="7")
    with pytest.raises(psycopg.errors.UniqueViolation) as error:
        keyed(db, **{"input": "7", **other})
    assert error.value.diag.message_primary == (
        f'idempotency_key "order-42" is held by run {holder}, which has another graph, input, database or policy:'
        " nothing was started"
    )
    assert "on_conflict => 'replace'" in str(error.value.diag.message_hint)
    assert db.value("SELECT count(*) FROM df.instances") == 1


def test_a_cancelled_run_frees_its_key(db: Database) -> None:
    first = keyed(db)
    db.execute("SELECT df.cancel(%s)", first)
    second = keyed(db, "SELECT 2")
    assert (db.status(first), db.status(second)) == ("cancelled", "pending")


def test_replace_cancels_the_holder_and_starts(db: Database) -> None:
    first = keyed(db)
    second = keyed(db, "SELECT 2", on_conflict="replace")
    assert (db.status(first), db.status(second)) == ("cancelled", "pending")
    assert "Replaced by a new start" in db.error(first)["message"]
    assert keyed(db, "SELECT 2") == second


def test_replace_leaves_a_finished_holder_as_it_is(db: Database) -> None:
    first = keyed(db)
    db.execute("UPDATE df.instances SET status = 'failed', wake_at = NULL, finished_at = df.now()")
    second = keyed(db, on_conflict="replace")
    assert (db.status(first), db.status(second)) == ("failed", "pending")


def test_a_refused_replacement_leaves_the_holder_alive(db: Database) -> None:
    first = keyed(db)
    with pytest.raises(psycopg.Error, match="Invalid durable function graph"):
        keyed(db, '{"node_type":"THEN"}', on_conflict="replace")
    assert db.status(first) == "pending"
    assert keyed(db) == first


def test_a_finished_run_keeps_its_key(db: Database) -> None:
    first = keyed(db)
    db.execute(
        "UPDATE df.instances SET status = 'completed', wake_at = NULL, finished_at = df.now()"
    )
    assert keyed(db) == first


def test_the_newest_run_of_the_lineage_is_returned_and_replaced(db: Database) -> None:
    first = keyed(db)
    db.execute("UPDATE df.instances SET status = 'failed', wake_at = NULL, finished_at = df.now()")
    retry = db.start("SELECT 1")
    db.execute("UPDATE df.instances SET restart_of_run_id = %s WHERE id = %s", first, retry)
    assert keyed(db) == retry
    second = keyed(db, on_conflict="replace")
    assert [db.status(run) for run in (first, retry, second)] == ["failed", "cancelled", "pending"]


def test_keys_of_different_roles_do_not_meet(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    assert keyed(session(make_role()), "SELECT 2") != keyed(db)


def race(db: Database, **options: str) -> tuple[str, str]:
    """Start under one key in two sessions: the second begins before the first has committed."""
    second: list[str] = []

    def start_second() -> None:
        with psycopg.connect(db.dsn, autocommit=True) as conn:
            second.append(start(conn, "SELECT 1", idempotency_key="order-42", **options))

    with db.transaction() as conn:
        first = start(conn, "SELECT 1", idempotency_key="order-42", **options)
        thread = threading.Thread(target=start_second)
        thread.start()
        wait_until(lambda: db.value(WAITING) == 1, what="the second session waits")
        conn.commit()
        thread.join()
    return first, second[0]


def test_two_sessions_at_once_start_one_run(db: Database) -> None:
    first, second = race(db)
    assert first == second
    assert db.value("SELECT count(*) FROM df.instances") == 1


def test_of_two_replacements_at_once_the_later_stays(db: Database) -> None:
    first, second = race(db, on_conflict="replace")
    assert (db.status(first), db.status(second)) == ("cancelled", "pending")


def test_a_step_may_ask_for_its_own_run_but_not_replace_it(db: Database) -> None:
    run = keyed(db)
    with db.conn.transaction():
        db.execute("SELECT set_config('df.run', %s, true)", run)  # as an engine does for its steps
        assert keyed(db) == run
        with pytest.raises(
            psycopg.errors.ObjectNotInPrerequisiteState, match=f"run {run} cannot replace itself"
        ):
            keyed(db, on_conflict="replace")
    assert db.status(run) == "pending"
