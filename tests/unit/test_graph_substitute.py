"""Values put into SQL texts and into the inputs of Python steps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.unit.graph_strategies import TEXTS
from workbench.errors import SubstitutionError
from workbench.graph.lexer import tokens
from workbench.graph.literals import literal
from workbench.graph.substitute import (
    Column,
    Named,
    expand_variables,
    input_references,
    references,
    resolve_input,
    substitute_sql,
)


def _rows(*rows: dict[str, Any]) -> Named:
    return Named({"rows": list(rows), "row_count": len(rows)})


NAMES = {
    "n": _rows({"a": 7, "b": "x"}),
    "neg": _rows({"a": -3}),
    "text": _rows({"t": "O'Brien \\ $n"}),
    "null": _rows({"a": None, "doc": {"k": None, "deep": {"z": 1}}}),
    "none": _rows(),
    "sig": Named({"signal_name": "ok", "timed_out": False, "data": {"approved": True}}),
    "list": Named([1, "a"]),
    "objects": Named([{"a": 1}, {"b": "x"}]),
    "done": Named("done"),
    "nothing": Named(None),
}


def _sql(text: str, **variables: str) -> str:
    return substitute_sql(text, NAMES, variables, {"sys_instance_id": "0a1b2c3d", "sys_label": ""})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT $n, $n.b, $n?", "SELECT 7, 'x', 7"),
        ("SELECT 5 -$neg", "SELECT 5 -(-3)"),
        ("SELECT $text", "SELECT 'O''Brien \\ $n'"),
        ("SELECT $null?, $none?, $none.x?, $nothing?", "SELECT NULL, NULL, NULL, NULL"),
        ("SELECT $null.doc", 'SELECT \'{"k":null,"deep":{"z":1}}\''),
        ("SELECT $null.doc.deep.z", "SELECT 1"),
        ("SELECT $null.doc.k?, $null.doc.other?", "SELECT NULL, NULL"),
        ("SELECT $sig.data.approved, $sig.timed_out", "SELECT true, false"),
        ("SELECT $list::jsonb", "SELECT '[1,\"a\"]'::jsonb"),
        ("SELECT $done", "SELECT 'done'"),
        ("SELECT $objects.a", "SELECT 1"),
        ("SELECT $unknown, $unknown?, $nn, $1", "SELECT $unknown, $unknown?, $nn, $1"),
        ("SELECT '$n', \"$n\", $$ $n $$ -- $n", "SELECT '$n', \"$n\", $$ $n $$ -- $n"),
        ("SELECT j ? 'k' AND $n > 1", "SELECT j ? 'k' AND 7 > 1"),
        ("SELECT 'a'$done", "SELECT 'a' 'done'"),
    ],
)
def test_references_become_literals(text: str, expected: str) -> None:
    assert _sql(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$none", "$none has no rows — query returned zero results"),
        ("$none.a", "$none.a has no rows — query returned zero results"),
        ("$null", "$null is NULL — first column of first row is NULL"),
        ("$null.a", "$null.a is NULL"),
        ("$nothing", "$nothing is NULL — the result is null"),
        ("$n.c", "$n.c: result has no field 'c' (available: a, b)"),
        (
            "$sig.dat?",
            "$sig.dat: result has no field 'dat' (available: signal_name, timed_out, data). Did",
        ),
        ("$list.a", "$list.a: result is neither a row set nor a JSON object"),
        ("$n.a.z", "$n.a.z: 'a' is a number, which has no field 'z'"),
        ("$done.*", "$done.*: invalid result format"),
    ],
)
def test_a_value_that_cannot_be_used_is_an_error(text: str, message: str) -> None:
    with pytest.raises(SubstitutionError) as caught:
        _sql(f"SELECT {text}")
    assert str(caught.value).startswith(message)


def test_the_first_column_is_that_of_the_select_list() -> None:
    named = Named(
        {"rows": [{"a": 1, "bb": 2}], "row_count": 1}, (Column("bb", "int4"), Column("a", "int4"))
    )
    assert substitute_sql("$x", {"x": named}, {}) == "2"


def test_every_brace_that_is_a_variable_is_replaced_wherever_it_stands() -> None:
    assert _sql('\'{"a":"{x}","b":{y}}\' {sys_instance_id}[{sys_label}] {z} {', x="1", y="2") == (
        '\'{"a":"1","b":2}\' 0a1b2c3d[] {z} {'
    )


def test_inserted_variables_are_not_expanded_again_but_may_hold_references() -> None:
    assert _sql("{x}", x="{y} $n", y="no") == "{y} 7"
    assert references(expand_variables("{x}", {"x": "$n"})) == {"n"}


def test_the_system_wins_over_a_variable_of_its_name() -> None:
    assert _sql("{sys_label}", sys_label="mine") == ""


def test_a_row_set_of_unknown_types_casts_its_texts() -> None:
    assert _sql("SELECT * FROM $objects.*") == (
        'SELECT * FROM (VALUES (1,NULL),(NULL,\'x\'::text)) AS "objects"("a","b")'
    )


def test_a_row_set_takes_the_types_of_its_query() -> None:
    columns = (Column("id", "bigint"), Column("tags", "text[]"), Column('q"x', "jsonb"))
    rows = [
        {"id": None, "tags": ["a b", None, 'c"\\'], 'q"x': {"k": 1}},
        {"id": -5, "tags": [], 'q"x': "s"},
    ]
    named = Named({"rows": rows, "row_count": 2}, columns)
    assert substitute_sql("$x.*", {"x": named}, {}) == (
        "(VALUES (CAST(NULL AS bigint),"
        'CAST(\'{"a b",NULL,"c\\"\\\\"}\' AS text[]),'
        "CAST('{\"k\":1}' AS jsonb)),"
        '(\'-5\',\'{}\',\'"s"\')) AS "x"("id","tags","q""x")'
    )


def test_an_empty_row_set_keeps_its_columns() -> None:
    named = Named({"rows": [], "row_count": 0}, (Column("id", "bigint"), Column("c", "character")))
    assert substitute_sql("$x.*", {"x": named}, {}) == (
        '(SELECT NULL::bigint AS "id", NULL::bpchar AS "c" WHERE false) AS "x"'
    )


def test_an_empty_row_set_without_types_is_still_a_table() -> None:
    assert _sql("$none.*") == '(SELECT NULL WHERE false) AS "none"'


def test_composites_and_bytea_find_their_types_again() -> None:
    columns = (Column("c", "pair"), Column("b", "bytea"))
    named = Named({"rows": [{"c": {"a": 1}, "b": "base64:AP8="}], "row_count": 1}, columns)
    assert substitute_sql("$x.*", {"x": named}, {}) == (
        "(VALUES (CAST(jsonb_populate_record(NULL::pair, '{\"a\":1}') AS pair),"
        'CAST(\'\\x00ff\' AS bytea))) AS "x"("c","b")'
    )


def test_ten_thousand_rows_expand_and_one_more_does_not() -> None:
    rows = [{"a": n} for n in range(10_000)]
    assert substitute_sql("$x.*", {"x": _rows(*rows)}, {}).count("(") == 10_002
    with pytest.raises(SubstitutionError, match="has 10001 rows, the limit is 10000"):
        substitute_sql("$x.*", {"x": _rows(*rows, {"a": 0})}, {})


@given(TEXTS)
def test_a_string_literal_is_one_token(text: str) -> None:
    assert [token.kind for token in tokens(literal(text))] == ["string"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        (True, "true"),
        (10**30, str(10**30)),
        (1e23, "100000000000000000000000.0"),
        (-0.5, "(-0.5)"),
        ({"a": "é'"}, "'{\"a\":\"é''\"}'"),
        ([], "'[]'"),
    ],
)
def test_each_json_type_has_its_literal(value: object, expected: str) -> None:
    assert literal(value) == expected


def test_an_input_receives_whole_results_and_fields() -> None:
    value = {
        "rows": {"$ref": "n"},
        "deep": [{"b": {"$ref": "n.b"}, "ok": {"$ref": "sig.data.approved"}}],
        "null": {"$ref": "null.a"},
        "plain": {"$ref": 1, "x": 2},
        "empty": {"$ref": "none"},
        "done": {"$ref": "done"},
    }
    assert resolve_input(value, NAMES) == {
        "rows": [{"a": 7, "b": "x"}],
        "deep": [{"b": "x", "ok": True}],
        "null": None,
        "plain": {"$ref": 1, "x": 2},
        "empty": [],
        "done": "done",
    }


def test_an_object_with_more_than_rows_arrives_whole() -> None:
    page = {"rows": [{"a": 1}], "cursor": "next"}
    assert resolve_input({"$ref": "x"}, {"x": Named(page)}) == page
    assert substitute_sql("$x.cursor", {"x": Named(page)}, {}) == "'next'"


def test_rows_arrive_in_select_list_order() -> None:
    named = Named(
        {"rows": [{"a": 1, "bb": 2}], "row_count": 1}, (Column("bb", "t"), Column("a", "t"))
    )
    assert list(resolve_input({"$ref": "x"}, {"x": named})[0]) == ["bb", "a"]


def test_an_input_without_its_result_is_an_error() -> None:
    with pytest.raises(SubstitutionError, match=r"\$don is not known here.*Did you mean 'done'"):
        resolve_input({"$ref": "don"}, NAMES)
    with pytest.raises(SubstitutionError, match=r"\$none\.a has no rows"):
        resolve_input({"$ref": "none.a"}, NAMES)


def test_the_names_of_an_input_are_known_before_it_is_resolved() -> None:
    assert input_references({"a": [{"$ref": "x.c"}], "b": {"$ref": "y"}, "c": "$ref"}) == {"x", "y"}
