"""Claims, refused reports and sweeps: no token is orphaned, and one strange run harms no other."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.engine.conftest import StartEngine
from tests.engine.proxy import Proxy
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


def test_a_step_whose_token_is_another_ones_is_given_back_and_executed_anew(
    db: Database, engine: Engine
) -> None:
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


def test_a_claimed_step_of_a_graph_that_cannot_be_read_takes_no_room(
    db: Database, start_engine: StartEngine
) -> None:
    run = ready_run(db, start_engine)
    unknown = json.dumps({"node_type": "LATER", "query": "SELECT 1"})
    db.execute("UPDATE df.definitions SET graph = %s WHERE instance_id = %s", unknown, run)
    start_engine(ceiling=1)
    db.wait_running(run)
    db.wait(db.start("SELECT 1"))
