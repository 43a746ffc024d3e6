"""The JSON values that steps exchange."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.graph_strategies import JSON_VALUES
from workbench.errors import ValueRefused
from workbench.graph.values import MAX_DEPTH, RESULT_LIMIT, decode, encode, rows


class Colour(enum.StrEnum):
    RED = "red"


@dataclass
class Point:
    x: int


def _types(value: Any) -> Any:
    """The value with its exact types, which == does not see (1 == 1.0 == True)."""
    if isinstance(value, dict):
        return {key: _types(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_types(item) for item in value]
    return type(value).__name__, value


@given(JSON_VALUES)
@example([1e23, 1e16, 1e-5, 5e-324, 1.7976931348623157e308, 0.1, 3.0])
def test_every_json_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    assert json.loads(encode(value), parse_float=float) == value
    assert _types(decode(encode(value))) == _types(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_positional_with_a_decimal_point(value: float) -> None:
    text = encode(value)
    assert "." in text
    assert "e" not in text
    assert decode(text) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, (2,)), "[1,[2]]"),
        ({"a": 1e23, "b": "é\n"}, '{"a":100000000000000000000000.0,"b":"é\\n"}'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        (["\\u0000"], '["\\\\u0000"]'),
        (10**4300 - 1, "9" * 4300),
        (-(10**4299), "-1" + "0" * 4299),
    ],
)
def test_the_text_is_compact(value: object, expected: str) -> None:
    assert encode(value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "result is nan, which JSON cannot hold; use None"),
        (float("-inf"), "result is -inf"),
        (
            {"rows": [1, {"when": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}]},
            'result["rows"][1]["when"] is datetime.datetime, which JSON cannot hold; use .isofor',
        ),
        (
            [datetime.timedelta(1)],
            "result[0] is datetime.timedelta, which JSON cannot hold; use .t",
        ),
        (decimal.Decimal(1), "result is decimal.Decimal, which JSON cannot hold; use str(value)"),
        (b"x", "result is bytes, which JSON cannot hold; use base64"),
        ({1, 2}, "result is set, which JSON cannot hold; use sorted(value)"),
        (uuid.UUID(int=1), "result is uuid.UUID"),
        (np.float64(1.5), "result is numpy.float64, which JSON cannot hold; use .item()"),
        (np.int64(1), "result is numpy.int64, which JSON cannot hold; use .item()"),
        (np.arange(3), "result is numpy.ndarray, which JSON cannot hold; use .tolist()"),
        (pd.DataFrame({"a": [1]}), "result is pandas."),
        (
            Colour.RED,
            f"result is {__name__}.Colour, which JSON cannot hold; use .v",
        ),
        (
            Point(1),
            f"result is {__name__}.Point, which JSON cannot hold; use data",
        ),
        (object(), "result is object, which JSON cannot hold; convert it to None, bool"),
        ({"a": {1: 2}}, 'result["a"] has the key 1, which is int; JSON keys are text'),
        ({None: 2}, "result has the key None"),
        (["a\0"], "result[0] contains a NUL character"),
        ({"a\0": 1}, "a key of result contains a NUL character"),
        (["\ud800"], "result[0] contains a lone surrogate"),
        ([10**4300], "result[0] is an int of more than 4300 digits"),
    ],
)
def test_a_refused_value_names_its_path_and_the_way_out(value: object, message: str) -> None:
    with pytest.raises(ValueRefused) as caught:
        encode(value)
    assert str(caught.value).startswith(message)


def test_a_frames_error_names_rows() -> None:
    with pytest.raises(ValueRefused, match=r"wb\.rows\(frame\) gives a list of dicts"):
        encode(pd.DataFrame({"a": [1]}))


def test_the_caller_names_the_value() -> None:
    with pytest.raises(ValueRefused, match=r"^limit is nan"):
        encode(math.nan, "limit")


def _nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_depth_is_limited_at_one_exact_level() -> None:
    assert decode(encode(_nested(MAX_DEPTH))) == _nested(MAX_DEPTH)
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(ValueRefused, match="nested more than 256 levels deep"):
            encode(_nested(levels))


def test_a_value_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["self"] = [value]
    with pytest.raises(ValueRefused, match="contains itself"):
        encode(value)


def test_the_size_limit_counts_bytes() -> None:
    assert len(encode("x" * (RESULT_LIMIT - 2))) == RESULT_LIMIT
    for text in ("x" * (RESULT_LIMIT - 1), "é" * (RESULT_LIMIT // 2)):
        with pytest.raises(ValueRefused, match=r"result is 16\.0 MiB of JSON, the limit is 16 MiB"):
            encode(text)


def test_a_frame_becomes_rows_of_plain_values() -> None:
    when = pd.Timestamp("2026-11-30 12:00", tz="UTC")
    frame = pd.DataFrame(
        {
            "i": [1, 2],
            "f": [1.5, np.nan],
            "t": [when, pd.NaT],
            "s": ["a", None],
            "n": pd.array([1, pd.NA], dtype="Int64"),
            "b": [True, False],
            "d": [decimal.Decimal("1.50"), None],
            "day": [datetime.date(2026, 1, 2), None],
            "span": [pd.Timedelta("1D"), pd.NaT],
            "c": pd.Categorical(["x", None]),
            "l": [np.array([1, 2]), [{"k": np.float64(0.5)}]],
            7: [0, 1],
        }
    )
    found = rows(frame)
    assert found == [
        {
            "i": 1,
            "f": 1.5,
            "t": "2026-11-30T12:00:00+00:00",
            "s": "a",
            "n": 1,
            "b": True,
            "d": "1.50",
            "day": "2026-01-02",
            "span": "P1DT0H0M0S",
            "c": "x",
            "l": [1, 2],
            "7": 0,
        },
        {
            "i": 2,
            "f": None,
            "t": None,
            "s": None,
            "n": None,
            "b": False,
            "d": None,
            "day": None,
            "span": None,
            "c": None,
            "l": [{"k": 0.5}],
            "7": 1,
        },
    ]
    assert decode(encode(found)) == found


def test_a_frame_without_columns_keeps_its_length() -> None:
    assert rows(pd.DataFrame(index=[0, 1])) == [{}, {}]


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(ValueRefused, match="two columns are named 'a'"):
        rows(pd.DataFrame([[1, 2]], columns=["a", "a"]))
