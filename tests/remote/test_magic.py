"""`%%df` and waiting in a real kernel and in a real terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from tests.engine.support import Database
from tests.remote.commands import environment
from tests.remote.conftest import StartKernel

pytestmark = [
    pytest.mark.notebook,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_core"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq"),
]

OPEN = "%load_ext workbench"


def test_rows_come_as_a_dataframe_that_can_be_kept(db: Database, start_kernel: StartKernel) -> None:
    kernel = start_kernel()
    kernel.run(OPEN)
    said = kernel.run("%%df -o squares\nSELECT n, n * n AS square FROM generate_series(1, 3) n")
    assert "square" in said
    assert kernel.run("int(squares['square'].sum())") == "14"
    assert "41" in kernel.run("%df SELECT 41 AS n")
    assert kernel.run("%%df\nCREATE TABLE made (n int)").startswith("Empty DataFrame")
    assert db.value("SELECT count(*) FROM made") == 0


def test_runs_that_a_statement_starts_are_executed_and_shown(
    db: Database, start_kernel: StartKernel
) -> None:
    kernel = start_kernel()
    kernel.run(OPEN)
    kernel.begin("%%df -o made\nSELECT df.start('SELECT 6 * 7 AS answer') AS run")
    shown = kernel.displays()
    assert any("<code" in html and "wb-view" in html for html in shown)
    run = kernel.run("made['run'][0]").strip("'")
    db.wait(run)
    assert db.rows(run) == [{"answer": 42}]


def test_what_is_wrong_is_said_without_a_traceback(db: Database, start_kernel: StartKernel) -> None:
    kernel = start_kernel()
    kernel.run(OPEN)
    said = kernel.run("%%df\nSELECT *\nFROM nowhere")
    assert 'relation "nowhere" does not exist' in said
    assert "LINE 2: FROM nowhere" in said
    assert "[42P01]" in said
    assert "Traceback" not in said
    assert "'nope' is no bench here" in kernel.run("%%df nope\nSELECT 1")
    assert "takes one SQL statement" in kernel.run("%%df\n\n")
    kernel.run("other = bench\ndel bench")
    assert "one" in kernel.run("%%df\nSELECT 1 AS one")
    kernel.run("import os\nthird = wb.Bench(os.environ['WORKBENCH_DSN'], engine=False)")
    assert "several benches" in kernel.run("%%df\nSELECT 1")
    assert "1" in kernel.run("%%df third\nSELECT 1 AS one")


def test_who_waits_in_a_cell_sees_the_run_and_then_what_the_cell_returns(
    db: Database, start_kernel: StartKernel
) -> None:
    kernel = start_kernel()
    kernel.run(OPEN)
    kernel.begin("bench.start(wb.sleep(1.2) >> wb.sql('SELECT 7 AS n')).result()['rows']")
    shown = kernel.displays()
    assert "waiting" in shown[0]
    assert shown[-1] == ""  # gone when the run has ended
    kernel.begin("bench.start(wb.sleep(0.9)).wait(show=False)")
    assert all("wb-view" not in html for html in kernel.displays(results=False))


SCRIPT = """
import workbench as wb
bench = wb.connect()
print("result", bench.start(wb.wait_for_signal("go", timeout=3) >> wb.sql("SELECT 7 AS n")).result()["rows"])
"""


def test_a_terminal_has_a_line_of_progress_and_a_pipe_has_none(dsn: str) -> None:
    env = environment(WORKBENCH_DSN=dsn)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=env, stdout=subprocess.PIPE, stderr=theirs, text=True
    ) as script:
        os.close(theirs)
        written = read(ours)
        assert script.stdout is not None
        assert "result [{'n': 7}]" in script.stdout.read()
    assert "waiting, 0 of 2 steps" in written
    assert written.endswith("\r")
    piped = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    assert piped.stderr == ""


def read(terminal: int) -> str:
    """Everything that is written until the other side closes it."""
    parts: list[bytes] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            part = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()
