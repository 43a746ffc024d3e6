"""Who holds an HTTP step back, since when, and its place in line: as rows, in words, in df.explain."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.conftest import Role, StartEngine
from tests.engine.http_server import Answer, HttpServer, http_server
from tests.engine.support import Database, start, wait_until
from workbench.graph import Node, http, join
from workbench.graph.policies import with_policy
from workbench.store.explain import explain, held_rows, run_rows, scope_rows
from workbench.store.explain_records import HeldRow


@pytest.fixture
def web(db: Database) -> Iterator[HttpServer]:
    db.execute("SELECT df.set_setting('http_allow', '[\"127.0.0.1\"]')")
    with http_server() as server:
        yield server


@pytest.fixture
def gate(web: HttpServer) -> Iterator[threading.Event]:
    """No request is answered until it is set."""
    gate = web.gate()
    web.answer("/", Answer(body=[gate, b"ok"]))
    yield gate
    gate.set()


def limited(node: Node, limit: int) -> Node:
    return with_policy(node, http={"max_concurrency": limit})


def held(db: Database, run: str, many: int) -> list[HeldRow]:
    """The rows as soon as there are so many, and all permits are taken."""
    wait_until(lambda: len(held_rows(db.conn, run)) == many, what=f"{many} are held back")
    return held_rows(db.conn, run)


def test_a_full_scope_is_told_with_its_holders_and_each_ones_place(
    db: Database, start_engine: StartEngine, web: HttpServer, gate: threading.Event
) -> None:
    start_engine(ceiling=8)
    run = db.start(limited(join(*[http(web.url)] * 5), 2))
    rows = held(db, run, 3)
    assert [(row.barrier, row.scope, row.max_concurrency, row.in_use) for row in rows] == [
        (f"{run}/0", 0, 2, 2)
    ] * 3
    assert sorted(str(row.place) for row in rows) == ["1", "2", "3"]
    running = {n["node_id"] for n in db.nodes(run) if n["token"] is not None}
    assert {holder["node"] for holder in rows[0].holders} == running
    engine = db.value("SELECT host || ':' || pid FROM df.engines")
    assert {(holder["run"], holder["engine"]) for holder in rows[0].holders} == {(run, engine)}
    gate.set()
    db.wait(run)
    assert held_rows(db.conn, run) == []


def test_the_line_is_in_the_order_of_becoming_ready(
    db: Database, start_engine: StartEngine, web: HttpServer, gate: threading.Event
) -> None:
    start_engine(ceiling=8)
    run = db.start(limited(join(*[http(web.url)] * 4), 1))
    rows = held(db, run, 3)
    last = rows[0].node_id
    db.execute("UPDATE df.nodes SET ready_at = df.now() WHERE node_id = %s", last)
    assert {row.node_id: row.place for row in held_rows(db.conn, run)} == {
        rows[1].node_id: 1,
        rows[2].node_id: 2,
        last: 3,
    }


def test_the_innermost_full_scope_is_named_and_only_what_it_holds(
    db: Database, start_engine: StartEngine, web: HttpServer, gate: threading.Event
) -> None:
    start_engine(ceiling=8)
    inner = limited(join(http(web.url), http(web.url), http(web.url)), 1)
    run = db.start(limited(join(inner, http(web.url), http(web.url)), 3))
    rows = held(db, run, 2)
    assert [(row.barrier, row.place) for row in rows] == [(f"{run}/1", 1), (f"{run}/1", 2)]
    gate.set()
    db.wait(run)


def test_the_ceiling_is_named_where_no_scope_is_full(
    db: Database, start_engine: StartEngine, web: HttpServer, gate: threading.Event
) -> None:
    db.set(max_http_concurrency=1)
    start_engine(ceiling=8)
    first = db.start(http(web.url))
    db.wait_running(first)
    run = db.start(limited(http(web.url), 2))
    (row,) = held(db, run, 1)
    assert (row.barrier, row.scope, row.max_concurrency, row.in_use, row.place) == (
        "http ceiling", None, 1, 1, None,
    )  # fmt: skip
    assert [(holder["run"], holder["node"]) for holder in row.holders] == [(first, 0)]
    assert run_rows(db.conn, run)[0].waits_for == "held back by the HTTP ceiling"
    text = explain(db.conn, run)
    assert re.search(
        rf"\n\nHTTP ceiling 1 of 1, 1 waiting: #0 of {first} since [\d:]+ on \S+$", text
    )
    gate.set()
    db.wait(run)


def test_other_roles_holders_are_told_without_their_runs(
    db: Database,
    roles: tuple[Role, Role],
    start_engine: StartEngine,
    web: HttpServer,
    gate: threading.Event,
) -> None:
    db.set(max_http_concurrency=1)
    start_engine(ceiling=8)
    first = db.start(http(web.url))
    db.wait_running(first)
    with psycopg.connect(roles[0].dsn, autocommit=True) as conn:
        run = start(conn, http(web.url).to_json())
        # As an engine of that role would leave it.
        db.execute(
            "UPDATE df.nodes SET status = 'ready', ready_at = df.now() WHERE instance_id = %s", run
        )
        (row,) = held_rows(conn, run)
        assert row.holders == [{"others": 1}]
        assert explain(conn, run).endswith("\n\nHTTP ceiling 1 of 1, 1 waiting: another role's run")


def test_a_live_run_shows_its_scopes_its_lines_and_who_is_in(
    db: Database, start_engine: StartEngine, web: HttpServer, gate: threading.Event
) -> None:
    start_engine(ceiling=8)
    run = db.start(limited(join(*[http(web.url)] * 3), 2))
    (row,) = held(db, run, 1)
    text = explain(db.conn, run)
    assert f"JOIN (3) [{run}/0: http ≤ 2, 2 in use, 1 waiting] ⏳" in text
    assert f"○ 1st in line for {run}/0" in text
    since = r"since \d\d:\d\d:\d\d on \S+"
    one, other = (holder["node"] for holder in row.holders)
    assert re.search(
        rf"\n\nHTTP scope {run}/0 2 of 2, 1 waiting: #{one} {since}, #{other} {since}$", text
    )
    assert [
        (s.scope, s.max_concurrency, s.in_use, s.waiting) for s in scope_rows(db.conn, run)
    ] == [(f"{run}/0", 2, 2, 1)]
    gate.set()
    db.wait(run)
    text = explain(db.conn, run)
    assert "JOIN (3) [http ≤ 2] ✓" in text
    assert "in line" not in text
    assert "waiting" not in text


def test_a_run_says_which_scope_is_full_beside_what_is_under_way(
    db: Database, start_engine: StartEngine, web: HttpServer, gate: threading.Event
) -> None:
    start_engine(ceiling=8)
    run = db.start(limited(join(*[http(web.url)] * 6), 2))
    held(db, run, 4)
    reason = db.value("SELECT reason FROM df.instance_activity() WHERE instance_id = %s", run)
    assert re.fullmatch(rf"runs for \S+ s; HTTP scope {run}/0 full \(2 of 2\), 4 in line", reason)


def test_a_cancelled_request_that_has_not_ended_keeps_the_next_in_line(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine(ceiling=8)
    wait_until(lambda: db.value("SELECT count(*) FROM df.engines") == 1)
    with db.conn.transaction():
        run = db.start(limited(join(http("http://a"), http("http://b")), 1))
        db.execute(
            "UPDATE df.nodes SET status = 'ready', ready_at = df.now() - interval '1 minute'"
            " WHERE gate IS NOT NULL"
        )
        db.execute(
            "INSERT INTO df.releasing SELECT gen_random_uuid(), %s, i.submitted_by, e.id, 0"
            " FROM df.instances i, df.engines e",
            run,
        )
        reasons = db.values("SELECT reason FROM df.instance_activity()")
        assert reasons == [f"HTTP scope {run}/0 full (1 of 1), 1st in line"]
        assert "waiting: a cancelled one on " in explain(db.conn, run)
        raise psycopg.Rollback
