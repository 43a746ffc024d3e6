"""A real HTTP(S) server for tests: it records every request and how many it had at once, and
answers as it was told.

`server.answer("/path", Answer(503, b"no"))` answers once, and the last answer of a path for ever;
an answer's pieces are sent one by one, and may be gates (`threading.Event`) to wait at. A path
nobody has answered gives 200 and `ok`.
"""

from __future__ import annotations

import contextlib
import socketserver
import ssl
import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "HttpServer", "Seen", "http_server"]

Piece = bytes | threading.Event


@dataclass(frozen=True)
class Answer:
    """What is sent back. `raw`: instead of all else, pieces as they go over the wire.

    A body in pieces is sent without a Content-Length; the end of the connection ends it.
    """

    status: int = 200
    body: bytes | Sequence[Piece] = b"ok"
    headers: Sequence[tuple[str, str]] = ()
    raw: Sequence[Piece] | None = None

    @property
    def pieces(self) -> Sequence[Piece]:
        if self.raw is not None:
            return self.raw
        lines = [f"HTTP/1.1 {self.status} Said", *(f"{k}: {v}" for k, v in self.headers)]
        body = [self.body] if isinstance(self.body, bytes) else self.body
        if isinstance(self.body, bytes) and not _has(self.headers, "content-length"):
            lines.append(f"Content-Length: {len(self.body)}")
        return [("\r\n".join(lines) + "\r\n\r\n").encode("utf-8"), *body]


@dataclass(frozen=True)
class Seen:
    """A request that arrived; header names as they were sent."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return _has(self.headers, name)


def _has(headers: Sequence[tuple[str, str]], name: str) -> str | None:
    return next((value for key, value in headers if key.lower() == name.lower()), None)


@dataclass
class HttpServer:
    """The server's record; `url` has no path."""

    url: str = ""
    port: int = 0
    requests: list[Seen] = field(default_factory=list)
    delay: float = 0.0  # seconds that every answer takes
    now: int = 0
    most: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    hung_up: threading.Event = field(default_factory=threading.Event)
    _answers: dict[str, deque[Answer]] = field(default_factory=lambda: defaultdict(deque))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, *answers: Answer) -> None:
        """Answers to this path in order."""
        self._answers[path].extend(answers)

    def gate(self) -> threading.Event:
        """A piece that holds an answer up until it is set."""
        return threading.Event()

    def begin(self, seen: Seen) -> Answer:
        with self._lock:
            self.requests.append(seen)
            self.now += 1
            self.most = max(self.most, self.now)
            waiting = self._answers[seen.target.partition("?")[0]]
            if not waiting:
                return Answer()
            return waiting.popleft() if len(waiting) > 1 else waiting[0]

    def end(self) -> None:
        with self._lock:
            self.now -= 1


class _Handler(socketserver.StreamRequestHandler):
    """One connection, one exchange."""

    def handle(self) -> None:
        record: HttpServer = self.server.record  # type: ignore[attr-defined]
        first = self.rfile.readline().decode("latin-1").split()
        if len(first) != 3:
            return  # a connection without a request
        headers: list[tuple[str, str]] = []
        while line := self.rfile.readline().decode("utf-8").rstrip("\r\n"):
            name, _, value = line.partition(":")
            headers.append((name, value.strip()))
        body = self.rfile.read(int(_has(headers, "content-length") or 0))
        answer = record.begin(Seen(first[0], first[1], headers, body))
        try:
            record.closing.wait(record.delay)
            for piece in answer.pieces:
                if isinstance(piece, bytes):
                    self.wfile.write(piece)
                else:
                    self._wait(piece, record)
        except OSError:
            record.hung_up.set()
        finally:
            record.end()

    def _wait(self, gate: threading.Event, record: HttpServer) -> None:
        """Wait at a gate, and notice when the client does not."""
        self.connection.settimeout(0.02)
        while not (gate.is_set() or record.closing.is_set()):
            with contextlib.suppress(TimeoutError):
                if not self.connection.recv(1):
                    record.hung_up.set()
                    break
        self.connection.settimeout(None)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64
    tls: ssl.SSLContext | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.tls is not None:
            try:
                request = self.tls.wrap_socket(request, server_side=True)
            except OSError:
                return  # the client did not like the certificate
        with contextlib.suppress(OSError):
            super().finish_request(request, client_address)
        if self.tls is not None:
            request.close()


@contextlib.contextmanager
def http_server(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[HttpServer]:
    """A server on a free port of this address."""
    with _Server((host, 0), _Handler) as server:
        port = server.server_address[1]
        record = HttpServer(f"{'https' if tls else 'http'}://{host}:{port}", int(port))
        server.record = record  # type: ignore[attr-defined]
        server.tls = tls
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield record
        finally:
            record.closing.set()
            server.shutdown()
            thread.join()
