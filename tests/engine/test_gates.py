"""Admission: ceilings over all engines, scopes of HTTP steps, permits that are held until their end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.engine import step_handlers as handlers
from tests.engine.conftest import SpawnEngine, StartEngine
from tests.engine.http_server import Answer, HttpServer, http_server
from tests.engine.support import Database, wait_until
from workbench.graph import Node, http, join, loop, py, seq, sql
from workbench.graph.policies import with_policy

OVERLAPS = """
    SELECT max(others) FROM (
        SELECT (SELECT count(*) FROM df.attempts b
                WHERE b.started_at <= a.started_at AND b.finished_at > a.started_at) AS others
        FROM df.attempts a) counted
"""


@pytest.fixture
def web(db: Database) -> Iterator[HttpServer]:
    db.execute("SELECT df.set_setting('http_allow', '[\"127.0.0.1\"]')")
    with http_server() as server:
        yield server


def limited(steps: int, url: str, limit: int) -> Node:
    return with_policy(join(*[http(url)] * steps), http={"max_concurrency": limit})


def scopes(db: Database, run: str) -> list[tuple[object, ...]]:
    query = "SELECT node_id, max_concurrency, in_use, waiting FROM df.policy_scopes(%s)"
    return db.execute(query, run).fetchall()


def test_the_activity_ceiling_counts_over_all_engines(
    db: Database, spawn_engine: SpawnEngine
) -> None:
    db.set(max_activity_concurrency=3)
    for _ in range(3):
        spawn_engine()
    runs = [db.start(seq("SELECT pg_sleep(0.02)", "SELECT pg_sleep(0.02)")) for _ in range(20)]
    runs.append(db.start(join(*["SELECT pg_sleep(0.02)"] * 20)))
    for run in runs:
        db.wait(run, timeout=40)
    assert db.value(OVERLAPS) <= 3


def test_engines_that_read_different_ceilings_keep_the_smallest(
    db: Database, start_engine: StartEngine
) -> None:
    db.set(max_activity_concurrency=5)
    start_engine()
    db.set(max_activity_concurrency=1)
    start_engine()
    wait_until(lambda: db.value("SELECT count(*) FROM df.engines WHERE alone") == 0)
    runs = [db.start("SELECT pg_sleep(0.05)") for _ in range(10)]
    for run in runs:
        db.wait(run)
    assert db.value(OVERLAPS) == 1


def test_a_scope_is_kept_by_three_engines_and_holds_nobody_else_back(
    db: Database, spawn_engine: SpawnEngine, web: HttpServer
) -> None:
    with http_server() as other:
        web.delay, other.delay = 0.25, 0.01
        free = seq(*[http(other.url)] * 5)
        run = db.start(join(limited(20, web.url, 2), free))
        for _ in range(3):
            spawn_engine()
        wait_until(lambda: len(other.requests) == 5, what="the free ones have been made")
        assert len(web.requests) < 20
        db.wait(run, timeout=40)
        assert web.most == 2
        assert len(web.requests) == 20


def test_a_freed_permit_wakes_the_next_at_once(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    web.delay = 0.01
    start_engine()
    run = db.start(limited(100, web.url, 1))
    began = time.monotonic()
    db.wait(run, timeout=30)
    assert time.monotonic() - began < 10  # 3 s on a quiet machine; without waking it is 100 polls
    assert web.most == 1


def test_a_freed_permit_wakes_the_next_although_the_listeners_were_lost_on_the_way(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    web.delay = 0.01
    engines = [start_engine(), start_engine()]
    wait_until(lambda: all(engine.listening for engine in engines))
    began = time.monotonic()
    run = db.start(limited(100, web.url, 1))
    wait_until(lambda: len(web.requests) > 30)
    ended = db.values(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'workbench engine listen' AND datname = current_database()"
    )
    assert len(ended) == 2
    db.wait(run, timeout=30)
    assert time.monotonic() - began < 10  # 3 s on a quiet machine
    assert (web.most, len(web.requests)) == (1, 100)


def test_a_ceiling_lowered_below_what_is_under_way_ends_nothing(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    db.set(max_http_concurrency=2)
    gates = [web.gate(), web.gate()]
    for path, gate in zip(("/a", "/b"), gates, strict=True):
        web.answer(path, Answer(body=[gate, b"ok"]))
    start_engine()
    held = [db.start(http(web.url + path)) for path in ("/a", "/b")]
    wait_until(lambda: web.now == 2)
    db.set(max_http_concurrency=1)
    start_engine()
    third = db.start(http(web.url + "/c"))
    gates[0].set()
    db.wait(held[0])
    db.wait(db.start("SELECT 1"))  # both may have looked by now
    assert (len(web.requests), db.status(third)) == (2, "running")
    gates[1].set()
    db.wait(third)
    assert [db.outcomes(run) for run in (*held, third)] == [[(0, "completed")]] * 3


def test_who_waits_in_a_scope_is_served_in_order_and_its_timeout_has_not_begun(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    gate = web.gate()
    web.answer("/0", Answer(body=[gate, b"ok"]))
    start_engine()
    first, *others = [http(f"{web.url}/{n}", timeout=20 if n == 0 else 0.5) for n in range(5)]
    run = db.start(with_policy(join(first, *others), http={"max_concurrency": 1}))
    waited = (
        "SELECT count(*) FROM df.nodes WHERE instance_id = %s AND status = 'ready'"
        " AND ready_at < clock_timestamp() - interval '0.6 seconds'"
    )
    wait_until(lambda: db.value(waited, run) == 4)
    gate.set()
    db.wait(run)
    assert [seen.target for seen in web.requests] == ["/0", "/1", "/2", "/3", "/4"]
    assert {(each.attempt, each.outcome) for each in db.attempts(run)} == {(1, "completed")}


def test_an_admission_reads_the_head_of_a_line_however_long_it_is(
    db: Database, dsn: str, start_engine: StartEngine, web: HttpServer
) -> None:
    gate = web.gate()
    web.answer("/", Answer(body=[gate, b"ok"]))
    start_engine()
    run = db.start(limited(300, web.url, 1))
    wait_until(lambda: scopes(db, run) == [(0, 1, 1, 299)])
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE df.scopes SET max_concurrency = 2")  # there is room, to nobody else
        conn.execute("SELECT * FROM df._scoped_leaves(1, false, df.now())")
        (read,) = conn.execute(
            "SELECT idx_tup_fetch FROM pg_stat_xact_all_tables WHERE relid = 'df.nodes'::regclass"
        ).fetchall()
        conn.rollback()
    gate.set()
    assert read[0] < 20


def test_scopes_say_what_is_in_use_and_what_waits(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    gate = web.gate()
    web.answer("/", Answer(body=[gate, b"ok"]))
    start_engine()
    run = db.start(limited(5, web.url, 2))
    wait_until(lambda: scopes(db, run) == [(0, 2, 2, 3)])
    gate.set()
    db.wait(run)
    assert scopes(db, run) == [(0, 2, 0, 0)]


def test_an_inner_scope_cannot_relax_an_outer_one(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    gate = web.gate()
    web.answer("/", Answer(body=[gate, b"ok"]))
    start_engine()
    inner = limited(4, web.url, 3)
    outer = with_policy(join(inner, http(web.url)), http={"max_concurrency": 2})
    run = db.start(outer)
    wait_until(lambda: scopes(db, run)[0][2] == 2 and web.now == 2)
    gate.set()
    db.wait(run)
    assert web.most == 2


def test_iterations_share_the_scope_around_their_loop(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    start_engine()
    body = join(http(web.url), http(web.url)) >> sql("SELECT nextval('calls') AS n").named("x")
    run = db.start(
        with_policy(loop(body, while_="SELECT $x < 3", min_interval=0), http={"max_concurrency": 1})
    )
    db.wait(run)
    assert web.most == 1
    assert len(web.requests) == 6


def test_the_http_ceiling_counts_over_all_engines_and_runs(
    db: Database, spawn_engine: SpawnEngine, web: HttpServer
) -> None:
    db.set(max_http_concurrency=2)
    web.delay = 0.02
    for _ in range(2):
        spawn_engine()
    runs = [db.start(join(*[http(web.url)] * 5)) for _ in range(4)]
    for run in runs:
        db.wait(run, timeout=40)
    assert web.most == 2


def test_requests_that_wait_delay_no_other_step(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    gate = web.gate()
    web.answer("/", Answer(body=[gate, b"ok"]))
    start_engine(ceiling=2)
    held = db.start(limited(2000, web.url, 1))
    wait_until(lambda: scopes(db, held)[0][2] == 1)
    for run in [db.start("SELECT 1") for _ in range(20)]:
        db.wait(run, timeout=5)
    db.execute("SELECT df.cancel(%s)", held)
    gate.set()


@pytest.mark.parametrize("ending", ["cancel", "kill"])
def test_a_permit_is_held_until_its_engine_confirms_the_end_or_is_dead(
    db: Database, spawn_engine: SpawnEngine, web: HttpServer, ending: str
) -> None:
    db.set(max_http_concurrency=1)
    gate = web.gate()
    web.answer("/held", Answer(body=[gate, b"ok"]))
    engine = spawn_engine()
    held = db.start(http(f"{web.url}/held"))
    db.wait_running(held)
    wait_until(lambda: len(web.requests) == 1)
    engine.freeze()
    if ending == "cancel":
        db.execute("SELECT df.cancel(%s)", held)
        assert db.value("SELECT http FROM df._in_use()") == 1
        engine.thaw()
        wait_until(lambda: db.value("SELECT http FROM df._in_use()") == 0)
        assert db.value("SELECT count(*) FROM df.releasing") == 0
    else:
        engine.thaw()
        engine.kill()
        gate.set()
        spawn_engine()
        db.wait(held)
    following = db.start(http(web.url))
    db.wait(following)


def test_no_permit_is_lost_whatever_becomes_of_the_request(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    db.set(max_http_concurrency=1)
    start_engine()
    web.answer("/broken", Answer(500))
    gate = web.gate()
    web.answer("/slow", Answer(body=[gate, b"ok"]))
    for graph, status in (
        (http(web.url), "completed"),
        (http(f"{web.url}/broken"), "failed"),
        (http(f"{web.url}/slow", timeout=1), "failed"),
        (http("http://127.0.0.1:1/"), "failed"),
        (http(web.url), "completed"),
    ):
        db.wait(db.start(graph), status)
    assert db.value("SELECT (u.activity, u.http)::text FROM df._in_use() u") == "(0,0)"


def test_long_loops_leave_room_for_others(db: Database, start_engine: StartEngine) -> None:
    start_engine(ceiling=2)
    busy = [db.start(loop("SELECT 1", min_interval=0)) for _ in range(4)]
    wait_until(lambda: all(db.node(run)["iteration"] > 5 for run in busy), what="all four turn")
    for run in [db.start("SELECT 1") for _ in range(3)]:
        db.wait(run, timeout=10)
    for run in busy:
        db.execute("SELECT df.cancel(%s)", run)


def test_python_steps_of_a_loop_leave_room_for_others(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine(ceiling=2)
    busy = [db.start(loop(py(handlers.echo, value=1), min_interval=0)) for _ in range(4)]
    wait_until(lambda: all(db.node(run)["iteration"] > 5 for run in busy), what="all four turn")
    for run in busy:
        db.execute("SELECT df.cancel(%s)", run)


def test_applied_again_the_smaller_limit_stays(db: Database) -> None:
    limits = [json.dumps({"http": {"max_concurrency": limit}}) for limit in (2, 5)]
    built = db.value(
        "SELECT df.with_policy(df.with_policy(df.http('https://example.com'), %s::jsonb), %s::jsonb)",
        *limits,
    )
    step = http("https://example.com", method="POST")
    twice = with_policy(with_policy(step, http={"max_concurrency": 2}), http={"max_concurrency": 5})
    assert built == twice.to_json()
    assert '"policy":{"http":{"max_concurrency":2}}' in built


@pytest.mark.parametrize(
    "policy",
    [
        "{}",
        "[]",
        '{"http": {}}',
        '{"http": {"max_concurrency": 0}}',
        '{"http": {"max_concurrency": 1.5}}',
        '{"sql": {"max_concurrency": 1}}',
        '{"http": {"max_concurrency": 1, "rate": 2}}',
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(db: Database, policy: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"df\.with_policy: "):
        db.execute("SELECT df.with_policy('SELECT 1', %s::text::jsonb)", policy)
