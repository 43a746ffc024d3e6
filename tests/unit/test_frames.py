"""Results as DataFrames: dtypes and values, with rows, with nulls and without any row."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from workbench.errors import UsageError
from workbench.frames import frame

TEXT = str(pd.Series(["text"]).dtype)
COLUMNS = [
    ("i", "integer"),
    ("b", "bigint"),
    ("f", "double precision"),
    ("n", "numeric"),
    ("ok", "boolean"),
    ("day", "date"),
    ("at", "timestamp without time zone"),
    ("tz", "timestamp with time zone"),
    ("t", "text"),
    ("u", "uuid"),
    ("raw", "bytea"),
    ("j", "jsonb"),
    ("a", "integer[]"),
]
ROW: dict[str, Any] = {
    "i": 1,
    "b": 2**62,
    "f": 0.5,
    "n": "12.50",
    "ok": True,
    "day": "2026-11-30",
    "at": "2026-11-30T09:12:00.250",
    "tz": "2026-11-30T09:12:00+00:00",
    "t": "x",
    "u": "7d444840-9dc0-11d1-b245-5ffdce74fad2",
    "raw": "base64:3q2+7w==",
    "j": {"k": [1]},
    "a": [1, None],
}
DTYPES = {
    "i": "int64",
    "b": "int64",
    "f": "float64",
    "n": "float64",
    "ok": "bool",
    "day": "datetime64[us]",
    "at": "datetime64[us]",
    "tz": "datetime64[us, UTC]",
    "t": TEXT,
    "u": TEXT,
    "raw": "object",
    "j": "object",
    "a": "object",
}


def dtypes(df: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in df.dtypes.items()}


def test_each_type_has_its_dtype() -> None:
    assert dtypes(frame({"rows": [ROW], "row_count": 1}, COLUMNS)) == DTYPES


def test_a_frame_without_rows_has_the_same_dtypes() -> None:
    df = frame({"rows": [], "row_count": 0}, COLUMNS)
    assert (len(df), dtypes(df)) == (0, DTYPES)


def test_nulls_make_integers_floats_and_booleans_objects() -> None:
    nothing = dict.fromkeys(ROW)
    df = frame({"rows": [ROW, nothing], "row_count": 2}, COLUMNS)
    assert dtypes(df) == DTYPES | {"i": "float64", "b": "float64", "ok": "object"}
    # The containers of json and arrays have their null as None.
    assert df.iloc[1].isna().all()


def test_values_come_back_as_their_python_types() -> None:
    row = frame({"rows": [ROW], "row_count": 1}, COLUMNS).iloc[0]
    assert row["n"] == 12.5
    assert row["day"] == pd.Timestamp("2026-11-30")
    assert row["at"] == pd.Timestamp("2026-11-30 09:12:00.250")
    assert row["tz"] == datetime(2026, 11, 30, 9, 12, tzinfo=UTC)
    assert row["raw"] == b"\xde\xad\xbe\xef"
    assert row["j"] == {"k": [1]}
    assert row["a"] == [1, None]


def test_numeric_is_exact_when_asked() -> None:
    df = frame(
        {"rows": [{"n": "0.1"}, {"n": None}], "row_count": 2}, [("n", "numeric")], decimal=True
    )
    assert df["n"].tolist() == [Decimal("0.1"), None]


def test_numeric_nan_and_infinity_are_floats() -> None:
    df = frame({"rows": [{"n": "NaN"}, {"n": "-Infinity"}]}, [("n", "numeric")])
    assert df["n"].isna().tolist() == [True, False]
    assert df["n"][1] == float("-inf")


@pytest.mark.parametrize("odd", ["infinity", "0044-03-15 BC", "10000-01-01 00:00:00"])
def test_a_time_beyond_datetime64_leaves_the_column_as_text(odd: str) -> None:
    kind = "timestamp without time zone"
    df = frame({"rows": [{"t": "2026-11-30T00:00:00"}, {"t": odd}]}, [("t", kind)])
    assert df["t"].tolist() == ["2026-11-30T00:00:00", odd]


def test_the_years_1_and_9999_are_times() -> None:
    df = frame({"rows": [{"d": "0001-01-01"}, {"d": "9999-12-31"}]}, [("d", "date")])
    assert [value.year for value in df["d"]] == [1, 9999]


def test_the_columns_decide_the_order() -> None:
    rows = [{"a": 1, "z": 2}]
    assert list(frame({"rows": rows}, [("z", "integer"), ("a", "integer")]).columns) == ["z", "a"]


def test_a_list_of_dicts_is_a_frame_too() -> None:
    df = frame([{"id": 1, "name": "a"}, {"id": 2, "name": None}])
    assert df["id"].tolist() == [1, 2]


@pytest.mark.parametrize("value", [None, 3, "text", [1, 2], {"slept": True}])
def test_a_value_that_is_no_row_set_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="not a set of rows"):
        frame(value)


def test_pandas_is_not_imported_before_a_frame_is_made() -> None:
    code = "import sys, workbench.frames; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
