"""What an HTTP response becomes: a result, or a failure."""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Iterator

import pytest

from tests.engine.http_leaf import Leaf, error, value
from tests.engine.http_server import Answer, HttpServer, http_server
from workbench.engine.model import Failed

JSON = [("Content-Type", "application/json")]
MIB = 1024 * 1024


@pytest.fixture
def web() -> Iterator[HttpServer]:
    with http_server() as web:
        yield web


def test_a_response_is_an_envelope(web: HttpServer) -> None:
    web.answer("/", Answer(201, b'{"a": 1}', [*JSON, ("X-Two", "2")]))
    result = value(Leaf(web).get("/"))
    assert list(result) == ["status", "body", "encoding", "headers", "ok", "duration_ms"]
    assert isinstance(result.pop("duration_ms"), int)
    assert result == {
        "status": 201,
        "body": '{"a": 1}',
        "encoding": "text",
        "headers": {"content-type": "application/json", "x-two": "2", "content-length": "8"},
        "ok": True,
    }


@pytest.mark.parametrize(
    ("status", "ok"), [(200, True), (204, True), (299, True), (304, False), (404, False)]
)
def test_only_2xx_is_ok_and_4xx_completes(web: HttpServer, status: int, ok: bool) -> None:
    web.answer("/", Answer(status, b""))
    result = value(Leaf(web).get("/"))
    assert (result["status"], result["ok"], result["body"]) == (status, ok, "")


def test_a_redirect_is_a_result_and_is_not_followed(web: HttpServer) -> None:
    web.answer("/", Answer(302, b"", [("Location", web.url + "/elsewhere")]))
    result = value(Leaf(web).get("/"))
    assert (result["status"], result["ok"]) == (302, False)
    assert result["headers"]["location"] == web.url + "/elsewhere"
    assert [seen.target for seen in web.requests] == ["/"]


def test_5xx_fails_with_the_beginning_of_the_body(web: HttpServer) -> None:
    web.answer("/", Answer(503, b"x" * 2000))
    message = error(Leaf(web).post("/?a=1"))
    assert message == f"HTTP POST {web.url}/?a=1 returned 503: {'x' * 512}"


def test_a_failing_response_that_never_ends_fails_all_the_same(web: HttpServer) -> None:
    web.answer("/", Answer(500, [b"no", web.gate()]))
    assert error(Leaf(web).get("/", timeout_seconds=0.2)).endswith(" returned 500: ")
    assert web.hung_up.wait(5)


def test_listed_statuses_fail_and_may_be_retried(web: HttpServer) -> None:
    web.answer("/", Answer(429, b"slow down"))
    event = Leaf(web).get("/", options={"retry_statuses": [429]})
    assert error(event) == f"HTTP GET {web.url}/ returned 429: slow down"


def test_raise_for_status_makes_other_4xx_permanent(web: HttpServer) -> None:
    options = {"raise_for_status": True, "retry_statuses": [429]}
    web.answer("/gone", Answer(410, b"gone"))
    web.answer("/slow", Answer(429, b""))
    web.answer("/moved", Answer(301, b""))
    message = error(Leaf(web).get("/gone", options=options), permanent=True)
    assert message == f"HTTP GET {web.url}/gone returned 410: gone"
    error(Leaf(web).get("/slow", options=options))
    assert value(Leaf(web).get("/moved", options=options))["status"] == 301


DATE = ("Date", "Mon, 30 Nov 2026 10:00:00 GMT")


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ([("Retry-After", "7")], 7.0),
        ([("Retry-After", "0")], 0.0),
        ([("Retry-After", "Mon, 30 Nov 2026 10:01:30 GMT"), DATE], 90.0),
        ([("Retry-After", "99999999999")], 30 * 86400.0),
        ([("Retry-After", "9" * 5000)], 30 * 86400.0),
        ([("Retry-After", "Mon, 30 Nov 2099 10:00:00 GMT"), DATE], 30 * 86400.0),
        ([("Retry-After", "Mon, 30 Nov 2026 09:59:59 GMT"), DATE], None),
        ([("Retry-After", "-5")], None),
        ([("Retry-After", "1.5")], None),
        ([("Retry-After", "soon")], None),
        ([("Retry-After", "")], None),
        ([("Retry-After", "Mon, 99 Nov 2026 10:01:30 GMT"), DATE], None),
        ([], None),
    ],
)
def test_retry_after_sets_the_delay_of_a_failing_response(
    web: HttpServer, headers: list[tuple[str, str]], delay: float | None
) -> None:
    web.answer("/", Answer(503, b"", headers))
    event = Leaf(web).get("/")
    assert isinstance(event, Failed)
    assert (event.delay, event.delay_source) == (
        delay,
        None if delay is None else "http_retry_after",
    )


