"""Results that cannot be stored, and values that must arrive as they were."""

from __future__ import annotations

import resource
import threading

import pytest

from tests.engine import step_handlers as handlers
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.graph.build import py, ref, seq, sql

MEBIBYTE = 2**20


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("SELECT '1e200000'::json AS value", "cannot be stored as jsonb"),
        (r"""SELECT '"\u0000"'::json AS value""", "NUL character"),
        (r"""SELECT '"\ud800"'::json AS value""", "lone surrogate"),
        ("SELECT (repeat('[', 300) || repeat(']', 300))::json AS value", "nested more than 256"),
    ],
)
def test_a_result_that_jsonb_refuses_is_a_permanent_error(
    db: Database, engine: Engine, statement: str, says: str
) -> None:
    run = db.start(statement, max_attempts=3)
    db.wait(run, "failed")
    assert db.outcomes(run) == [(0, "failed")]
    assert db.node(run)["faults"] == 0
    assert says in db.error(run)["message"]


def test_brackets_inside_a_text_are_no_depth(db: Database, engine: Engine) -> None:
    run = db.start("SELECT json_build_object('\"', repeat('[\"', 300)) AS value")
    db.wait(run)
    assert db.rows(run) == [{"value": {'"': '["' * 300}}]


def test_a_huge_result_is_cancelled_at_the_limit_and_memory_does_not_grow(
    db: Database, engine: Engine
) -> None:
    db.wait(db.start("SELECT 1"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = db.start("SELECT repeat('x', 1000000) FROM generate_series(1, 10000)", max_attempts=3)
    db.wait(run, "failed")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kibibytes on Linux
    assert grown < 200 * 1024
    assert "16" in db.error(run)["message"]
    assert "MiB" in db.error(run)["message"]
    assert db.outcomes(run) == [(0, "failed")]
    db.wait(db.start("SELECT 1"))


def test_many_small_rows_beyond_the_limit_are_cancelled_too(db: Database, engine: Engine) -> None:
    run = db.start("SELECT generate_series(1, 100000000) AS n")
    db.wait(run, "failed")
    assert db.error(run)["type"] in ("StepError", "ValueRefused")
    assert db.node(run)["faults"] == 0


def test_a_result_just_below_the_limit_is_kept(db: Database, engine: Engine) -> None:
    size = 16 * MEBIBYTE - 1000
    run = db.start(f"SELECT repeat('x', {size}) AS x")
    db.wait(run)
    assert db.value("SELECT length(result -> 'rows' -> 0 ->> 'x') FROM df.nodes") == size


def test_a_handlers_result_beyond_the_limit_is_a_permanent_error(
    db: Database, engine: Engine
) -> None:
    run = db.start(py(handlers.give_text, size=17 * MEBIBYTE), max_attempts=3)
    db.wait(run, "failed")
    assert db.error(run)["message"].startswith("result is 17.0 MiB of JSON, the limit is 16 MiB")
    assert db.outcomes(run) == [(0, "failed")]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("datetime", 'result["rows"][0]["when"] is datetime.datetime'),
        ("nan", "result[1] is nan"),
        ("bytes", 'result["a"]["b"] is bytes'),
        ("key", 'result["a"] has the key 1'),
        ("nul", "result[1] contains a NUL character"),
        ("surrogate", "result[0] contains a lone surrogate"),
        ("set", 'result["s"] is set'),
    ],
)
def test_a_result_that_json_cannot_hold_is_a_permanent_error_that_names_the_path(
    db: Database, engine: Engine, kind: str, says: str
) -> None:
    run = db.start(py(handlers.give_bad, kind=kind), max_attempts=3)
    db.wait(run, "failed")
    assert db.error(run)["message"].startswith(says)
    assert db.outcomes(run) == [(0, "failed")]


def test_a_result_nested_as_deeply_as_allowed_arrives(db: Database, engine: Engine) -> None:
    run = db.start(
        py(handlers.give_nested, depth=250).named("deep")
        >> py(handlers.represent, value=ref("deep"))
    )
    db.wait(run)
    assert db.result(run) == "[" * 250 + "1" + "]" * 250


