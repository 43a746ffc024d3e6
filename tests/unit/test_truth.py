"""The table of truth: what a condition's value means (reference, section 10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workbench.graph.truth import is_true

FALSE: list[Any] = [
    False, 0, 0.0, -0.0, None,
    "", "  ", "\t\n",
    "false", "f", "no", "FALSE", "No", " f ",
    "0", "0.0000", "-0", "+0", ".0", "0.", "0e10", "0E5", "-0.0e-3",
    [], {},
]  # fmt: skip

TRUE: list[Any] = [
    True, 1, -1, 0.001, 1e-300,
    "true", "t", "yes", "TRUE", "Yes", " t ",
    "1", "-1", "0.0001", "10", "1e5", "-.5", "5.", "1e-400", "0.00000000000000000000000000000001",
    "off", "n", "y", "on", "0x0", "nan", "NaN", "infinity", "null", "none", "any text", "0 0", "1_0", "٠",
    [0], [None], {"a": None},
]  # fmt: skip


@pytest.mark.parametrize("value", FALSE)
def test_what_is_false(value: Any) -> None:
    assert not is_true(json.dumps(value))


@pytest.mark.parametrize("value", TRUE)
def test_what_is_true(value: Any) -> None:
    assert is_true(json.dumps(value))


@pytest.mark.parametrize("value", [*FALSE, *TRUE])
def test_rows_are_judged_by_the_first_column_of_the_first_row(value: Any) -> None:
    rows = {"rows": [{"c": value, "d": not value}, {"c": not value}], "row_count": 2}
    assert is_true(json.dumps(rows), [("c", "text"), ("d", "bool")]) == is_true(json.dumps(value))


def test_no_rows_are_false() -> None:
    assert not is_true('{"rows":[],"row_count":0}', [("c", "int4")])
    assert not is_true('{"rows":[],"row_count":5}')


def test_the_first_column_is_that_of_the_select_list() -> None:
    rows = '{"rows":[{"a":0,"b":1}],"row_count":1}'
    assert is_true(rows, [("b", "int4"), ("a", "int4")])
    assert not is_true(rows, [("a", "int4"), ("b", "int4")])


def test_without_a_list_of_columns_the_first_key_counts() -> None:
    assert not is_true('{"rows":[{"a":0,"b":1}]}')
    assert is_true('{"rows":[{"b":1,"a":0}]}')


def test_rows_without_columns_are_false() -> None:
    assert not is_true('{"rows":[{}],"row_count":1}', [])


def test_rows_that_are_no_objects_are_judged_themselves() -> None:
    assert is_true('{"rows":[1]}')
    assert not is_true('{"rows":[0,1]}')


def test_rows_that_are_no_array_are_a_field_like_any_other() -> None:
    assert is_true('{"rows":0}')


@pytest.mark.parametrize(
    "value",
    [
        {"slept": True, "seconds": 0},
        {"scheduled": True},
        {"status": 404, "body": "", "ok": False},
        {"signal_name": "go", "timed_out": True, "data": None},
        [{"rows": [], "row_count": 0}, {"rows": [], "row_count": 0}],
    ],
)
def test_waits_responses_and_joins_are_true_whatever_they_say(value: Any) -> None:
    assert is_true(json.dumps(value))


def test_numbers_of_any_length_are_judged_as_numbers() -> None:
    assert is_true("1" + "0" * 4000)
    assert is_true('"' + "1" + "0" * 4000 + '"')
    assert not is_true('"' + "0" * 4000 + '"')
