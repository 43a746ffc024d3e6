"""workbench.store.lineage: the rows as dataclasses, the refusals as our own errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import sql

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from tests.sql.lineages import end, failed
from workbench.errors import DatabaseError, NotFound, StateError, UsageError
from workbench.store import lineage, lineage_records
from workbench.store.lineage_records import DiffRow


def test_a_retry_and_the_tree(db: Database) -> None:
    a = failed(db, label="load")
    b = lineage.retry_run(db.conn, a)
    rows = lineage.lineage(db.conn, b)
    assert [(r.run_id, r.restart_of_run_id, r.position, r.depth) for r in rows] == [
        (a, None, 1, 0),
        (b, a, 2, 1),
    ]
    assert [(r.kind, r.status, r.error, r.is_latest) for r in rows] == [
        ("start", "failed", "ValueError: no", False),
        ("retry", "pending", None, True),
    ]
    assert rows[0].created_at.tzinfo is not None


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        ("LineageRow", "df.lineage(NULL)"),
        ("UnresolvedRow", "df.unresolved_failures()"),
        ("FailureRow", "df.failures()"),
        ("DiffRow", "df.run_diff(NULL)"),
    ],
)
def test_a_dataclass_has_the_columns_of_its_function(db: Database, kind: str, call: str) -> None:
    name = call.partition("(")[0]
    columns = (
        "SELECT array_agg(n ORDER BY i) FROM pg_proc, unnest(proargnames, proargmodes::text[])"
        " WITH ORDINALITY AS a (n, m, i) WHERE oid::regproc::text = %s AND m = 't'"
    )
    assert [f.name for f in fields(getattr(lineage_records, kind))] == db.value(columns, name)


@pytest.mark.parametrize("read", [lineage.retry_run, lineage.lineage, lineage.run_diff])
def test_a_missing_run_is_not_found(db: Database, read: Callable[..., object]) -> None:
    with pytest.raises(NotFound, match=r"no run '00000000' in this database.*bench\.runs\(\)"):
        read(db.conn, "00000000")


def test_a_run_that_has_not_failed_is_refused_with_its_status(db: Database) -> None:
    run = db.start("SELECT 1")
    with pytest.raises(
        StateError, match=f"run {run} is pending, and only a failed run can be retried"
    ) as error:
        lineage.retry_run(db.conn, run)
    assert "Wait until it ends" in str(error.value)


def test_another_roles_run_is_refused_with_the_way_out(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    run = end(db, session(make_role()).start("SELECT 1"))
    with pytest.raises(DatabaseError, match=f"run {run} belongs to role .*SET ROLE"):
        lineage.retry_run(db.conn, run)


def test_a_run_whose_database_is_gone_is_refused(db: Database) -> None:
    run = failed(db)
    db.execute("UPDATE df.definitions SET database = 'no such place'")
    with pytest.raises(
        UsageError, match=r'database "no such place" does not exist\. Nothing was started'
    ):
        lineage.retry_run(db.conn, run)


def test_engines_need_not_be_told(db: Database) -> None:
    channel = sql.Identifier(db.value("SELECT df._channel(df._me())"))
    db.conn.execute(sql.SQL("LISTEN {}").format(channel))
    lineage.retry_run(db.conn, failed(db), tell=False)
    db.conn.execute(sql.SQL("NOTIFY {}, 'last'").format(channel))
    heard = [n.payload for n in db.conn.notifies(timeout=10, stop_after=2)]
    assert heard == ["", "last"]  # the start's, and none of the retry


def test_unresolved_failures_since_a_time_or_a_length_of_time(db: Database) -> None:
    run = failed(db)
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    assert [r.run_id for r in lineage.unresolved_failures(db.conn)] == [run]
    assert [r.run_id for r in lineage.unresolved_failures(db.conn, hour)] == [run]
    assert [r.run_id for r in lineage.unresolved_failures(db.conn, now - hour)] == [run]
    assert lineage.unresolved_failures(db.conn, now + hour) == []
    with pytest.raises(UsageError, match="has no time zone"):
        lineage.unresolved_failures(db.conn, now.replace(tzinfo=None))


def test_failures_since_and_so_many(db: Database) -> None:
    run = db.start("SELECT 1")
    db.execute(
        "INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, finished_at,"
        " error, exactly_once) SELECT %s, 0, n, df._me(), n, 'failed', gen_random_uuid(), now(),"
        """ jsonb_build_object('type', 'E' || n, 'message', 'no 1'), false FROM generate_series(1, 3) n""",
        run,
    )
    rows = lineage.failures(db.conn, timedelta(hours=1))
    assert {(r.code, r.message, r.attempts, r.runs, r.example_run_id) for r in rows} == {
        (f"E{n}", "no ?", 1, 1, run) for n in (1, 2, 3)
    }
    assert len(lineage.failures(db.conn, limit=2)) == 2
    with pytest.raises(UsageError, match="at least 1, not 0"):
        lineage.failures(db.conn, limit=0)


def test_differences_are_rows(db: Database) -> None:
    run = failed(db)
    db.set(max_lost=5)
    again = lineage.retry_run(db.conn, run)
    assert lineage.run_diff(db.conn, again) == [DiffRow("setting", "max_lost", None, "5")]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("NULL", timedelta(days=30)), ("'7'", timedelta(days=7)), ("""'"forever"'""", None)],
)
def test_retention_is_a_length_of_time(
    db: Database, setting: str, expected: timedelta | None
) -> None:
    db.execute(f"SELECT df.set_setting('retention', {setting})")
    assert lineage.retention(db.conn) == expected
