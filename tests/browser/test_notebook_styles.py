"""Static views in JupyterLab, whose own rules for lists, tables and code mean bare ones."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open


def look(element: Locator, name: str) -> str:
    return str(element.evaluate("(e, name) => getComputedStyle(e)[name]", name))


def test_a_finished_run_and_a_list_of_runs_keep_their_own_looks(notebook: Open) -> None:
    book = notebook("bench.start('SELECT 1 AS n').wait()", "bench.runs()")
    book.run(0, 1, 2)
    run, runs = book.output(1), book.output(2)
    expect(runs.locator("td").first).to_be_visible()

    assert look(run.locator(".wb-steps"), "listStyleType") == "none"
    assert look(run.locator(".wb-steps"), "paddingLeft") == "8px"
    assert look(run.locator(".wb-facts"), "listStyleType") == "none"
    assert look(run.locator(".wb-title code"), "backgroundColor") == "rgba(0, 0, 0, 0)"
    assert look(runs.locator("table"), "tableLayout") == "auto"
    assert look(runs.locator("td").first, "textAlign") == "left"
