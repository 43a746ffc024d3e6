"""Sleeps, schedules and signals on a real engine: rows that hold nothing and survive everything."""

from __future__ import annotations

import datetime

import psycopg
import pytest

from tests.engine.conftest import SpawnEngine, StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph import join, loop, seq, sleep, sql, wait_for_schedule, wait_for_signal


def waiting(db: Database, run: str, node: int = 0) -> None:
    wait_until(lambda: db.node(run, node)["status"] == "waiting", what=f"#{node} of {run} waits")


def took(db: Database, run: str) -> float:
    query = "SELECT extract(epoch FROM finished_at - started_at)::float8 FROM df.instances WHERE id = %s"
    return float(db.value(query, run))


def test_a_sleep_takes_its_time_and_says_so(db: Database, engine: Engine) -> None:
    run = db.start(sleep(1))
    db.wait(run)
    assert db.result(run) == {"slept": True, "seconds": 1}
    assert 1.0 <= took(db, run) < 1.5


def test_sleeps_survive_the_death_of_all_engines_and_fire_once(
    db: Database, spawn_engine: SpawnEngine, start_engine: StartEngine
) -> None:
    first = spawn_engine()
    run = db.start(seq(sleep(1), "INSERT INTO seen VALUES (1)"))
    waiting(db, run, 1)
    first.kill()
    wait_until(
        lambda: db.value(
            "SELECT wake_at < clock_timestamp() - interval '1 second' FROM df.instances"
        )
    )
    start_engine()
    began = datetime.datetime.now(datetime.UTC)
    db.wait(run)
    assert datetime.datetime.now(datetime.UTC) - began < datetime.timedelta(seconds=2)
    assert db.value("SELECT count(*) FROM seen") == 1


def test_only_the_databases_clock_counts(db: Database, start_engine: StartEngine) -> None:
    db.execute("SELECT df.set_setting('clock', '{\"at\": \"2026-01-01T00:00:00Z\"}')")
    start_engine()
    run = db.start(sleep(3600))
    waiting(db, run)
    assert db.node(run)["ready_at"] == datetime.datetime(2026, 1, 1, 1, tzinfo=datetime.UTC)
    db.execute("SELECT df.set_setting('clock', '{\"at\": \"2026-01-01T01:00:00Z\"}')")
    db.wait(run)


def test_a_schedule_waits_for_the_next_match(db: Database, start_engine: StartEngine) -> None:
    db.execute("SELECT df.set_setting('clock', '{\"at\": \"2026-01-01T00:02:10Z\"}')")
    start_engine()
    run = db.start(wait_for_schedule("*/5 * * * *"))
    waiting(db, run)
    assert db.node(run)["ready_at"] == datetime.datetime(2026, 1, 1, 0, 5, tzinfo=datetime.UTC)
    db.execute("SELECT df.set_setting('clock', '{\"at\": \"2026-01-01T09:00:00Z\"}')")
    db.wait(run)
    assert db.result(run) == {"scheduled": True}


def test_a_schedule_counts_in_its_time_zone(db: Database, start_engine: StartEngine) -> None:
    db.execute("SELECT df.set_setting('clock', '{\"at\": \"2026-07-01T00:00:00Z\"}')")
    start_engine()
    run = db.start(wait_for_schedule("30 9 * * *", timezone="Europe/Berlin"))
    waiting(db, run)
    assert db.node(run)["ready_at"] == datetime.datetime(2026, 7, 1, 7, 30, tzinfo=datetime.UTC)


def test_a_signal_ends_the_wait_with_its_data(db: Database, engine: Engine) -> None:
    run = db.start(wait_for_signal("approval").named("s") >> sql("SELECT $s.data.by AS who"))
    waiting(db, run, 1)
    assert db.value("SELECT df.signal(%s, 'approval', '{\"by\": \"ada\"}')", run) == "OK"
    db.wait(run)
    assert db.rows(run) == [{"who": "ada"}]
    assert db.value("SELECT count(*) FROM df.signals") == 0


def test_a_signal_sent_before_its_wait_is_kept(db: Database, engine: Engine) -> None:
    run = db.start(seq(sleep(0.5), wait_for_signal("go")))
    db.execute("SELECT df.signal(%s, 'go', 'not json')", run)
    db.wait(run)
    assert db.result(run) == {"signal_name": "go", "timed_out": False, "data": "not json"}


