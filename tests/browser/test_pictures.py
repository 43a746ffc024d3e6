"""The documentation's pictures: every view of a scripted shop, light and dark, as `docs/images/*.png`.

They are made on request only, `make pictures`, and looked at by whoever commits them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open
from tests.browser.picture_cells import BEGIN, PICTURES, TABLES
from tests.engine.http_server import Answer, HttpServer, http_server

pytestmark = [
    pytest.mark.skipif("PICTURES" not in os.environ, reason="on request: make pictures"),
    pytest.mark.timeout(600),
]

_IMAGES = Path(__file__).parents[2] / "docs" / "images"
_COLOURS = 128  # of a picture's palette
_LARGEST = 100_000  # bytes of a picture
_LOOKS = 10  # at a view whose durations go on counting


@pytest.fixture
def screen() -> dict[str, Any]:
    """One pixel each, in the kernel's time zone, and so high that no view is cut off."""
    return {"viewport": {"width": 1352, "height": 2400}, "timezone_id": "UTC"}


@pytest.fixture
def web(dsn: str) -> Iterator[HttpServer]:
    """The shop's server; it never answers."""
    with http_server() as server:
        for page in range(1, 5):
            server.answer(f"/{page}", Answer(body=[server.gate(), b"never"]))
        yield server


@pytest.fixture
def database(dsn: str) -> Iterator[None]:
    """The shop's tables; a session that has forgotten to commit locks one of them."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(TABLES)
        conn.execute("SELECT df.set_setting('http_allow', '[\"127.0.0.1\"]')")
        conn.execute("SELECT df.set_setting('max_activity_concurrency', '16')")
    with psycopg.connect(dsn, application_name="psql") as forgotten:
        forgotten.execute("UPDATE prices SET price = 0 WHERE sku = 'sku-17'")
        yield


def test_every_view_has_its_pictures(
    notebook: Open, web: HttpServer, database: None, dsn: str
) -> None:
    shop = web.url.replace("127.0.0.1", "shop.example").rstrip("/")
    book = notebook(f"{BEGIN}\nSHOP, DSN = {shop!r}, {dsn!r}", *PICTURES.values(), name="shop")
    for number in range(len(PICTURES) + 2):
        book.run(number)
        book.idle()
    for number, name in enumerate(PICTURES, start=2):
        view = book.output(number).locator(".wb-view").first  # a dashboard has others inside
        expect(view).to_be_visible()
        if name == "runs":
            view.get_by_role("button", name="crawl shop.example").click()
            expect(view.locator(".wb-pane-run .wb-head")).to_be_visible()
        for theme, ending in (("Light", ""), ("Dark", "-dark")):
            book.theme(theme)
            _save(_picture(view), f"{name}{ending}")


def _picture(view: Locator) -> bytes:
    """The view when nothing moves any more: plotly has drawn, in the colours of the theme."""
    view.page.mouse.move(0, 0)
    taken = [view.screenshot(animations="disabled")]
    for _ in range(_LOOKS):
        view.page.wait_for_timeout(300)
        taken.append(view.screenshot(animations="disabled"))
        if taken[-2] == taken[-1]:
            break
    return taken[-1]


def _save(shot: bytes, name: str) -> None:
    """Save a picture with a palette of its own: a fraction of the bytes."""
    _IMAGES.mkdir(exist_ok=True)
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    path = _IMAGES / f"{name}.png"
    picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < _LARGEST, path
