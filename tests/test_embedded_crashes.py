"""An embedded server and whoever started it, killed at bad moments: the next `ensure` mends it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from workbench.errors import EmbeddedError
from workbench.store import embedded

FAST = {"fsync": "off"}  # a killed process loses nothing that the system still holds
ENSURE = "import sys, pathlib; from workbench.store.embedded import ensure; "
ENSURE += "print(ensure(pathlib.Path(sys.argv[1]), settings={'fsync': 'off'}))"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited 30 s in vain"
        time.sleep(0.005)


def postmaster(home: Path) -> int:
    pid = embedded.status(home).pid
    assert pid is not None
    return pid


def children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True)
    pairs = (map(int, line.split()) for line in listed.stdout.splitlines())
    return [child for child, parent in pairs if parent == pid]


def rows(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM kept ORDER BY n")]


def test_a_killed_owner_leaves_the_server_to_the_next(home: Path) -> None:
    code = ENSURE + "; import time; sys.stdout.flush(); time.sleep(600)"
    owner = subprocess.Popen([sys.executable, "-c", code, home], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        dsn = owner.stdout.readline().strip()
        owner.kill()
    assert embedded.ensure(home, settings=FAST) == dsn
    assert (home / "log").read_text().count("starting PostgreSQL") == 1


def test_a_killed_postmaster_is_replaced_at_once(home: Path) -> None:
    with psycopg.connect(embedded.ensure(home, settings=FAST)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    os.kill(postmaster(home), signal.SIGKILL)
    assert rows(embedded.ensure(home, settings=FAST)) == [1]


def test_a_killed_server_keeps_every_acknowledged_commit(home: Path) -> None:
    acknowledged: list[int] = []
    dsn = embedded.ensure(home, settings=FAST)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        for n in range(300):
            connection.execute("INSERT INTO kept VALUES (%s)", [n])
            acknowledged.append(n)
        pid = postmaster(home)
        for victim in [pid, *children(pid)]:
            os.kill(victim, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert rows(embedded.ensure(home, settings=FAST)) == acknowledged


def test_a_killed_initdb_leaves_nothing_half_made(home: Path) -> None:
    code = [sys.executable, "-c", ENSURE, str(home)]
    with subprocess.Popen(code, start_new_session=True, stderr=subprocess.DEVNULL) as starter:
        wait_until(lambda: any(home.glob("pg-*/base")))
        os.killpg(starter.pid, signal.SIGKILL)
    with psycopg.connect(embedded.ensure(home, settings=FAST)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert list(home.glob("pg-*")) == []


def test_a_start_waits_for_an_initdb_that_outlives_its_parent(home: Path) -> None:
    code = [sys.executable, "-c", ENSURE, str(home)]
    with subprocess.Popen(code, stderr=subprocess.DEVNULL) as starter:
        wait_until(lambda: any(home.glob("pg-*/base")))
        starter.kill()
    with psycopg.connect(embedded.ensure(home, settings=FAST)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert list(home.glob("pg-*")) == []


@contextmanager
def living_process_of(path: Path) -> Iterator[int]:
    """A process of the user that owns `path`, which is nothing to do with Postgres."""
    owner = path.stat().st_uid if os.geteuid() == 0 else None
    with subprocess.Popen(["sleep", "600"], user=owner, cwd="/") as process:
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_stale_pid_file_that_names_a_living_process_is_harmless(home: Path) -> None:
    embedded.ensure(home, settings=FAST)
    data = embedded.status(home).data
    assert data is not None
    pid_file = data / "postmaster.pid"
    lines = pid_file.read_text().split("\n")
    os.kill(postmaster(home), signal.SIGKILL)
    wait_until(lambda: not embedded.status(home).running)
    with living_process_of(data) as pid:
        pid_file.write_text("\n".join([str(pid), *lines[1:]]))
        assert embedded.stop(home) is False
        dsn = embedded.ensure(home, settings=FAST)
        os.kill(pid, 0)
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("content", ["", "\n", "garbage\n", "123"])
def test_a_damaged_pid_file_is_no_hindrance(home: Path, content: str) -> None:
    embedded.ensure(home, settings=FAST)
    data = embedded.status(home).data
    assert data is not None
    embedded.stop(home)
    (data / "postmaster.pid").write_text(content)
    with psycopg.connect(embedded.ensure(home, settings=FAST)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_socket_folder_of_a_killed_server_is_removed(home: Path) -> None:
    odd = home / "with space"
    embedded.ensure(odd, settings=FAST)
    first = socket_folder(odd)
    assert not first.is_relative_to(odd)
    os.kill(postmaster(odd), signal.SIGKILL)
    embedded.ensure(odd, settings=FAST)
    assert socket_folder(odd) != first
    assert not first.exists()


def socket_folder(home: Path) -> Path:
    data = embedded.status(home).data
    assert data is not None
    return Path((data / "postmaster.pid").read_text().split("\n")[4])


IN_NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c"]


@pytest.fixture
def _namespaces() -> None:
    if shutil.which("unshare") is None or subprocess.run([*IN_NAMESPACE, ""]).returncode:
        pytest.skip("cannot make a PID namespace here")


@pytest.mark.usefixtures("_namespaces")
def test_two_containers_on_one_directory_share_one_server(home: Path) -> None:
    dsn = embedded.ensure(home, settings=FAST)
    done = subprocess.run([*IN_NAMESPACE, ENSURE, home], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (dsn, "")
    assert (home / "log").read_text().count("starting PostgreSQL") == 1


@pytest.mark.usefixtures("_namespaces")
def test_a_server_of_another_container_is_not_stopped_by_its_number(home: Path) -> None:
    code = ENSURE + "; import time; sys.stdout.flush(); time.sleep(600)"
    other = subprocess.Popen([*IN_NAMESPACE, code, home], stdout=subprocess.PIPE, text=True)
    with other:
        assert other.stdout is not None
        assert other.stdout.readline().startswith("host=")
        assert embedded.status(home).pid is None
        with pytest.raises(EmbeddedError, match="stop it in the container where it was started"):
            embedded.stop(home, timeout=0.2)
        other.kill()
    wait_until(lambda: not embedded.status(home).running)
