"""Beside JupyterLab: Notebook 7, Voilà, and an exported notebook without any kernel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab import Lab, environment, serve, write_notebook
from tests.browser.notebook import Notebook

RUNS = """
import time, workbench as wb
bench = wb.connect({dsn!r})
waits = bench.start(wb.wait_for_signal("go") >> wb.sql("SELECT 7 AS seven"), label="release")
fails = bench.start("SELECT 1 / 0", label="rates")
while not (fails.done() and waits.nodes[1].status == "waiting"): time.sleep(0.05)
"""


@pytest.fixture
def other(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The server that a test is parametrised with."""
    root = Path(tempfile.mkdtemp(prefix="workbench-server-"))
    try:
        with serve(root, request.param) as running:
            yield running
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.front_end_faults("reading 'schema'")  # settings of a plugin that it does not have
@pytest.mark.parametrize("other", ["notebook"], indirect=True)
def test_views_are_live_in_notebook_7(other: Lab, page: Page, dsn: str) -> None:
    book = Notebook(page, other, "live", [RUNS.format(dsn=dsn), "waits", "waits.signal('go', 1)"])
    book.run(0, 1)
    view = book.output(1).locator(".wb-widget .wb-view")
    expect(view).to_contain_text("waits for signal go")
    book.run(2)
    expect(view.locator(".wb-pill")).to_contain_text("completed")
    book.shut_down()


@pytest.mark.front_end_faults("fontawesome", "mathjax")  # of its own page template
@pytest.mark.parametrize("other", ["voila"], indirect=True)
def test_the_dashboard_is_an_app_under_voila_that_only_looks(
    other: Lab, page: Page, dsn: str
) -> None:
    write_notebook(other.notebooks / "app.ipynb", [RUNS.format(dsn=dsn), "bench.dashboard()"])
    page.goto(other.address("app.ipynb"))
    view = page.locator(".wb-widget > .wb-view")
    expect(view).to_contain_text("read only")
    view.locator(".wb-runs tbody tr", has_text="rates").click()
    expect(view.locator(".wb-pane-run")).to_contain_text("division by zero")
    expect(view.get_by_role("button", name="Retry as new run")).to_have_count(0)


def test_an_exported_notebook_shows_its_views_without_a_kernel(
    page: Page, dsn: str, tmp_path: Path
) -> None:
    cells = [RUNS.format(dsn=dsn), "waits", "bench.dashboard()", "fails.timeline()"]
    write_notebook(tmp_path / "n.ipynb", cells)
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "n.ipynb"]
    offline = ["mathjax_url", "require_js_url", "jquery_url"]
    command += [f"--HTMLExporter.{name}=" for name in offline]
    command.append("--ExecutePreprocessor.store_widget_state=False")
    subprocess.run(
        command, cwd=tmp_path, env=environment(tmp_path), check=True, capture_output=True
    )
    page.set_content((tmp_path / "n.html").read_text("utf-8"))
    shown = page.locator(".jp-OutputArea-output .wb-view")
    expect(shown.first).to_contain_text("waits for signal go")
    expect(shown.first).to_contain_text("as of ")
    expect(page.locator(".wb-view[aria-label=Dashboard]")).to_contain_text("division by zero")
    expect(page.locator(".wb-view", has_text="rates").last).to_be_visible()