def test_a_signal_reaches_every_wait_of_its_name(db: Database, engine: Engine) -> None:
    run = db.start(join(wait_for_signal("go"), wait_for_signal("go"), wait_for_signal("stop")))
    for node in (1, 2, 3):
        waiting(db, run, node)
    db.execute("SELECT df.signal(%s, 'go', '1')", run)
    wait_until(lambda: db.statuses(run)[1:] == ["completed", "completed", "waiting"])
    db.execute("SELECT df.signal(%s, 'stop')", run)
    db.wait(run)
    assert [each["data"] for each in db.result(run)] == [1, 1, {}]


def test_waits_in_a_row_take_signals_in_their_order(db: Database, engine: Engine) -> None:
    run = db.start(
        seq(
            sleep(0.3),
            join(seq(wait_for_signal("n").named("a"), wait_for_signal("n").named("b")), sleep(0)),
        )
    )
    for n in (1, 2):
        db.execute("SELECT df.signal(%s, 'n', %s)", run, str(n))
    db.wait(run)
    names = dict(
        db.execute(
            "SELECT name, value -> 'data' FROM df.values WHERE instance_id = %s", run
        ).fetchall()
    )
    assert names == {"a": 1, "b": 2}


def test_a_wait_times_out(db: Database, engine: Engine) -> None:
    run = db.start(wait_for_signal("never", timeout=1))
    db.wait(run)
    assert db.result(run) == {"signal_name": "never", "timed_out": True, "data": None}


def test_a_signal_to_a_finished_run_is_an_error(db: Database, engine: Engine) -> None:
    run = db.start("SELECT 1")
    db.wait(run)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="already completed"):
        db.execute("SELECT df.signal(%s, 'go')", run)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("00000000", "go"), "Instance not found or access denied: 00000000"),
        (("", "go"), "cannot be empty"),
        (("00000000", ""), "Signal name cannot be empty"),
    ],
)
def test_bad_signals_are_refused(db: Database, arguments: tuple[str, str], says: str) -> None:
    with pytest.raises(psycopg.Error, match=says):
        db.execute("SELECT df.signal(%s, %s)", *arguments)


def test_at_most_a_thousand_signals_wait_to_be_taken(db: Database) -> None:
    run = db.start(wait_for_signal("go"))
    db.execute("SELECT df.signal(%s, 'go') FROM generate_series(1, 1000)", run)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="1000 unread"):
        db.execute("SELECT df.signal(%s, 'go')", run)


def test_a_signal_is_sent_with_the_transaction(db: Database, engine: Engine) -> None:
    run = db.start(wait_for_signal("go", timeout=60))
    waiting(db, run)
    with db.transaction() as conn:
        conn.execute("SELECT df.signal(%s, 'go', '1')", (run,))
    with db.transaction() as conn:
        conn.execute("SELECT df.signal(%s, 'go', '2')", (run,))
        conn.commit()
    db.wait(run)
    assert db.result(run)["data"] == 2


def test_steps_signal_each_others_runs_freely(db: Database, engine: Engine) -> None:
    """Neither waits for the other's lock."""
    db.execute("CREATE TABLE peers (id text, peer text)")
    play = loop(
        wait_for_signal("ball").named("b")
        >> sql(
            "SELECT df.signal(p.peer, 'ball', ($b.data + 1)::text) FROM peers p"
            " WHERE p.id = '{sys_instance_id}' AND $b.data < 20"
        ),
        while_="SELECT $b.data < 19",
        min_interval=0,
    )
    ping, pong = db.start(play), db.start(play)
    db.execute("INSERT INTO peers VALUES (%s, %s), (%s, %s)", ping, pong, pong, ping)
    db.execute("SELECT df.signal(%s, 'ball', '1')", ping)
    db.wait(ping)
    db.wait(pong)


def test_a_run_that_waits_holds_no_claim_and_no_session(db: Database, engine: Engine) -> None:
    run = db.start(join(sleep(3600), wait_for_signal("go"), wait_for_schedule("0 0 1 1 *")))
    for node in (1, 2, 3):
        waiting(db, run, node)
    assert db.value("SELECT count(*) FROM df.nodes WHERE token IS NOT NULL") == 0
    db.execute("SELECT df.cancel(%s)", run)
    assert db.statuses(run) == ["cancelled"] * 4