@pytest.mark.parametrize(
    "value",
    [
        1e23,
        5e-324,
        1.7976931348623157e308,
        -0.0,
        0.1,
        2**64 + 1,
        -(10**4000),
        [1, 1.0, True, None],
        {"a": {"b": [{}, [], ""]}},
        "“quoted” \\ \n \U0001f40d",
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_arrives_in_the_next_step_with_its_type_and_digits(
    db: Database, engine: Engine, value: object
) -> None:
    run = db.start(
        py(handlers.echo, value=value).named("given")
        >> sql("SELECT 1")
        >> py(handlers.represent, value=ref("given"))
    )
    db.wait(run)
    assert db.result(run) == repr(value)


def test_floats_of_a_sql_step_arrive_as_the_same_floats(db: Database, engine: Engine) -> None:
    run = db.start(
        sql("SELECT 1e23::float8 AS a, 5e-324::float8 AS b, 18446744073709551617 AS c").named("row")
        >> py(handlers.represent, value=ref("row"))
    )
    db.wait(run)
    assert db.result(run) == "[{'a': 1e+23, 'b': 5e-324, 'c': '18446744073709551617'}]"


def test_a_named_value_is_kept_on_its_own_and_read_by_any_engine(
    db: Database, engine: Engine
) -> None:
    run = db.start(
        seq(
            sql("SELECT 7 AS n, 'x' AS s").named("first"),
            sql("SELECT 'hidden'"),
            py("later.handler"),
            sql("SELECT $first.n + 1 AS n, $first.s AS s"),
        )
    )
    wait_until(lambda: db.node(run, 5)["status"] == "ready")
    engine.stop()
    stored = (
        "SELECT value -> 'rows', columns FROM df.values WHERE instance_id = %s AND name = 'first'"
    )
    assert db.execute(stored, run).fetchone() == (
        [{"n": 7, "s": "x"}],
        [["n", "integer"], ["s", "text"]],
    )


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT $none", "$none has no rows"),
        ("SELECT $none.x", "$none.x has no rows"),
        ("SELECT $void", "$void is NULL"),
        ("SELECT $void.x", "$void.x is NULL"),
        ("SELECT $void.y", "$void.y: result has no field 'y'"),
    ],
)
def test_a_reference_without_a_usable_value_is_a_permanent_error(
    db: Database, engine: Engine, query: str, says: str
) -> None:
    run = db.start(
        seq(
            sql("SELECT 1 AS x WHERE false").named("none"),
            sql("SELECT NULL::int AS x").named("void"),
            sql(query),
        ),
        max_attempts=3,
    )
    db.wait(run, "failed")
    assert db.error(run)["message"].startswith(says)
    assert db.error(run)["type"] == "SubstitutionError"
    assert len(db.attempts(run)) == 3


def test_an_unknown_name_in_sql_is_left_to_postgres_and_in_python_named(
    db: Database, engine: Engine
) -> None:
    in_sql = db.start("SELECT $nobody", max_attempts=3)
    in_python = db.start(py(handlers.echo, value=ref("nobody")), max_attempts=3)
    db.wait(in_sql, "failed")
    db.wait(in_python, "failed")
    assert db.error(in_sql)["sqlstate"] == "42601"
    assert db.error(in_python)["message"].startswith("$nobody is not known here")
    assert len(db.attempts(in_sql)) == len(db.attempts(in_python)) == 1


@pytest.mark.parametrize(
    ("node", "error"),
    [
        (py(handlers.leave, code=3), {"type": "SystemExit", "message": "3"}),
        (py(handlers.interrupt), {"type": "KeyboardInterrupt", "message": ""}),
    ],
    ids=["exit", "interrupt"],
)
def test_a_handler_that_wants_to_end_the_process_fails_and_the_engine_lives(
    db: Database, engine: Engine, node: object, error: dict[str, str]
) -> None:
    run = db.start(node.to_json())  # type: ignore[attr-defined]
    db.wait(run, "failed")
    assert {key: db.error(run)[key] for key in error} == error
    db.wait(db.start(py(handlers.echo, value=1)))
    assert engine.alive
    assert any(thread.name.startswith("workbench-handler") for thread in threading.enumerate())


@pytest.mark.parametrize("fn", [handlers.unspeakable, handlers.speak_strangely])
def test_recording_a_failure_never_fails(db: Database, engine: Engine, fn: object) -> None:
    run = db.start(py(fn))  # type: ignore[arg-type]
    db.wait(run, "failed")
    assert db.error(run)["type"] in ("Unspeakable", "RuntimeError")
    assert len(db.error(run)["message"]) < 9_000
