"""Steps for workers that are no engines: claimed and reported in SQL, by a worker that is nothing but psql."""

from __future__ import annotations

import subprocess
from typing import Any

import psycopg
import pytest

from tests.engine.conftest import SpawnEngine, StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.flow import Flow
from workbench.graph.build import external, ref, seq, sql
from workbench.graph.control import each, loop, race
from workbench.graph.waiting import wait_for_signal
from workbench.store._server_binaries import find_psql

CLAIM = "SELECT run_id, node_id, index, input, attempt, token, handler FROM df.claim_tasks"


def claim(db: Database, most: int = 1, lease: str = "1 minute", name: str = "work") -> list[Any]:
    """Claim until there is something."""
    query = f"{CLAIM}(ARRAY[%s], %s, %s::interval)"
    return wait_until(lambda: db.execute(query, name, most, lease).fetchall(), what="a task")


def token(db: Database, **options: Any) -> Any:
    [task] = claim(db, **options)
    return task[5]


def outcomes(db: Database, run: str) -> list[str]:
    query = "SELECT outcome FROM df.attempts WHERE instance_id = %s AND node_id = %s ORDER BY rev"
    return db.values(query, run, external_node(db, run))


def external_node(db: Database, run: str) -> Any:
    return next(n["node_id"] for n in db.nodes(run) if n["node_type"] == "EXTERNAL")


PSQL_WORKER = """
SELECT CASE WHEN t.input ->> 'n' = '7' AND t.attempt = 1 THEN df.fail_task(t.token, 'seven, at first', '0 s')
            ELSE df.complete_task(t.token, to_jsonb((t.input ->> 'n')::int ^ 2)) END
FROM df.claim_tasks('{square}', 3, '10 s') AS t
"""


def test_a_worker_that_is_nothing_but_psql_executes_a_map(db: Database, engine: Engine) -> None:
    flow = Flow("squares")
    flow.add(
        "square",
        each("input", external("square", n=ref("item")), as_="item"),
    )
    flow.add(
        "total", "SELECT sum(n::int) AS t FROM jsonb_array_elements($square) n", after="square"
    )
    run = db.start(flow.graph(), input="[1, 2, 7, 4, 5, 6, 3, 8]")
    command = [str(find_psql()), db.dsn, "-qXAt", "-v", "ON_ERROR_STOP=1", "-c", PSQL_WORKER]
    while db.status(run) in ("pending", "running"):
        subprocess.run(command, check=True, timeout=60, capture_output=True)
    assert db.result(run) == {"total": {"rows": [{"t": 204}], "row_count": 1}}
    failed = (
        "SELECT error ->> 'message' FROM df.attempts WHERE instance_id = %s AND outcome = 'failed'"
    )
    assert db.values(failed, run) == ["seven, at first"]


def test_a_worker_gets_the_resolved_input_and_its_output_goes_on(
    db: Database, engine: Engine
) -> None:
    graph = seq(
        sql("SELECT 2 AS n").named("two"),
        external("work", n=ref("two")["n"], all=ref("two"), plain=[1, None]).named("done"),
        sql("SELECT $done.ok AS ok"),
    )
    run = db.start(graph)
    [(run_id, node, index, given, attempt, held, handler)] = claim(db)
    assert (run_id, index, attempt, handler) == (run, None, 1, "work")
    assert given == {"n": 2, "all": [{"n": 2}], "plain": [1, None]}
    assert db.value("SELECT df.complete_task(%s, '{\"ok\": true}')", held) is True
    db.wait(run)
    assert db.rows(run) == [{"ok": True}]
    [(executed, engine_id)] = db.execute(
        "SELECT executed::jsonb, engine_id FROM df.attempts WHERE instance_id = %s AND node_id = %s",
        run,
        node,
    ).fetchall()
    assert (executed, engine_id) == (given, None)
    assert db.values("SELECT 1 FROM df.tasks") == []


