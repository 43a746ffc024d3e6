"""A Unix-socket proxy before a server that loses answers, loses questions and cuts connections, on purpose.

Connections are told apart by their `application_name`. A trap waits for a text in what a client sends
and then loses either the question (the server never sees it) or the answer (the server did it, the
client never hears).
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from psycopg.conninfo import conninfo_to_dict, make_conninfo

__all__ = ["Proxy", "Trap"]


@dataclass
class Trap:
    """Springs once, on the first connection of that name that sends `text`."""

    name: str
    text: bytes
    lose_question: bool
    sprung: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Forwards to the server of `dsn`; clients connect with `self.dsn`."""

    def __init__(self, dsn: str) -> None:
        info = conninfo_to_dict(dsn)
        port = info.get("port") or "5432"
        self._server = f"{info['host']}/.s.PGSQL.{port}"
        self._folder = tempfile.mkdtemp(dir="/tmp", prefix="workbench-proxy-")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self._folder}/.s.PGSQL.{port}")
        self._listener.listen()
        self._links: list[_Link] = []
        self.traps: list[Trap] = []
        self.silent = False
        self.dsn = make_conninfo(dsn, host=self._folder)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def lose_answer(self, name: str, text: bytes) -> Trap:
        """From `text` on, the client named so hears nothing more; `cut` frees it."""
        return self._trap(Trap(name, text, lose_question=False))

    def lose_question(self, name: str, text: bytes) -> Trap:
        """Cut the connection instead of forwarding `text`."""
        return self._trap(Trap(name, text, lose_question=True))

    @property
    def clients(self) -> int:
        """How many have connected so far."""
        return len(self._links)

    def fall_silent(self) -> None:
        """From now on no client hears anything, new ones included."""
        self.silent = True

    def cut(self, name: str = "") -> None:
        """Close all connections whose name begins so."""
        for link in self._links:
            if link.name.startswith(name):
                link.cut()

    def close(self) -> None:
        # A blocked accept() survives close(); shutdown wakes it.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.cut()
        for link in self._links:
            link.join()
        shutil.rmtree(self._folder)

    def _trap(self, trap: Trap) -> Trap:
        self.traps.append(trap)
        return trap

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:
                client.close()
                server.close()
                continue
            self._links.append(_Link(client, server, self))


class _Link:
    """One client's connection, with a thread for each direction."""

    def __init__(self, client: socket.socket, server: socket.socket, proxy: Proxy) -> None:
        self.name = ""
        self._client, self._server, self._proxy = client, server, proxy
        self._deaf = False
        self._threads = [
            threading.Thread(target=self._up, daemon=True),
            threading.Thread(target=self._down, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def cut(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._server.close()

    def _up(self) -> None:
        for data in _chunks(self._client):
            if not self.name and (found := re.search(rb"application_name\0([^\0]*)\0", data)):
                self.name = found[1].decode()
            if trap := self._sprung(data):
                if trap.lose_question:
                    self.cut()
                    trap.sprung.set()
                    return
                self._deaf = True
                trap.sprung.set()
            if not _send(self._server, data):
                break
        self.cut()

    def _down(self) -> None:
        for data in _chunks(self._server):
            self._deaf |= self._proxy.silent
            if not self._deaf and not _send(self._client, data):
                break
        if not self._deaf:
            self.cut()

    def _sprung(self, data: bytes) -> Trap | None:
        for trap in self._proxy.traps:
            if not trap.sprung.is_set() and trap.name == self.name and trap.text in data:
                return trap
        return None


def _chunks(end: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        while data := end.recv(1 << 16):
            yield data


def _send(end: socket.socket, data: bytes) -> bool:
    try:
        end.sendall(data)
    except OSError:
        return False
    return True


@contextmanager
def proxy_before(dsn: str) -> Iterator[Proxy]:
    proxy = Proxy(dsn)
    try:
        yield proxy
    finally:
        proxy.close()
