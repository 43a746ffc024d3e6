"""Rounds and steps that lose their session, or find none, at the worst moment: nothing is lost and nothing leaks."""

from __future__ import annotations

import threading

import psycopg

from tests.engine.conftest import Role, StartEngine
from tests.engine.step_handlers import echo, pass_gate
from tests.engine.support import Database, start, wait_until
from workbench.graph.build import py, sql

END_CONTROL = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE application_name = 'workbench engine control' AND datname = current_database()"
)
CONTROL = (
    "SELECT count(*) FROM pg_locks l JOIN df.engines e ON l.pid = e.backend_pid AND l.objid = e.lock_key"
    " WHERE l.locktype = 'advisory' AND l.granted"
)
BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'workbench engine rounds'"
    " AND datname = current_database() AND wait_event_type = 'Lock'"
)


def test_a_round_that_is_cut_off_while_it_writes_keeps_no_claim(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine(ceiling=1)
    with db.transaction() as conn:
        with db.gate(1):
            run = db.start(py(pass_gate, gate=1) >> py(echo, value=2))
            db.wait_at_gate(1)
            conn.execute("LOCK TABLE df.attempts IN SHARE MODE")
        # The first step's end and the second one's claim are being written.
        wait_until(lambda: db.value(BLOCKED) == 1)
        db.execute(END_CONTROL)
        wait_until(lambda: db.value(CONTROL) == 1)
    db.wait(run)
    assert db.outcomes(run) == [(1, "completed"), (2, "completed")]
    following = db.start(py(echo, value=3))  # there is room for it
    db.wait(following)


def test_reports_behind_one_that_breaks_the_connection_are_recorded_later(
    db: Database, start_engine: StartEngine
) -> None:
    engine = start_engine(ceiling=8)
    db.execute(
        """CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               CASE nextval('public.calls')
                   WHEN 1 THEN RAISE EXCEPTION 'the batch fails' USING ERRCODE = '40001';
                   WHEN 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(10);
                   ELSE NULL;
               END CASE;
               RETURN NEW;
           END $$"""
    )
    with db.gate(1):
        runs = [db.start(py(pass_gate, gate=1)) for _ in range(8)]
        db.wait_at_gate(1, many=8)
        db.execute(
            "CREATE TRIGGER break BEFORE INSERT ON df.attempts FOR EACH ROW EXECUTE FUNCTION break()"
        )
        holder = psycopg.connect(db.dsn)
        holder.execute("SELECT FROM df.instances FOR NO KEY UPDATE")  # the reports pile up
    wait_until(lambda: engine.handlers_running == 0)
    holder.close()
    for run in runs:
        db.wait(run)


def test_steps_wait_for_a_session_when_the_server_has_none_to_give(
    db: Database, start_engine: StartEngine, roles: tuple[Role, Role]
) -> None:
    role = roles[0]
    db.execute(f"ALTER ROLE {role.name} CONNECTION LIMIT 6")  # an engine has four of its own
    start_engine(role.dsn, ceiling=8)
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        runs = [start(conn, sql("SELECT pg_sleep(0.2)").to_json()) for _ in range(8)]
    for run in runs:
        db.wait(run)
        assert db.node(run)["faults"] == 0


def test_a_run_that_was_deleted_leaves_its_room_to_others(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine(ceiling=1)
    with db.gate(1):
        run = db.start(py(pass_gate, gate=1))
        db.wait_at_gate(1)
        db.execute("DELETE FROM df.instances WHERE id = %s", run)
    db.wait(db.start(py(echo, value=1)))


def test_a_stop_that_interrupts_a_step_at_its_runs_lock_counts_nothing(
    db: Database, start_engine: StartEngine
) -> None:
    engine = start_engine()
    with db.transaction() as conn:

        def blocked() -> bool:
            query = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
            return bool(db.value(query, conn.info.backend_pid))

        with db.gate(1):
            run = db.start(sql("SELECT pg_advisory_xact_lock_shared(1)"))
            db.wait_at_gate(1)
            conn.execute("SELECT FROM df.instances FOR NO KEY UPDATE")
        wait_until(blocked)
        stopping = threading.Thread(target=engine.stop)
        stopping.start()
        wait_until(lambda: not blocked())
        conn.rollback()
        stopping.join()
    start_engine()
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]
    assert (db.node(run)["faults"], db.node(run)["losses"]) == (0, 0)