def test_the_first_report_counts_and_a_late_one_changes_nothing(
    db: Database, engine: Engine
) -> None:
    run = db.start(external("work"))
    held = token(db)
    assert db.value("SELECT df.complete_task(%s, '1')", held) is True
    assert db.value("SELECT df.complete_task(%s, '2')", held) is False
    assert db.value("SELECT df.fail_task(%s, 'no')", held) is False
    assert db.value("SELECT df.extend_task(%s)", held) is False
    db.wait(run)
    assert db.result(run) == 1
    assert db.value("SELECT df.complete_task(gen_random_uuid())") is False


def test_a_failed_task_is_tried_again_after_the_delay_it_asks_for(
    db: Database, engine: Engine
) -> None:
    run = db.start(external("work"), max_attempts=2)
    assert db.value("SELECT df.fail_task(%s, 'busy', '0.2 s')", token(db)) is True
    [task] = claim(db)
    assert task[4] == 2
    assert db.value("SELECT df.fail_task(%s, '')", task[5]) is True
    db.wait(run, "failed")
    assert db.error(run)["message"] == "the worker gave no reason"
    query = "SELECT extract(epoch FROM delay)::float8, delay_source, error ->> 'type' FROM df.attempts ORDER BY rev"
    assert db.execute(query).fetchall() == [
        (0.2, "retry_after", "TaskFailed"),
        (None, None, "TaskFailed"),
    ]


def test_a_worker_whose_lease_passes_is_lost_and_uses_up_no_attempt(
    db: Database, engine: Engine
) -> None:
    run = db.start(external("work"))
    lost = token(db, lease="0.2 s")
    [task] = claim(db)
    assert task[4] == 1
    assert db.value("SELECT df.complete_task(%s, '\"late\"')", lost) is False
    assert db.value("SELECT df.complete_task(%s, '\"in time\"')", task[5]) is True
    db.wait(run)
    assert db.result(run) == "in time"
    assert outcomes(db, run) == ["worker_lost", "completed"]


def test_an_extended_lease_holds(db: Database, engine: Engine) -> None:
    run = db.start(external("work"))
    held = token(db, lease="0.5 s")
    assert db.value("SELECT df.extend_task(%s, '1 minute')", held) is True
    passed = "SELECT min(lease_until) > clock_timestamp() + interval '30 s' FROM df.tasks"
    assert db.value(passed) is True
    assert db.value("SELECT df.complete_task(%s)", held) is True
    db.wait(run)
    assert outcomes(db, run) == ["completed"]


def test_who_works_on_a_cancelled_run_is_told_when_it_asks(db: Database, engine: Engine) -> None:
    run = db.start(external("work"))
    held = token(db)
    db.execute("SELECT df.cancel(%s, 'enough')", run)
    assert db.value("SELECT df.extend_task(%s)", held) is False
    assert db.value("SELECT df.complete_task(%s)", held) is False
    assert outcomes(db, run) == ["cancelled"]
    assert db.values("SELECT 1 FROM df.tasks") == []


def test_a_branch_that_lost_takes_its_task_with_it(db: Database, engine: Engine) -> None:
    run = db.start(race(external("work"), wait_for_signal("go")))
    held = token(db)
    other = db.start(race(external("work"), wait_for_signal("go")))
    wait_until(lambda: db.values("SELECT 1 FROM df.tasks WHERE token IS NULL"), what="an offer")
    for each_run in (run, other):
        db.execute("SELECT df.signal(%s, 'go', '1')", each_run)
        db.wait(each_run)
    assert db.value("SELECT df.complete_task(%s)", held) is False
    assert outcomes(db, run) == ["cancelled"]
    assert db.values("SELECT 1 FROM df.tasks") == []


def test_a_report_waits_for_an_engine(db: Database, start_engine: StartEngine) -> None:
    first = start_engine()
    run = db.start(external("work"))
    held = token(db)
    first.stop()
    assert db.value("SELECT df.complete_task(%s, '\"kept\"')", held) is True
    start_engine()
    db.wait(run)
    assert db.result(run) == "kept"


