"""HTTP steps of real runs: their results in later steps, their failures under the run's policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.conftest import Role, StartEngine
from tests.engine.http_server import Answer, HttpServer, http_server
from tests.engine.support import Database, start, wait_until
from workbench.graph.build import sql
from workbench.graph.http import http, http_multipart
from workbench.graph.node import Node
from workbench.graph.secret import secret

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def web(db: Database) -> Iterator[HttpServer]:
    db.execute("SELECT df.set_setting('http_allow', '[\"127.0.0.1\"]')")
    with http_server() as web:
        yield web


def start_and_wait(db: Database, graph: Node, status: str = "completed", **options: Any) -> str:
    run = db.start(graph, **options)
    db.wait(run, status)
    return run


def test_a_response_is_a_result_that_later_steps_read(db: Database, web: HttpServer) -> None:
    web.answer("/a%20b", Answer(200, b'{"n": 40}', [("ETag", "e1")]))
    graph = (
        sql("SELECT 'a b' AS name, 7 AS id").named("x")
        >> http(web.url + "/$x?id=$x.id", headers={"X-Run": "{sys_instance_id}"}).named("r")
        >> sql(
            "SELECT $r.status AS s, ($r.body::jsonb ->> 'n')::int + 2 AS n, $r.headers.etag AS e"
        )
    )
    run = start_and_wait(db, graph)
    assert db.rows(run) == [{"s": 200, "n": 42, "e": "e1"}]
    assert web.requests[0].target == "/a%20b?id=7"
    assert web.requests[0].header("x-run") == run


def test_a_form_carries_a_bytea_column(db: Database, web: HttpServer) -> None:
    graph = sql(r"SELECT '\x00ff'::bytea AS data").named("f") >> http_multipart(
        web.url, [{"name": "file", "data_b64": "$f.data", "filename": "f.bin"}]
    )
    start_and_wait(db, graph)
    assert b'filename="f.bin"\r\n\r\n\x00\xff\r\n' in web.requests[0].body


def test_a_server_error_is_tried_again_when_it_asks(db: Database, web: HttpServer) -> None:
    web.answer("/", Answer(503, b"busy", [("Retry-After", "0")]), Answer(200, b"done"))
    run = start_and_wait(db, http(web.url + "/"), max_attempts=2)
    first, second = db.attempts(run)
    assert (first.outcome, first.delay, first.source) == ("failed", 0.0, "http_retry_after")
    assert first.error["message"] == f"HTTP GET {web.url}/ returned 503: busy"
    assert second.outcome == "completed"
    assert db.result(run)["body"] == "done"


def test_retry_after_is_not_capped_by_the_backoff(db: Database, web: HttpServer) -> None:
    web.answer("/", Answer(429, b"", [("Retry-After", "120")]))
    run = db.start(http(web.url + "/", retry_statuses=[429]), max_attempts=2)
    (attempt,) = wait_until(lambda: db.attempts(run))
    assert (attempt.delay, attempt.source) == (120.0, "http_retry_after")


def test_a_refused_destination_fails_at_once(db: Database, web: HttpServer) -> None:
    db.execute("SELECT df.set_setting('http_allow', NULL)")
    run = start_and_wait(db, http(web.url + "/"), "failed", max_attempts=5)
    assert db.error(run)["message"].startswith(
        "Blocked: the resolved IP address for '127.0.0.1' is in a restricted range."
    )
    assert len(db.attempts(run)) == 1
    assert web.requests == []


def test_a_cancelled_run_hangs_up(db: Database, web: HttpServer) -> None:
    web.answer("/", Answer(200, [b"a", web.gate()]))
    run = db.start(http(web.url + "/"))
    wait_until(lambda: web.requests)
    db.execute("SELECT df.cancel(%s)", run)
    assert web.hung_up.wait(10)
    assert db.statuses(run) == ["cancelled"]


def test_a_secret_is_sent_and_stored_nowhere(
    db: Database, web: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_TOKEN", "t0p-s3cret")
    web.answer("/fails", Answer(500, b"t0p-s3cret"))
    headers = {"Authorization": "Bearer " + secret("THE_TOKEN")}
    start_and_wait(db, http(web.url + "/ok", headers=headers))
    start_and_wait(db, http(web.url + "/fails", headers=headers), "failed", max_attempts=2)
    assert {seen.header("authorization") for seen in web.requests} == {"Bearer t0p-s3cret"}
    tables = db.values("SELECT tablename FROM pg_tables WHERE schemaname = 'df'")
    for table in tables:
        rows = db.values(f"SELECT row_to_json(t)::text FROM df.{table} t")
        assert not [row for row in rows if "t0p" in row], table


def test_a_missing_secret_waits_and_uses_no_attempt(
    db: Database, web: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LATE_TOKEN", raising=False)
    monkeypatch.setattr("workbench.engine.http.NO_SECRET", 0.02)
    run = db.start(http(web.url + "/", headers={"A": secret("LATE_TOKEN")}))
    wait_until(lambda: db.node(run)["status"] == "running")
    monkeypatch.setenv("LATE_TOKEN", "here")
    db.wait(run)
    assert [attempt.attempt for attempt in db.attempts(run)] == [1]
    assert web.requests[0].header("a") == "here"


def test_the_privilege_is_looked_up_when_the_step_runs(
    db: Database, web: HttpServer, roles: tuple[Role, Role], start_engine: StartEngine
) -> None:
    """A graph written by hand does not get around it."""
    ann, _ = roles
    config = json.dumps({"url": web.url + "/", "method": "GET"})
    graph = json.dumps({"node_type": "HTTP", "query": config})
    start_engine(ann.dsn)
    own = Database(ann.dsn)
    try:
        refused = start(own.conn, graph)
        db.wait(refused, "failed")
        assert db.error(refused)["message"].startswith(
            f"Blocked: role '{ann.name}' does not have EXECUTE privilege on df.http(). "
        )
        db.execute(
            f"GRANT EXECUTE ON FUNCTION df.http(text, text, text, jsonb, integer) TO {ann.name}"
        )
        db.wait(start(own.conn, graph))
    finally:
        own.close()


def test_requests_run_side_by_side_without_threads(db: Database, web: HttpServer) -> None:
    gate = web.gate()
    web.answer("/", Answer(200, [b"a", gate]))
    runs = [db.start(http(web.url + "/")) for _ in range(6)]
    wait_until(lambda: web.now == 6)
    gate.set()
    for run in runs:
        db.wait(run)
