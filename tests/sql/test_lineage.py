"""df.retry_run: a failed run once more, as a new run, and the old one as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from tests.engine.support import Database, start, wait_until
from tests.sql.conftest import MakeRole
from tests.sql.lineages import end, failed, retry, rows_of

DEFINITION = """
    SELECT label, graph::text, input::text, vars::text, database, max_attempts, max_backoff, on_failure
    FROM df.definitions WHERE instance_id = %s
"""
RUNS = "SELECT count(*) FROM df.instances"


def test_a_retry_is_a_new_run_made_of_the_same(db: Database) -> None:
    db.execute("SELECT df.setvar('place', 'Bonn')")
    source = failed(
        db,
        '{ "node_type":"SQL",  "query":"SELECT 1e5, \'{place}\'" }',
        label="nightly",
        input='{"b": 1.50, "a": [1e2]}',
        database=db.conn.info.dbname,
        max_attempts=4,
        max_backoff="90 s",
        on_failure="continue",
    )
    db.execute("SELECT df.setvar('place', 'Rom')")
    again = retry(db, source)
    assert again != source
    assert len(again) == 8
    assert db.execute(DEFINITION, again).fetchone() == db.execute(DEFINITION, source).fetchone()
    assert db.value("SELECT vars FROM df.definitions WHERE instance_id = %s", again) == {
        "place": "Bonn"
    }
    assert db.statuses(again) == ["pending"]


def test_the_bytes_of_the_graph_stay(db: Database) -> None:
    source = failed(db, "SELECT 1")
    text = '{"node_type":  "SQL", "query":"SELECT \\u00e9", "query":"SELECT 2"}'
    db.execute("UPDATE df.definitions SET graph = %s WHERE instance_id = %s", text, source)
    graph = "SELECT graph::text FROM df.definitions WHERE instance_id = %s"
    assert db.value(graph, retry(db, source)) == text


def test_a_retry_returns_its_row_and_names_its_immediate_source(db: Database) -> None:
    first = failed(db)
    second = end(db, retry(db, first))
    with db.conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        (row,) = cursor.execute("SELECT * FROM df.retry_run(%s)", (second,)).fetchall()
    assert (row["status"], row["version"], row["restart_of_run_id"]) == ("pending", 0, second)
    assert (row["parent_run_id"], row["idempotency_key"], row["error"]) == (None, None, None)
    assert row["wake_at"] == row["created_at"] == row["updated_at"]


def test_a_start_has_no_source(db: Database) -> None:
    run = db.start("SELECT 1")
    kind = "SELECT restart_of_run_id, kind FROM df.instances JOIN df.definitions ON instance_id = id WHERE id = %s"
    assert db.execute(kind, run).fetchone() == (None, "start")


def test_nothing_of_the_source_changes(db: Database) -> None:
    source = failed(db, "SELECT 1 AS a", idempotency_key="k")
    before = rows_of(db, source)
    retry(db, retry_of := end(db, retry(db, source)))
    assert rows_of(db, source) == before
    assert retry_of != source


def test_stale_rows_of_the_source_are_in_nobodys_way(db: Database) -> None:
    source = failed(db, "SELECT 1")
    db.execute(
        "UPDATE df.nodes SET status = 'running', token = gen_random_uuid(), engine_id = 'gone', ready_at = now()"
        " WHERE instance_id = %s",
        source,
    )
    db.execute(
        "INSERT INTO df.signals (instance_id, name, submitted_by, sent_by, sent_at, data)"
        " VALUES (%s, 'go', df._me(), df._me(), now(), '1')",
        source,
    )
    db.execute("DELETE FROM df.nodes WHERE instance_id = %s AND node_id = 1", source)
    before = rows_of(db, source)
    again = retry(db, source)
    assert [(n["status"], n["token"], n["attempt"]) for n in db.nodes(again)] == [
        ("pending", None, 0)
    ]
    assert db.value("SELECT count(*) FROM df.signals WHERE instance_id = %s", again) == 0
    assert rows_of(db, source) == before


def test_a_graph_that_today_would_be_refused_is_retried_all_the_same(db: Database) -> None:
    source = failed(db)
    text = '{"node_type":"SQL","query":"SELECT 1","from_an_older_version":true}'
    db.execute("UPDATE df.definitions SET graph = %s WHERE instance_id = %s", text, source)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        db.start(text)
    assert db.status(retry(db, source)) == "pending"


def test_policies_of_nodes_are_the_new_runs_too(db: Database) -> None:
    source = failed(db, db.value("SELECT df.with_retry('SELECT 1', max_attempts => 5)"))
    assert db.node(retry(db, source))["max_attempts"] == 5


def test_scopes_are_made_anew(db: Database) -> None:
    graph = (
        "df.with_policy(df.http('https://example.com/'), '{\"http\": {\"max_concurrency\": 2}}')"
    )
    source = failed(db, db.value(f"SELECT {graph}"))
    again = retry(db, source)
    scopes = "SELECT node_id, max_concurrency FROM df.scopes WHERE instance_id = %s"
    assert db.execute(scopes, again).fetchall() == [(0, 2)]
    assert db.node(again)["gate"] == 0


@pytest.mark.parametrize("status", ["pending", "running", "completed", "cancelled"])
def test_only_a_failed_run_is_retried(db: Database, status: str) -> None:
    run = db.start("SELECT 1")
    db.execute("UPDATE df.instances SET status = %s WHERE id = %s", status, run)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as error:
        retry(db, run)
    assert error.value.diag.message_primary == (
        f"run {run} is {status}, and only a failed run can be retried: nothing was started"
    )
    assert error.value.diag.message_hint
    assert db.value(RUNS) == 1


@pytest.mark.parametrize("run", ["00000000", "", None, "x' OR true --"])
def test_a_missing_run_is_an_error(db: Database, run: str | None) -> None:
    with pytest.raises(psycopg.errors.NoData) as error:
        db.execute("SELECT df.retry_run(%s)", run)
    assert error.value.diag.message_primary == (
        f"Instance not found or access denied: {'NULL' if run is None else run}: nothing was started"
    )
    assert db.value(RUNS) == 0


def test_who_may_only_look_may_not_retry(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    owner, reader, stranger = make_role(), make_role(), make_role()
    mine = session(owner)
    run = mine.start("SELECT 1")
    end(db, run)
    mine.execute("SELECT df.grant_read(%s)", reader)
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as error:
        retry(session(reader), run)
    assert error.value.diag.message_primary == (
        f'run {run} belongs to role "{owner}", and only that role can retry it: nothing was started'
    )
    with pytest.raises(psycopg.errors.NoData):
        retry(session(stranger), run)
    assert db.value(RUNS) == 1
    assert mine.value("SELECT df.status(%s)", retry(mine, run)) == "pending"


def test_a_superuser_retries_another_roles_run_as_that_role(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    owner = make_role()
    run = session(owner).start("SELECT 1")
    end(db, run)
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as error:
        retry(db, run)
    assert f"SET ROLE \"{owner}\"; SELECT * FROM df.retry_run('{run}')" in str(
        error.value.diag.message_hint
    )
    with db.conn.transaction():
        db.conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))
        again = retry(db, run)
    whose = "SELECT rolname FROM df.instances JOIN pg_roles r ON r.oid = submitted_by WHERE id = %s"
    assert db.value(whose, again) == owner


def test_nobody_hangs_a_run_on_another_roles(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    theirs, mine = session(make_role()), session(make_role())
    run = end(db, theirs.start("SELECT 1"))
    insert = (
        "INSERT INTO df.instances (id, submitted_by, restart_of_run_id, created_at, updated_at)"
        " VALUES ('aaaaaaaa', df._me(), %s, now(), now())"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        mine.execute(insert, run)
    own = mine.start("SELECT 1")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        mine.execute("UPDATE df.instances SET restart_of_run_id = %s WHERE id = %s", run, own)


def test_a_role_that_lost_its_login_cannot_retry(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    owner = make_role()
    mine = session(owner)
    run = end(db, mine.start("SELECT 1"))
    db.conn.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(owner)))
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="has no LOGIN"):
        retry(mine, run)


def test_retries_at_once_are_siblings_and_wait_for_nobody(db: Database) -> None:
    source = failed(db)
    with db.transaction() as first, db.transaction() as second:
        runs = []
        for conn in (first, second):
            conn.execute("SET lock_timeout = '5s'")
            row = conn.execute("SELECT id FROM df.retry_run(%s)", (source,)).fetchone()
            assert row is not None
            runs.append(row[0])
        second.commit()
        first.commit()
    assert runs[0] != runs[1]
    for run in runs:
        assert db.statuses(run) == ["pending"]
        assert db.value("SELECT restart_of_run_id FROM df.instances WHERE id = %s", run) == source
        assert db.value("SELECT label FROM df.definitions WHERE instance_id = %s", run) is None


def test_many_retries_at_once_are_all_whole(db: Database) -> None:
    source = failed(db, db.value("SELECT 'SELECT 1' ~> 'SELECT 2'"), idempotency_key="k")
    errors: list[BaseException] = []

    def retry_ten_times() -> None:
        try:
            with psycopg.connect(db.dsn, autocommit=True) as conn:
                for _ in range(10):
                    conn.execute("SELECT df.retry_run(%s)", (source,))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=retry_ten_times) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    sizes = (
        "SELECT count(*) FROM df.instances i JOIN df.definitions d ON d.instance_id = i.id"
        " WHERE restart_of_run_id = %s AND (SELECT count(*) FROM df.nodes n WHERE n.instance_id = i.id) = 3"
    )
    assert db.value(sizes, source) == 40


def test_a_retry_that_is_rolled_back_leaves_nothing(db: Database) -> None:
    source = failed(db)
    with db.transaction() as conn:
        conn.execute("SELECT df.retry_run(%s)", (source,))
    assert db.value(RUNS) == 1


def test_a_retry_wakes_the_roles_engines(db: Database) -> None:
    source = failed(db)
    with psycopg.connect(db.dsn, autocommit=True) as listener:
        listener.execute(
            sql.SQL("LISTEN {}").format(sql.Identifier(db.value("SELECT df._channel(df._me())")))
        )
        retry(db, source)
        assert len(list(listener.notifies(timeout=10, stop_after=1))) == 1


def test_a_key_is_held_by_the_source_and_means_its_newest_retry(db: Database) -> None:
    source = failed(db, idempotency_key="k")
    again = retry(db, source)
    held = "SELECT array_agg(id) FROM df.instances WHERE idempotency_key = 'k'"
    assert db.value(held) == [source]
    assert db.start("SELECT 1", idempotency_key="k") == again


def test_retention_waits_for_a_retry_that_is_just_made(db: Database) -> None:
    source = failed(db)
    db.execute("UPDATE df.instances SET finished_at = now() - interval '40 days'")
    with db.transaction() as conn:
        conn.execute("SELECT df.retry_run(%s)", (source,))
        assert db.value("SELECT df._prune(10)") == 0
        conn.commit()
    assert db.value("SELECT df._prune(10)") == 0
    assert db.value(RUNS) == 2


def test_a_run_that_retention_deletes_meanwhile_is_missing(db: Database) -> None:
    source = failed(db)
    db.execute("UPDATE df.instances SET finished_at = now() - interval '40 days'")
    refused: list[BaseException] = []

    def retry_it() -> None:
        with psycopg.connect(db.dsn, autocommit=True) as conn:
            try:
                conn.execute("SELECT df.retry_run(%s)", (source,))
            except psycopg.Error as error:
                refused.append(error)

    with db.transaction() as conn:
        conn.execute("SELECT df._prune(10)")
        thread = threading.Thread(target=retry_it)
        thread.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        wait_until(lambda: db.value(waiting) == 1, what="the retry waits")
        conn.commit()
        thread.join()
    assert [type(error) for error in refused] == [psycopg.errors.NoData]
    assert db.value(RUNS) == 0


def test_a_step_may_retry_a_run(db: Database) -> None:
    source = failed(db)
    with db.conn.transaction():
        db.execute("SELECT set_config('df.in_workflow', 'true', true)")
        again = retry(db, source)
    assert db.status(again) == "pending"


def test_start_over_any_connection_is_as_it_was(db: Database) -> None:
    assert len(start(db.conn, "SELECT 1", label="x")) == 8
