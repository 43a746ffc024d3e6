"""A JupyterLab and a browser that reaches nothing but it.

`lab` is one server a test process, `page` a page of a browser of the test's own, `notebook` opens a
notebook of given cells. A request that would leave the machine, or an error in a page, fails the
test. Chromium is the system's (the environment variable CHROMIUM says which): Playwright's own
cannot be had offline.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Error, Page, Request, Route, expect, sync_playwright

from tests.browser.lab import Lab, serve
from tests.browser.notebook import Notebook

_CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
_WINDOW = {"width": 1180, "height": 1400}
_WITHIN = 60_000  # milliseconds for anything that is waited for: two cores, other tests beside

Open = Callable[..., Notebook]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A JupyterLab server."""
    _need_chromium()
    root = Path(tempfile.mkdtemp(prefix="workbench-lab-"))
    try:
        with serve(root) as running:
            yield running
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def screen() -> dict[str, Any]:
    """The browser's window, its pixels and its time zone: not the kernel's."""
    return {"viewport": _WINDOW, "device_scale_factor": 2, "timezone_id": "Asia/Kolkata"}


@pytest.fixture  # one a test on purpose: a living sync_playwright breaks asyncio.run() elsewhere
def page(request: pytest.FixtureRequest, screen: dict[str, Any]) -> Iterator[Page]:
    """A browser's page. Pages of 127.0.0.1 open, anything else is refused and fails the test, but for
    what the mark `front_end_faults` names: faults of the front end itself.
    """
    _need_chromium()
    problems: list[str] = []
    mark = request.node.get_closest_marker("front_end_faults")
    known = mark.args if mark else ()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        page = browser.new_page(**screen)
        page.set_default_timeout(_WITHIN)
        expect.set_options(timeout=_WITHIN)
        page.on("pageerror", lambda error: problems.append(f"page error: {_text(error)}"))
        page.on("websocket", lambda socket: _note_outside(socket.url, problems))

        def refuse(route: Route, sent: Request) -> None:
            _note_outside(sent.url, problems)
            route.abort()

        page.route(_is_outside, refuse)
        yield page
        browser.close()
    ours = [each for each in problems if not any(fault in each for fault in known)]
    assert not ours, ours


@pytest.fixture
def notebook(lab: Lab, page: Page, request: pytest.FixtureRequest, dsn: str) -> Iterator[Open]:
    """Opens a notebook: `notebook(cell, cell, …)`. Its `bench` is connected to `dsn`."""
    opened: list[Notebook] = []

    def open_one(*cells: str, connect: str = "", name: str = "") -> Notebook:
        first = f"import time, workbench as wb\nbench = wb.connect({dsn!r}{connect})"
        opened.append(Notebook(page, lab, name or request.node.name, [first, *cells]))
        opened[-1].theme("Light")  # the server remembers what an earlier test chose
        return opened[-1]

    yield open_one
    for each in opened:  # before its database is dropped
        each.shut_down()


def _need_chromium() -> None:
    if shutil.which(_CHROMIUM) is None:
        pytest.skip(f"no Chromium at {_CHROMIUM}: apt-get install chromium, or set CHROMIUM")


def _is_outside(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("data", "blob", "about") and parts.hostname != "127.0.0.1"


def _note_outside(url: str, problems: list[str]) -> None:
    if _is_outside(url):
        problems.append(f"a request to {url}")


def _text(error: Error) -> str:
    return error.stack or str(error)
