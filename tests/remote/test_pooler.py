"""Behind PgBouncer: a transaction pool is for looking only, a session pool is a server like any other."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.engine.conftest import StartEngine
from tests.engine.step_handlers import echo
from tests.engine.support import Database, wait_until
from tests.remote.conftest import Connect, MakeRole, StartPooler, user_of
from workbench.bench import Bench
from workbench.engine.worker import Engine
from workbench.errors import DatabaseError
from workbench.graph.build import py, ref, seq, sql

REFUSED = "through a connection pooler.*it was not started.*own port.*5432.*engine=False"
TAKES_OPTIONS = {"ignore_startup_parameters": "options,extra_float_digits"}

transaction_pools = pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"pool_size": 1}, id="refuses-options"),
        pytest.param({"pool_size": 1, **TAKES_OPTIONS}, id="one-session"),
        pytest.param({"pool_size": 5, **TAKES_OPTIONS}, id="five-sessions"),
        pytest.param({"pool_size": 2, "server_round_robin": 1, **TAKES_OPTIONS}, id="two-in-turn"),
        pytest.param({"pool_size": 5, "server_round_robin": 1, **TAKES_OPTIONS}, id="five-in-turn"),
        pytest.param({"pool_size": 5, "pool_mode": "statement", **TAKES_OPTIONS}, id="statement"),
    ],
)


def warm_up(dsn: str, sessions: int) -> None:
    """Have the pool hold so many server sessions, idle."""
    clients = [psycopg.connect(dsn, prepare_threshold=None) for _ in range(sessions)]
    for client in clients:
        client.execute("SELECT 1")
    for client in clients:
        client.close()


@transaction_pools
def test_an_engine_is_refused_with_the_direct_port(
    start_pooler: StartPooler, settings: dict[str, Any]
) -> None:
    pooler = start_pooler("transaction", **settings)
    if "pool_mode" not in settings:
        warm_up(pooler.dsn, settings["pool_size"])
    with pytest.raises(DatabaseError, match=REFUSED):
        Engine(pooler.dsn).start()


def test_a_refused_engine_leaves_no_trace(db: Database, start_pooler: StartPooler) -> None:
    pooler = start_pooler(**TAKES_OPTIONS)
    with pytest.raises(DatabaseError):
        Engine(pooler.dsn).start()
    assert db.engines("true") == []


@pytest.mark.parametrize("pool_size", [1, 5])
def test_looking_works_through_a_transaction_pool(
    engine: Engine, db: Database, start_pooler: StartPooler, open_bench: Connect, pool_size: int
) -> None:
    run = db.start(sql("SELECT 41 + 1 AS answer").named("n"))
    db.wait(run)
    looking = open_bench(start_pooler(pool_size=pool_size).dsn, engine=False)
    assert list(looking.runs().df.index) == [run]
    assert looking.get(run).result(timeout=10) == {"rows": [{"answer": 42}], "row_count": 1}
    assert looking.get(run)["n"].df["answer"].tolist() == [42]
    assert run in str(looking.get(run).view())
    assert looking.query("SELECT %s::int AS x", [7])["x"].tolist() == [7]
    assert looking.engines().df["state"].tolist() == ["alive"]
    status = looking.status()
    assert (status.engine, status.listening, status.live_engines) == (None, None, 1)


def test_what_is_started_through_a_pool_runs_where_an_engine_is(
    start_pooler: StartPooler, open_bench: Connect, start_engine: StartEngine
) -> None:
    looking = open_bench(start_pooler().dsn, engine=False)
    run = looking.start(seq(sql("SELECT 1 AS n").named("x"), sql("SELECT $x + 1 AS n")))
    assert run.status == "pending"
    start_engine()
    assert run.result(timeout=20) == {"rows": [{"n": 2}], "row_count": 1}


def test_a_bench_that_may_work_says_so_and_starts_nothing(
    db: Database, start_pooler: StartPooler, open_bench: Connect
) -> None:
    bench = open_bench(start_pooler(**TAKES_OPTIONS).dsn)
    with pytest.raises(DatabaseError, match=REFUSED):
        bench.start("SELECT 1")
    with pytest.raises(DatabaseError, match=REFUSED):
        bench.work()
    assert db.values("SELECT id FROM df.instances") == []
    assert bench.status().engine is None


@pytest.fixture
def pooled_bench(start_pooler: StartPooler, open_bench: Connect) -> Bench:
    """A bench through a pool in session mode."""
    return open_bench(start_pooler("session", pool_size=20, **TAKES_OPTIONS).dsn)


def test_a_session_pool_is_a_server_like_any_other(pooled_bench: Bench) -> None:
    graph = seq(sql("SELECT 20 AS n").named("x"), py(echo, value=ref("x")))
    assert pooled_bench.start(graph).result(timeout=20) == [{"n": 20}]
    wait_until(lambda: pooled_bench.status().listening, what="notifications come through the pool")
    assert pooled_bench.engines().df["state"].tolist() == ["alive"]


def test_a_cancel_goes_through_a_session_pool(db: Database, pooled_bench: Bench) -> None:
    run = pooled_bench.start("SELECT pg_sleep(600)")
    db.wait_running(run.id)
    assert run.cancel()
    wait_until(lambda: sleepers(db) == 0, what="the statement is interrupted")


def test_an_engine_behind_a_session_pool_that_leaves_gives_its_steps_back(
    db: Database, pooled_bench: Bench, start_engine: StartEngine
) -> None:
    with db.gate(1):
        run = pooled_bench.start("SELECT pg_advisory_xact_lock_shared(1)::text AS passed")
        db.wait_at_gate(1)
        pooled_bench.hold()
        start_engine()
        db.wait_at_gate(1)
    db.wait(run.id)
    assert db.outcomes(run.id) == [(0, "completed")]


def sleepers(db: Database) -> int:
    query = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event = 'PgSleep'"
    )
    return int(db.value(query))


def test_steps_and_engines_keep_their_settings_when_a_pool_ignores_options(
    db: Database, make_role: MakeRole, start_pooler: StartPooler, open_bench: Connect
) -> None:
    role = make_role(db.dsn)
    user = user_of(role)
    db.execute("SELECT df.grant_usage(%s)", user)
    for setting in ("datestyle = 'SQL, DMY'", "timezone = 'Asia/Kathmandu'"):
        db.execute(f"ALTER ROLE {user} SET {setting}")
    pooler = start_pooler("session", pool_size=20, users={user: ""}, **TAKES_OPTIONS)
    bench = open_bench(make_conninfo(pooler.dsn, user=user))
    moment = bench.start("SELECT timestamptz '2026-11-30 12:00+00' AS at").result(timeout=20)
    assert moment["rows"] == [{"at": "2026-11-30T12:00:00+00:00"}]
    refused = bench.start("SELECT df.setvar('a', 'b')").exception(timeout=20)
    assert "df.setvar() cannot be called" in str(refused)
