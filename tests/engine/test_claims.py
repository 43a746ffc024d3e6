"""Claims, locks and sweeps: no token is orphaned, and nobody's lock holds up a stranger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from tests.engine.conftest import Role, StartEngine
from tests.engine.proxy import Proxy, proxy_before
from tests.engine.step_handlers import echo
from tests.engine.support import Database, start, wait_until
from workbench.engine import core, machine
from workbench.engine.model import Decision, Run
from workbench.engine.worker import Engine
from workbench.graph.build import py, seq, sql

BEGIN_RUN = (
    "UPDATE df.instances SET status = 'running', version = 1, wake_at = NULL, started_at = df.now()"
    " WHERE id = %s"
)
FAILS_ONCE = "SELECT 1 / (nextval('calls') - 1)"


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    with proxy_before(dsn) as proxy:
        yield proxy


def start_as(role: Role, graph: str) -> str:
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        return start(conn, graph)


def ready_run(db: Database, start_engine: StartEngine) -> str:
    """A run whose only step is ready for anybody: it failed once, and its engine has left."""
    engine = start_engine()
    run = db.start(sql(FAILS_ONCE), max_attempts=2)
    wait_until(lambda: db.outcomes(run) == [(0, "failed")])
    engine.stop()
    assert db.node(run)["status"] == "ready"
    db.execute("UPDATE df.nodes SET ready_at = df.now() WHERE instance_id = %s", run)
    return run


def test_a_claim_whose_acknowledgement_was_lost_is_given_back_uncounted(
    db: Database, start_engine: StartEngine, proxy: Proxy
) -> None:
    run = ready_run(db, start_engine)
    trap = proxy.lose_answer("workbench engine rounds", b"df._claim")
    start_engine(proxy.dsn)
    assert trap.sprung.wait(10)
    db.wait_running(run)
    proxy.cut("workbench engine rounds")
    db.wait(run)
    assert db.outcomes(run) == [(0, "failed"), (0, "completed")]
    assert db.node(run)["losses"] == 0


def test_a_claim_whose_question_was_lost_leaves_the_step_to_the_next_round(
    db: Database, start_engine: StartEngine, proxy: Proxy
) -> None:
    run = ready_run(db, start_engine)
    trap = proxy.lose_question("workbench engine rounds", b"df._claim")
    start_engine(proxy.dsn)
    assert trap.sprung.wait(10)
    db.wait(run)
    assert db.outcomes(run) == [(0, "failed"), (0, "completed")]


def test_a_token_that_the_engine_does_not_know_is_given_back(db: Database, engine: Engine) -> None:
    with (
        db.transaction() as conn
    ):  # before the engine can start the run, its step bears a stray token
        run = start(conn, "SELECT 1")
        conn.execute(BEGIN_RUN, (run,))
        conn.execute(
            "UPDATE df.nodes SET status = 'running', rev = 1, token = %s, engine_id = %s, started_at = df.now()"
            " WHERE instance_id = %s",
            (uuid4(), engine.id, run),
        )
        conn.commit()
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]
    assert db.node(run)["losses"] == 0


def test_a_completion_that_the_stale_copy_refused_is_read_again_and_counts(
    db: Database, start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start_engine()
    with db.gate(1):
        run = db.start(sql("SELECT pg_advisory_xact_lock_shared(1)") >> sql("SELECT 1 AS done"))
        db.wait_at_gate(1)
        # The copy goes stale: the same token under another version, as after a transition made elsewhere.
        db.execute("UPDATE df.instances SET version = version + 1 WHERE id = %s", run)
        db.execute("UPDATE df.nodes SET rev = rev + 1 WHERE instance_id = %s AND node_id = 1", run)
    db.wait(run)
    assert db.outcomes(run) == [(1, "completed"), (2, "completed")]
    assert engine.alive


def test_a_late_report_changes_nothing(db: Database, engine: Engine) -> None:
    with db.gate(1):
        run = db.start(sql("SELECT pg_advisory_xact_lock_shared(1)"))
        db.wait_at_gate(1)
        db.execute("UPDATE df.nodes SET token = %s WHERE instance_id = %s", uuid4(), run)
    # The stranger's token is unknown to the engine that the row names: it goes back and is executed anew.
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]
    assert db.node(run)["attempt"] == 1


def test_a_live_run_in_which_nothing_is_alive_is_taken_up_again(
    db: Database, start_engine: StartEngine
) -> None:
    run = db.start(seq(sql("SELECT 1"), sql("SELECT 2 AS two")))
    db.execute(BEGIN_RUN, run)
    db.execute(
        "UPDATE df.nodes SET status = 'running', rev = 1 WHERE instance_id = %s AND node_id = 0",
        run,
    )
    db.execute(
        "UPDATE df.nodes SET status = 'completed', rev = 1, attempt = 1, result = '{}', finished_at = df.now()"
        " WHERE instance_id = %s AND node_id = 1",
        run,
    )
    start_engine()
    db.wait(run)
    assert db.rows(run) == [{"two": 2}]
    assert db.outcomes(run) == [(2, "completed")]


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
            db.execute("SELECT pg_advisory_lock(2)")
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


def test_a_held_run_defers_its_report_and_no_other(db: Database, engine: Engine) -> None:
    with db.gate(1):
        held = db.start("SELECT pg_advisory_xact_lock_shared(1)")
        reported = db.start(py(echo, value=1) >> sql("SELECT pg_advisory_xact_lock_shared(1)"))
        db.wait_at_gate(1, many=2)
    db.wait(held)
    with db.transaction() as conn:
        late = db.start(py("late.handler") >> sql("SELECT 2"))
        wait_until(lambda: db.node(late, 1)["status"] == "ready")
        conn.execute("SELECT FROM df.instances WHERE id = %s FOR NO KEY UPDATE", (late,))
        others = [db.start(py(echo, value=n)) for n in range(20)]
        for run in others:
            db.wait(run)
        conn.rollback()
    db.execute("SELECT df.cancel(%s)", late)
    db.wait(reported)


def test_one_report_that_cannot_be_recorded_fails_alone(db: Database, engine: Engine) -> None:
    db.execute("CREATE TABLE broken (run text)")
    db.execute(
        """CREATE FUNCTION refuse_some() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF EXISTS (SELECT FROM public.broken WHERE run = NEW.instance_id) AND NEW.outcome = 'completed' THEN
                   RAISE EXCEPTION 'this value cannot be stored' USING ERRCODE = '22003';
               END IF;
               RETURN NEW;
           END $$"""
    )
    db.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON df.attempts FOR EACH ROW EXECUTE FUNCTION refuse_some()"
    )
    with db.transaction() as conn:
        runs = [start(conn, py(echo, value=n).to_json()) for n in range(8)]
        conn.execute("INSERT INTO broken VALUES (%s)", (runs[3],))
        conn.commit()
    for run in runs:
        db.wait(run, "failed" if run == runs[3] else "completed")
    assert db.error(runs[3])["message"] == "this value cannot be stored"
    assert db.outcomes(runs[3]) == [(0, "failed")]


def test_a_run_for_which_deciding_raises_is_parked_and_the_others_go_on(
    db: Database, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = machine.decide

    def raising(run: Run, *args: object) -> Decision:
        if run.label == "strange":
            raise RuntimeError("cannot decide this")
        return decide(run, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(core, "decide", raising)
    strange = db.start("SELECT 1", label="strange")
    parked = "SELECT parked FROM df.instances WHERE id = %s"
    error = wait_until(lambda: db.value(parked, strange))
    assert (error["type"], error["message"]) == ("RuntimeError", "cannot decide this")
    db.wait(db.start("SELECT 1"))
    assert db.status(strange) == "pending"
    db.execute("SELECT df.cancel(%s)", strange)
    assert db.status(strange) == "cancelled"


def test_a_run_that_is_parked_at_a_report_keeps_no_claim(
    db: Database, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = machine.decide

    def raising(run: Run, *args: object) -> Decision:
        if run.label == "strange" and run.version > 0:
            raise RuntimeError("cannot decide this")
        return decide(run, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(core, "decide", raising)
    strange = db.start(py(echo, value=1), label="strange")
    wait_until(lambda: db.value("SELECT parked FROM df.instances WHERE id = %s", strange))
    assert (db.node(strange)["status"], db.node(strange)["token"]) == ("waiting", None)
    in_sql = db.start(sql("SELECT 1"), label="strange")
    wait_until(lambda: db.value("SELECT parked FROM df.instances WHERE id = %s", in_sql))
    db.wait(db.start(py(echo, value=2)))


@pytest.mark.parametrize("key", ["retry", "options"])
def test_a_graph_that_engines_cannot_read_is_parked_and_the_others_go_on(
    db: Database, engine: Engine, key: str
) -> None:
    with db.transaction() as conn:
        run = start(conn, "SELECT 1")
        graph = json.dumps({"node_type": "SQL", "query": "SELECT 1", key: 5})
        conn.execute("UPDATE df.definitions SET graph = %s WHERE instance_id = %s", (graph, run))
        conn.commit()
    error = wait_until(lambda: db.value("SELECT parked FROM df.instances WHERE id = %s", run))
    assert error["message"].startswith(
        f"Invalid durable function graph: root: {key} must be a JSON object"
    )
    db.wait(db.start("SELECT 1"))


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
