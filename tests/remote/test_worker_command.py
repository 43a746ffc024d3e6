"""`workbench worker` as an administrator meets it: real processes, real signals, readable logs."""

from __future__ import annotations

import signal
import sys
import textwrap
from pathlib import Path

import psycopg
import pytest

from tests.engine.support import Database, wait_until
from tests.remote.commands import Worker
from tests.remote.conftest import RunCommand, StartWorker
from workbench.graph.build import py, seq, sql

JOBS = """
    import time

    import workbench as wb
    from workbench.engine.context import Context


    @wb.handler("jobs.double")
    def double(x: int) -> int:
        return 2 * x


    @wb.handler("jobs.modules")
    def modules() -> list[str]:
        import sys

        return [name for name in ("pandas", "ipywidgets", "anywidget", "plotly") if name in sys.modules]


    @wb.handler("jobs.dawdle")
    def dawdle(ctx: Context) -> int:
        with ctx.connect() as conn:
            conn.execute("INSERT INTO seen VALUES ('begun')")
        while True:
            time.sleep(0.05)
"""

signals = pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT], ids=lambda by: by.name)


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path) -> None:
    """A module `jobs` in the directory in which workers are called, and one that does not import."""
    (tmp_path / "jobs.py").write_text(textwrap.dedent(JOBS))
    (tmp_path / "broken.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "faulty.py").write_text("x = 1 / 0\n")


def begun(db: Database) -> bool:
    return db.values("SELECT what FROM seen") == ["begun"]


def test_it_executes_sql_and_the_handlers_of_imported_modules(
    db: Database, start_worker: StartWorker
) -> None:
    start_worker("--import", "jobs")
    graph = seq(sql("SELECT 21 AS n").named("x"), py("jobs.double", x={"$ref": "x.n"}))
    run = db.start(graph)
    db.wait(run)
    assert db.result(run) == 42


def test_it_imports_neither_pandas_nor_widgets(db: Database, start_worker: StartWorker) -> None:
    start_worker("--import", "jobs")
    run = db.start(py("jobs.modules"))
    db.wait(run)
    assert db.result(run) == []


def test_a_handler_that_was_not_imported_waits_for_a_worker_that_has_it(
    db: Database, start_worker: StartWorker
) -> None:
    start_worker()
    run = db.start(py("jobs.double", x=2))
    wait_until(lambda: db.node(run)["status"] == "ready")
    start_worker("--import", "jobs")
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]


def test_log_lines_name_run_and_step(db: Database, start_worker: StartWorker) -> None:
    worker = start_worker()
    run = db.start(seq("SELECT 1", "SELECT 1 / 0"))
    db.wait(run, "failed")
    worker.wait_for_line(f"run {run} #1 attempt 1 completed")
    worker.wait_for_line(f"run {run} #2 attempt 1 failed: DivisionByZero [22012]: division by zero")


@signals
def test_a_signal_ends_an_idle_worker_at_once(
    db: Database, start_worker: StartWorker, by: signal.Signals
) -> None:
    worker = start_worker()
    status, took = worker.end(by)
    assert (status, took < 1.0) == (0, True), (took, worker.log)
    assert f"engine {worker.id} left" in worker.log
    assert "Traceback" not in worker.log
    assert db.engines() == []


@signals
def test_a_signal_gives_a_running_statement_back_uncounted(
    db: Database, start_worker: StartWorker, by: signal.Signals
) -> None:
    worker = start_worker()
    with db.gate(1):
        run = db.start("SELECT pg_advisory_xact_lock_shared(1)::text")
        db.wait_at_gate(1)
        status, took = worker.end(by)
        assert (status, took < 1.5) == (0, True), (took, worker.log)
        assert db.statuses(run) == ["ready"]
    start_worker()
    db.wait(run)
    assert db.outcomes(run) == [(0, "completed")]
    assert (db.node(run)["attempt"], db.node(run)["losses"]) == (1, 0)


@signals
def test_a_signal_gives_a_handler_that_does_not_end_back_uncounted(
    db: Database, start_worker: StartWorker, by: signal.Signals
) -> None:
    worker = start_worker("--import", "jobs")
    run = db.start(py("jobs.dawdle"))
    wait_until(lambda: begun(db))
    status, took = worker.end(by)
    assert (status, took < 1.5) == (0, True), (took, worker.log)
    assert db.statuses(run) == ["ready"]
    assert (db.node(run)["attempt"], db.node(run)["losses"]) == (0, 0)


