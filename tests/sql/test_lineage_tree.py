"""df.lineage and df.run_diff: the tree from any of its members, and what differed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import psycopg
import pytest

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from tests.sql.lineages import end, failed, retry, wide_tree

TREE = "SELECT run_id, depth FROM df.lineage(%s)"


def tree(db: Database, run: str) -> list[tuple[str, int]]:
    return [(each, depth) for each, depth in db.execute(TREE, run)]


def latest(db: Database, run: str) -> list[str]:
    return db.values("SELECT run_id FROM df.lineage(%s) WHERE is_latest", run)


def test_case_8(db: Database) -> None:
    a = failed(db)
    b = end(db, retry(db, a))
    c = end(db, retry(db, b), "completed")
    d = end(db, retry(db, a))
    sources = "SELECT id, restart_of_run_id FROM df.instances WHERE restart_of_run_id IS NOT NULL ORDER BY created_at"
    assert db.execute(sources).fetchall() == [(b, a), (c, b), (d, a)]
    expected = [(a, 0), (b, 1), (c, 2), (d, 1)]
    assert [tree(db, run) for run in (a, b, c, d)] == [expected] * 4
    assert latest(db, c) == [d]


def test_every_column_of_a_member(db: Database) -> None:
    a = failed(db, label="nightly")
    message = 'relation "x"\n does not   exist'
    stored = json.dumps({"type": "UndefinedTable", "message": message, "sqlstate": "42P01"})
    db.execute("UPDATE df.instances SET error = %s::jsonb", stored)
    b = retry(db, a)
    with db.conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        rows = cursor.execute("SELECT * FROM df.lineage(%s)", (b,)).fetchall()
    plain = [
        "run_id",
        "restart_of_run_id",
        "position",
        "depth",
        "kind",
        "status",
        "label",
        "error",
        "is_latest",
    ]
    error = 'UndefinedTable: relation "x" does not exist'
    assert [[row[name] for name in plain] for row in rows] == [
        [a, None, 1, 0, "start", "failed", "nightly", error, False],
        [b, a, 2, 1, "retry", "pending", "nightly", None, True],
    ]
    assert rows[0]["finished_at"] is not None
    assert (rows[1]["started_at"], rows[1]["finished_at"]) == (None, None)


def test_a_run_that_was_never_retried_is_its_whole_lineage(db: Database) -> None:
    run = db.start("SELECT 1")
    assert tree(db, run) == [(run, 0)]
    assert latest(db, run) == [run]


def test_each_run_is_followed_by_its_retries_the_oldest_first(db: Database) -> None:
    wide_tree(db, 8, source="(ARRAY[0,0,0,1,3,1,4,3])[n + 1]")
    # 0 -> 1, 2; 1 -> 3, 5; 3 -> 4, 7; 4 -> 6
    numbers = [(int(run[1:]), depth) for run, depth in tree(db, "r00000006")]
    assert numbers == [(0, 0), (1, 1), (3, 2), (4, 3), (6, 4), (7, 3), (5, 2), (2, 1)]


def test_latest_is_the_newest_run_that_nobody_retried(db: Database) -> None:
    a = failed(db)
    b = end(db, retry(db, a))
    c = end(db, retry(db, a))
    assert latest(db, a) == [c]
    d = retry(db, b)
    assert latest(db, a) == [d]


def test_a_clock_that_stands_still_confuses_nobody(db: Database) -> None:
    db.execute("""SELECT df.set_setting('clock', '{"at": "2026-11-30 08:00+00"}')""")
    a = failed(db)
    b = end(db, retry(db, a))
    c = end(db, retry(db, b))
    assert latest(db, a) == [c]
    assert db.start("SELECT 1", idempotency_key="k") != c


@pytest.mark.parametrize("function", ["lineage", "run_diff"])
@pytest.mark.parametrize("run", ["00000000", None])
def test_a_missing_run_is_an_error(db: Database, function: str, run: str | None) -> None:
    with pytest.raises(psycopg.errors.NoData, match="Instance not found or access denied"):
        db.execute(f"SELECT df.{function}(%s)", run)


def test_a_lineage_is_seen_by_its_role_and_by_who_may_look(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    mine, reader_name = session(make_role()), make_role()
    reader = session(reader_name)
    a = end(db, mine.start("SELECT 1"))
    b = retry(mine, a)
    with pytest.raises(psycopg.errors.NoData):
        tree(reader, b)
    mine.execute("SELECT df.grant_read(%s)", reader_name)
    assert tree(reader, b) == tree(mine, a) == tree(db, a) == [(a, 0), (b, 1)]


@pytest.mark.parametrize(
    ("members", "source", "limit"),
    [
        (10_000, "0", 0.5),  # one run, retried again and again
        (10_000, "(n - 1) / 10", 0.5),
        (1_000, "n - 1", 0.25),
        (10_000, "n - 1", 1.0),
    ],
    ids=["star", "tree", "chain", "long chain"],
)
def test_large_lineages_are_read_fast(
    db: Database, members: int, source: str, limit: float
) -> None:
    wide_tree(db, members, source)
    last = f"r{members - 1:08}"
    query = "SELECT count(*), count(*) FILTER (WHERE is_latest) FROM df.lineage(%s)"
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        assert db.execute(query, last).fetchall() == [(members, 1)]
        best = min(best, time.perf_counter() - begin)
    assert best < limit  # many times what it takes on an idle machine


def attempt(db: Database, run: str, fingerprint: str, engine: str, rev: int = 1) -> None:
    db.execute(
        "INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, engine_id,"
        " finished_at, fingerprint, exactly_once)"
        " VALUES (%s, 0, %s, df._me(), 1, 'failed', gen_random_uuid(), %s, now(), %s, false)",
        run,
        rev,
        engine,
        fingerprint,
    )


def engine_row(db: Database, name: str, version: str, host: str = "lab") -> None:
    db.execute(
        "INSERT INTO df.engines (id, role, host, pid, version, schema_version, backend_pid)"
        " VALUES (%s, df._me(), %s, 1, %s, 1, 1)",
        name,
        host,
        version,
    )


def diff(db: Database, run: str) -> list[tuple[str, ...]]:
    return db.execute("SELECT * FROM df.run_diff(%s)", run).fetchall()


HANDLER = '{"node_type":"PYTHON","query":"{\\"handler\\":\\"nb:clean\\"}"}'


def test_a_retry_under_the_same_conditions_differs_in_nothing(db: Database) -> None:
    db.execute("SELECT df.setvar('a', '1')")
    run = failed(db, input="7")
    db.execute("SELECT df.setvar('a', '2')")
    assert diff(db, retry(db, run)) == []


def test_a_run_that_was_started_differs_from_nothing(db: Database) -> None:
    assert diff(db, db.start("SELECT 1", input="7")) == []


def test_handler_engine_and_settings_that_changed_are_named(db: Database) -> None:
    engine_row(db, "e1", "0.1.0")
    engine_row(db, "e2", "0.2.0", host="desk")
    db.set(max_lost=5, max_faults=7)
    a = failed(db, HANDLER)
    attempt(db, a, "f0", "e1")
    attempt(db, a, "f1", "e1", rev=2)
    db.set(max_lost=6, heartbeat_limit=20)
    b = retry(db, a)
    assert diff(db, b) == [
        ("setting", "heartbeat_limit", None, "20"),
        ("setting", "max_lost", "5", "6"),
    ]
    attempt(db, b, "f2", "e2")
    assert diff(db, b) == [
        ("engine", "host", "lab", "desk"),
        ("engine", "version", "0.1.0", "0.2.0"),
        ("handler", "nb:clean", "f1", "f2"),
        ("setting", "heartbeat_limit", None, "20"),
        ("setting", "max_lost", "5", "6"),
    ]


def test_settings_of_a_run_from_before_they_were_recorded_are_not_compared(db: Database) -> None:
    a = failed(db)
    db.execute("UPDATE df.definitions SET settings = NULL")
    db.set(max_lost=6)
    assert diff(db, retry(db, a)) == []


def test_what_a_resumed_run_may_change_is_named_too(db: Database) -> None:
    a = failed(db, input="7")
    b = retry(db, a)
    db.execute(
        """UPDATE df.definitions SET vars = '{"a": "1"}', max_attempts = 3, input = '8' WHERE instance_id = %s""",
        b,
    )
    assert diff(db, b) == [
        ("input", "", "7", "8"),
        ("policy", "max_attempts", "1", "3"),
        ("variable", "a", None, "1"),
    ]
