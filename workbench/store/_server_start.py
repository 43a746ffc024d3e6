"""Start a server in a home whose lock is held: make the cluster if there is none, run `postgres`.

`initdb` works in a folder aside that is then renamed: a killed one leaves nothing half made.
`postgres` is started directly, not through `pg_ctl`, which would overwrite the variable that makes
a stale `postmaster.pid` harmless. The server outlives this process; `embedded.stop` ends it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from workbench.errors import EmbeddedError
from workbench.store._server_account import USE_A_DSN, Account, account_for, user_name
from workbench.store._server_binaries import Binaries, usable_binaries
from workbench.store._server_lock import Postmaster, ServerLock, read_postmaster

logger = logging.getLogger("workbench")

_TEMPORARY = "pg-"  # prefix of folders that hold nothing of value once nobody holds the lock
_LOG_LIMIT = 10 * 2**20  # bytes; a longer log is set aside at the next start
# The socket's full name must fit into 103 bytes on macOS (107 on Linux); the list of socket folders
# that Postgres reads gives commas, quotes and spaces a meaning.
_PLAIN_SOCKET_FOLDER = re.compile(r"[\w./-]{1,88}", re.ASCII)


class ServerProcess(subprocess.Popen[bytes]):
    """A child meant to outlive us: dropping its handle is no leak to warn of."""

    log_start: int  # the log's size before this server wrote to it, bytes

    def __del__(self) -> None:
        pass


_started: list[ServerProcess] = []


def reap() -> None:
    """Collect the exit status of servers that we started and that have ended (else: zombies)."""
    _started[:] = [server for server in _started if server.poll() is None]


def start(lock: ServerLock, settings: Mapping[str, str]) -> ServerProcess:
    """Spawn a server that inherits the lock; it may not be ready, or may yet fail.

    Raises
    ------
    EmbeddedError
        There are no usable binaries, or initdb failed.
    """
    home = lock.home
    account = account_for(home)
    account.own(lock.fd)
    binaries = usable_binaries(home, account)
    data = home / f"pg{binaries.major}"
    for leftover in home.glob(_TEMPORARY + "*"):
        shutil.rmtree(leftover)
    if not data.exists():
        _initialise(data, binaries, account, lock, settings)
    lock.note_data(data)
    return _spawn(data, binaries, account, lock, settings)


def temporary_folder(parent: Path, account: Account) -> Path:
    """Make a folder that only the server's user can enter."""
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=_TEMPORARY))
    account.own(folder)
    return folder


def remove_socket_folder(postmaster: Postmaster) -> None:
    """Remove the socket's folder of a server that has ended, if it had one of its own."""
    if postmaster.socket_folder != postmaster.data:
        shutil.rmtree(postmaster.socket_folder, ignore_errors=True)


def _initialise(
    data: Path,
    binaries: Binaries,
    account: Account,
    lock: ServerLock,
    settings: Mapping[str, str],
) -> None:
    _refuse_nameless_user(account)
    for other in sorted(data.parent.glob("pg[0-9]*")):
        logger.warning(
            "%s holds data of another Postgres version, which %s does not read; starting empty in "
            "%s. To go on with the old data set WORKBENCH_PG_BIN to that version's bin folder",
            other, binaries.version, data,
        )  # fmt: skip
    aside = temporary_folder(data.parent, account)
    options = _initdb_options(binaries.major)
    if settings.get("fsync") == "off":
        options.append("--no-sync")
    done = account.run(
        [binaries / "initdb", "-D", aside, *options],
        environment=_environment(),
        pass_fds=[lock.fd],  # an initdb that outlives us must not meet a second one
    )
    if done.returncode != 0:
        shutil.rmtree(aside, ignore_errors=True)
        raise EmbeddedError(_initdb_failed(data, done.stderr.strip()))
    aside.rename(data)


def _initdb_options(major: int) -> list[str]:
    options = ["--username=postgres", "--encoding=UTF8", "--locale=C"]
    options += ["--auth-local=trust", "--auth-host=reject"]
    if major >= 17:  # knows upper and lower case beyond ASCII, and needs no locale of the system
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return options


def _refuse_nameless_user(account: Account) -> None:
    if user_name(account.uid) is None:
        raise EmbeddedError(
            f"cannot create the embedded Postgres: user id {account.uid} has no entry in the "
            "passwd database, and initdb refuses to run without one; add one (in a container: "
            f"`useradd --uid {account.uid} me`), or {USE_A_DSN}"
        )


def _initdb_failed(data: Path, stderr: str) -> str:
    if "No space left" in stderr:
        move = "free some space there, or choose another place by WORKBENCH_HOME"
    elif "Permission denied" in stderr:
        move = "choose a folder of your own by WORKBENCH_HOME"
    else:
        move = f"mend what it names, choose another place by WORKBENCH_HOME, or {USE_A_DSN}"
    return f"cannot create the embedded Postgres in {data}: initdb failed; {move}\n{stderr}"


def _environment() -> dict[str, str]:
    """Our environment without what would reach into the server: PG*, locale."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C"}


def _overrule_stale_pid_file(data: Path) -> dict[str, str]:
    """Return the environment that makes Postgres ignore a pid file of a server that is dead.

    We hold the lock, so whatever process has that id now is not a server of this folder. Postgres
    ignores an id equal to its grandparent's as `pg_ctl` tells it, and so still checks the dead
    server's shared memory, which it would not if the file were removed.
    """
    path = data / "postmaster.pid"
    if stale := read_postmaster(data):
        remove_socket_folder(stale)
    try:
        return {"PG_GRANDPARENT_PID": str(abs(int(path.read_text().split("\n")[0])))}
    except FileNotFoundError:
        return {}
    except ValueError:  # empty or cut off by a full disk or a crash: Postgres would refuse to start
        path.unlink()
        return {}


def _spawn(
    data: Path,
    binaries: Binaries,
    account: Account,
    lock: ServerLock,
    settings: Mapping[str, str],
) -> ServerProcess:
    environment = _environment() | _overrule_stale_pid_file(data)
    plain = _PLAIN_SOCKET_FOLDER.fullmatch(str(data))
    socket_folder = data if plain else temporary_folder(Path("/tmp"), account)
    options = [f"--{name}={value}" for name, value in settings.items()]
    options += ["--listen_addresses=", f"--unix_socket_directories={socket_folder}", "--port=5432"]
    log = _open_log(data.parent / "log", account)
    try:
        log_start = os.fstat(log).st_size
        server = ServerProcess(
            [binaries / "postgres", "-D", data, *options],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
            start_new_session=True,  # an interrupt of our terminal is not meant for it
            pass_fds=[lock.fd],
        )
    finally:
        os.close(log)
    server.log_start = log_start
    _started.append(server)
    return server


def _open_log(path: Path, account: Account) -> int:
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        path.replace(path.with_name("log.old"))
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    account.own(log)
    return log