def test_retry_after_of_a_result_means_nothing(web: HttpServer) -> None:
    web.answer("/", Answer(404, b"", [("Retry-After", "7")]))
    assert value(Leaf(web).get("/"))["status"] == 404


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=latin-1", b"caf\xe9", "café"),
        ('text/html; charset="utf-16-le"', "ü".encode("utf-16-le"), "ü"),
        ("text/plain", b"caf\xe9", "caf\ufffd"),
        ("text/plain; charset=nonsense", "ü".encode(), "ü"),
        ("text/plain; charset=hex", b"ab", "ab"),
        ("text/csv", b"\xef\xbb\xbfa,b", "a,b"),
        ("application/problem+json", b"{}", "{}"),
        ("application/octet-stream", b"plain after all", "plain after all"),
        ("", "ünïcode".encode(), "ünïcode"),
    ],
)
def test_text_is_decoded(web: HttpServer, kind: str, body: bytes, text: str) -> None:
    web.answer("/", Answer(200, body, [("Content-Type", kind)] if kind else []))
    result = value(Leaf(web).get("/"))
    assert (result["encoding"], result["body"]) == ("text", text)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("image/png", b"\x89PNG\xff"),
        ("", b"a\0b"),
        ("text/plain", b"a\0b"),
    ],
)
def test_what_is_no_text_is_base64(web: HttpServer, kind: str, body: bytes) -> None:
    web.answer("/", Answer(200, body, [("Content-Type", kind)] if kind else []))
    result = value(Leaf(web).get("/"))
    assert (result["encoding"], base64.b64decode(result["body"])) == ("base64", body)


def test_a_repeated_header_is_joined_and_one_beyond_ascii_is_left_out(web: HttpServer) -> None:
    headers = [("X-A", "1"), ("x-a", "2"), ("X-Name", "Jürgen"), ("Set-Cookie", "s=1")]
    web.answer("/", Answer(headers=headers))
    found = value(Leaf(web).get("/"))["headers"]
    assert found == {"x-a": "1, 2", "set-cookie": "s=1", "content-length": "2"}


def compressed(coding: str, body: bytes) -> bytes:
    raw = zlib.compressobj(wbits=-15)
    forms = {
        "gzip": gzip.compress(body),
        "x-gzip": gzip.compress(body[:3]) + gzip.compress(body[3:]),
        "deflate": zlib.compress(body),
        "Deflate": raw.compress(body) + raw.flush(),
    }
    return forms[coding]


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "Deflate"])
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_compressed_body_is_decompressed(web: HttpServer, coding: str, size: int) -> None:
    body = compressed(coding, b"hello")
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    web.answer("/", Answer(200, pieces, [("Content-Encoding", coding)]))
    assert value(Leaf(web).get("/"))["body"] == "hello"


def test_a_coding_that_nobody_asked_for_stays_as_it_is(web: HttpServer) -> None:
    web.answer("/", Answer(200, b"\xff\x00", [("Content-Encoding", "br")]))
    result = value(Leaf(web).get("/"))
    assert (result["encoding"], result["headers"]["content-encoding"]) == ("base64", "br")


@pytest.mark.parametrize(
    "body", [gzip.compress(b"hello" * 100, mtime=0)[:-9], b"no gzip at all"], ids=["cut", "none"]
)
def test_a_broken_compressed_body_fails(web: HttpServer, body: bytes) -> None:
    web.answer("/", Answer(200, body, [("Content-Encoding", "gzip")]))
    assert error(Leaf(web).get("/")).startswith(f"HTTP connection failed: {web.url}/ - ")


def test_a_body_beyond_the_limit_is_cut_off(web: HttpServer) -> None:
    pieces = [b"x" * MIB] * 33
    web.answer("/", Answer(200, [*pieces, web.gate(), *pieces]))
    message = error(Leaf(web).get("/"), permanent=True)
    assert "answered with more than 32 MiB" in message


def test_a_bomb_is_counted_after_decompression(web: HttpServer) -> None:
    bomb = gzip.compress(b"\0" * (200 * MIB), compresslevel=1)
    web.answer("/", Answer(200, bomb, [("Content-Encoding", "gzip")]))
    message = error(Leaf(web).get("/"), permanent=True)
    assert "answered with more than 32 MiB" in message


def test_a_result_beyond_the_limit_is_refused(web: HttpServer) -> None:
    web.answer("/", Answer(200, b"x" * (17 * MIB)))
    message = error(Leaf(web).get("/"), permanent=True)
    assert message.startswith("the HTTP response is 17.0 MiB of JSON, the limit is 16 MiB")
