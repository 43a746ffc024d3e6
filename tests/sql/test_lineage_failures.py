"""df.unresolved_failures and df.failures: what is still broken, and what goes wrong how often."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from tests.sql.lineages import end, failed, retry

UNRESOLVED = "SELECT run_id FROM df.unresolved_failures()"


def unresolved(db: Database) -> set[str]:
    return set(db.values(UNRESOLVED))


def test_case_8_leaves_no_unresolved_failure_but_the_last(db: Database) -> None:
    a = failed(db)
    assert unresolved(db) == {a}
    b = end(db, retry(db, a))
    assert unresolved(db) == {a, b}
    c = retry(db, b)
    assert unresolved(db) == {a, b}
    end(db, c, "completed")
    assert unresolved(db) == set()
    d = retry(db, a)
    assert unresolved(db) == set()
    end(db, d)
    assert unresolved(db) == {d}  # of A a descendant has completed, of D none


def test_a_sibling_that_completed_resolves_nothing_but_its_source(db: Database) -> None:
    a = failed(db)
    b = end(db, retry(db, a))
    end(db, retry(db, a), "completed")
    assert unresolved(db) == {b}


@pytest.mark.parametrize("status", ["pending", "running", "completed", "cancelled"])
def test_only_failed_runs_are_failures(db: Database, status: str) -> None:
    db.execute("UPDATE df.instances SET status = %s WHERE id = %s", status, db.start("SELECT 1"))
    assert unresolved(db) == set()


def test_a_cancelled_retry_resolves_nothing(db: Database) -> None:
    a = failed(db)
    db.execute("SELECT df.cancel(%s)", retry(db, a))
    assert unresolved(db) == {a}


def test_every_column_of_an_unresolved_failure(db: Database) -> None:
    a = failed(db, label="nightly")
    retry(db, a)
    b = retry(db, a)
    with db.conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        (row,) = cursor.execute("SELECT * FROM df.unresolved_failures()").fetchall()
    times = [row.pop(name) for name in ("created_at", "started_at", "finished_at")]
    assert None not in times
    assert row == {
        "run_id": a,
        "label": "nightly",
        "error": "ValueError: no",
        "restart_of_run_id": None,
        "newest_retry": b,
        "newest_retry_status": "pending",
    }


def test_since_and_the_newest_first(db: Database) -> None:
    runs = [failed(db) for _ in range(3)]
    for hours, run in enumerate(runs):
        db.execute(
            "UPDATE df.instances SET finished_at = ('2026-11-30 ' || %s || ':00+00')::timestamptz WHERE id = %s",
            12 - hours,
            run,
        )
    assert db.values(UNRESOLVED) == runs
    since = "SELECT run_id FROM df.unresolved_failures('2026-11-30 11:00+00')"
    assert db.values(since) == runs[:2]


def test_an_old_failure_that_was_mended_lately_is_resolved_in_every_window(db: Database) -> None:
    a = failed(db)
    b = end(db, retry(db, a))
    db.execute("UPDATE df.instances SET finished_at = now() - interval '3 days'")
    end(db, retry(db, b), "completed")
    for days in (1, 2, 4):
        query = "SELECT count(*) FROM df.unresolved_failures(now() - make_interval(days => %s))"
        assert db.value(query, days) == 0


def test_a_role_sees_its_own_failures(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    mine, theirs = session(make_role()), session(make_role())
    run = end(db, mine.start("SELECT 1"))
    assert (unresolved(mine), unresolved(theirs), unresolved(db)) == ({run}, set(), {run})


def test_many_runs_are_looked_through_fast(db: Database) -> None:
    # 50,000 runs: every tenth failed, of these every second was retried and completed; but not the newest.
    db.execute("""
        INSERT INTO df.instances (id, status, submitted_by, restart_of_run_id,
                                  created_at, started_at, finished_at, updated_at)
        SELECT 'a' || n, CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'completed' END, df._me(),
               CASE WHEN n % 20 = 1 AND n > 1 THEN 'a' || n - 1 END, at, at, at, at
        FROM generate_series(0, 49999) n, LATERAL (SELECT now() - n * interval '1 second') t (at)""")
    db.execute("""INSERT INTO df.definitions (instance_id, submitted_by, created_at, graph)
        SELECT id, submitted_by, created_at, '{"node_type":"SQL","query":"SELECT 1"}' FROM df.instances""")
    db.execute("ANALYZE df.instances, df.definitions")
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        assert db.value("SELECT count(*) FROM df.unresolved_failures()") == 2501
        best = min(best, time.perf_counter() - begin)
    assert best < 1.0  # many times what it takes on an idle machine


@pytest.mark.parametrize(
    ("message", "plain"),
    [
        ("division by zero", "division by zero"),
        ('relation "orders" does not exist', "relation ? does not exist"),
        (
            "invalid input syntax for type integer: 'a''b'",
            "invalid input syntax for type integer: ?",
        ),
        ("can't find user's thing 'x'", "can't find user's thing ?"),
        ("Key (id)=(5) already exists.", "Key (id)=(?) already exists."),
        ("Key (a, b)=(5, -1.5e3) already exists.", "Key (a, b)=(?) already exists."),
        ("timeout after 30s (30000 ms)", "timeout after ?s (? ms)"),
        ("process 1234 of worker-7 on 10.0.0.12:5432", "process ? of worker-? on ?"),
        ("run 3f2a90bc failed", "run ? failed"),
        ("0x7F3c at 0xDEADBEEF", "? at ?"),
        ("user 6b1f0c3e-8f1a-4a52-9d35-0f6ee1b1c111 is gone", "user ? is gone"),
        ("no rows for 2026-11-30T12:00:05.25+01:00", "no rows for ?"),
        ("no rows for 2026-11-30", "no rows for ?"),
        ("column x1 of utf8 md5", "column x1 of utf8 md5"),
        ("effaced facade decade", "effaced facade decade"),
        ("the defaced facade", "the defaced facade"),
        ("first\n  second\tthird ", "first second third"),
        ("missing keys ['a', 'b', 'c']", "missing keys [?]"),
        ("HTTP 503 from `https://example.com/a/1`", "HTTP ? from ?"),
        ("1,234 of 2,000", "? of ?"),
        ("", ""),
        ("x" * 500, "x" * 300),
        ("größer als 5 €", "größer als ? €"),
        ("50%", "?%"),
    ],
)
def test_messages_without_their_literals(db: Database, message: str, plain: str) -> None:
    assert db.value("SELECT df._without_literals(%s)", message) == plain
    assert db.value("SELECT df._without_literals(%s)", plain) == plain


def test_a_hostile_message_takes_no_time(db: Database) -> None:
    for text in ("'" * 8000, "a'b" * 2000, "9" * 8000, "0a" * 4000, "?, " * 2000, "2026-" * 1500):
        begin = time.perf_counter()
        db.value("SELECT df._without_literals(%s)", text)
        assert time.perf_counter() - begin < 1.0


ATTEMPT = """
    INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, finished_at,
                             exactly_once, error)
    SELECT id, %(node)s, %(rev)s, submitted_by, 1, %(outcome)s, gen_random_uuid(),
           ('2026-11-30 ' || %(at)s || '+00')::timestamptz, false,
           jsonb_strip_nulls(jsonb_build_object(
               'type', %(type)s::text, 'sqlstate', %(state)s::text, 'message', %(message)s::text))
    FROM df.instances WHERE id = %(run)s
