"""HTTP policies in JupyterLab: frames around what shares a limit, and who holds the others up."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.engine.http_server import Answer, HttpServer, http_server


@pytest.fixture
def web(dsn: str) -> Iterator[HttpServer]:
    """A server that answers when the test's gate is set."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name, value in (
            ("http_allow", '["127.0.0.1"]'),
            ("max_http_concurrency", "8"),
            ("max_activity_concurrency", "16"),
        ):
            conn.execute("SELECT df.set_setting(%s, %s::jsonb)", (name, value))
    with http_server() as server:
        yield server


@pytest.fixture
def gate(web: HttpServer) -> Iterator[threading.Event]:
    gate = web.gate()
    web.answer("/", Answer(body=[gate, b"ok"]))
    yield gate
    gate.set()


def test_a_full_policy_is_a_frame_with_its_holders(
    notebook: Open, web: HttpServer, gate: threading.Event
) -> None:
    crawl = f"""
pages = wb.with_policy(wb.join(*[wb.http({web.url!r})] * 4), http={{"max_concurrency": 2}})
crawl = wb.sql("SELECT 'seeds' AS s") >> pages >> wb.sql("SELECT 'indexed' AS i")
crawl"""
    held = """
run = bench.start(crawl, label="crawl")
while bench.query(f"SELECT count(*) AS n FROM df._held_back('{run.id}')").n[0] < 2: time.sleep(0.05)
run.explain()"""
    book = notebook(crawl, held, "run.wait(); run.explain()")
    book.run(0, 1, 2)
    expect(book.output(1).locator(".wb-scope-head")).to_have_text("HTTP ≤ 2")
    view = book.output(2).locator(".wb-view")
    head = view.locator(".wb-scope-head")
    expect(head).to_contain_text("2 in use · 2 waiting")
    expect(view.get_by_text("1st in line for ")).to_have_count(1)
    expect(view.get_by_text("2nd in line for ")).to_contain_text("since")
    for theme in ("Light", "Dark"):
        book.theme(theme)
        book.shot(f"policy-graph-{theme.lower()}", book.output(1).locator(".wb-view"))
        book.shot(f"policy-held-{theme.lower()}", view)
    gate.set()
    book.run(3)
    after = book.output(3).locator(".wb-view")
    expect(after.locator(".wb-scope-head")).to_contain_text("HTTP ≤ 2")
    expect(after.get_by_text("in line for")).to_have_count(0)
