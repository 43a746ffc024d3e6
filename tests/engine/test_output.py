"""What handlers print and log is kept with their attempts, and goes where it would go anyway."""

from __future__ import annotations

import logging
import sys

import pytest

from tests.engine.conftest import StartEngine
from tests.engine.support import Database
from workbench.engine.output import LOGS_LIMIT, Output, recorded
from workbench.graph.build import py, sql

SPEAK = "tests.engine.step_handlers:speak"
FAIL = "tests.engine.step_handlers:speak_and_fail"
LOGS = "SELECT logs FROM df.instance_attempts(%s)"


def test_handlers_that_speak_at_once_are_told_apart(
    db: Database, start_engine: StartEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdout
    start_engine()
    with db.gate(1):
        runs = {who: db.start(py(SPEAK, who=who, gate=1)) for who in ("Ana", "Ben")}
        db.wait_at_gate(1, 2)
    for who, run in runs.items():
        db.wait(run)
        assert db.values(LOGS, run) == [f"{who} prints\nWARNING speaker: {who} logs\n{who} ends\n"]
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "Ana ends",
        "Ana prints",
        "Ben ends",
        "Ben prints",
    ]
    assert sys.stdout is before


def test_each_attempt_keeps_its_own_also_when_it_fails(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine()
    run = db.start(py(FAIL, text="now", times=2), max_attempts=2, max_backoff="0.01 s")
    db.wait(run, "failed")
    assert db.values(LOGS, run) == ["now\nnow\n"] * 2


def test_of_much_output_the_end_is_kept_and_the_rest_counted(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine()
    run = db.start(py(FAIL, text="x" * 99, times=1000))
    db.wait(run, "failed")
    (logs,) = db.values(LOGS, run)
    first, _, kept = logs.partition("\n")
    assert first == f"… ({100_000 - LOGS_LIMIT} characters before this are not kept)"
    assert kept == ("x" * 99 + "\n") * (LOGS_LIMIT // 100)


def test_what_jsonb_cannot_hold_is_kept_in_another_form(
    db: Database, start_engine: StartEngine
) -> None:
    start_engine()
    run = db.start(py(FAIL, text='"\\\t\ud7ff', times=1))
    db.wait(run, "failed")
    assert db.values(LOGS, run) == ['"\\\t\ud7ff\n']


def test_silence_and_sql_keep_nothing(db: Database, start_engine: StartEngine) -> None:
    start_engine()
    run = db.start(sql("SELECT 1") >> py("tests.engine.step_handlers:echo", value=1))
    db.wait(run)
    assert db.values(LOGS, run) == [None, None]


def test_output_within_the_limit_is_whole() -> None:
    output = Output(limit=10)
    for letter in "abcdefghij":
        output.write(letter)
    assert output.text() == "abcdefghij"
    output.write("k")
    assert output.text() == "… (1 characters before this are not kept)\nbcdefghijk"


def test_a_log_call_with_wrong_arguments_fails_no_step() -> None:
    with recorded() as output:
        logging.getLogger("speaker").debug("unseen")
        record = logging.getLogger("speaker").makeRecord(
            "speaker", logging.ERROR, "file", 1, "%d", ("no number",), None
        )
    assert record.msg == "%d"
    assert output.text() == "ERROR speaker: %d\n"


def test_who_replaces_stdout_meanwhile_keeps_it_so(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    try:
        with recorded():
            sys.stdout = sys.stderr
        assert sys.stdout is sys.stderr
    finally:
        sys.stdout = before
