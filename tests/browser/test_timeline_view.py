"""The timeline in JupyterLab: drawn by plotly offline, live, in the theme's colours."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open

CASE_FIVE = """
def shaky(ctx):
    if ctx.attempt < 3:
        raise ValueError(f"e{ctx.attempt}")
    return "passes"

run = bench.start(wb.py(shaky).named("fetch") >> wb.wait_for_signal("go"), max_attempts=3)
while len(run.attempts) < 3: time.sleep(0.05)
run.timeline()"""

BARS = ".wb-plot .bars .point path"


def chart(view: Locator) -> Locator:
    return view.locator(".wb-plot.js-plotly-plot")


def point_at(bar: Locator, label: Locator) -> None:
    """Move the mouse over a bar until its label is there: the picture may just be drawn anew."""
    deadline = time.monotonic() + 30
    while not label.text_content() and time.monotonic() < deadline:
        box = bar.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        bar.page.mouse.move(x - 3, y, steps=2)
        bar.page.mouse.move(x, y, steps=4)
        bar.page.wait_for_timeout(100)


def test_attempts_and_labelled_waits_are_drawn_offline_and_followed(notebook: Open) -> None:
    book = notebook(CASE_FIVE, "run.signal('go'); _ = run.wait()", "run.timeline()")
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget .wb-view")
    expect(view.locator(BARS)).to_have_count(6)  # three attempts, two waits, and the signal's
    expect(chart(view).get_by_text("backoff", exact=True)).to_have_count(2)
    expect(chart(view)).to_contain_text("fetch")
    expect(view.locator(".wb-lines")).to_be_hidden()
    expect(chart(view).locator(".shapelayer path")).to_have_count(1)
    book.shot("timeline-live-light", view)
    light = chart(view).locator(".ytick text").first.evaluate("e => getComputedStyle(e).fill")
    book.theme("Dark")
    page = view.page
    page.wait_for_function(
        "before => getComputedStyle(document.querySelector('.wb-plot .ytick text')).fill !== before",
        arg=light,
    )
    book.shot("timeline-live-dark", view)
    point_at(view.locator(BARS).first, chart(view).locator(".hoverlayer"))
    expect(chart(view).locator(".hoverlayer")).to_contain_text(re.compile("e1|completed"))
    book.shot("timeline-hover-dark", view)
    book.run(2)
    expect(view.locator(".wb-pill .wb-word")).to_have_text("completed")
    expect(chart(view).locator(".shapelayer path")).to_have_count(0)
    book.run(3)
    second = book.output(3).locator(".wb-widget .wb-view")
    expect(second.locator(BARS)).to_have_count(6)


def test_loops_fold_to_iterations_and_steps_are_found_by_name(notebook: Open) -> None:
    book = notebook(
        """
run = bench.start(wb.loop(wb.sql("SELECT 1").named("tick"), min_interval=0.1), label="ticker")
while run.nodes[0].iteration < 5: time.sleep(0.05)
run.cancel()
_ = run.wait()
run.timeline()"""
    )
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget .wb-view")
    expect(chart(view)).to_contain_text("tick")
    folded = view.locator(BARS).count()
    view.get_by_label("all iterations").check()
    expect(view.locator(BARS)).not_to_have_count(folded)
    book.shot("timeline-loop", view)
    view.get_by_label("find").fill("LOOP")
    expect(chart(view)).not_to_contain_text("tick")
