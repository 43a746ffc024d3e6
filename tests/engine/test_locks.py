"""Locks: nobody's holds up a stranger, none is held in the wrong order, and reading comes after locking."""

from __future__ import annotations

import psycopg

from tests.engine.conftest import Role, StartEngine
from tests.engine.step_handlers import echo, pass_gate
from tests.engine.support import Database, start, wait_until
from workbench.engine.worker import Engine
from workbench.graph.build import py, sql


def start_as(role: Role, graph: str) -> str:
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        return start(conn, graph)


def test_two_steps_that_point_at_each_others_runs_do_not_deadlock(
    db: Database, engine: Engine
) -> None:
    db.execute("CREATE TABLE notes (run text NOT NULL REFERENCES df.instances (id))")
    db.execute("CREATE TABLE pairs (mine text, other text)")
    note = (
        "WITH noted AS (INSERT INTO notes SELECT other FROM pairs WHERE mine = current_setting('df.run') RETURNING 1)"
        " SELECT count(*), pg_advisory_xact_lock_shared(1) FROM noted"
    )
    with db.gate(1):
        with db.transaction() as conn:
            runs = [start(conn, note) for _ in "ab"]
            conn.execute("INSERT INTO pairs VALUES (%s, %s), (%s, %s)", (*runs, *runs[::-1]))
            conn.commit()
        db.wait_at_gate(1, many=2)  # both have the other's key share, neither its own lock yet
    for run in runs:
        db.wait(run)
    assert sorted(db.values("SELECT run FROM notes")) == sorted(runs)
    assert db.value("SELECT sum(faults)::int FROM df.nodes") == 0
    assert (
        db.value("SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()")
        == 0
    )


def test_two_steps_that_cancel_each_others_runs_both_end_without_using_an_attempt(
    db: Database, engine: Engine
) -> None:
    db.execute("CREATE TABLE pairs (mine text, other text)")
    cancel = (
        "SELECT df.cancel(other), pg_advisory_xact_lock_shared(1) FROM pairs"
        " WHERE mine = current_setting('df.run')"
    )
    with db.gate(1):
        with db.transaction() as conn:
            runs = [start(conn, cancel) for _ in "ab"]
            conn.execute("INSERT INTO pairs VALUES (%s, %s), (%s, %s)", (*runs, *runs[::-1]))
            conn.commit()
        db.wait_at_gate(1, many=2)
    ended = ("completed", "cancelled")
    wait_until(lambda: all(db.status(run) in ended for run in runs))
    assert sorted(db.status(run) for run in runs) == ["cancelled", "completed"]
    assert (
        db.value("SELECT count(*) FROM df.attempts WHERE outcome IN ('failed', 'worker_lost')") == 0
    )


def test_a_cancel_that_waited_for_a_checkpoint_sees_the_children_it_made(db: Database) -> None:
    run = db.start("SELECT 1")
    with db.transaction() as checkpoint, psycopg.connect(db.dsn, autocommit=True) as other:
        checkpoint.execute("SELECT * FROM df._lock_one(%s, 0)", (run,))
        checkpoint.execute(
            "INSERT INTO df.nodes (instance_id, node_id, submitted_by, node_type, status, ready_at)"
            " SELECT %s, n, df._me(), 'SQL', 'ready', df.now() FROM generate_series(1, 5) n",
            (run,),
        )
        other.pgconn.send_query(f"SELECT df.cancel('{run}')".encode())
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        )
        wait_until(lambda: db.value(waiting, other.info.backend_pid) == 1)
        checkpoint.commit()
        while other.pgconn.get_result() is not None:
            pass
    assert db.status(run) == "cancelled"
    assert db.statuses(run) == ["cancelled"] * 6


def test_a_step_that_waited_for_its_runs_lock_reads_what_was_committed_meanwhile(
    db: Database, engine: Engine
) -> None:
    db.execute("CREATE TABLE effects (x int)")
    with db.gate(1):
        run = db.start(
            sql("INSERT INTO effects SELECT 1 FROM (SELECT pg_advisory_xact_lock_shared(1)) s")
        )
        db.wait_at_gate(1)
        with db.transaction() as conn:
            conn.execute("SELECT df.cancel(%s)", (run,))
            _open_gate_and_wait_for_the_lock(db, conn, run)
            conn.commit()
    wait_until(
        lambda: (
            db.value(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE %s",
                f"workbench {run}%",
            )
            == 0
        )
    )
    assert db.status(run) == "cancelled"
    assert db.values("SELECT x FROM effects") == []


def _open_gate_and_wait_for_the_lock(db: Database, conn: psycopg.Connection, run: str) -> None:
    """End the session that holds gate 1, so that the step goes on to its run's lock, which `conn` holds."""
    db.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted"
        " AND mode = 'ExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    wait_until(
        lambda: db.value(blocked, conn.info.backend_pid) == 1,
        what=f"the step of {run} waits for its lock",
    )


def test_somebodys_open_transaction_on_one_run_holds_up_no_other(
    db: Database, engine: Engine
) -> None:
    held = db.start(py("nobodys.handler"))
    wait_until(lambda: db.node(held)["status"] == "ready")
    with db.transaction() as conn:
        conn.execute("SELECT df.cancel(%s)", (held,))
        others = [db.start(py(echo, value=n) >> sql("SELECT 1")) for n in range(50)]
        for run in others:
            db.wait(run)
        assert db.status(held) == "running"
        conn.commit()
    assert db.status(held) == "cancelled"


def test_a_held_run_defers_its_own_report_only(db: Database, engine: Engine) -> None:
    with db.gate(1):
        held = db.start(py(pass_gate, gate=1))
        db.wait_at_gate(1)
        conn = psycopg.connect(db.dsn)
        conn.execute("SELECT FROM df.instances WHERE id = %s FOR NO KEY UPDATE", (held,))
    others = [db.start(py(echo, value=n)) for n in range(20)]
    for run in others:
        db.wait(run)
    assert db.node(held)["status"] == "running"
    conn.close()
    db.wait(held)
    assert db.outcomes(held) == [(0, "completed")]


def test_an_engine_executes_the_runs_of_its_own_role_only(
    db: Database, start_engine: StartEngine, roles: tuple[Role, Role]
) -> None:
    mine, others = roles
    start_engine()  # a superuser's, who sees everything
    theirs = start_as(others, "SELECT current_user")
    own = db.start("SELECT current_user")
    db.wait(own)
    start_engine(mine.dsn)
    run = start_as(mine, "SELECT current_user")
    db.wait(run)
    assert db.rows(run) == [{"current_user": mine.name}]
    assert db.status(theirs) == "pending"
    start_engine(others.dsn)
    db.wait(theirs)
    assert db.rows(theirs) == [{"current_user": others.name}]
