"""Values in the texts of HTTP steps: what is replaced, and how it lands in each place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workbench.errors import StepError, SubstitutionError
from workbench.graph.http_text import (
    Known,
    Place,
    references,
    reveal,
    secrets,
    shown,
    substitute,
    whole_value,
)
from workbench.graph.substitute import Column, Named


def rows(*found: dict[str, Any]) -> Named:
    columns = tuple(Column(name, "text") for name in found[0]) if found else ()
    return Named({"rows": list(found), "row_count": len(found)}, columns)


NAMES = {
    "n": rows({"id": 7, "name": 'Ann "A" O/N', "note": None, "amount": "1.50", "doc": '{"k": 1}'}),
    "two": rows({"b": 1, "a": "x"}, {"b": 2, "a": None}),
    "none": rows(),
    "r": Named({"status": 200, "body": "ok", "ok": True, "headers": {"etag": "e1"}}),
    "flag": Named(True),
    "list": Named([1, "a"]),
    "nothing": Named(None),
    "done": Named("done"),
    "name": Named("short"),
    "name2": Named("long"),
}
VARIABLES = {
    "host": "api.example.com",
    "base": "https://api.example.com/v1",
    "x": "a/b &c",
    "quoted": 'say "hi"\n',
    "number": "5",
    "fragment": '"k":1,"l":2',
    "refers": "id is $n",
    "who": "n",
    "secretive": "{secret:TOKEN}",
    "sys_label": "mine",
}
KNOWN = Known(NAMES, VARIABLES, {"sys_instance_id": "0a1b2c3d", "sys_label": "nightly"})


def put(text: str, place: Place = "plain") -> str:
    return substitute(text, KNOWN, place)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no reference", "no reference"),
        ("run {sys_instance_id} of {sys_label}", "run 0a1b2c3d of nightly"),
        ("{x}{x}", "a/b &ca/b &c"),
        ("{unknown} { x } {} {", "{unknown} { x } {} {"),
        ("$n", "7"),
        ("$n.name!", 'Ann "A" O/N!'),
        ("$n.note? $none?", "NULL NULL"),
        ("$r.ok $r.headers.etag $r.headers", 'true e1 {"etag":"e1"}'),
        ("$list $flag $done", '[1,"a"] true done'),
        ("$two.*", '[{"b":1,"a":"x"},{"b":2,"a":null}]'),
        ("$none.*", "[]"),
        ("$name2 $name $name3", "long short $name3"),
        ("$name. $name, ($name)", "short. short, (short)"),
        ("$unknown $unknown.c $1 $$ $", "$unknown $unknown.c $1 $$ $"),
        ("'$n' -- $n", "'7' -- 7"),
        ("$n.missing?", "$n.missing?"),
        ("{refers}", "id is 7"),
        ("${who}", "7"),
        ("pré$n€", "pré7€"),
        ("$né", "$né"),
    ],
)
def test_values_land_as_they_are(text: str, expected: str) -> None:
    assert put(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$none", "has no rows"),
        ("$n.note", "is NULL"),
        ("$nothing", "is NULL"),
        ("$n.missing", "no field 'missing'"),
        ("$list.a", "neither a row set nor a JSON object"),
        ("$r.*", "invalid result format"),
    ],
)
def test_a_reference_without_a_usable_value_is_refused(text: str, said: str) -> None:
    with pytest.raises(SubstitutionError, match=said):
        put(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://h/{x}", "https://h/a%2Fb%20%26c"),
        ("https://h/p?q={x}&n=$n", "https://h/p?q=a%2Fb%20%26c&n=7"),
        ("https://h/$n.name/end", "https://h/Ann%20%22A%22%20O%2FN/end"),
        ("https://h/p#$done", "https://h/p#done"),
        ("{base}", "https://api.example.com/v1"),
        ("{base}/items/{x}", "https://api.example.com/v1/items/a%2Fb%20%26c"),
        ("https://{host}:8080/{x}", "https://api.example.com:8080/a%2Fb%20%26c"),
        ("https://u:{x}@{host}/", "https://u:a%2Fb%20%26c@api.example.com/"),
        ("https://h/p?v=$n?", "https://h/p?v=7"),
        ("https://h/p?v=$n.note?&w=$none?", "https://h/p?v=NULL&w=NULL"),
        ("https://h/$n?limit=5", "https://h/7?limit=5"),
        ("https://h/$n?", "https://h/7"),
    ],
)
def test_a_value_in_a_path_or_query_is_percent_encoded(text: str, expected: str) -> None:
    assert put(text, "url") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "{quoted}"}', '{"a": "say \\"hi\\"\\n"}'),
        ('{"a": "$n.name"}', '{"a": "Ann \\"A\\" O/N"}'),
        ('{"{x}": "$n"}', '{"a/b &c": "7"}'),
        ('{"a": $n, "b": {number}}', '{"a": 7, "b": 5}'),
        ('{"a": $n.name}', '{"a": "Ann \\"A\\" O/N"}'),
        ('{"a": $n.amount, "b": $n.doc}', '{"a": 1.50, "b": {"k": 1}}'),
        ('{"a": "$n.doc"}', '{"a": "{\\"k\\": 1}"}'),
        ('{"a": $n.note?, "b": "$n.note?"}', '{"a": null, "b": "NULL"}'),
        (
            '{"rows": $two.*, "r": $r.headers}',
            '{"rows": [{"b":1,"a":"x"},{"b":2,"a":null}], "r": {"etag":"e1"}}',
        ),
        ('[$flag, "$flag", $done, "\\"$n\\""]', '[true, "true", "done", "\\"7\\""]'),
        ('"hello $n.name"', '"hello Ann \\"A\\" O/N"'),
        ('{"a": "{refers}"}', '{"a": "id is 7"}'),
        # No JSON, whatever the values are: nothing is escaped.
        ("$n.name", 'Ann "A" O/N'),
        ("name=$n.name&q={quoted}", 'name=Ann "A" O/N&q=say "hi"\n'),
        ('{"a": "$n.name"', '{"a": "Ann "A" O/N"'),
        ("{{fragment}}", '{"k":1,"l":2}'),
    ],
)
def test_a_value_in_a_json_body_lands_as_json(text: str, expected: str) -> None:
    assert put(text, "body") == expected


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_json_body_stays_json_whatever_a_text_contains(value: str) -> None:
    assume("$x" not in value)  # it would be a reference
    known = Known({"x": Named(value)}, {"v": value})
    body = substitute('{"$x": ["{v}", "$x."], "last": 1}', known, "body")
    assert json.loads(body) == {value: [value, f"{value}."], "last": 1}


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_value_never_changes_the_structure_of_a_url(value: str) -> None:
    known = Known({"x": Named(value)})
    url = substitute("https://h/$x/p?q=$x&r=1#$x", known, "url")
    assert [url.count(mark) for mark in "/?&#"] == [4, 1, 1, 1]


def test_secrets_stay_marks_until_they_are_revealed() -> None:
    text = put("Bearer {secret:TOKEN}, $n, {secret:not a name}")
    assert shown(text) == "Bearer {secret:TOKEN}, 7, {secret:not a name}"
    assert reveal(text, {"TOKEN": "t0p"}, "plain") == "Bearer t0p, 7, {secret:not a name}"


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("https://h/p?key={secret:K}", "url", "https://h/p?key=a%22%2Fb"),
        ('{"key": "{secret:K}", "n": $n}', "body", '{"key": "a\\"/b", "n": 7}'),
        ("key={secret:K}", "body", 'key=a"/b'),
    ],
)
def test_a_secret_lands_as_a_value_does(text: str, place: Place, expected: str) -> None:
    assert reveal(put(text, place), {"K": 'a"/b'}, place) == expected


def test_a_value_cannot_ask_for_a_secret() -> None:
    known = Known({"evil": Named("{secret:TOKEN}")}, VARIABLES)
    text = substitute("$evil {secretive} {secret:OTHER}", known, "plain")
    assert reveal(text, {"OTHER": "fine", "TOKEN": "stolen"}, "plain") == (
        "{secret:TOKEN} {secret:TOKEN} fine"
    )


def test_a_text_with_nul_is_refused() -> None:
    with pytest.raises(StepError, match="NUL"):
        put("\0TOKEN\0")


CONFIG = {
    "url": "https://{who}/$a",
    "method": "$no",
    "body": "$b.c {refers}",
    "headers": {"X-$no": "$c {secret:S}", "n": 5},
    "parts": [
        {"name": "$d", "filename": "$e", "content_type": "$no", "data_b64": "$f?"},
        "$no",
    ],
}


def test_references_are_those_of_the_texts_into_which_values_are_put() -> None:
    assert references(CONFIG, VARIABLES, {}) == {"a", "b", "c", "d", "e", "f", "n"}


def test_secrets_are_those_of_the_same_texts() -> None:
    assert secrets(CONFIG) == {"S"}


@pytest.mark.parametrize("config", [{}, {"url": None, "headers": [], "parts": {}, "body": 5}])
def test_what_is_no_text_has_no_references(config: dict[str, Any]) -> None:
    assert references(config, {}, {}) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aGk=", "aGk="),
        (" $file ", "aGk="),
        ("$file?", "aGk="),
        ("$file.data", "aGk="),
        ("$file.data?", "aGk="),
        ("{encoded}", "aGk="),
        ("$empty?", ""),
    ],
)
def test_a_part_is_base64_or_one_reference(text: str, expected: str) -> None:
    names = {"file": rows({"data": "base64:aGk="}), "empty": rows()}
    assert whole_value(text, Known(names, {"encoded": "aGk="})) == expected


@pytest.mark.parametrize(
    "text", ["a$file", "$file b", "$file.*", "$unknown", "{unknown}", "{e}{e}", "${e}", "a{e}"]
)
def test_a_reference_with_anything_around_it_is_refused(text: str) -> None:
    with pytest.raises(SubstitutionError, match="whole-value reference"):
        whole_value(text, Known({"file": rows({"d": "aGk="})}, {"e": "aGk="}))


def test_a_part_without_rows_is_refused() -> None:
    with pytest.raises(SubstitutionError, match="has no rows"):
        whole_value("$file", Known({"file": rows()}))
