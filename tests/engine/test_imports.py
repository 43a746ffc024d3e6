"""Modules that engines import for the sake of handlers: whatever they do, the engine goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph import py

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Put a module where imports find it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        names.append(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_a_slow_import_holds_up_nobody_else(db: Database, engine: Engine, write: Write) -> None:
    write("slow_to_load", "import time\ntime.sleep(3)\ndef f(): return 1\ndef g(): return 2\n")
    slow = [db.start(py(f"slow_to_load:{name}")) for name in "fg"]
    wait_until(lambda: "slow_to_load" in sys.modules)
    db.wait(db.start("SELECT 1"), timeout=2)
    for run in slow:
        db.wait(run, timeout=10)


def test_a_module_that_ends_the_process_ends_no_engine(
    db: Database, engine: Engine, write: Write
) -> None:
    write("quits", "import sys\ndef f(): return 1\nsys.exit('usage: quits')\n")
    waiting = db.start(py("quits:f"))
    db.wait(db.start("SELECT 1"))
    assert engine.alive
    assert db.status(waiting) == "running"


def test_a_module_may_not_start_runs_while_it_is_imported(
    db: Database, engine: Engine, write: Write
) -> None:
    write(
        "starts",
        "import workbench as wb\n"
        "def f(): return 1\n"
        f"with wb.connect({db.dsn!r}, engine=False) as bench:\n"
        "    bench.start('SELECT 1')\n",
    )
    db.start(py("starts:f"))
    db.wait(db.start("SELECT 2"))
    wait_until(lambda: "starts" not in sys.modules)
    assert db.value("SELECT count(*) FROM df.instances") == 2
