"""The documentation's pictures: every view of a scripted shop, light and dark, as `docs/images/*.png`.

They are made on request only, `make pictures`, and looked at by whoever commits them.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open
from tests.browser.notebook import Notebook
from tests.browser.picture_cells import BEGIN, PICTURES, TABLES
from tests.engine.http_server import Answer, HttpServer, http_server

pytestmark = [
    pytest.mark.skipif("PICTURES" not in os.environ, reason="on request: make pictures"),
    pytest.mark.timeout(600),
]

_IMAGES = Path(__file__).parents[2] / "docs" / "images"
_COLOURS = 128  # of a picture's palette
_LARGEST = 100_000  # bytes of a picture


@pytest.fixture
def window() -> dict[str, int]:
    """Outputs are 1,200 pixels wide in it, and no view is cut off."""
    return {"width": 1352, "height": 2400}


@pytest.fixture
def scale() -> int:
    return 1


@pytest.fixture
def web(dsn: str) -> Iterator[HttpServer]:
    """The shop's server; it never answers."""
    with http_server() as server:
        server.answer("/", Answer(body=[server.gate(), b"never"]))
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
    book = notebook(f"{BEGIN}\nSHOP, DSN = {shop!r}, {dsn!r}", *PICTURES.values())
    for number in range(len(PICTURES) + 2):
        book.run(number)
        print(number, time.time())
        book.idle()
    for number, name in enumerate(PICTURES, start=2):
        view = book.output(number).locator(".wb-view")
        print(name, book.output(number).all_inner_texts()[:1])
        expect(view).to_have_count(1, timeout=10_000)
        for theme, ending in (("Light", ""), ("Dark", "-dark")):
            book.theme(theme)
            _settled(book, view)
            _save(view, f"{name}{ending}")


def _settled(book: Notebook, view: Locator) -> None:
    """Wait until what plotly draws is drawn, and drawn in the theme's colours."""
    view.scroll_into_view_if_needed()
    view.page.mouse.move(0, 0)
    view.page.wait_for_timeout(600)


def _save(view: Locator, name: str) -> None:
    """Save a picture with a palette of its own: a fraction of the bytes."""
    _IMAGES.mkdir(exist_ok=True)
    whole = Image.open(io.BytesIO(view.screenshot())).convert("RGB")
    picture = whole.quantize(_COLOURS, dither=Image.Dither.NONE)
    path = _IMAGES / f"{name}.png"
    picture.save(path, optimize=True)
    assert path.stat().st_size < _LARGEST, path
