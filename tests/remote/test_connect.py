"""`connect`: which database is meant, one bench for each, passwords out of sight, who works and who only looks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import workbench as wb
from tests.engine import step_handlers as handlers
from tests.engine.conftest import SpawnEngine
from tests.engine.support import Database, wait_until
from tests.remote.conftest import Connect, StartPooler
from tests.remote.remote_handlers import represent_context
from workbench.bench import Bench
from workbench.connecting import connect
from workbench.errors import DatabaseError, StateError, UsageError
from workbench.graph.build import py
from workbench.store import embedded, starting

SECRET = "tops3cret"
TAKES_OPTIONS = {"ignore_startup_parameters": "options,extra_float_digits"}


def url_of(dsn: str, scheme: str = "postgresql") -> str:
    """The same database as a URL; its host is a socket's folder."""
    info = conninfo_to_dict(dsn)
    return f"{scheme}://{info['user']}@/{info['dbname']}?host={info['host']}&port={info['port']}"


# Which database.


def test_the_argument_wins_over_the_environment(
    dsn: str, open_bench: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_DSN", "host=127.0.0.1 port=1 dbname=elsewhere")
    assert open_bench(dsn).status().database.startswith("test_")


def test_the_environment_wins_over_the_embedded_server(
    db: Database, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_DSN", db.dsn)
    monkeypatch.setenv("WORKBENCH_HOME", str(home))
    with connect(engine=False) as bench:
        assert bench.query("SELECT current_database() AS d")["d"].tolist() == [db.conn.info.dbname]
    assert not home.exists()


def test_without_both_the_embedded_server_is_meant(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(home))
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/never_read")
    monkeypatch.setenv("WORKBENCH_DSN", "")
    with connect() as bench:
        run = bench.start("SELECT current_setting('data_directory') AS d")
        assert str(home) in run.result(timeout=30)["rows"][0]["d"]
    assert embedded.status(home).running


def test_a_home_is_the_embedded_server_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, home: Path, server: str
) -> None:
    monkeypatch.setenv("WORKBENCH_DSN", server)
    assert str(home) in starting.target(home)


def test_a_dsn_and_a_home_are_refused(dsn: str, home: Path) -> None:
    with pytest.raises(UsageError, match="not both"):
        connect(dsn, home=home)
    assert not home.exists()


@pytest.mark.parametrize(
    "scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg"]
)
def test_every_kind_of_url_is_read(dsn: str, open_bench: Connect, scheme: str) -> None:
    bench = open_bench(url_of(dsn, scheme), engine=False)
    assert bench.status().unfinished_runs == 0


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("nonsense", "cannot read the DSN. Pass a URL like postgresql://user@host:5432/name"),
        (f"mysql://u:{SECRET}@h/d", "cannot read the DSN. Pass a URL"),
        (f"host=h pasword={SECRET}", 'cannot read the DSN: invalid connection option "pasword"'),
        (f"host=h password='{SECRET}", "cannot read the DSN. Pass a URL"),
        (f"postgresql://u:{SECRET}%zz@h/d", "cannot read the DSN. Pass a URL"),
        (f"postgresql://h/d?pass={SECRET}", "cannot read the DSN: invalid URI query parameter"),
        (f"host=h password=a{SECRET} {SECRET}", "cannot read the DSN. Pass a URL"),
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_unquoted(bad: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        connect(bad)
    assert str(refused.value).startswith(says)
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("given", [7, b"host=h", Path("/tmp")])
def test_a_dsn_that_is_no_text_is_refused(given: object) -> None:
    with pytest.raises(UsageError, match="a DSN is text, not"):
        connect(given)  # type: ignore[arg-type]


def test_an_unreachable_server_is_named_without_the_password() -> None:
    with pytest.raises(
        DatabaseError, match=r"cannot reach the database \(d on 127\.0\.0\.1:1\)"
    ) as refused:
        connect(f"postgresql://u:{SECRET}@127.0.0.1:1/d")
    assert SECRET not in str(refused.value)


# One bench for a database.


def test_connecting_twice_gives_the_same_bench(dsn: str, bench: Bench) -> None:
    assert connect(dsn) is bench
    backwards = make_conninfo("", **dict(reversed(conninfo_to_dict(dsn).items())))
    assert connect(backwards) is bench


def test_a_bench_at_work_is_kept_while_nobody_holds_it(db: Database) -> None:
    connect(db.dsn).work()
    gc.collect()
    with connect(db.dsn) as bench:
        assert db.engines("true") == [str(bench.status().engine)]


def test_a_bench_that_looks_and_one_that_works_are_two(db: Database, open_bench: Connect) -> None:
    working = open_bench()
    looking = open_bench(engine=False)
    assert looking is not working
    assert open_bench(engine=False) is looking
    working.work()
    assert looking.status().engine is None


def test_a_closed_bench_is_replaced(dsn: str, open_bench: Connect) -> None:
    first = open_bench()
    first.close()
    assert open_bench() is not first


def test_closing_twice_does_nothing_and_a_closed_bench_says_so(open_bench: Connect) -> None:
    bench = open_bench().work()
    bench.close()
    bench.close()
    with pytest.raises(StateError, match=r"closed: call workbench.connect\(\) again"):
        bench.start("SELECT 1")
    with pytest.raises(StateError, match="closed"):
        bench.work()
    assert "closed" in repr(bench)


def test_a_with_block_gives_claims_back(db: Database) -> None:
    with db.gate(1), connect(db.dsn) as bench:
        run = bench.start("SELECT pg_advisory_xact_lock_shared(1)::text")
        db.wait_at_gate(1)
    assert db.statuses(run.id) == ["ready"]
    assert db.outcomes(run.id) == []
    assert db.engines() == []


def test_connect_starts_no_engine_and_says_what_waits(
    db: Database, open_bench: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    assert open_bench().status().engine is None
    assert capsys.readouterr().out == ""
    db.start("SELECT 1")
    open_bench()
    assert capsys.readouterr().out == "1 run unfinished, no engine alive: bench.work()\n"
    for _ in range(2):
        db.start("SELECT 1")
    open_bench()
    assert capsys.readouterr().out == "3 runs unfinished, no engine alive: bench.work()\n"
    assert db.engines("true") == []


def test_connect_says_nothing_while_an_engine_is_alive(
    db: Database, open_bench: Connect, spawn_engine: SpawnEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    spawn_engine()
    with db.gate(1):
        db.start("SELECT pg_advisory_xact_lock_shared(1)::text")
        open_bench()
        assert capsys.readouterr().out == ""


# Who works.


def test_looking_starts_no_engine(db: Database, open_bench: Connect) -> None:
    looking = open_bench(engine=False)
    run = looking.start("SELECT 1")
    with pytest.raises(TimeoutError, match=f"run {run.id} is still pending after 0.05 s"):
        run.wait(0.05)
    with pytest.raises(StateError, match="engine=False: it only looks"):
        looking.work()
    assert db.engines("true") == []


def test_a_held_bench_starts_runs_and_executes_none_until_told(
    db: Database, open_bench: Connect
) -> None:
    bench = open_bench().hold()
    run = bench.start("SELECT 1")
    with pytest.raises(TimeoutError):
        run.result(timeout=0.05)
    assert "held" in repr(bench)
    assert db.engines("true") == []
    assert bench.work() is bench
    assert run.wait(15).status == "completed"
    assert "working" in repr(bench)


def test_holding_gives_running_steps_to_others(
    db: Database, bench: Bench, spawn_engine: SpawnEngine
) -> None:
    with db.gate(1):
        run = bench.start("SELECT pg_advisory_xact_lock_shared(1)::text")
        db.wait_at_gate(1)
        bench.hold()
        other = spawn_engine()
        db.wait_at_gate(1)
    db.wait(run.id)
    assert [(a.engine, a.outcome) for a in db.attempts(run.id)] == [(other.id, "completed")]


def test_waiting_starts_the_engine(db: Database, open_bench: Connect) -> None:
    run = db.start("SELECT 1 AS x")
    assert open_bench().get(run).result(timeout=15) == {"rows": [{"x": 1}], "row_count": 1}


def test_interrupting_a_waiting_cell_stops_the_waiting_only(db: Database, bench: Bench) -> None:
    def interrupt() -> None:
        db.wait_at_gate(1)
        os.kill(os.getpid(), signal.SIGINT)

    with db.gate(1):
        run = bench.start("SELECT pg_advisory_xact_lock_shared(1)::text AS x")
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            run.wait(30)
        thread.join()
        assert run.status == "running"
        assert bench.status().engine is not None
    assert run.result(timeout=15) == {"rows": [{"x": ""}], "row_count": 1}
    assert db.outcomes(run.id) == [(0, "completed")]


def test_every_call_works_inside_a_running_loop(bench: Bench) -> None:
    async def cell() -> None:
        run = bench.start("SELECT 1 AS x")
        assert run.result(timeout=15)["rows"] == [{"x": 1}]
        assert (await bench.start("SELECT 2 AS x"))["rows"] == [{"x": 2}]
        runs = [bench.start(f"SELECT {n} AS x") for n in range(3)]
        values = await asyncio.gather(*runs)
        assert [value["rows"][0]["x"] for value in values] == [0, 1, 2]
        assert len(bench.runs().df) == 5
        never = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match=r"asyncio.run\(\) cannot be called"):
            asyncio.run(never)
        never.close()

    asyncio.run(cell())


def test_an_awaited_run_that_failed_raises(bench: Bench) -> None:
    async def cell() -> None:
        with pytest.raises(wb.errors.RunFailed, match="division by zero"):
            await bench.start("SELECT 1 / 0")

    asyncio.run(cell())


def test_runs_can_be_started_and_awaited_from_many_threads(bench: Bench) -> None:
    values: list[int] = []

    def work(n: int) -> None:
        run = bench.start(py(handlers.echo, value=n))
        values.append(run.result(timeout=30))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values) == list(range(8))
    assert bench.status().live_engines == 1


# Passwords.


def test_a_password_is_shown_nowhere(
    db: Database, start_pooler: StartPooler, open_bench: Connect
) -> None:
    pooler = start_pooler(
        "session",
        pool_size=20,
        tcp=True,
        auth_type="plain",
        users={"postgres": SECRET},
        **TAKES_OPTIONS,
    )
    name = db.conn.info.dbname
    with pytest.raises(DatabaseError) as refused:
        connect(f"postgresql://postgres:wr0ng@127.0.0.1:{pooler.port}/{name}")
    assert "wr0ng" not in str(refused.value)
    bench = open_bench(f"postgresql://postgres:{SECRET}@127.0.0.1:{pooler.port}/{name}")
    run = bench.start(py(represent_context))
    context = run.result(timeout=20)
    failed = bench.start("SELECT 1 / 0")
    error = str(failed.exception(timeout=20))
    assert f"{name} on 127.0.0.1:{pooler.port}" in repr(bench)
    shown = [
        repr(bench), str(bench.status()), repr(bench.status()), repr(run), str(bench.engines()), context, error,
        str(bench.runs()), str(run.view()), str(failed.view()), bench.engines().html(), failed.view().html(),
        repr(bench._database), repr(bench._own.running), repr(vars(bench)), str(failed.attempts),
    ]  # fmt: skip
    assert all(SECRET not in text for text in shown)
    for table in db.values(
        "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'df'::regnamespace AND relkind = 'r'"
    ):
        assert db.values(f"SELECT t::text FROM {table} t WHERE t::text LIKE '%%{SECRET}%%'") == []
    here = db.values(
        "SELECT application_name || query FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert all(SECRET not in text for text in here)
    wait_until(lambda: bench.status().listening)


def test_options_of_the_dsn_hold_in_steps(db: Database, open_bench: Connect) -> None:
    db.execute("CREATE SCHEMA app")
    db.execute("CREATE TABLE app.customers AS SELECT 7 AS id")
    bench = open_bench(make_conninfo(db.dsn, options="-c search_path=app"))
    assert bench.query("SELECT * FROM customers")["id"].tolist() == [7]
    assert bench.start("SELECT * FROM customers").result(timeout=15)["rows"] == [{"id": 7}]
