"""The embedded Postgres: one server a home directory, started on first use, shared by all who come.

A *home* holds the cluster (`pg18/`), the server's `log` and a `lock`. `ensure` starts or attaches,
`status` looks, `stop` ends; nothing else ends the server: durable work goes on when a kernel does
not. It listens on a Unix socket only, open to its own user. POSIX only. Where the programs come
from is `_server_binaries`, how they are started `_server_start`, who is alive `_server_lock`.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import platformdirs
from psycopg import pq

from workbench.errors import EmbeddedError
from workbench.store._server_account import USE_A_DSN, account_for, unreachable_part
from workbench.store._server_binaries import find_bin, find_psql
from workbench.store._server_lock import Postmaster, ServerLock, read_postmaster
from workbench.store._server_start import ServerProcess, reap, remove_socket_folder, start

__all__ = [
    "ServerStatus",
    "default_home",
    "destroy",
    "ensure",
    "find_bin",
    "find_psql",
    "ours",
    "status",
    "stop",
]

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_POLL = 0.02  # seconds between two looks at a server that is starting or stopping
_OURS = re.compile(r"pg\d+|pg-\w+|postgres-[\d.]+|log|lock")  # what we make in a home
_FOREIGN_GRACE = 5.0  # seconds a server may stay invisible before we say it is in another container


@dataclass(frozen=True)
class ServerStatus:
    """What is known about the server of one home, at one moment.

    `running` is true from the moment a server is being started. `dsn` and `pid` are None while it
    does not answer, `pid` also when its process is in another container. `data` is None before the
    first start.
    """

    home: Path
    running: bool
    dsn: str | None
    pid: int | None
    data: Path | None
    log: Path


def default_home() -> Path:
    """Return the home that `ensure()` uses: `WORKBENCH_HOME`, else the user's data directory.

    For root it is a system directory: the server runs as another user, who cannot enter /root.
    """
    if chosen := os.environ.get("WORKBENCH_HOME"):
        return Path(chosen).expanduser().absolute()
    if sys.platform != "win32" and os.geteuid() == 0:
        if sys.platform == "linux":
            return Path("/var/lib/durable-workbench")
        return platformdirs.site_data_path("durable-workbench", appauthor=False)
    return platformdirs.user_data_path("durable-workbench", appauthor=False)


def ensure(
    home: Path | None = None,
    *,
    settings: Mapping[str, str] = _NO_SETTINGS,
    timeout: float = 120.0,
) -> str:
    """Start the server of `home`, or attach to the one that runs; safe from many processes at once.

    Cold start takes 1 to 4 s, a warm one under 0.5 s, attaching under 0.2 s (measured).

    Parameters
    ----------
    home:
        The directory to keep everything in, made when missing; None for `default_home()`.
    settings:
        Server parameters (`{"max_connections": "200"}`). They hold for a server that this call
        starts, and change nothing about one that runs.
    timeout:
        Seconds until the server must answer. Recovery after a crash is part of it.

    Returns
    -------
    str
        A libpq connection string for database and user `postgres`.

    Raises
    ------
    EmbeddedError
        No binaries, initdb or the server failed, the directory is of no use, the time is up, or
        this is Windows.
    """
    home = _resolve(home)
    deadline = time.monotonic() + timeout
    reap()
    with _explaining_os_errors(home):
        _prepare(home)
        with ServerLock(home) as lock:
            return _start_or_attach(lock, settings, deadline, timeout)


def status(home: Path | None = None) -> ServerStatus:
    """Look at the server of `home` without starting or making anything.

    Raises
    ------
    EmbeddedError
        The home cannot be read, or this is Windows.
    """
    home = _resolve(home)
    reap()
    with _explaining_os_errors(home):
        if not (home / "lock").exists():
            return ServerStatus(home, False, None, None, None, home / "log")
        with ServerLock(home) as lock:
            running, data = lock.is_held(), lock.data()
    postmaster = read_postmaster(data) if running else None
    answers = postmaster is not None and postmaster.ping() == pq.Ping.OK
    visible = postmaster is not None and postmaster.is_visible()
    return ServerStatus(
        home,
        running,
        dsn=postmaster.dsn if postmaster and answers else None,
        pid=postmaster.pid if postmaster and visible else None,
        data=data,
        log=home / "log",
    )


def stop(home: Path | None = None, *, timeout: float = 60.0) -> bool:
    """Stop the server of `home`: sessions are closed, committed work is safe.

    Parameters
    ----------
    home:
        As for `ensure`.
    timeout:
        Seconds until the server must have ended.

    Returns
    -------
    bool
        Whether there was one to stop.

    Raises
    ------
    EmbeddedError
        It runs in another container, did not end in time, or this is Windows.
    """
    home = _resolve(home)
    with _explaining_os_errors(home):
        if not (home / "lock").exists():
            return False
        with ServerLock(home) as lock:
            if not lock.is_held():
                return False
            _stop_and_wait(lock, timeout)
    return True


def ours(home: Path | None = None) -> list[Path]:
    """Return what the server has made in its home, and `destroy` would remove."""
    home = _resolve(home)
    with _explaining_os_errors(home):
        if not (home / "lock").exists():
            return []  # never a server's home: whatever is in it has another owner
        return sorted(path for path in home.iterdir() if _OURS.fullmatch(path.name))


def destroy(home: Path | None = None, *, timeout: float = 60.0) -> None:
    """Stop the server of `home` and remove its data, irrecoverably; files that are not the
    server's stay.

    Raises
    ------
    EmbeddedError
        As for `stop`, or something cannot be removed.
    """
    home = _resolve(home)
    with _explaining_os_errors(home):
        if not (home / "lock").exists():
            return
        with ServerLock(home) as lock:
            _stop_and_wait(lock, timeout)  # holds the lock afterwards: nobody starts it meanwhile
            lock_last = sorted(ours(home), key=lambda path: path.name == "lock")
            for path in lock_last:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not any(home.iterdir()):
            home.rmdir()


def log_tail(log: Path, *, size: int = 4000, start: int = 0) -> str:
    """Return the last `size` bytes of a server's log, whole lines, none from before `start`."""
    try:
        with log.open("rb") as file:
            begin = max(start, file.seek(0, os.SEEK_END) - size)
            file.seek(begin)
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return text if begin == start else text.partition("\n")[2]