"""


def attempt(db: Database, run: str, message: str, **fields: Any) -> None:
    row = {
        "node": 0,
        "rev": 1,
        "outcome": "failed",
        "type": "ValueError",
        "state": None,
        "at": "08:00",
        **fields,
    }
    db.conn.execute(ATTEMPT, {**row, "run": run, "message": message})


def failures(db: Database, call: str = "df.failures()") -> list[tuple[Any, ...]]:
    return db.execute(f"SELECT label, node, code, message, attempts, runs FROM {call}").fetchall()


def test_attempts_that_differ_in_literals_only_are_one_failure(db: Database) -> None:
    one, two = db.start("SELECT 1", label="load"), db.start("SELECT 2", label="load")
    attempt(db, one, "no file 'a.csv', line 7", rev=1, at="08:00")
    attempt(db, one, "no file 'b.csv', line 9", rev=2, at="09:00")
    attempt(db, two, "no file 'c', line 10", at="07:00")
    with db.conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        (row,) = cursor.execute("SELECT * FROM df.failures()").fetchall()
    seen = [row.pop(name).strftime("%H:%M") for name in ("first_seen", "last_seen")]
    assert seen == ["07:00", "09:00"]
    assert len(row.pop("fingerprint")) == 12
    assert row == {
        "label": "load",
        "node": "#0",
        "code": "ValueError",
        "message": "no file ?, line ?",
        "attempts": 3,
        "runs": 2,
        "example_run_id": one,
        "example_node_id": 0,
        "example_rev": 2,
        "example_error": {"type": "ValueError", "message": "no file 'b.csv', line 9"},
    }


def test_label_node_code_and_message_tell_failures_apart(db: Database) -> None:
    graph = db.value("SELECT 'SELECT 1' |=> 'first' ~> 'SELECT 2'")
    run, other = db.start(graph, label="a"), db.start(graph)
    attempt(db, run, "e", node=1)
    attempt(db, run, "e", node=2)
    attempt(db, other, "e", node=1)
    attempt(db, run, "f", node=1, rev=2)
    attempt(db, run, "e", node=1, rev=3, state="22012")
    attempt(db, run, "e", node=1, rev=4, outcome="worker_lost", type="WorkerLost")
    assert sorted(failures(db), key=str) == [
        ("a", "#2", "ValueError", "e", 1, 1),
        ("a", "first", "22012", "e", 1, 1),
        ("a", "first", "ValueError", "e", 1, 1),
        ("a", "first", "ValueError", "f", 1, 1),
        ("a", "first", "WorkerLost", "e", 1, 1),
        (None, "first", "ValueError", "e", 1, 1),
    ]
    fingerprints = db.values("SELECT fingerprint FROM df.failures()")
    assert len(set(fingerprints)) == 6


def test_a_step_with_one_name_is_one_step_wherever_it_stands(db: Database) -> None:
    one = db.start(db.value("SELECT 'SELECT 1' |=> 'x'"))
    two = db.start(db.value("SELECT 'SELECT 0' ~> ('SELECT 1' |=> 'x')"))
    attempt(db, one, "e")
    attempt(db, two, "e", node=2)
    assert failures(db) == [(None, "x", "ValueError", "e", 2, 2)]


def test_attempts_that_did_not_fail_are_no_failures(db: Database) -> None:
    run = db.start("SELECT 1")
    attempt(db, run, "", outcome="completed")
    attempt(db, run, "", outcome="cancelled", rev=2)
    assert failures(db) == []


def test_failures_since_then_the_last_seen_first_and_so_many(db: Database) -> None:
    run = db.start("SELECT 1")
    for hour in range(5):
        attempt(db, run, f"{'abcde'[hour]} broke", rev=hour, at=f"1{hour}:00")
    messages = [row[3] for row in failures(db, "df.failures('2026-11-30 12:00+00')")]
    assert messages == ["e broke", "d broke", "c broke"]
    assert [row[3] for row in failures(db, "df.failures(limit_count => 2)")] == messages[:2]
    with pytest.raises(
        psycopg.errors.InvalidParameterValue, match="limit_count must be at least 1"
    ):
        failures(db, "df.failures(NULL, 0)")


def test_an_attempt_without_an_error_still_counts(db: Database) -> None:
    run = db.start("SELECT 1")
    attempt(db, run, "x")
    db.execute("UPDATE df.attempts SET error = NULL")
    assert failures(db) == [(None, "#0", "failed", "", 1, 1)]


def test_a_role_sees_its_own_attempts(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    mine, theirs = session(make_role()), session(make_role())
    attempt(mine, mine.start("SELECT 1"), "e")
    assert (len(failures(mine)), len(failures(theirs)), len(failures(db))) == (1, 0, 1)
