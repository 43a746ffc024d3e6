"""The lock that says whether a server runs in a home, and what the server writes about itself.

The server inherits the lock's descriptor, and so do all its processes: the lock is free if and only
if none of them is alive, however they ended. Unlike a process id this holds across containers that
share the directory, and it cannot be stale.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from psycopg import pq
from psycopg.conninfo import make_conninfo

if sys.platform != "win32":
    import fcntl

_PORT = 5432  # of the socket's file name only: the server does not listen on TCP
_DATA_FOLDER = re.compile(r"pg\d+")


class ServerLock:
    """An open `home/lock`. Its content is the name of the data folder that was last started."""

    def __init__(self, home: Path) -> None:
        # No symbolic links: root may open a lock in a home that belongs to somebody else.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self.home = home
        self.fd = os.open(home / "lock", flags, 0o600)

    def __enter__(self) -> ServerLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.fd)  # a started server keeps its copy, and with it the lock

    def acquire(self) -> bool:
        """Take the lock if no server is alive or being started; False when one is."""
        return self._try(fcntl.LOCK_EX)

    def is_held(self) -> bool:
        """Tell whether a server is alive or being started, and keep nobody from starting one."""
        if self._try(fcntl.LOCK_SH):
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            return False
        return True

    def _try(self, mode: int) -> bool:
        try:
            fcntl.flock(self.fd, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def note_data(self, data: Path) -> None:
        """Write down which data folder is about to be served; the caller holds the lock."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, data.name.encode(), 0)

    def data(self) -> Path | None:
        """Return the data folder that is served, or was last; None before the first start."""
        name = os.pread(self.fd, 100, 0).decode(errors="replace")
        return self.home / name if _DATA_FOLDER.fullmatch(name) else None


@dataclass(frozen=True)
class Postmaster:
    """What `postmaster.pid` says: a running server's process and socket, or a dead one's."""

    data: Path
    pid: int
    socket_folder: Path
    state: str  # starting, ready, stopping, standby

    @property
    def dsn(self) -> str:
        # An empty hostaddr keeps a stray PGHOSTADDR from leading to another server.
        return make_conninfo(
            host=str(self.socket_folder),
            hostaddr="",
            port=_PORT,
            user="postgres",
            dbname="postgres",
        )

    def ping(self) -> pq.Ping:
        """Ask whether it answers: OK also when no connection is free, REJECT in recovery."""
        if self.state == "starting":  # not asked, since it would log a refused connection
            return pq.Ping.REJECT
        return pq.Ping(pq.PGconn.ping(make_conninfo(self.dsn, connect_timeout=5).encode()))

    def is_visible(self) -> bool:
        """Tell whether `pid`, seen from here, is this server (in another container it is not)."""
        try:
            if sys.platform == "linux":
                return Path(f"/proc/{self.pid}/cwd").samefile(self.data)
            command = subprocess.run(
                ["ps", "-o", "command=", "-p", str(self.pid)],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            return False
        return str(self.data) in command.stdout


def read_postmaster(data: Path | None) -> Postmaster | None:
    """Read `postmaster.pid`: None when there is none or it is not written out yet."""
    if data is None:
        return None
    try:
        lines = (data / "postmaster.pid").read_text().split("\n")
        pid, socket_folder, state = abs(int(lines[0])), lines[4], lines[7].strip()
    except (FileNotFoundError, IndexError, ValueError):
        return None
    return Postmaster(data, pid, Path(socket_folder), state) if socket_folder else None
