"""Schedules that once broke an engine: each of a kind that other tests do not meet."""

from __future__ import annotations

from tests.engine import step_handlers as handlers
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph import join, loop, py, sql, wait_for_signal


def test_a_cancelled_claim_that_its_engine_never_heard_of_is_confirmed(
    db: Database, engine: Engine
) -> None:
    db.execute(
        "INSERT INTO df.releasing (token, instance_id, submitted_by, engine_id)"
        " VALUES (gen_random_uuid(), '00000000', df._me(), %s)",
        engine.id,
    )
    assert db.value("SELECT activity FROM df._in_use()") == 1
    wait_until(lambda: db.value("SELECT activity FROM df._in_use()") == 0, what="it is confirmed")


def test_signals_that_are_there_are_taken_without_waiting_for_a_look(
    db: Database, engine: Engine
) -> None:
    body = wait_for_signal("item").named("s") >> sql("SELECT 1")
    run = db.start(loop(body, while_="SELECT $s.data < 60", min_interval=0))
    db.execute("SELECT df.signal(%s, 'item', n::text) FROM generate_series(1, 60) AS n", run)
    db.wait(run, timeout=30)  # a look at a time would take a minute


def test_a_run_that_is_due_while_it_is_reported_about_runs_no_step_twice(
    db: Database, engine: Engine
) -> None:
    db.execute("CREATE TABLE effects (n bigint)")
    body = py(handlers.echo, value=1) >> sql("INSERT INTO effects SELECT nextval('calls')")
    branch = loop(body, while_="SELECT count(*) < 60 FROM effects", min_interval=0)
    listens = loop(wait_for_signal("tick").named("t"), while_="SELECT $t.data < 80", min_interval=0)
    run = db.start(join(branch, listens))
    for number in range(1, 81):
        db.execute("SELECT df.signal(%s, 'tick', %s)", run, str(number))
    db.wait(run, timeout=60)
    effects = db.value("SELECT count(*) FROM effects")
    assert db.value("SELECT last_value FROM calls") == effects


def test_branches_that_cancel_each_others_runs_do_not_stand_still(
    db: Database, engine: Engine
) -> None:
    """Both hold what the other wants; Postgres finds out, if it sees both wait."""
    db.execute("CREATE TABLE runs (name text, id text)")
    cancel = "SELECT df.cancel((SELECT id FROM runs WHERE name = '{}'))"
    ready = "SELECT pg_sleep(0.5) FROM runs HAVING count(*) = 2"
    one = db.start(join(ready, sql(cancel.format("two"))))
    two = db.start(join(ready, sql(cancel.format("one"))))
    db.execute("INSERT INTO runs VALUES ('one', %s), ('two', %s)", one, two)
    ended = ("completed", "failed", "cancelled")
    wait_until(lambda: {db.status(one), db.status(two)} <= set(ended), timeout=20)
