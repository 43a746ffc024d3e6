"""A run as a cell's last line, in JupyterLab: it stays live, its button acts, it ends when unseen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open

# A step, or a cell, goes on when the test has made the file that it waits for.
GATE = """
from pathlib import Path
def gate(path):
    while not Path(path).exists():
        time.sleep(0.02)
    return Path(path).name
"""


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    return tmp_path


@contextmanager
def locked(dsn: str) -> Iterator[psycopg.Connection]:
    """Hold what the steps `WAIT` wait for, until the end of the block or a rollback."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(7)")
        yield connection


WAIT = "SELECT pg_advisory_xact_lock(7)"


def status(view: Locator) -> Locator:
    return view.locator(".wb-pill .wb-word")


def step(view: Locator, name: str) -> Locator:
    """The row of a named step."""
    return view.locator(".wb-row", has=view.page.locator(".wb-name b", has_text=name))


def step_status(view: Locator, name: str) -> Locator:
    return step(view, name).locator(".wb-status .wb-word")


def foot(view: Locator) -> Locator:
    return view.locator(".wb-live")


def test_a_run_is_shown_live_while_a_cell_blocks_and_while_none_runs(
    notebook: Open, gates: Path
) -> None:
    one, two, cell = (str(gates / name) for name in ("one", "two", "cell"))
    book = notebook(
        GATE,
        f"""
run = bench.start(
    wb.sql("SELECT pg_sleep(0.3)").named("nap")
    >> wb.py(gate, path={one!r}).named("gate_one")
    >> wb.sql("SELECT pg_sleep(0.3), 5 AS n").named("second_nap")
    >> wb.py(gate, path={two!r}).named("gate_two")
    >> wb.sql("SELECT 42 AS answer").named("last"),
    label="nightly",
)
run""",
        f"gate({cell!r}); print('the cell is over')",
    )
    book.run_all()
    view = book.output(2).locator(".wb-widget .wb-view")
    expect(step_status(view, "gate_one")).to_have_text("running")
    expect(foot(view)).to_have_text("live")
    Path(one).touch()
    expect(step_status(view, "second_nap")).to_have_text("completed")
    expect(step_status(view, "gate_two")).to_have_text("running")
    expect(book.output(3)).to_have_count(0)
    book.shot("run-live-light", view)
    Path(cell).touch()
    book.idle()
    expect(step_status(view, "last")).to_have_text("pending")
    Path(two).touch()
    expect(status(view)).to_have_text("completed")
    expect(view.locator(".wb-part")).to_contain_text("42")
    expect(foot(view)).to_contain_text("as of 20")
    expect(view.get_by_role("button")).to_have_count(0)


def test_running_durations_run_between_updates(notebook: Open, dsn: str) -> None:
    with locked(dsn):
        book = notebook(f"run = bench.start(wb.sql({WAIT!r}).named('held')); run")
        book.run_all()
        view = book.output(1).locator(".wb-view")
        expect(step_status(view, "held")).to_have_text("running")
        picture = view.element_handle()
        seconds = "picture => parseFloat(picture.querySelector('.wb-row .wb-time').textContent)"
        first = picture.evaluate(seconds)
        view.page.wait_for_function(f"picture => ({seconds})(picture) > {first} + 1", arg=picture)


def test_what_is_open_focused_and_scrolled_stays_so(notebook: Open, gates: Path) -> None:
    one, two = (str(gates / name) for name in ("one", "two"))
    book = notebook(
        GATE,
        f"""
run = bench.start(
    wb.sql("SELECT n FROM generate_series(1, 60) AS n").named("numbers")
    >> wb.py(gate, path={one!r}).named("gate_one")
    >> wb.py(gate, path={two!r}).named("gate_two"),
)
run""",
    )
    book.run_all()
    view = book.output(2).locator(".wb-view")
    expect(step_status(view, "gate_one")).to_have_text("running")
    numbers = step(view, "numbers")
    numbers.click()
    table = view.locator("details[open] .wb-scroll")
    table.evaluate("element => { element.scrollTop = 80; }")
    Path(one).touch()
    expect(step_status(view, "gate_two")).to_have_text("running")
    expect(table).to_be_visible()
    assert table.evaluate("element => element.scrollTop") == 80
    expect(numbers).to_be_focused()
    Path(two).touch()


def test_a_run_that_another_process_executes_is_followed(notebook: Open, dsn: str) -> None:
    book = notebook(
        f"run = bench.start(wb.sql({WAIT!r}).named('held') >> wb.sql('SELECT 1').named('last')); run",
        connect=", engine=False",
    )
    with locked(dsn) as lock:
        book.run_all()
        view = book.output(1).locator(".wb-view")
        expect(view).to_contain_text("No engine is alive to advance it")
        command = [sys.executable, "-m", "workbench", "worker", "--quiet", "--dsn", dsn]
        with subprocess.Popen(command) as worker:
            try:
                expect(step_status(view, "held")).to_have_text("running")
                lock.rollback()
                expect(status(view)).to_have_text("completed")
            finally:
                worker.terminate()
                worker.wait(20)


