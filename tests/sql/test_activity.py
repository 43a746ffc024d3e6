"""df.instance_activity as people call it: states that need no engine, what row security lets through, words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from workbench.graph.http import http
from workbench.graph.waiting import sleep

NOW = datetime(2026, 11, 30, 9, 12, 5, tzinfo=UTC)


@pytest.fixture
def alive(db: Database) -> None:
    """An engine of the superuser that holds its lock, as far as anybody can see."""
    enter(db, "e1")


def enter(db: Database, name: str) -> None:
    """An engine that is alive as long as this session is."""
    db.execute(
        "INSERT INTO df.engines (id, role, host, pid, version, schema_version, backend_pid)"
        " VALUES (%s, df._me(), 'lab', 1, '0', 1, pg_backend_pid())"
        " RETURNING pg_advisory_lock(df._lock_class(), lock_key)",
        name,
    )


def put(db: Database, run: str, node: int, **columns: Any) -> None:
    """Write a node's columns as an engine would have, and begin its run."""
    named = ", ".join(f"{name} = %({name})s" for name in columns)
    db.conn.execute(
        f"UPDATE df.nodes SET {named} WHERE instance_id = %(run)s AND node_id = %(node)s",
        {"run": run, "node": node, **columns},
    )
    db.execute("UPDATE df.instances SET status = 'running', wake_at = NULL WHERE id = %s", run)


def at(db: Database, moment: datetime) -> None:
    db.execute(
        "SELECT df.set_setting('clock', jsonb_build_object('at', %s::text))", moment.isoformat()
    )


def told(db: Database, run: str) -> tuple[str, str]:
    query = "SELECT state, reason FROM df.instance_activity() WHERE instance_id = %s"
    row = db.execute(query, run).fetchone()
    assert row is not None
    return row


def test_a_retry_says_which_attempt_comes_when(db: Database, alive: None) -> None:
    at(db, NOW)
    run = db.start("SELECT 1 / 0", max_attempts=5)
    put(db, run, 0, status="ready", attempt=2, ready_at=NOW + timedelta(seconds=6))
    assert told(db, run) == ("retrying", "3rd of 5 attempts in 6 s")
    columns = "attempt, max_attempts, failed_node_count, running_node_count, next_wake_at"
    row = db.execute(f"SELECT {columns} FROM df.instance_activity()").fetchone()
    assert row == (3, 5, 1, 0, NOW + timedelta(seconds=6))


def test_a_nearer_policy_says_how_many_attempts_there_are(db: Database, alive: None) -> None:
    at(db, NOW)
    run = db.start("SELECT 1 / 0", max_attempts=5)
    put(
        db,
        run,
        0,
        status="ready",
        attempt=1,
        max_attempts=2,
        ready_at=NOW + timedelta(minutes=4, seconds=12),
    )
    assert told(db, run) == ("retrying", "2nd of 2 attempts in 4 min 12 s")


def test_a_missing_secret_is_named(db: Database, alive: None) -> None:
    at(db, NOW)
    run = db.start(http("https://example.org/"))
    put(db, run, 0, status="ready", ready_at=NOW + timedelta(seconds=5))
    db.execute(
        """UPDATE df.nodes SET error = '{"type": "MissingSecret", "message": "no engine has the secret TOKEN"}'"""
    )
    assert told(db, run) == ("waiting", "no engine has the secret TOKEN; looks again in 5 s")


def test_a_parked_run_is_wedged_and_says_why(db: Database, alive: None) -> None:
    run = db.start("SELECT 1")
    db.execute(
        """UPDATE df.instances SET status = 'running', parked = '{"type": "KeyError", "message": "no branch 7"}'"""
    )
    assert told(db, run) == ("wedged", "parked: no branch 7")
    assert db.value("SELECT last_error FROM df.instance_activity()") == "no branch 7"


def test_a_step_of_a_dead_engine_is_taken_over_by_another(db: Database, alive: None) -> None:
    run = db.start("SELECT 1")
    put(db, run, 0, status="running", engine_id="gone", started_at=NOW)
    db.execute("UPDATE df.nodes SET token = gen_random_uuid()")
    assert told(db, run) == ("retrying", "its engine was lost: another one takes over")


def test_a_wait_that_is_over_needs_an_engine(db: Database) -> None:
    at(db, NOW)
    run = db.start(sleep(60))
    put(db, run, 0, status="waiting", started_at=NOW, ready_at=NOW - timedelta(seconds=10))
    assert told(db, run) == ("wedged", "no engine alive: it was due at 09:11:55")


def test_reasons_come_with_their_moments_apart(db: Database, alive: None) -> None:
    at(db, NOW)
    run = db.start(sleep(90))
    put(db, run, 0, status="waiting", started_at=NOW, ready_at=NOW + timedelta(seconds=90))
    assert told(db, run) == ("waiting", "wakes at 09:13:35, in 1 min 30 s")
    due = "2026-11-30T09:13:35+00:00"
    parts = db.value("SELECT reason_parts FROM df.instance_activity()")
    assert parts == ["wakes at ", {"at": due}, ", in ", {"left": due}]


def test_other_days_are_written_out(db: Database, alive: None) -> None:
    at(db, NOW)
    run = db.start(sleep(90))
    put(db, run, 0, status="waiting", started_at=NOW, ready_at=NOW + timedelta(days=2, hours=4))
    assert told(db, run) == ("waiting", "wakes at 2026-12-02 13:12:05, in 2 d 4 h")


def test_a_role_sees_its_own_runs_only(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    ann, bob = session(make_role(name="ann")), session(make_role(name="bob"))
    hers, his = ann.start("SELECT 1"), bob.start("SELECT 2")
    runs = "SELECT instance_id FROM df.instance_activity()"
    assert ann.values(runs) == [hers]
    assert bob.values(runs) == [his]
    assert set(db.values(runs)) == {hers, his}


def test_engines_of_another_role_do_not_count(
    db: Database, alive: None, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    ann = session(make_role(name="ann"))
    run = ann.start("SELECT 1")
    assert told(ann, run) == ("wedged", "no engine alive")
    enter(ann, "e2")
    assert told(ann, run) == ("working", "about to begin")
    assert db.value("SELECT engine_alive FROM df.instance_activity()") is True


def test_finished_runs_are_never_listed(db: Database, alive: None) -> None:
    run = db.start("SELECT 1")
    for status in ("completed", "failed", "cancelled"):
        db.execute("UPDATE df.instances SET status = %s WHERE id = %s", status, run)
        assert db.values("SELECT instance_id FROM df.instance_activity()") == []


def test_a_limit_costs_only_what_it_shows(db: Database, alive: None) -> None:
    many = 3000
    db.execute("SELECT count(df.start(%s)) FROM generate_series(1, %s)", sleep(60).to_json(), many)
    db.execute("ANALYZE")
    plan = db.value("EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM df.instance_activity() LIMIT 5")
    rows = [node["Actual Rows"] for node in _nodes(plan[0]["Plan"]) if node.get("Alias") == "i"]
    assert 5 <= max(rows) < 200


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(each for below in plan.get("Plans", ()) for each in _nodes(below))]


def test_an_ordinal_has_its_ending(db: Database) -> None:
    said = "SELECT string_agg(df._ordinal(n), ' ') FROM unnest('{1,2,3,4,11,12,13,21,102,111}'::integer[]) n"
    assert db.value(said) == "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th"
