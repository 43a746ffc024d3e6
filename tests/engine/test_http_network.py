"""Where an HTTP leaf connects to, how long it waits, and how it is stopped."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.engine.http_leaf import Leaf, error, value
from tests.engine.http_server import Answer, HttpServer, http_server
from tests.engine.support import wait_until
from workbench.engine.model import Released
from workbench.engine.workload import Claim


@pytest.fixture
def web() -> Iterator[HttpServer]:
    with http_server() as web:
        yield web


class Names:
    """A resolver that gives each answer once, the last one for ever, and remembers the questions."""

    def __init__(self, *answers: str | list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [answer] if isinstance(answer, str) else answer


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f.1", "2130706433"])
def test_a_restricted_destination_is_refused_however_it_is_written(
    web: HttpServer, host: str
) -> None:
    message = error(Leaf(allow=()).get(f"http://{host}:{web.port}/"), permanent=True)
    assert message.startswith(
        f"Blocked: the resolved IP address for '{host}' is in a restricted range. "
    )
    assert "df.set_setting('http_allow', '[\"" in message
    assert web.requests == []


@pytest.mark.parametrize("host", ["[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"])
def test_a_restricted_ipv6_destination_is_refused(host: str) -> None:
    message = error(Leaf(allow=()).get(f"http://{host}:9/"), permanent=True)
    assert "is in a restricted range" in message


def test_a_denied_host_is_refused_before_it_is_looked_up(web: HttpServer) -> None:
    names = Names("127.0.0.1")
    leaf = Leaf(deny=[".example.com"], resolve=names)
    message = error(leaf.get(f"http://api.example.com:{web.port}/"), permanent=True)
    assert message.startswith("Blocked: 'api.example.com' is denied by the setting http_deny")
    assert names.asked == []


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that leads elsewhere when asked again (DNS rebinding) is asked once."""
    with http_server("127.0.0.2") as allowed:
        names = Names("127.0.0.2", "127.0.0.1")
        leaf = Leaf(allow=["127.0.0.2"], resolve=names)
        url = f"http://example.com:{allowed.port}/"
        assert value(leaf.get(url))["body"] == "ok"
        assert names.asked == ["example.com"]
        assert allowed.requests[0].header("host") == f"example.com:{allowed.port}"
        again = Leaf(allow=["127.0.0.2"], resolve=names).get(url)
        assert "127.0.0.1 is loopback" in error(again, permanent=True)
        assert len(allowed.requests) == 1


def test_one_restricted_address_among_several_is_refused(web: HttpServer) -> None:
    leaf = Leaf(resolve=Names(["127.0.0.1", "10.0.0.1"]))
    message = error(leaf.get(f"http://example.com:{web.port}/"), permanent=True)
    assert "10.0.0.1 is private" in message
    assert web.requests == []


def test_an_address_that_refuses_is_followed_by_the_next(web: HttpServer) -> None:
    leaf = Leaf(allow=["127.0.0.0/8"], resolve=Names(["127.0.0.3", "127.0.0.1"]))
    assert value(leaf.post(f"http://example.com:{web.port}/"))["ok"]
    assert len(web.requests) == 1


def test_nobody_there_is_a_failure(web: HttpServer) -> None:
    with http_server() as gone:
        pass
    message = error(Leaf(gone).get("/x"))
    assert message.startswith(f"HTTP connection failed: {gone.url}/x - ")


def test_an_unknown_host_is_a_failure() -> None:
    message = error(Leaf().get("http://nowhere.invalid/"))
    assert message.startswith(
        "HTTP connection failed: http://nowhere.invalid/ - 'nowhere.invalid' has no address: "
    )


def test_a_proxy_of_the_environment_is_not_used(
    web: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert value(Leaf(web).get("/"))["ok"]


def test_an_answer_that_drips_beyond_the_deadline_is_a_failure(web: HttpServer) -> None:
    gates = [web.gate() for _ in range(3)]
    web.answer("/", Answer(200, [b"a", gates[0], b"b", gates[1], b"c", gates[2]]))
    gates[0].set()
    message = error(Leaf(web).get("/", timeout_seconds=0.3))
    assert message == f"HTTP timeout after 0.3s: {web.url}/"
    assert web.hung_up.wait(5)


def test_no_answer_within_the_deadline_is_a_failure(web: HttpServer) -> None:
    web.answer("/", Answer(raw=[web.gate()]))
    assert error(Leaf(web).get("/", timeout_seconds=0.2)).startswith("HTTP timeout after 0.2s")


@pytest.mark.parametrize(
    "pieces",
    [
        [b""],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive5"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfive5\r\n"],
        [b"HTTP/1.1 200"],
        [b"this is no HTTP\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n"],
    ],
    ids=["nothing", "half a body", "half a chunk", "half a head", "no HTTP", "huge headers"],
)
def test_an_answer_that_is_none_is_a_failure(web: HttpServer, pieces: list[bytes]) -> None:
    web.answer("/", Answer(raw=pieces))
    assert error(Leaf(web).get("/")).startswith(f"HTTP connection failed: {web.url}/ - ")


def test_an_interrupted_request_is_released_and_hangs_up(web: HttpServer) -> None:
    web.answer("/", Answer(200, [b"a", web.gate()]))
    leaf = Leaf(web)

    def when_it_runs(claim: Claim) -> None:
        wait_until(lambda: web.requests)

    event = leaf.run({"url": web.url, "method": "GET"}, meanwhile=when_it_runs)
    assert event == Released(0, "token")
    assert web.hung_up.wait(5)


def test_a_claim_interrupted_before_the_request_sends_none(web: HttpServer) -> None:
    leaf = Leaf(web)
    leaf.interrupted = True
    assert leaf.get("/") == Released(0, "token")
    assert web.requests == []


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


@pytest.fixture
def tls_server(authority: trustme.CA) -> Iterator[HttpServer]:
    """An HTTPS server whose certificate is that of example.com."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("example.com").configure_cert(context)
    with http_server(tls=context) as web:
        yield web


@pytest.mark.usefixtures("trusted")
def test_tls_is_checked_against_the_name(tls_server: HttpServer) -> None:
    leaf = Leaf(resolve=Names("127.0.0.1"))
    assert value(leaf.get(f"https://example.com:{tls_server.port}/"))["body"] == "ok"
    assert tls_server.requests[0].header("host") == f"example.com:{tls_server.port}"


@pytest.mark.usefixtures("trusted")
def test_a_certificate_of_another_name_is_a_failure(tls_server: HttpServer) -> None:
    leaf = Leaf(resolve=Names("127.0.0.1"))
    message = error(leaf.get(f"https://example.org:{tls_server.port}/"))
    assert "certificate" in message
    assert tls_server.requests == []


def test_a_certificate_that_nobody_trusts_is_a_failure(tls_server: HttpServer) -> None:
    leaf = Leaf(resolve=Names("127.0.0.1"))
    message = error(leaf.get(f"https://example.com:{tls_server.port}/"))
    assert "certificate" in message


def test_certificates_that_cannot_be_read_are_a_failure(
    web: HttpServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    assert "SSL_CERT_FILE" in error(Leaf(web).get("/"))