def test_cancel_asks_once_and_says_what_happened(notebook: Open, dsn: str) -> None:
    start = f"run = bench.start(wb.sql({WAIT!r}).named('held')); run"
    book = notebook(start, start)
    with locked(dsn) as lock:
        book.run_all()
        view, other = (book.output(cell).locator(".wb-view") for cell in (1, 2))
        for each in (view, other):
            expect(step_status(each, "held")).to_have_text("running")
        view.get_by_role("button", name="Cancel").click()
        expect(view.get_by_role("button", name="Keep running")).to_be_focused()
        view.page.keyboard.press("Escape")
        expect(view.get_by_role("button", name="Cancel")).to_be_focused()
        view.get_by_role("button", name="Cancel").click()
        book.shot("run-cancel", view)
        view.get_by_role("button", name="Cancel run").click()
        expect(status(view)).to_have_text("cancelled")
        expect(view.get_by_role("button")).to_have_count(0)

        other.get_by_role("button", name="Cancel").click()
        lock.rollback()
        expect(status(other)).to_have_text("completed")
        other.get_by_role("button", name="Cancel run").click()
        refusal = foot(other).locator(".wb-refusal")
        expect(refusal).to_have_text("not cancelled: the run had already ended (completed)")


def test_an_output_that_is_cleared_stops_the_updates(notebook: Open, dsn: str) -> None:
    count = """
from workbench.views.live import updater
deadline = time.monotonic() + 10
while updater.shown() and time.monotonic() < deadline:
    time.sleep(0.01)
print(len(updater.shown()), "shown,", bench._news.subscribers, "subscribed")
"""
    book = notebook(f"run = bench.start(wb.sql({WAIT!r}).named('held')); run", "run", count)
    with locked(dsn):
        book.run(0, 1, 2)
        views = [book.output(cell).locator(".wb-view") for cell in (1, 2)]
        for view in views:
            expect(step_status(view, "held")).to_have_text("running")
        book.clear(1)
        book.clear(2)
        book.run(3)
        expect(book.output(3)).to_have_text("0 shown, 0 subscribed")
        book.run(2)  # shown again, it is followed again
        expect(foot(views[1])).to_have_text("live")
    expect(status(views[1])).to_have_text("completed")


def test_a_page_that_is_loaded_again_shows_the_run_as_it_is_now(notebook: Open, dsn: str) -> None:
    steps = f"wb.sql({WAIT!r}).named('held') >> wb.sql('SELECT 1').named('last')"
    book = notebook(f"run = bench.start({steps}); run")
    with locked(dsn):
        book.run_all()
        expect(step_status(book.output(1).locator(".wb-view"), "held")).to_have_text("running")
        book.reload()
        view = book.output(1).locator(".wb-view")
        expect(foot(view)).to_have_text("live")
    expect(status(view)).to_have_text("completed")


def test_a_closed_bench_is_told_in_the_view(notebook: Open, dsn: str) -> None:
    book = notebook(f"run = bench.start(wb.sql({WAIT!r})); run", "bench.close()")
    with locked(dsn):
        book.run(0, 1)
        view = book.output(1).locator(".wb-view")
        expect(foot(view)).to_have_text("live")
        book.run(2)
        expect(foot(view)).to_contain_text("not current: this bench is closed")


def test_the_picture_follows_the_theme(notebook: Open) -> None:
    book = notebook(
        """
def flaky(rows):
    raise ConnectionError("the feed does not answer")
""",
        """
run = bench.start(
    wb.sql(
        "SELECT g AS id, 'customer ' || g AS name, now() AS seen, round(g * 1.7, 2) AS total"
        " FROM generate_series(1, 812) AS g"
    ).named("orders")
    >> wb.sql("SELECT pg_sleep(0.8)")
    >> wb.py(flaky, rows=wb.ref("orders")).named("clean")
    >> wb.sql("SELECT count(*) FROM $clean.*"),
    label="nightly", max_attempts=9,
)
run""",
    )
    book.run_all()
    view = book.output(2).locator(".wb-view")
    expect(status(view)).to_have_text("retrying")
    step(view, "orders").click()
    colours = {}
    for theme in ("Light", "Dark"):
        book.theme(theme)
        colours[theme] = view.evaluate("element => getComputedStyle(element).backgroundColor")
        book.shot(f"run-retrying-{theme.lower()}")
    assert colours == {"Light": "rgb(255, 255, 255)", "Dark": "rgb(33, 33, 33)"}
    view.get_by_role("button", name="Try now").click()
    expect(view.locator(".wb-done, .wb-refusal")).not_to_have_count(0)


def test_an_exported_notebook_shows_the_picture_without_a_kernel(notebook: Open) -> None:
    book = notebook(
        "run = bench.start(wb.sql('SELECT 42 AS answer').named('last')); run", "run.wait()"
    )
    book.run_all()
    expect(status(book.output(2).locator(".wb-view"))).to_have_text("completed")
    path = book.save()
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--stdout", str(path)]
    html = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert html.count('class="wb-view"') == 2
    assert "vnd.jupyter.widget-view" not in html
