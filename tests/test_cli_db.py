"""The command line as a person or a script meets it: output, exit status, nothing needless."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
from workbench.store import embedded

FAST = {"fsync": "off"}


def cli(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "workbench", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=os.environ | variables,
    )


def test_the_version_is_the_packages() -> None:
    done = cli("--version")
    assert (done.returncode, done.stdout) == (0, f"workbench {workbench.__version__}\n")


@pytest.mark.parametrize("arguments", [[], ["nope"], ["db"], ["db", "nope"], ["db", "log", "-n-1"]])
def test_wrong_usage_is_status_2(arguments: list[str]) -> None:
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: workbench")


def test_a_refusal_is_status_1_without_a_traceback(home: Path) -> None:
    done = cli("db", "start", "--home", str(home), WORKBENCH_PG_BIN="/nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("workbench: cannot use WORKBENCH_PG_BIN=/nowhere")
    assert "Traceback" not in done.stderr


def test_start_status_and_stop_tell_what_they_did(home: Path) -> None:
    place = {"WORKBENCH_HOME": str(home)}
    assert cli("db", "status", **place).stdout == f"stopped; home {home}\n"
    started = cli("db", "start", **place)
    assert (started.returncode, started.stderr) == (0, "")
    pid = embedded.status(home).pid
    assert cli("db", "status", **place).stdout == (
        f"running, process {pid}; home {home}\n{started.stdout}"
    )
    assert [cli("db", "stop", **place).stdout for _ in range(2)] == [
        "stopped\n",
        "was not running\n",
    ]


def test_home_is_taken_before_and_after_the_command(home: Path) -> None:
    assert cli("db", "--home", str(home), "path").stdout == f"{home}\n"
    assert cli("db", "path", "--home", str(home)).stdout == f"{home}\n"


def test_a_dsn_that_connect_would_prefer_is_mentioned(home: Path) -> None:
    done = cli("db", "status", "--home", str(home), WORKBENCH_DSN="host=elsewhere")
    assert done.returncode == 0
    assert done.stderr.startswith("note: WORKBENCH_DSN is set, so connect() goes there")


def test_log_prints_the_last_lines(home: Path) -> None:
    missing = cli("db", "log", "--home", str(home))
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == f"workbench: no log in {home}: no server was started there yet\n"
    embedded.ensure(home, settings=FAST)
    embedded.stop(home)
    done = cli("db", "log", "--home", str(home), "--lines", "1")
    assert done.stdout.endswith("LOG:  database system is shut down\n")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("separator", [[], ["--"]])
def test_psql_gets_its_own_options(home: Path, separator: list[str]) -> None:
    if embedded.find_psql() is None:
        pytest.skip("there is no psql here")
    embedded.ensure(home, settings=FAST)
    options = [*separator, "-A", "-t", "-c", "SELECT 6 * 7"]
    done = cli("db", "psql", *options, WORKBENCH_HOME=str(home))
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


def test_a_missing_psql_is_told_so(home: Path) -> None:
    folder = home.parent / "bin"
    folder.mkdir()
    for name in ("postgres", "initdb"):
        (folder / name).touch(0o755)
    done = cli(
        "db", "psql", WORKBENCH_HOME=str(home), WORKBENCH_PG_BIN=str(folder), PATH="/nowhere"
    )
    assert done.returncode == 1
    assert done.stderr.startswith("workbench: there is no psql to open")


def test_a_reader_that_leaves_is_no_traceback(home: Path) -> None:
    home.mkdir()
    (home / "lock").touch()
    (home / "log").write_text("a line\n" * 200_000)
    command = [sys.executable, "-m", "workbench", "db", "--home", str(home), "log", "-n", "200000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_command_line_loads_neither_pandas_nor_widgets() -> None:
    code = (
        "import sys, workbench.cli\n"
        "heavy = {'pandas', 'numpy', 'ipywidgets', 'IPython', 'plotly', 'anywidget'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
