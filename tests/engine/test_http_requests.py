"""What an HTTP leaf sends, and what it refuses to send."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import workbench
from tests.engine.http_leaf import Leaf, error, value
from tests.engine.http_server import Answer, HttpServer, http_server
from workbench.engine.model import Failed, Released

B64 = base64.b64encode(b"\0hi\xff").decode()


@pytest.fixture
def web() -> Iterator[HttpServer]:
    with http_server() as web:
        yield web


def test_a_request_has_the_given_parts_and_no_content_type(web: HttpServer) -> None:
    value(Leaf(web).post("/p?q=1", body='{"a": "ü"}', headers={"X-A": "ü", "x-b": "2"}))
    (seen,) = web.requests
    assert (seen.method, seen.target, seen.body.decode()) == ("POST", "/p?q=1", '{"a": "ü"}')
    assert sorted(seen.headers) == [
        ("Content-Length", "11"),
        ("Host", f"127.0.0.1:{web.port}"),
        ("X-A", "ü"),
        ("accept", "*/*"),
        ("accept-encoding", "gzip, deflate"),
        ("connection", "close"),
        ("user-agent", f"workbench/{workbench.__version__}"),
        ("x-b", "2"),
    ]


def test_the_defaults_give_way_to_the_nodes_headers(web: HttpServer) -> None:
    value(Leaf(web).get("/", headers={"User-Agent": "me", "HOST": "other", "Accept": "a/b"}))
    (seen,) = web.requests
    assert [seen.header(name) for name in ("user-agent", "host", "accept")] == [
        "me",
        "other",
        "a/b",
    ]
    assert len(seen.headers) == 5


def test_what_frames_the_content_follows_from_it(web: HttpServer) -> None:
    headers = {"content-length": "99", "Transfer-Encoding": "chunked"}
    value(Leaf(web).post("/", body="five5", headers=headers))
    (seen,) = web.requests
    assert (seen.body, seen.header("content-length")) == (b"five5", "5")
    assert seen.header("transfer-encoding") is None


@pytest.mark.parametrize("method", ["GET", "post", "PUT", "Delete", "PATCH"])
def test_the_method_is_sent_in_upper_case(web: HttpServer, method: str) -> None:
    value(Leaf(web).run({"url": web.url, "method": method}))
    assert (web.requests[0].method, web.requests[0].body) == (method.upper(), b"")


def test_values_are_put_into_url_headers_and_body(web: HttpServer) -> None:
    leaf = Leaf(web, names={"x": "a/b", "n": 7}, variables={"v": 'say "hi"'})
    leaf.get(
        "/$x?n=$n&run={sys_instance_id}",
        headers={"X-V": "{v} $n {sys_label}"},
        body='{"v": "{v}", "n": $n}',
    )
    (seen,) = web.requests
    assert seen.target == "/a%2Fb?n=7&run=0a1b2c3d"
    assert seen.header("x-v") == 'say "hi" 7 nightly'
    assert seen.body == b'{"v": "say \\"hi\\"", "n": 7}'


def test_userinfo_is_sent_as_authorization_and_is_not_shown(web: HttpServer) -> None:
    web.answer("/", Answer(500, b""))
    message = error(Leaf().get(web.url.replace("//", "//ann:p%40ss@") + "/"))
    assert message == f"HTTP GET {web.url}/ returned 500: "
    assert web.requests[0].header("authorization") == "Basic YW5uOnBAc3M="


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb"])
def test_a_line_break_in_a_header_is_refused_without_showing_it(
    web: HttpServer, value: str
) -> None:
    message = error(Leaf(web, names={"x": value}).get("/", headers={"X-A": "$x"}), permanent=True)
    assert "the header X-A contains a line break" in message
    assert "Evil" not in message
    assert web.requests == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"url": "ftp://h/"}, "Blocked: unsupported URL scheme 'ftp'. Only http and https"),
        ({"url": "file:///etc/passwd"}, "Blocked: unsupported URL scheme 'file'."),
        ({"url": "example.com/x"}, "Blocked: unsupported URL scheme ''."),
        ({"url": "http://"}, "the URL has no host"),
        ({"url": "http://h:99999999/"}, "not a URL"),
        ({"url": None}, "url must be text"),
        ({"method": "BREW"}, "Invalid HTTP method: BREW. Must be GET, POST, PUT, DELETE, or PATCH"),
        ({"timeout_seconds": 0}, "Timeout must be positive"),
        ({"timeout_seconds": "5"}, "Timeout must be positive"),
        ({"headers": {"X-A": 5}}, "the header X-A must be text, not int"),
        ({"headers": {"X A": "5"}}, "'X A' is not the name of a header"),
        ({"headers": ["X"]}, "headers must be a JSON object"),
        ({"body": {"a": 1}}, "body must be text, not dict"),
        ({"body": "$x.missing"}, "no field 'missing'"),
    ],
)
def test_what_is_no_request_is_refused_for_good(
    web: HttpServer, config: dict[str, Any], said: str
) -> None:
    leaf = Leaf(web, names={"x": {"a": 1}})
    message = error(leaf.run({"url": web.url, "method": "GET", **config}), permanent=True)
    assert said in message


def test_without_the_privilege_nothing_is_sent(web: HttpServer) -> None:
    message = error(Leaf(web, granted=False).get("/$none.x"), permanent=True)
    assert message.startswith(
        "Blocked: role 'ann' does not have EXECUTE privilege on df.http(). Grant EXECUTE ON "
        'FUNCTION df.http(text) TO "ann"'
    )
    assert web.requests == []


def test_a_form_is_sent_as_its_parts(web: HttpServer) -> None:
    leaf = Leaf(web, names={"f": {"data": f"base64:{B64}", "name": 'a"b.bin'}})
    leaf.multipart(
        {"name": "text", "data_b64": "aGVs\n bG8="},
        {
            "name": "file",
            "data_b64": "$f.data",
            "filename": "$f.name",
            "content_type": "application/x-thing",
        },
        headers={"content-type": "text/plain", "X-A": "1"},
    )
    (seen,) = web.requests
    (kind,) = [v for name, v in seen.headers if name.lower() == "content-type"]
    boundary = kind.removeprefix("multipart/form-data; boundary=")
    assert seen.header("x-a") == "1"
    assert (
        seen.body
        == (
            f"--{boundary}\r\n"
            'Content-Disposition: form-data; name="text"\r\n'
            "\r\nhello\r\n"
            f"--{boundary}\r\n"
            'Content-Disposition: form-data; name="file"; filename="a%22b.bin"\r\n'
            "Content-Type: application/x-thing\r\n"
            "\r\n"
        ).encode()
        + b"\0hi\xff"
        + f"\r\n--{boundary}--\r\n".encode()
    )


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (None, "parts is required and cannot be NULL"),
        ({}, "parts must be a JSON array of part objects"),
        ([], "parts must contain at least one part"),
        (["x"], "parts[0] must be an object with name and data_b64"),
        ([{"name": "a", "data_b64": "aGk="}, {"name": "a"}], "parts[1]: data_b64 is required"),
        ([{"data_b64": "aGk="}], "parts[0]: name is required"),
        ([{"name": "a", "data_b64": "aGk=", "filename": 5}], "parts[0]: filename must be text"),
        ([{"name": "a", "data_b64": "a"}], "parts[0]: data_b64 is not base64"),
        ([{"name": "a", "data_b64": "x$f"}], "whole-value reference"),
        (
            [{"name": "a", "data_b64": "aGk=", "content_type": "a\r\nX: y"}],
            "content_type contains a line break",
        ),
    ],
)
def test_parts_without_shape_are_refused_for_good(web: HttpServer, parts: Any, said: str) -> None:
    config = {"url": web.url, "method": "POST", "parts": parts}
    message = error(Leaf(web).run(config, node_type="HTTP_MULTIPART"), permanent=True)
    assert said in message
    assert web.requests == []


def test_a_form_is_not_sent_with_get(web: HttpServer) -> None:
    config = {"url": web.url, "method": "GET", "parts": [{"name": "a", "data_b64": ""}]}
    message = error(Leaf(web).run(config, node_type="HTTP_MULTIPART"), permanent=True)
    expected = "Invalid HTTP method for multipart: GET. Must be POST, PUT, or PATCH"
    assert message == expected


SECRETS = {"TOKEN": 't0p "secret"/', "KEY": "k3y"}


def test_secrets_are_sent_and_not_shown(web: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    web.answer("/", Answer(500, b'you sent t0p "secret"/ and t0p%20%22secret%22%2F'))
    event = Leaf(web, secrets=SECRETS).post(
        "/?key={secret:KEY}&t={secret:TOKEN}",
        headers={"Authorization": "Bearer {secret:TOKEN}"},
        body='{"t": "{secret:TOKEN}"}',
    )
    (seen,) = web.requests
    assert seen.target == "/?key=k3y&t=t0p%20%22secret%22%2F"
    assert seen.header("authorization") == 'Bearer t0p "secret"/'
    assert seen.body == b'{"t": "t0p \\"secret\\"/"}'
    assert error(event) == (
        f"HTTP POST {web.url}/?key={{secret:KEY}}&t={{secret:TOKEN}} returned 500: "
        "you sent {secret:TOKEN} and {secret:TOKEN}"
    )
    assert "k3y" not in caplog.text
    assert "t0p" not in caplog.text
    assert "t0p" not in repr(event)


def test_secrets_go_into_a_forms_names(web: HttpServer) -> None:
    Leaf(web, secrets=SECRETS).multipart({"name": "{secret:KEY}", "data_b64": "aGk="})
    assert b'name="k3y"' in web.requests[0].body


def test_a_value_cannot_ask_for_a_secret(web: HttpServer) -> None:
    leaf = Leaf(web, secrets=SECRETS, names={"evil": "{secret:TOKEN}"})
    leaf.post("/", body="$evil", headers={"X-Key": "{secret:KEY}"})
    assert web.requests[0].body == b"{secret:TOKEN}"


def test_a_missing_secret_is_said_once_and_nothing_is_sent(
    web: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    event = Leaf(web).get("/", headers={"A": "{secret:NOPE}"})
    reason = {"type": "MissingSecret", "message": "no engine has the secret NOPE"}
    assert event == Released(0, "token", 2.0, reason)
    assert web.requests == []
    (record,) = [each for each in caplog.records if each.name == "workbench"]
    assert "has no secret named NOPE" in record.getMessage()


def test_an_unexpected_error_shows_no_secret(
    web: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise RuntimeError(f"boom {SECRETS['KEY']}")

    event = Leaf(web, secrets=SECRETS, resolve=resolve).get("/{secret:KEY}")
    assert isinstance(event, Failed)
    assert event.error["message"] == "boom {secret:KEY}"
    assert "k3y" not in repr(event) + caplog.text