def _start_or_attach(
    lock: ServerLock, settings: Mapping[str, str], deadline: float, timeout: float
) -> str:
    server: ServerProcess | None = None
    answer = pq.Ping.NO_RESPONSE
    while time.monotonic() < deadline:
        if server is None and lock.acquire():
            server = start(lock, settings)
        if server is not None and server.poll() is not None:
            raise EmbeddedError(_server_failed(lock.home, server))
        if postmaster := read_postmaster(lock.data()):
            answer = postmaster.ping()
            if answer == pq.Ping.OK:
                return postmaster.dsn
        time.sleep(_POLL)
    raise EmbeddedError(_not_ready(lock.home, timeout, answer))


def _stop_and_wait(lock: ServerLock, timeout: float) -> None:
    began = time.monotonic()
    asked: Postmaster | None = None
    while not lock.acquire():
        found = read_postmaster(lock.data())
        if found and found != asked and found.is_visible():
            os.kill(found.pid, signal.SIGINT)  # "fast": does not wait for its clients to leave
            asked = found
        waited = time.monotonic() - began
        if asked is None and waited > min(timeout, _FOREIGN_GRACE):
            raise EmbeddedError(
                f"cannot stop the server of {lock.home}: its process is not visible from here; "
                "stop it in the container where it was started"
            )
        if waited > timeout:
            raise EmbeddedError(
                f"the server of {lock.home} was told to stop and has not ended in {timeout:g} s; "
                f"wait and ask again\n{log_tail(lock.home / 'log', size=1500)}"
            )
        time.sleep(_POLL)
    reap()
    if asked:
        remove_socket_folder(asked)


def _resolve(home: Path | None) -> Path:
    if sys.platform == "win32":
        raise EmbeddedError(f"the embedded Postgres does not run on Windows yet: {USE_A_DSN}")
    return (home or default_home()).resolve()


def _prepare(home: Path) -> None:
    """Make the home; as root, so that the server's user can enter it."""
    if os.geteuid() != 0:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    missing = [part for part in (home, *home.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(exist_ok=True)
        part.chmod(0o711)
    if home.stat().st_uid == 0 and ((home / "lock").exists() or not any(home.iterdir())):
        home.chmod(0o711)  # ours or empty; never a folder that has another use
    account = account_for(home)
    if account.switch and (barrier := unreachable_part(home, account)):
        raise EmbeddedError(
            f"cannot keep the embedded Postgres in {home}: user {account.name}, who must run it in "
            f"place of root, cannot enter {barrier}; choose another place by WORKBENCH_HOME (the "
            "default for root is /var/lib/durable-workbench)"
        )


@contextmanager
def _explaining_os_errors(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EmbeddedError(_os_error(home, error)) from error


def _os_error(home: Path, error: OSError) -> str:
    elsewhere = "choose another place by WORKBENCH_HOME"
    moves = {
        errno.ENOSPC: f"the disk is full: free some space, or {elsewhere}",
        errno.EDQUOT: f"the disk quota is used up: free some space, or {elsewhere}",
        errno.EROFS: f"it is read-only: {elsewhere}",
        errno.EACCES: f"{_owner(home)}: {elsewhere}, or {USE_A_DSN}",
        errno.EPERM: f"a right is missing (root without CAP_SETUID or CAP_CHOWN, as in some "
        f"containers, cannot start it): run as a plain user, or {USE_A_DSN}",
        errno.ENOLCK: f"its file system has no locks: {elsewhere}",
        errno.EOPNOTSUPP: f"its file system has no locks: {elsewhere}",
    }
    move = moves.get(error.errno or 0, f"{elsewhere}, or {USE_A_DSN}")
    return f"cannot use {home} for the embedded Postgres ({error}); {move}"


def _owner(home: Path) -> str:
    try:
        return f"it belongs to {home.owner()}"
    except (OSError, KeyError):
        return "it is not open to you"


def _server_failed(home: Path, server: ServerProcess) -> str:
    log = home / "log"
    said = log_tail(log, size=1500, start=server.log_start).strip()
    if "No space left" in said:
        move = "free some space, then try again"
    else:
        move = f"mend what it names, choose another place by WORKBENCH_HOME, or {USE_A_DSN}"
    return (
        f"the embedded Postgres of {home} ended while starting (exit status {server.returncode}); "
        f"{move}; the end of {log}:\n{said}"
    )


def _not_ready(home: Path, timeout: float, answer: pq.Ping) -> str:
    log = home / "log"
    if answer == pq.Ping.REJECT:
        state = "it is starting, recovering or stopping: wait and try again, or give more time"
    else:
        state = f"see {log}; if it hangs: `workbench db stop`, then try again"
    said = log_tail(log, size=1500)
    return f"the embedded Postgres of {home} does not answer after {timeout:g} s; {state}\n{said}"
