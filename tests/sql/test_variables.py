"""Variables: whose they are, when they are copied, what steps see."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from workbench.engine.worker import Engine


def test_set_get_unset_clear(db: Database) -> None:
    assert db.value("SELECT df.getvar('a')") is None
    assert db.value("SELECT df.setvar('a', '1')") == "OK"
    assert db.value("SELECT df.setvar('a', '2')") == "OK"
    assert db.value("SELECT df.setvar('not an identifier', '')") == "OK"
    assert (
        db.value("SELECT df.getvar('a')"),
        db.value("SELECT df.getvar('not an identifier')"),
    ) == ("2", "")
    assert db.value("SELECT df.unsetvar('a')") == "OK"
    assert db.value("SELECT df.unsetvar('a')") == "OK"
    assert db.value("SELECT df.getvar('a')") is None
    assert db.value("SELECT df.clearvars()") == "OK"
    assert db.value("SELECT count(*) FROM df.vars") == 0


def test_each_role_has_its_own_and_a_superuser_touches_only_its_own(
    db: Database, make_role: MakeRole, session: Callable[[str], Database]
) -> None:
    other = session(make_role(name='od"d Role'))
    other.execute("SELECT df.setvar('a', 'theirs')")
    db.execute("SELECT df.setvar('a', 'mine')")
    assert (db.value("SELECT df.getvar('a')"), other.value("SELECT df.getvar('a')")) == (
        "mine",
        "theirs",
    )
    db.execute("SELECT df.unsetvar('a')")
    assert db.value("SELECT df.getvar('a')") is None
    db.execute("SELECT df.clearvars()")
    assert other.value("SELECT df.getvar('a')") == "theirs"


def test_a_run_has_the_variables_of_its_start(db: Database, engine: Engine) -> None:
    db.execute("SELECT df.setvar('greeting', 'hello')")
    db.execute("INSERT INTO df.vars (name, value) VALUES ('nothing', NULL)")
    run = db.value(
        "SELECT df.start($$SELECT '{greeting} {nothing} {sys_label} {sys_instance_id}' AS said$$, 'morning')"
    )
    db.execute("SELECT df.setvar('greeting', 'changed')")
    engine.wake()
    db.wait(run)
    assert db.rows(run) == [{"said": f"hello {{nothing}} morning {run}"}]


def test_without_a_label_sys_label_is_empty(db: Database, engine: Engine) -> None:
    run = db.start("SELECT '[{sys_label}]' AS label")
    engine.wake()
    db.wait(run)
    assert db.rows(run) == [{"label": "[]"}]


def test_named_results_and_the_input_reach_later_steps(db: Database, engine: Engine) -> None:
    run = db.value(
        "SELECT df.start('SELECT 40 AS n' |=> 'a' ~> 'SELECT $a + $input.more AS sum', input => '{\"more\": 2}')"
    )
    engine.wake()
    db.wait(run)
    assert db.rows(run) == [{"sum": 42}]


@pytest.mark.parametrize("call", ["df.setvar('a', 'b')", "df.unsetvar('a')", "df.clearvars()"])
def test_a_step_may_not_change_variables(db: Database, engine: Engine, call: str) -> None:
    db.execute("SELECT df.setvar('a', 'kept')")
    run = db.start(f"SELECT {call}")
    engine.wake()
    db.wait(run, "failed")
    message = f"{call.partition('(')[0]}() cannot be called inside a workflow - "
    assert db.error(run)["message"].startswith(message)
    assert db.value("SELECT df.getvar('a')") == "kept"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            "df.await_instance('00000000')",
            "df.await_instance() cannot be called inside a workflow - ",
        ),
        (
            "df.start('SELECT 1', transaction_mode => 'new')",
            "df.start(…, 'new') cannot be called inside a workflow - ",
        ),
    ],
)
def test_what_would_wait_for_itself_is_refused_in_a_step(
    db: Database, engine: Engine, call: str, said: str
) -> None:
    run = db.start(f"SELECT {call}")
    engine.wake()
    db.wait(run, "failed")
    assert db.error(run)["message"].startswith(said)


def test_a_step_may_read_variables_as_they_are_now(db: Database, engine: Engine) -> None:
    db.execute("SELECT df.setvar('a', 'at the start')")
    with db.gate(7):
        run = db.value(
            "SELECT df.start('SELECT pg_advisory_xact_lock_shared(7)' ~> 'SELECT df.getvar(''a'') AS a')"
        )
        engine.wake()
        db.wait_at_gate(7)
        db.execute("SELECT df.setvar('a', 'now')")
    db.wait(run)
    assert db.rows(run) == [{"a": "now"}]


def test_a_step_may_start_another_run(db: Database, engine: Engine) -> None:
    run = db.start("SELECT df.start('SELECT 7 AS seven') AS run")
    engine.wake()
    db.wait(run)
    started = db.rows(run)[0]["run"]
    engine.wake()
    db.wait(started)
    assert db.rows(started) == [{"seven": 7}]


def test_names_and_values_may_be_any_text(db: Database) -> None:
    for text in ("", "'", '"', "{x}", "$x", "ä\n" * 1000):
        db.execute("SELECT df.setvar('n' || %s, %s)", text, text)
        assert db.value("SELECT df.getvar('n' || %s)", text) == text


def test_a_rollback_takes_a_variable_back(db: Database) -> None:
    with db.conn.transaction(force_rollback=True):
        db.execute("SELECT df.setvar('a', 'b')")
    assert db.value("SELECT df.getvar('a')") is None