def test_two_workers_drain_one_queue_and_each_step_has_one_effect(
    db: Database, start_worker: StartWorker
) -> None:
    db.execute(
        "CREATE TABLE effects (run int, by text DEFAULT current_setting('application_name'))"
    )
    workers = [start_worker("--ceiling", "4"), start_worker("--ceiling", "4")]
    with db.transaction() as conn:
        conn.execute(
            "SELECT df.start(format('INSERT INTO effects SELECT %s FROM pg_sleep(0.01)', n))"
            " FROM generate_series(1, 80) n"
        )
        conn.commit()
    db.wait_all()
    assert db.value("SELECT count(*) FROM effects") == 80
    assert db.value("SELECT count(DISTINCT run) FROM effects") == 80
    assert db.value("SELECT count(*) FROM df.attempts") == 80
    assert set(db.values("SELECT DISTINCT engine_id FROM df.attempts")) == {w.id for w in workers}


def test_a_worker_that_is_killed_loses_its_step_to_the_other(
    db: Database, start_worker: StartWorker
) -> None:
    db.set(heartbeat_limit=2)
    killed = start_worker()
    with db.gate(1):
        run = db.start("SELECT pg_advisory_xact_lock_shared(1)::text")
        db.wait_at_gate(1)
        killed.kill()
        start_worker()
        wait_until(lambda: db.outcomes(run) == [(0, "worker_lost")])
        db.wait_at_gate(1)
    db.wait(run)
    assert db.outcomes(run) == [(0, "worker_lost"), (0, "completed")]


def test_a_quiet_worker_logs_nothing_of_its_steps(db: Database, dsn: str, tmp_path: Path) -> None:
    worker = Worker("--dsn", dsn, "--quiet", cwd=tmp_path)
    try:
        db.wait(db.start("SELECT 1"))
        assert worker.end(signal.SIGTERM)[0] == 0
        assert worker.log == ""
    finally:
        worker.kill()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--import", "nowhere"], "workbench: --import nowhere: no module 'nowhere'"),
        (["--import", "broken"], "workbench: --import broken: no module 'nowhere_to_be_found'"),
        (["--import", "faulty"], "workbench: --import faulty: ZeroDivisionError: division by zero"),
        (["--import", "a b"], "workbench: --import a b: no module 'a b'"),
        (["--import", ".jobs"], "workbench: --import .jobs: "),
        (["--ceiling", "0"], "workbench: --ceiling must be at least 1, not 0"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_argument_is_one_clear_line(
    dsn: str, run_command: RunCommand, arguments: list[str], says: str
) -> None:
    done = run_command("worker", "--dsn", dsn, *arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(says)
    assert done.err.count("\n") == 1


def test_wrong_usage_is_status_2(run_command: RunCommand) -> None:
    done = run_command("worker", "--ceiling", "many")
    assert (done.status, done.out) == (2, "")
    assert "--ceiling: invalid int value: 'many'" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ("postgresql://u:tops3cret@127.0.0.1:1/d", "d on 127.0.0.1:1"),
        ("host=127.0.0.1 port=1 user=u password=tops3cret", "u on 127.0.0.1:1"),
        ("host=", "workbench: "),
        ("nonsense", "workbench: cannot read the DSN"),
        ("mysql://u:tops3cret@h/d", "workbench: cannot read the DSN"),
    ],
)
def test_a_server_out_of_reach_is_one_clear_message(
    run_command: RunCommand, tmp_path: Path, dsn: str, says: str
) -> None:
    done = run_command("worker", "--dsn", dsn, PGHOST=str(tmp_path))
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("workbench: ")
    assert says in done.err
    assert "Traceback" not in done.err
    assert "tops3cret" not in done.err


def test_a_missing_schema_names_the_command(empty_dsn: str, run_command: RunCommand) -> None:
    done = run_command("worker", "--dsn", empty_dsn)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("workbench: database ")
    assert "has no workbench schema" in done.err
    assert "migrate" in done.err
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute("SELECT to_regnamespace('df')").fetchone() == (None,)


def test_the_worker_command_is_the_installed_program(run_command: RunCommand) -> None:
    done = run_command("worker", "--help")
    assert done.status == 0
    for option in ("--dsn", "--import", "--ceiling", "--quiet"):
        assert option in done.out
    assert Path(sys.executable).with_name("workbench").exists()