def test_a_killed_engine_takes_nothing_with_it(db: Database, spawn_engine: SpawnEngine) -> None:
    first = spawn_engine()
    body = external("work").named("x")
    run = db.start(loop(body, while_="SELECT $x < 3"))
    for round_number in range(1, 4):
        held = token(db)
        first.kill()
        assert db.value("SELECT df.complete_task(%s, to_jsonb(%s::int))", held, round_number)
        first = spawn_engine()
    db.wait(run)
    assert outcomes(db, run) == ["completed"] * 3


def test_claims_stay_within_the_activity_ceiling(db: Database, start_engine: StartEngine) -> None:
    db.set(max_activity_concurrency=2)
    start_engine()
    db.start(each("input", external("work", n=ref("item"))), input="[1, 2, 3, 4]")
    wait_until(lambda: db.value("SELECT count(*) FROM df.tasks") == 4, what="four offers")
    held = [task[5] for task in claim(db, most=10)]
    assert len(held) == 2
    assert db.execute(f"{CLAIM}('{{work}}')").fetchall() == []
    for each_token in held:
        assert db.value("SELECT df.complete_task(%s)", each_token)
    assert len(claim(db, most=10)) == 2


def test_a_worker_that_leaves_its_transaction_open_holds_up_nobody(
    db: Database, engine: Engine
) -> None:
    run = db.start(race(external("work"), wait_for_signal("go")))
    wait_until(lambda: db.values("SELECT 1 FROM df.tasks"), what="an offer")
    with psycopg.connect(db.dsn) as worker:
        held = worker.execute("SELECT token FROM df.claim_tasks('{work}')").fetchone()
        assert held is not None
        db.execute("SELECT df.signal(%s, 'go', '1')", run)
        db.wait(db.start("SELECT 1"))
        assert db.status(run) == "running"
    db.wait(run)  # as soon as it commits
    assert db.value("SELECT df.complete_task(%s)", held[0]) is False
    late = db.start(external("work"))
    held_by = token(db, lease="0.1 s")
    with psycopg.connect(db.dsn) as worker:
        worker.execute("SELECT df.complete_task(%s, '1')", (held_by,))
        db.wait(db.start("SELECT pg_sleep(1)"))  # the lease is long over, the sweep passes by
    db.wait(late)
    assert outcomes(db, late) == ["completed"]


def test_what_it_waits_for_is_said(db: Database, engine: Engine) -> None:
    run = db.start(external("resize"))
    wait_until(lambda: db.values("SELECT 1 FROM df.tasks"), what="an offer")
    query = "SELECT state, split_part(reason, ' since ', 1) FROM df.instance_activity()"
    assert db.execute(query).fetchall() == [("waiting", "waits for a worker to claim resize")]
    claim(db, name="resize")
    assert db.execute(
        "SELECT state, running_node_count FROM df.instance_activity()"
    ).fetchall() == [("working", 1)]
    assert "EXTERNAL resize" in db.value("SELECT df.explain(%s)", run)


def test_an_input_that_has_no_value_fails_the_step(db: Database, engine: Engine) -> None:
    run = db.start(seq(sql("SELECT 1 AS n").named("x"), external("work", n=ref("x")["m"])))
    db.wait(run, "failed")
    assert "m" in db.error(run)["message"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("claim_tasks(NULL)", "needs the names of handlers"),
        ("claim_tasks('{}')", "needs the names of handlers"),
        ("claim_tasks('{a}', 0)", "invalid limit 0"),
        ("claim_tasks('{a}', 1, '0 s')", "invalid lease 00:00:00"),
        ("claim_tasks('{a}', 1, '31 days')", "invalid lease 31 days"),
        ("extend_task(gen_random_uuid(), NULL)", "invalid lease NULL"),
        ("fail_task(gen_random_uuid(), 'x', '-1 s')", "invalid delay -00:00:01"),
        (
            "complete_task(gen_random_uuid(), to_jsonb(repeat('x', 16777216)))",
            "larger than 16 MiB",
        ),
    ],
)
def test_what_a_worker_must_not_say_is_refused(db: Database, call: str, message: str) -> None:
    with pytest.raises(psycopg.Error, match=message):
        db.execute(f"SELECT df.{call}")
