"""An engine that is told to stop, or that nobody hears any more: it ends soon, and holds nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.engine import step_handlers as handlers
from tests.engine.conftest import StartEngine
from tests.engine.http_server import Answer, HttpServer, http_server
from tests.engine.proxy import Proxy
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph import Node, http, py, sql

SOON = 2.0  # seconds; it is one on a quiet machine


@pytest.fixture
def web(db: Database) -> Iterator[HttpServer]:
    db.execute("SELECT df.set_setting('http_allow', '[\"127.0.0.1\"]')")
    with http_server() as server:
        server.answer("/held", Answer(body=[server.gate(), b"ok"]))
        yield server


def stops(engine: Engine) -> float:
    """How many seconds the engine takes to end."""
    began = time.monotonic()
    engine.stop()
    assert not engine.alive
    return time.monotonic() - began


def test_an_engine_with_a_request_under_way_ends_and_gives_it_back(
    db: Database, start_engine: StartEngine, web: HttpServer
) -> None:
    engine = start_engine()
    run = db.start(http(f"{web.url}/held"))
    wait_until(lambda: len(web.requests) == 1)
    assert stops(engine) < SOON
    assert web.hung_up.wait(5)
    node = db.node(run)
    assert (node["status"], node["attempt"], node["losses"]) == ("ready", 0, 0)
    assert (db.attempts(run), db.engines()) == ([], [])


@pytest.mark.parametrize(
    "leaf", [sql("SELECT pg_sleep(60)"), py(handlers.sleep_blocking, seconds=4)]
)
def test_an_engine_ends_whatever_its_steps_do(
    db: Database, start_engine: StartEngine, leaf: Node
) -> None:
    engine = start_engine()
    run = db.start(leaf)
    db.wait_running(run)
    assert stops(engine) < SOON
    assert (db.node(run)["status"], db.engines()) == ("ready", [])


@pytest.mark.parametrize("leaf", [None, sql("SELECT pg_sleep(60)")])
def test_an_engine_whose_database_is_silent_ends(
    db: Database, start_engine: StartEngine, proxy: Proxy, leaf: Node | None
) -> None:
    engine = start_engine(proxy.dsn)
    if leaf is not None:
        db.wait_running(db.start(leaf))
    proxy.fall_silent()
    assert stops(engine) < SOON


def test_an_engine_ends_while_it_reaches_for_a_database_that_is_silent(
    db: Database, proxy: Proxy
) -> None:
    proxy.fall_silent()
    engine = Engine(proxy.dsn)
    starting = threading.Thread(target=engine.start)
    starting.start()
    wait_until(lambda: proxy.clients)
    assert stops(engine) < SOON
    starting.join(5)
    assert not starting.is_alive()


def test_an_engine_ends_while_its_database_is_away(
    db: Database, start_engine: StartEngine, proxy: Proxy
) -> None:
    engine = start_engine(proxy.dsn)
    entered = proxy.clients
    proxy.fall_silent()
    proxy.cut()
    wait_until(lambda: proxy.clients > entered, what="it tries to come back")
    assert stops(engine) < SOON


def test_requests_are_given_up_before_others_can_take_their_engine_for_dead(
    db: Database, start_engine: StartEngine, proxy: Proxy, web: HttpServer
) -> None:
    db.set(heartbeat_limit=3, max_http_concurrency=1)
    start_engine(proxy.dsn)
    run = db.start(http(f"{web.url}/held"))
    wait_until(lambda: len(web.requests) == 1)
    start_engine()
    proxy.fall_silent()
    assert web.hung_up.wait(10)
    assert db.engines("died_at IS NOT NULL") == []
    wait_until(lambda: web.now == 0, what="the server has seen it")
    wait_until(lambda: len(web.requests) == 2, what="it is made by the other engine")
    assert db.outcomes(run) == [(0, "worker_lost")]
    assert web.most == 1
    db.execute("SELECT df.cancel(%s)", run)
