"""The database as a database: `bench.load` writes frames, `bench.query` reads them back."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy
import pandas
import psycopg
import pytest

from tests.engine.support import Database
from workbench.bench import Bench
from workbench.errors import UsageError

FRAME = pandas.DataFrame(
    {
        "n": [1, 2, 3],
        "x": [1.5, float("nan"), -0.0],
        "ok": [True, False, True],
        "text": ["a", None, 'quo"te\t\\N'],
        "at": pandas.to_datetime(["2026-11-30 12:00:00.000000", "NaT", "2026-12-01 00:00:00.000001"]),
        "zoned": pandas.to_datetime(["2026-11-30 12:00+01:00", "NaT", "2026-12-01 00:00+01:00"], utc=True),
    }
)  # fmt: skip


def types(db: Database, table: str) -> list[tuple[Any, ...]]:
    query = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"
    )
    return db.execute(query, table).fetchall()


def test_a_frame_comes_back_as_it_went(db: Database, bench: Bench) -> None:
    assert bench.load(FRAME, "t") == 3
    assert types(db, "t") == [
        ("n", "bigint"), ("x", "double precision"), ("ok", "boolean"), ("text", "text"),
        ("at", "timestamp without time zone"), ("zoned", "timestamp with time zone"),
    ]  # fmt: skip
    back = bench.query("SELECT * FROM t")
    assert list(back.columns) == list(FRAME.columns)
    assert back["n"].tolist() == [1, 2, 3]
    assert str(back["n"].dtype) == "int64"
    assert back["x"].isna().tolist() == [False, True, False]
    assert back["ok"].tolist() == [True, False, True]
    assert back["text"].where(back["text"].notna(), "NULL").tolist() == ["a", "NULL", 'quo"te\t\\N']
    assert back["at"].isna().tolist() == [False, True, False]
    assert back["at"][2] == pandas.Timestamp("2026-12-01 00:00:00.000001")
    assert back["zoned"][0] == pandas.Timestamp("2026-11-30 11:00", tz="UTC")
    assert db.value("SELECT count(*) FROM t WHERE x IS NULL AND text IS NULL AND at IS NULL") == 1


def test_missing_values_of_every_kind_are_null(db: Database, bench: Bench) -> None:
    frame = pandas.DataFrame(
        {
            "integer": pandas.array([1, None], dtype="Int64"),
            "boolean": pandas.array([None, True], dtype="boolean"),
            "string": pandas.array([None, "x"], dtype="string"),
            "mixed": pandas.Series([pandas.NaT, pandas.NA], dtype=object),
            "category": pandas.Categorical(["a", None]),
        }
    )
    bench.load(frame, "t")
    assert types(db, "t")[:2] == [("integer", "bigint"), ("boolean", "boolean")]
    assert db.execute("SELECT * FROM t").fetchall() == [
        (1, None, None, None, "a"),
        (None, True, "x", None, None),
    ]


def test_objects_go_as_their_text(db: Database, bench: Bench) -> None:
    frame = pandas.DataFrame(
        {
            "date": [datetime.date(2026, 11, 30)],
            "decimal": [decimal.Decimal("1.10")],
            "list": [["a", 1]],
            "dict": [{"a": [1, None]}],
            "time": [pandas.Timedelta(hours=1, seconds=2)],
        }
    )
    bench.load(frame, "t")
    (row,) = db.execute(
        "SELECT date::date, decimal::numeric, list::jsonb, dict::jsonb, time::interval FROM t"
    ).fetchall()
    assert row == (
        datetime.date(2026, 11, 30), decimal.Decimal("1.10"), ["a", 1], {"a": [1, None]},
        datetime.timedelta(seconds=3602),
    )  # fmt: skip


def test_numbers_of_every_size_keep_their_value(db: Database, bench: Bench) -> None:
    frame = pandas.DataFrame(
        {
            "small": numpy.array([127], dtype="int8"),
            "huge": numpy.array([2**64 - 1], dtype="uint64"),
            "half": numpy.array([0.5], dtype="float32"),
            "infinite": [float("inf")],
        }
    )
    bench.load(frame, "t")
    assert db.execute("SELECT * FROM t").fetchall() == [
        (127, decimal.Decimal(2**64 - 1), 0.5, float("inf"))
    ]


@pytest.mark.parametrize("name", ["Größe", "two words", 'a"b', "select", "a.b", "%s", "x" * 63, 7])
def test_odd_column_names_are_kept(bench: Bench, name: Any) -> None:
    bench.load(pandas.DataFrame({name: [1]}), "t")
    assert list(bench.query("SELECT * FROM t").columns) == [str(name)]


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "ü" * 32])
def test_a_column_name_that_postgres_cannot_hold_is_refused(
    db: Database, bench: Bench, name: str
) -> None:
    with pytest.raises(UsageError, match=r"column .* nothing was written"):
        bench.load(pandas.DataFrame({name: [1]}), "t")
    assert db.value("SELECT to_regclass('t')") is None


@pytest.mark.parametrize(
    "frame",
    [pandas.DataFrame(), pandas.DataFrame([[1, 2]], columns=["a", "a"]), pandas.DataFrame([[1, 2]], columns=[1, "1"])],
    ids=["none", "twice", "twice-as-text"],
)  # fmt: skip
def test_a_frame_without_columns_or_with_doubled_ones_is_refused(
    db: Database, bench: Bench, frame: pandas.DataFrame
) -> None:
    with pytest.raises(UsageError, match="columns with different names"):
        bench.load(frame, "t")
    assert db.value("SELECT to_regclass('t')") is None


@pytest.mark.parametrize("frame", [None, [{"a": 1}], {"a": [1]}, "SELECT 1"])
def test_what_is_no_frame_is_refused(bench: Bench, frame: Any) -> None:
    with pytest.raises(UsageError, match=r"bench.load\(\) takes a DataFrame"):
        bench.load(frame, "t")


def test_a_table_that_exists_is_replaced_only_when_told(db: Database, bench: Bench) -> None:
    bench.load(pandas.DataFrame({"a": [1]}), "t")
    with pytest.raises(
        UsageError, match=r"table t exists: nothing was written\. Pass replace=True"
    ):
        bench.load(pandas.DataFrame({"a": [2]}), "t")
    assert db.values("SELECT a FROM t") == [1]
    assert bench.load(pandas.DataFrame({"b": ["x", "y"]}), "t", replace=True) == 2
    assert db.values("SELECT b FROM t") == ["x", "y"]


@pytest.mark.parametrize("text", ["x\0", "\ud800", ["x\0"]])
def test_a_replacement_that_fails_names_the_cell_and_leaves_the_old_table(
    db: Database, bench: Bench, text: Any
) -> None:
    bench.load(pandas.DataFrame({"a": [1]}), "t")
    with pytest.raises(UsageError, match=r"frame\['a'\]\[1\]"):
        bench.load(pandas.DataFrame({"a": ["fine", text]}), "t", replace=True)
    assert db.values("SELECT a FROM t") == [1]


def test_a_schema_may_be_named(db: Database, bench: Bench) -> None:
    db.execute('CREATE SCHEMA "my data"')
    bench.load(pandas.DataFrame({"a": [1]}), "my data.t 1")
    assert db.values('SELECT a FROM "my data"."t 1"') == [1]
    with pytest.raises(psycopg.errors.InvalidSchemaName):
        bench.load(pandas.DataFrame({"a": [1]}), "nowhere.t")


@pytest.mark.parametrize("table", ["", ".", "a.", "a.b.c", "x" * 64, "a\0", None, 7])
def test_what_cannot_name_a_table_is_refused(bench: Bench, table: Any) -> None:
    with pytest.raises(UsageError, match="cannot name a table"):
        bench.load(pandas.DataFrame({"a": [1]}), table)


def test_an_empty_frame_makes_an_empty_table(db: Database, bench: Bench) -> None:
    assert bench.load(FRAME.iloc[:0], "t") == 0
    assert db.value("SELECT count(*) FROM t") == 0
    assert types(db, "t")[0] == ("n", "bigint")


def test_a_query_takes_parameters_and_percent_signs(bench: Bench) -> None:
    assert bench.query("SELECT %s::int + %s AS x", [1, 2])["x"].tolist() == [3]
    assert bench.query("SELECT %(a)s AS x", {"a": "it's"})["x"].tolist() == ["it's"]
    assert bench.query("SELECT 7 % 4 AS x, '%' AS y").to_dict("list") == {"x": [3], "y": ["%"]}


def test_a_query_without_rows_keeps_its_columns(bench: Bench) -> None:
    frame = bench.query("SELECT 1 AS a, 'x' AS b WHERE false")
    assert (list(frame.columns), len(frame)) == (["a", "b"], 0)


def test_columns_of_one_name_are_all_there(bench: Bench) -> None:
    assert list(bench.query("SELECT 1 AS a, 2 AS a, 3").columns) == ["a", "a", "?column?"]


def test_a_statement_without_rows_gives_an_empty_frame(db: Database, bench: Bench) -> None:
    assert bench.query("CREATE TABLE t (a int)").shape == (0, 0)
    assert bench.query("INSERT INTO t VALUES (1) RETURNING a")["a"].tolist() == [1]
    assert db.values("SELECT a FROM t") == [1]


def test_a_query_has_the_dtypes_that_pandas_would_give(bench: Bench) -> None:
    frame = bench.query(
        "SELECT 1::int2 AS i, 1.5::float8 AS f, 1.10::numeric AS n, true AS b, 'x' AS t, date '2026-11-30' AS d,"
        " timestamp '2026-11-30 12:00' AS at, timestamptz '2026-11-30 12:00+00' AS zoned, '[1]'::jsonb AS j"
    )
    kinds = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    assert (kinds["i"], kinds["f"], kinds["b"]) == ("int64", "float64", "bool")
    assert kinds["at"].startswith("datetime64[")
    assert kinds["zoned"].startswith("datetime64[")
    assert frame["zoned"][0] == pandas.Timestamp("2026-11-30 12:00", tz="UTC")
    assert frame["j"][0] == [1]


def test_a_failed_query_leaves_the_bench_of_use(bench: Bench) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        bench.query("SELECT * FROM nowhere")
    assert bench.query("SELECT 1 AS x")["x"].tolist() == [1]


def test_a_transaction_left_open_by_a_query_holds_nobody_up(db: Database, bench: Bench) -> None:
    db.execute("CREATE TABLE t (a int)")
    bench.query("BEGIN")
    bench.query("INSERT INTO t VALUES (1)")
    bench.query("COMMIT")
    assert db.values("SELECT a FROM t") == [1]
