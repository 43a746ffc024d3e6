"""The activity view in JupyterLab: it stays live, its slider filters, its buttons act on a run."""

from __future__ import annotations

import psycopg
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open

RUNS = """
import threading
_waits = bench.start(wb.wait_for_signal("approval"), label="release")
_tries = bench.start(wb.sql("SELECT 1 / 0"), label="rates", max_attempts=9, max_backoff=3600)
_sleeps = bench.start(wb.sleep(3600), label="nightly")
while not all(n.status == "waiting" for r in (_waits, _sleeps) for n in r.nodes): time.sleep(0.05)
while not _tries.attempts: time.sleep(0.05)
bench.activity()"""


def row(view: Locator, label: str) -> Locator:
    return view.locator("tbody tr", has=view.page.locator(".wb-second", has_text=label))


def state(view: Locator, label: str) -> Locator:
    return row(view, label).locator(".wb-status .wb-word")


def test_live_runs_are_listed_the_worst_first_and_follow_what_happens(
    notebook: Open, dsn: str
) -> None:
    book = notebook(RUNS, "_fresh = bench.start(wb.wait_for_signal('later'), label='fresh')")
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget .wb-view")
    expect(state(view, "release")).to_have_text("waiting")
    expect(row(view, "release")).to_contain_text("waits for signal approval since ")
    expect(state(view, "rates")).to_have_text("retrying")
    expect(view.locator("tbody tr").first).to_contain_text("rates")
    expect(row(view, "rates")).to_contain_text("division by zero")
    expect(row(view, "nightly")).to_contain_text("in 59 min")
    expect(view.locator(".wb-live")).to_contain_text("live")
    book.shot("activity-live-light", view)
    book.theme("Dark")
    book.shot("activity-live-dark", view)
    book.run(2)
    expect(row(view, "fresh")).to_contain_text("waits for signal later")
    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT df.cancel(instance_id) FROM df.definitions WHERE label = 'nightly'")
    expect(row(view, "nightly")).to_have_count(0)


def test_buttons_ask_act_and_say_what_happened(notebook: Open) -> None:
    book = notebook(RUNS)
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget .wb-view")
    row(view, "nightly").get_by_role("button", name="Cancel").click()
    expect(row(view, "nightly")).to_contain_text("Keep running")
    book.shot("activity-asks", view)
    view.get_by_role("button", name="Keep running").click()
    row(view, "nightly").get_by_role("button", name="Cancel").click()
    view.get_by_role("button", name="Cancel run").click()
    expect(view.locator(".wb-done")).to_contain_text("cancelled")
    expect(row(view, "nightly")).to_have_count(0)
    row(view, "rates").get_by_role("button", name="Retry now").click()
    expect(view.locator(".wb-done")).to_contain_text("tries again now")
    row(view, "release").get_by_role("button", name="Signal").click()
    view.get_by_label("data of the signal").fill('{"ok": true}')
    view.get_by_role("button", name="Send").click()
    expect(view.locator(".wb-done")).to_contain_text("signal approval sent to")
    expect(row(view, "release")).to_have_count(0)


def test_the_slider_the_filter_and_the_headings_ask_the_kernel(notebook: Open, dsn: str) -> None:
    book = notebook(RUNS)
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget .wb-view")
    expect(view.locator("tbody tr")).to_have_count(3)
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "UPDATE df.instances SET updated_at = updated_at - interval '11 minutes'"
            " WHERE id = (SELECT instance_id FROM df.definitions WHERE label = 'nightly')"
        )
    slider = view.get_by_label("idle at least")
    slider.fill("5")
    expect(view.locator("tbody tr")).to_have_count(1)
    expect(view.locator("tbody tr")).to_contain_text("nightly")
    expect(view.locator(".wb-head")).to_contain_text("1 of 3 live runs idle for at least 10 min")
    slider.fill("0")
    expect(view.locator("tbody tr")).to_have_count(3)
    view.get_by_label("show").select_option("retrying")
    expect(view.locator("tbody tr")).to_have_count(1)
    view.get_by_label("show").select_option("")
    view.get_by_label("find").fill("relea")
    expect(view.locator("tbody tr")).to_have_count(1)
    view.get_by_label("find").fill("")
    expect(view.locator("tbody tr")).to_have_count(3)
    view.get_by_role("button", name="idle", exact=False).first.click()
    expect(view.locator("tbody tr").first).to_contain_text("nightly")
