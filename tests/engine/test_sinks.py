"""Responses that go into a table: the body and the step's completion are one transaction."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql as text
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.engine.conftest import Role, SpawnEngine, StartEngine
from tests.engine.http_server import Answer, HttpServer, http_server
from tests.engine.support import Database, start, wait_until
from workbench.engine.worker import Engine
from workbench.graph import Node, http, http_multipart, join, seq
from workbench.graph.policies import with_policy

JSON = [("Content-Type", "application/json")]
PNG = b"\x89PNG\r\n\x1a\n\\\x00'"

# Rows stored and steps completed, in one snapshot.
BALANCE = """
    SELECT (SELECT count(*) FROM pages),
           (SELECT count(*) FROM df.nodes WHERE node_type = 'HTTP' AND status = 'completed')"""


@pytest.fixture
def web(db: Database) -> Iterator[HttpServer]:
    db.execute("SELECT df.set_setting('http_allow', '[\"127.0.0.1\"]')")
    db.execute("CREATE TABLE pages (id serial, body text)")
    with http_server() as server:
        yield server


def stored(url: str, sink: str = "public.pages(body)", **more: object) -> Node:
    return http(url, sink=sink, **more)  # type: ignore[arg-type]


def in_use(db: Database) -> object:
    return db.execute("SELECT activity, http FROM df._in_use()").fetchone()


def bodies(db: Database) -> list[str]:
    return db.values("SELECT body FROM pages ORDER BY id")


def test_the_body_is_stored_and_the_result_says_where(
    db: Database, engine: Engine, web: HttpServer
) -> None:
    web.answer("/", Answer(201, "grüß ''Gott''".encode(), [("Content-Type", "text/plain")]))
    run = db.start(stored(web.url + "/").named("r") >> "SELECT $r.size AS size, $r.sink AS sink")
    db.wait(run)
    assert db.rows(run) == [{"size": 15, "sink": "public.pages(body)"}]
    result = db.node(run, 1)["result"]
    assert isinstance(result.pop("duration_ms"), int)
    assert result == {
        "status": 201,
        "sink": "public.pages(body)",
        "size": 15,
        "headers": {"content-type": "text/plain", "content-length": "15"},
        "ok": True,
    }
    assert bodies(db) == ["grüß ''Gott''"]
    assert not db.attempts(run)[0].exactly_once  # the request was made at least once
    executed = db.value("SELECT executed FROM df.attempts WHERE node_id = 1")
    assert json.loads(executed)["url"] == web.url + "/"


def test_an_upload_has_a_sink_too(db: Database, engine: Engine, web: HttpServer) -> None:
    parts = [{"name": "a", "data": "x"}]
    run = db.start(http_multipart(web.url + "/", parts, sink="public.pages(body)"))
    db.wait(run)
    assert bodies(db) == ["ok"]


@pytest.mark.parametrize(
    ("column", "body", "seen"),
    [
        ("json", b'{"a": [1]}', '{"a": [1]}'),
        ("jsonb", b'{"a":[1]}', '{"a": [1]}'),
        ("bytea", PNG, PNG),
        ("raw", PNG, PNG),
        ("bytea", b"\\x41", b"\\x41"),
        ("integer", b"42", "42"),
        ("text", b"", ""),
        ("text", "ä".encode("latin-1"), "ä"),
    ],
)
def test_a_column_takes_the_body_by_its_type(
    db: Database, engine: Engine, web: HttpServer, column: str, body: bytes, seen: object
) -> None:
    db.execute("CREATE DOMAIN raw_bytes AS bytea; CREATE DOMAIN raw AS raw_bytes")
    db.execute(f'CREATE TABLE "My ""T" ("order" {column})')
    charset = [("Content-Type", "text/plain; charset=latin-1")]
    web.answer("/", Answer(200, body, charset if column == "text" else []))
    db.wait(db.start(stored(web.url + "/", 'Public."My ""T"("order")')))
    cast = "bytea" if isinstance(seen, bytes) else "text"
    assert db.value(f'SELECT "order"::{cast} FROM "My ""T"') == seen


def test_a_body_that_is_no_text_needs_a_column_of_bytes(
    db: Database, engine: Engine, web: HttpServer
) -> None:
    web.answer("/", Answer(200, PNG, [("Content-Type", "image/png")]))
    run = db.start(stored(web.url + "/"), max_attempts=3)
    db.wait(run, "failed")
    assert db.error(run)["message"] == (
        "sink public.pages(body): the body (image/png, 11 bytes) is not text, and nothing was "
        "stored; a column of type bytea takes it"
    )
    assert len(db.attempts(run)) == 1


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("public.nowhere(body)", 'relation "public.nowhere" does not exist'),
        ("nowhere.pages(body)", 'relation "nowhere.pages" does not exist'),
        ("public.pages(Text)", 'column "text" of relation "pages" does not exist'),
        ('public."Pages"(body)', 'relation "public.Pages" does not exist'),
    ],
)
def test_a_sink_that_is_not_there_is_a_permanent_error(
    db: Database, engine: Engine, web: HttpServer, sink: str, message: str
) -> None:
    run = db.start(stored(web.url + "/", sink), max_attempts=3)
    db.wait(run, "failed")
    assert db.error(run)["message"] == f"sink {sink}: {message}"
    assert len(db.attempts(run)) == 1


def test_a_sink_needs_the_privilege_to_insert(
    db: Database, start_engine: StartEngine, roles: tuple[Role, Role], web: HttpServer
) -> None:
    role = roles[0]
    db.execute(f"SELECT df.grant_usage('{role.name}', include_http => true)")
    start_engine(role.dsn)
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        run = start(conn, stored(web.url + "/").to_json(), max_attempts=3)
        db.wait(run, "failed")
        assert db.error(run)["message"] == (
            "sink public.pages(body): permission denied for table pages"
        )
        db.execute(f"GRANT INSERT (body) ON pages TO {role.name}")
        db.execute(f"GRANT USAGE ON SEQUENCE pages_id_seq TO {role.name}")
        db.wait(start(conn, stored(web.url + "/").to_json()))
    assert bodies(db) == ["ok"]


def test_a_body_that_the_column_refuses_is_tried_again_as_the_policy_says(
    db: Database, engine: Engine, web: HttpServer
) -> None:
    db.execute("CREATE TABLE documents (doc jsonb)")
    web.answer("/", Answer(200, b"not yet"), Answer(200, b"[1]", JSON))
    run = db.start(
        stored(web.url + "/", "public.documents(doc)"), max_attempts=2, max_backoff="0.1 seconds"
    )
    db.wait(run)
    assert [each.outcome for each in db.attempts(run)] == ["failed", "completed"]
    assert db.attempts(run)[0].error["message"].startswith("sink public.documents(doc): invalid")
    assert db.values("SELECT doc FROM documents") == [[1]]


def test_what_is_no_success_is_a_result_and_not_stored(
    db: Database, engine: Engine, web: HttpServer
) -> None:
    web.answer("/", Answer(404, b"gone"))
    run = db.start(stored(web.url + "/"))
    db.wait(run)
    result = db.result(run)
    assert (result["status"], result["ok"], result["body"]) == (404, False, "gone")
    assert "sink" not in result
    assert bodies(db) == []


def test_no_error_of_the_insert_shows_a_secret(
    db: Database, start_engine: StartEngine, web: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINK_TOKEN", "s3cr3t")
    db.execute("CREATE TABLE documents (doc jsonb)")
    web.answer("/", Answer(200, b"s3cr3t"))
    start_engine()
    token = "{secret:SINK_TOKEN}"
    run = db.start(stored(web.url + "/", "public.documents(doc)", headers={"Authorization": token}))
    db.wait(run, "failed")
    told = json.dumps(db.error(run))
    assert "s3cr3t" not in told
    assert token in told


def test_what_a_trigger_defers_belongs_to_the_step(
    db: Database, engine: Engine, web: HttpServer
) -> None:
    db.execute(
        """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               RAISE EXCEPTION 'too late' USING ERRCODE = '23514';
           END $$;
           CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON pages DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION refuse()"""
    )
    run = db.start(stored(web.url + "/"))
    db.wait(run, "failed")
    assert db.error(run)["message"] == "sink public.pages(body): too late"
    assert bodies(db) == []


def test_a_body_larger_than_a_result_may_be_is_stored(
    db: Database, engine: Engine, web: HttpServer
) -> None:
    size = 20 * 1024 * 1024
    web.answer("/", Answer(200, b"x" * size))
    run = db.start(stored(web.url + "/"))
    db.wait(run, timeout=60)
    assert db.value("SELECT length(body) FROM pages") == db.result(run)["size"] == size


def test_on_another_database_it_is_stored_there_at_least_once(
    db: Database, engine: Engine, web: HttpServer
) -> None:
    name = f"{conninfo_to_dict(db.dsn)['dbname']}_other"
    db.execute(text.SQL("CREATE DATABASE {}").format(text.Identifier(name)).as_string())
    try:
        with psycopg.connect(make_conninfo(db.dsn, dbname=name), autocommit=True) as there:
            there.execute("CREATE TABLE raw (body bytea)")
            web.answer("/", Answer(200, PNG))
            db.wait(db.start(stored(web.url + "/", "public.raw(body)"), database=name))
            assert there.execute("SELECT body FROM raw").fetchall() == [(PNG,)]
    finally:
        db.execute(
            text.SQL("DROP DATABASE {} WITH (FORCE)").format(text.Identifier(name)).as_string()
        )


def blocked_by(db: Database, pid: int) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    return bool(db.value(query, pid))


def test_the_permit_is_held_until_the_body_is_stored(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    start_engine()
    branches = join(stored(web.url + "/a"), stored(web.url + "/b"))
    with db.transaction() as conn:
        conn.execute("LOCK TABLE pages IN SHARE MODE")
        run = db.start(with_policy(branches, http={"max_concurrency": 1}))
        wait_until(lambda: blocked_by(db, conn.info.backend_pid))
        # Another step comes and goes, and the second request is not made all the same.
        db.wait(db.start("SELECT 1"))
        scope = db.execute("SELECT in_use, waiting FROM df.policy_scopes(%s)", run).fetchone()
        assert (len(web.requests), scope) == (1, (1, 1))
        conn.rollback()
    db.wait(run)
    assert (len(web.requests), web.most, bodies(db)) == (2, 1, ["ok", "ok"])
    assert in_use(db) == (0, 0)


@pytest.mark.parametrize("ending", ["cancel", "stop"])
def test_what_is_ended_while_it_inserts_stores_nothing(
    db: Database, start_engine: StartEngine, web: HttpServer, ending: str
) -> None:
    engine = start_engine()
    with db.transaction() as conn:
        conn.execute("LOCK TABLE pages IN SHARE MODE")
        run = db.start(stored(web.url + "/"))
        wait_until(lambda: blocked_by(db, conn.info.backend_pid))
        if ending == "cancel":
            db.execute("SELECT df.cancel(%s)", run)
        else:
            began = time.monotonic()
            engine.stop()
            assert time.monotonic() - began < 3  # a second on a quiet machine
        wait_until(lambda: not blocked_by(db, conn.info.backend_pid))
        conn.rollback()
    assert bodies(db) == []
    if ending == "cancel":
        wait_until(lambda: in_use(db) == (0, 0))
        db.wait(run, "cancelled")
    else:
        start_engine()
        db.wait(run)
        assert (bodies(db), db.outcomes(run)) == (["ok"], [(0, "completed")])


GATED = """
    CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_xact_lock_shared(1);
        RETURN NEW;
    END $$;
    CREATE TRIGGER pass AFTER INSERT ON pages FOR EACH ROW EXECUTE FUNCTION pass()"""


def test_cancelled_between_insert_and_commit_it_stores_nothing(
    db: Database, engine: Engine, web: HttpServer
) -> None:
    db.execute(GATED)
    with db.transaction() as conn:
        with db.gate(1):
            run = db.start(stored(web.url + "/"))
            db.wait_at_gate(1)
            conn.execute("SELECT df.cancel(%s)", (run,))
        wait_until(lambda: blocked_by(db, conn.info.backend_pid))  # at the run's lock
        conn.commit()
    db.wait(run, "cancelled")
    wait_until(lambda: in_use(db) == (0, 0))
    assert bodies(db) == []


def test_killed_between_insert_and_commit_it_is_requested_and_stored_again(
    db: Database, spawn_engine: SpawnEngine, web: HttpServer
) -> None:
    db.execute(GATED)
    engine = spawn_engine()
    with db.gate(1):
        run = db.start(stored(web.url + "/"))
        db.wait_at_gate(1)
        engine.kill()
        spawn_engine()
        wait_until(lambda: len(web.requests) == 2)
        db.wait_at_gate(1)
        assert db.execute(BALANCE).fetchone() == (0, 0)
    db.wait(run)
    assert db.execute(BALANCE).fetchone() == (1, 1)
    assert db.outcomes(run) == [(0, "worker_lost"), (0, "completed")]


def test_rows_stored_equal_steps_completed_however_often_engines_are_killed(
    db: Database, spawn_engine: SpawnEngine, web: HttpServer
) -> None:
    db.set(max_lost=100, max_http_concurrency=4)
    moments = random.Random(28)
    web.delay = 0.01
    graph = seq(*[stored(web.url + "/")] * 5)
    runs = [db.start(graph) for _ in range(20)]
    for _ in range(8):
        engine = spawn_engine()
        done = db.value("SELECT count(*) FROM pages")
        wait_until(lambda done=done: db.value("SELECT count(*) FROM pages") > done)  # type: ignore[misc]
        moment = time.monotonic() + moments.uniform(0, 0.05)
        wait_until(lambda moment=moment: time.monotonic() >= moment)  # type: ignore[misc]
        os.kill(engine.pid, signal.SIGKILL)
        rows, completed = db.execute(BALANCE).fetchone() or (0, -1)
        assert rows == completed
    spawn_engine()
    for run in runs:
        db.wait(run, timeout=60)
    assert db.execute(BALANCE).fetchone() == (100, 100)


def test_a_session_that_cannot_be_had_costs_no_second_request(
    db: Database,
    start_engine: StartEngine,
    roles: tuple[Role, Role],
    web: HttpServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    role = roles[0]
    db.execute(f"SELECT df.grant_usage('{role.name}', include_http => true)")
    db.execute(f"GRANT INSERT ON pages TO {role.name}")
    db.execute(f"GRANT USAGE ON SEQUENCE pages_id_seq TO {role.name}")
    gate = web.gate()
    web.answer("/", Answer(200, [gate, b"ok"]))
    start_engine(role.dsn)
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        run = start(conn, stored(web.url + "/").to_json())
        wait_until(lambda: len(web.requests) == 1)
    db.execute(f"ALTER ROLE {role.name} CONNECTION LIMIT 1")
    gate.set()
    wait_until(lambda: "no session to store it" in caplog.text)
    db.execute(f"ALTER ROLE {role.name} CONNECTION LIMIT -1")
    db.wait(run)
    assert (len(web.requests), bodies(db)) == (1, ["ok"])
