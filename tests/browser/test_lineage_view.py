"""Lineages, failures and attempts in JupyterLab: what they show, and the buttons that retry and resume."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Open

RUNS = """
def fetch(day):
    raise ValueError(f"no prices for {day}")
_graph = wb.sql("SELECT '2026-11-30' AS day").named("day") >> wb.py(fetch, day=wb.ref("day")["day"]).named("fetch")
first = bench.start(_graph, label="prices").wait(20)
_second = first.retry().wait(20)
_third = first.retry().wait(20)
_bad = bench.start(wb.sql("SELECT 1 AS a,\\n       nothing AS b"), label="typo").wait(20)
"""


def test_a_failed_leaf_of_a_lineage_is_retried_by_its_button(notebook: Open) -> None:
    book = notebook(RUNS, "first.lineage()")
    book.run(0, 1, 2)
    view = book.output(2).locator(".wb-widget .wb-view")
    rows = view.locator(".wb-restart")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("this run")
    expect(rows.first).to_contain_text("ValueError: no prices for 2026-11-30")
    expect(view.get_by_role("button", name="Retry")).to_have_count(2)
    book.shot("lineage-light", view)
    book.theme("Dark")
    book.shot("lineage-dark", view)
    view.get_by_role("button", name="Retry").first.click()
    expect(view.locator(".wb-done")).to_contain_text("retried as")
    expect(rows).to_have_count(4)


def test_a_failed_run_has_buttons_to_retry_and_to_resume(notebook: Open) -> None:
    book = notebook(RUNS, "first")
    book.run(0, 1, 2)
    view = book.output(2).locator(".wb-widget .wb-view")
    book.shot("failed-run", view)
    view.get_by_role("button", name="Retry as new run").click()
    expect(view.locator(".wb-done")).to_contain_text("retried as")
    view.get_by_role("button", name="Resume").click()
    expect(view.locator(".wb-done")).to_contain_text("resumed as")


def test_failures_open_to_an_example_and_attempts_show_the_place(notebook: Open) -> None:
    book = notebook(
        RUNS, "bench.failures()", "_bad.failure", "first.failure", "first.resume_plan()"
    )
    book.run(0, 1, 2, 3, 4, 5)
    failures, statement, handler, plan = (book.output(n).locator(".wb-view") for n in (2, 3, 4, 5))
    expect(failures.locator(".wb-failure")).to_have_count(2)
    expect(failures).to_contain_text("3×")
    failures.locator(".wb-failure").last.click()
    expect(failures.locator(".wb-detail").last).to_contain_text(
        "ValueError: no prices for 2026-11-30"
    )
    expect(statement.locator(".wb-caret")).to_contain_text("^")
    expect(handler).to_contain_text('{"day": "2026-11-30"}')
    expect(plan).to_contain_text("reused from #1")
    for look in ("Light", "Dark"):
        book.theme(look)
        for name, view in (
            ("failures", failures),
            ("attempt-sql", statement),
            ("attempt-python", handler),
            ("plan", plan),
        ):
            book.shot(f"{name}-{look.lower()}", view)
