"""What `bench.start` refuses, in words and before anything is stored."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from typing import Any

import pandas
import psycopg
import pytest

from tests.engine.step_handlers import echo
from tests.engine.support import Database
from tests.remote.conftest import MakeRole
from workbench.bench import Bench
from workbench.errors import DatabaseError, GraphError, UsageError, ValueRefused
from workbench.graph.build import py, ref, sql


@pytest.fixture(autouse=True)
def nothing_is_stored(db: Database, bench: Bench) -> Iterator[None]:
    bench.hold()
    yield
    for table in ("instances", "definitions", "nodes"):
        assert db.value(f"SELECT count(*) FROM df.{table}") == 0
    assert bench.status().unfinished_runs == 0  # the connection is still of use


def step() -> None: ...


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (None, "a step is a Node or SQL text, not NoneType"),
        (7, "a step is a Node or SQL text, not int"),
        (step, r"for a Python function write py\(step\)"),
        ([sql("SELECT 1")], r"write seq\(\*steps\) for a list"),
        ({"node_type": "SQL", "query": "SELECT 1"}, "not dict"),
        (b"SELECT 1", "not bytes"),
        ("", "query is missing"),
        ("SELECT '\0'", "NUL"),
        ('{"node_type": "SQL"}', "Invalid"),
        ('{"node_type": "SQL", "query": "SELECT 1", "colour": "red"}', "colour"),
        (py(echo, value=ref("nobody")), "nobody"),
    ],
)
def test_a_graph_that_is_none(bench: Bench, graph: Any, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        bench.start(graph)


@pytest.mark.parametrize("name", ["label", "idempotency_key", "database"])
@pytest.mark.parametrize("value", ["a\0b", 7, b"x", ["x"], "\ud800"], ids=repr)
def test_a_text_that_is_none(bench: Bench, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"{name} must be text .*nothing was started"):
        bench.start("SELECT 1", **{name: value})


def test_a_label_of_ten_megabytes(bench: Bench) -> None:
    with pytest.raises(
        UsageError, match=r"label has 10000000 characters; at most 1000.*nothing was started"
    ):
        bench.start("SELECT 1", label="x" * 10_000_000)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [1, {"when": datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)}]}, r'input\["a"\]\[1\]\["when"\]'),
        ({"x": math.nan}, r'input\["x"\]'),
        ([math.inf], r"input\[0\]"),
        ({1: "x"}, "input"),
        ({"a": {1, 2}}, r'input\["a"\]'),
        (["a\0b"], r"input\[0\]"),
        (["\udcff"], r"input\[0\]"),
        (object(), "input"),
        (pandas.DataFrame({"a": [1]}), r"wb\.rows\("),
        ({"frame": pandas.DataFrame({"a": [1]})}, r'input\["frame"\].*wb\.rows\('),
        (["x" * (16 * 1024 * 1024)], "16 MiB"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)  # fmt: skip
def test_an_input_that_is_not_json(bench: Bench, value: Any, says: str) -> None:
    with pytest.raises(ValueRefused, match=says):
        bench.start("SELECT 1", input=value)


def test_an_input_that_contains_itself(bench: Bench) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueRefused, match="input"):
        bench.start("SELECT 1", input=loop)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"a": 1}, r"vars\['a'\] is a int: variables are text, e.g. str\(1\)"),
        ({1: "a"}, r"vars\[1\]"),
        ({"a": None}, r"vars\['a'\]"),
        ({"a": "x\0"}, r"vars\['a'\].*NUL"),
        ({"a": "\ud800"}, r"vars\['a'\]"),
        ([("a", "b")], "vars is a mapping"),
        ("ab", "vars is a mapping"),
    ],
)
def test_variables_that_are_no_text(bench: Bench, given: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        bench.start("SELECT 1", vars=given)


@pytest.mark.parametrize("value", [True, False, 0, -1, 1.0, "2", None, 2**31, 10**30])
def test_a_number_of_attempts_that_is_none(bench: Bench, value: Any) -> None:
    with pytest.raises(UsageError, match="max_attempts"):
        bench.start("SELECT 1", max_attempts=value)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 0, -1, 1e300, "soon", "", "0 seconds", "-1 minute", True, None, [1],
     datetime.timedelta(0), datetime.timedelta(seconds=-1), "1 minute\0"],
    ids=repr,
)  # fmt: skip
def test_a_length_of_time_that_is_none(bench: Bench, value: Any) -> None:
    with pytest.raises(UsageError, match=r"max_backoff|interval"):
        bench.start("SELECT 1", max_backoff=value)


@pytest.mark.parametrize("name", ["on_failure", "on_conflict"])
@pytest.mark.parametrize("value", ["maybe", "", None, 7, "a\0b"])
def test_a_word_that_is_not_known(bench: Bench, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        bench.start("SELECT 1", **{name: value})


def test_a_database_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(UsageError, match='database "nowhere" does not exist'):
        bench.start("SELECT 1", database="nowhere")


@pytest.mark.parametrize("key", ["", "x" * 1001])
def test_an_idempotency_key_of_a_wrong_length(bench: Bench, key: str) -> None:
    with pytest.raises(UsageError, match="invalid idempotency_key"):
        bench.start("SELECT 1", idempotency_key=key)


def test_an_argument_that_is_not_known(bench: Bench) -> None:
    with pytest.raises(TypeError, match="retries"):
        bench.start("SELECT 1", retries=3)  # type: ignore[call-arg]


def test_a_missing_right_is_no_wrong_usage(bench: Bench, dsn: str, make_role: MakeRole) -> None:
    with (
        psycopg.connect(make_role(dsn), autocommit=True) as stranger,
        pytest.raises(DatabaseError, match=r"permission denied .* Nothing was started"),
    ):
        bench.start("SELECT 1", connection=stranger)
