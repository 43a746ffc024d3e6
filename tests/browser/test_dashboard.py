"""The dashboard in JupyterLab: live with no cell running, a run is chosen, its buttons act or are refused."""

from __future__ import annotations

import psycopg
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open

RUNS = """
_waits = bench.start(wb.wait_for_signal("approval") >> wb.sql("SELECT 7 AS seven"), label="release")
_fails = bench.start(wb.sql("SELECT 1 / 0"), label="rates")
_sleeps = bench.start(wb.sleep(3600), label="nightly")
while not all(n.status == "waiting" for n in (*_waits.nodes[1:2], *_sleeps.nodes)): time.sleep(0.05)
while _fails.status != "failed": time.sleep(0.05)
bench.dashboard({})"""


def row(view: Locator, label: str) -> Locator:
    return view.locator(".wb-runs tbody tr", has_text=label)


def test_the_dashboard_follows_what_happens_and_shows_the_run_that_is_chosen(
    notebook: Open, dsn: str
) -> None:
    book = notebook(RUNS.format(""))
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget > .wb-view")
    expect(view.locator(".wb-head").first).to_contain_text("2 waiting")
    expect(view.locator(".wb-head").first).to_contain_text("1 engine alive")
    expect(view.locator(".wb-needs").first).to_contain_text("waits for signal approval since ")
    expect(view.locator(".wb-needs").last).to_contain_text("division by zero")
    expect(view.locator(".wb-pane-run .wb-label")).to_have_text("nightly")
    book.shot("dashboard-light", view)
    book.theme("Dark")
    book.shot("dashboard-dark", view)
    row(view, "rates").click()
    expect(view.locator(".wb-pane-run")).to_contain_text("division by zero")
    expect(row(view, "rates").get_by_role("button")).to_have_attribute("aria-pressed", "true")
    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT df.cancel(instance_id) FROM df.definitions WHERE label = 'nightly'")
    expect(row(view, "nightly")).to_contain_text("cancelled")
    view.get_by_label("show").select_option("failed")
    expect(view.locator(".wb-runs tbody tr")).to_have_count(1)
    view.get_by_label("show").select_option("")
    view.get_by_label("find").fill("relea")
    expect(view.locator(".wb-runs tbody tr")).to_have_count(1)


def test_its_buttons_act_on_the_chosen_run_and_say_what_is_refused(
    notebook: Open, dsn: str
) -> None:
    book = notebook(RUNS.format(""))
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget > .wb-view")
    row(view, "rates").click()
    view.get_by_role("button", name="Retry as new run").click()
    expect(view.locator(".wb-done")).to_contain_text(" retried as ")
    expect(row(view, "rates")).to_have_count(2)
    expect(view.locator(".wb-pane-run")).to_contain_text("retry of")  # the new run is chosen
    row(view, "nightly").click()
    view.get_by_role("button", name="Cancel", exact=True).click()
    view.get_by_role("button", name="Cancel run").click()
    expect(row(view, "nightly")).to_contain_text("cancelled")
    row(view, "release").click()
    view.get_by_role("button", name="Cancel", exact=True).click()
    with psycopg.connect(dsn) as conn:  # while the question is open, it ends
        conn.execute(
            "SELECT df.signal(instance_id, 'approval', '1') FROM df.definitions WHERE label = 'release'"
        )
    expect(row(view, "release")).to_contain_text("completed")
    view.get_by_role("button", name="Cancel run").click()
    expect(view.locator(".wb-refusal")).to_contain_text("had already ended")


def test_a_read_only_dashboard_has_no_buttons_and_the_kernel_refuses(notebook: Open) -> None:
    book = notebook(RUNS.format("read_only=True"))
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget > .wb-view")
    row(view, "rates").click()
    expect(view.locator(".wb-pane-run")).to_contain_text("division by zero")
    expect(view.get_by_role("button", name="Retry as new run")).to_have_count(0)
    expect(view).to_contain_text("read only")


def test_a_list_of_runs_is_live_and_shows_a_run_on_a_click(notebook: Open) -> None:
    source = RUNS.format("").replace("bench.dashboard()", "bench.runs()")
    book = notebook(source, "_more = bench.start(wb.sql('SELECT 2'), label='later')")
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget > .wb-view")
    expect(view.locator(".wb-runs tbody tr")).to_have_count(3)
    book.run(2)
    expect(row(view, "later")).to_contain_text("completed")
    row(view, "release").click()
    expect(view.locator(".wb-pane-run")).to_contain_text("waits for signal approval")
