"""Flows and maps as both sides know them: the same bytes, pictures, refusals, and containment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.test_same_rules import said_by_python, said_by_sql
from tests.unit.flow_playing import flow
from workbench.graph import Node, sql
from workbench.graph.contain import contains
from workbench.graph.control import each

ONE = sql("SELECT 1")


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def value(conn: psycopg.Connection, query: str, *params: Any) -> Any:
    row = conn.execute(query, params or None).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        ("df.map('rows', 'SELECT 1')", each("rows", "SELECT 1")),
        ("df.map('rows', 'SELECT $r.n' ~> 'SELECT 2', 'r')", each("rows", sql("SELECT $r.n") >> "SELECT 2", "r")),
        ("df.\"as\"(df.map('input', df.sleep(1)), 'all')", each("input", Node("SLEEP", query="1")).named("all")),
    ],
)  # fmt: skip
def test_maps_are_the_same_bytes(conn: psycopg.Connection, expression: str, node: Node) -> None:
    assert value(conn, f"SELECT {expression}") == node.to_json()
    assert value(conn, f"SELECT {node.to_sql()}") == node.to_json()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("df.map('a b', 'SELECT 1')", 'df.map: over in MAP must be the name of a result, not "a b"'),
        ("df.map('a', 'SELECT 1', 'input')", 'df.map: as in MAP must be a name for the element, not "input"'),
    ],
)  # fmt: skip
def test_bad_names_are_refused_when_a_map_is_built(
    conn: psycopg.Connection, call: str, message: str
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        conn.execute(f"SELECT {call}")
    assert refused.value.diag.message_primary == message


def test_pictures_are_the_same(conn: psycopg.Connection) -> None:
    graph = flow(
        ("a", ""),
        ("m*", "a"),
        ("b", "a m", {"if_": {"a": {"ü": [1, "x"]}}, "if_not": {"m": []}, "if_skipped": "a"}),
    ).graph()
    for node in (graph, graph >> each("a", ONE), each("input", graph)):
        assert value(conn, "SELECT df.explain(%s)", node.to_json()) == str(node)


STEP = {"step": "a"}


def made(config: Any, *children: Node) -> Node:
    return Node("FLOW", query=json.dumps(config), extra=children)


def steps(*said: Any) -> Node:
    """A flow of SQL steps whose config says this."""
    names = [
        s["step"] if isinstance(s, dict) and isinstance(s.get("step"), str) else "x" for s in said
    ]
    return made(
        {"slug": "f", "steps": list(said)}, *(Node("SQL", query="x", result_name=n) for n in names)
    )


REFUSED = [
    made({"slug": "f"}),
    made({"steps": []}),
    made([]),
    made({"slug": "f", "steps": [], "more": 1}),
    made({"slug": "1", "steps": []}),
    made({"slug": "input", "steps": []}),
    made({"slug": 5, "steps": []}),
    made({"slug": "f", "steps": {}}),
    made({"slug": "f", "steps": [STEP]}),
    made({"slug": "f", "steps": []}, ONE),
    steps(5),
    steps({"slug": "a"}),
    steps({"step": "a b"}),
    steps(STEP, STEP),
    steps({**STEP, "later": 1}),
    steps({**STEP, "after": "b"}),
    steps({**STEP, "after": ["b"]}),
    steps({**STEP, "after": [1]}),
    steps({**STEP, "after": ["a"]}),
    steps(STEP, {"step": "b", "after": ["a", "a"]}),
    steps({**STEP, "if": []}),
    steps({**STEP, "if_not": "x"}),
    steps({**STEP, "if_skipped": "b"}),
    steps({**STEP, "when_unmet": "stop"}),
    steps({**STEP, "when_exhausted": 1}),
    steps({**STEP, "if": None}),
    steps({**STEP, "after": None}),
    steps({**STEP, "when_unmet": None}),
    steps({**STEP, "when_exhausted": None}),
    steps({**STEP, "when_exhausted": ["skip"]}),
    steps({**STEP, "after": ["b"]}, {"step": "b", "after": ["a"]}),
    steps({"step": "c", "after": ["a"]}, {**STEP, "after": ["b"]}, {"step": "b", "after": ["a"]}),
    made({"slug": "f", "steps": [STEP]}, ONE),
    made({"slug": "f", "steps": [STEP]}, (ONE >> ONE).named("a")),
    made({"slug": "f", "steps": [STEP]}, each("input", ONE >> ONE).named("a")),
    made({"slug": "f", "steps": [STEP]}, each("b", ONE).named("a")),
    made({"slug": "f", "steps": [{**STEP, "if": {}}]}, each("input", ONE).named("a")),
    made(
        {"slug": "f", "steps": [{**STEP, "after": [], "if": {"x": 1}}]},
        each("input", ONE).named("a"),
    ),
    *(
        made({"slug": "f", "steps": [STEP]}, Node("MAP", left=ONE, query=query, result_name="a"))
        for query in ("nonsense", "[]", "5", "{}", '{"over":null,"as":"b"}', None)
    ),
    Node("MAP", left=ONE, query="{}"),
    Node("MAP", left=ONE, query='{"over":"a"}'),
    Node("MAP", left=ONE, query='{"over":1,"as":"b"}'),
    Node("MAP", left=ONE, query='{"over":"a","as":"input"}'),
    Node("MAP", left=ONE, query='{"over":"a","as":"b","more":1}'),
    Node("MAP", left=ONE, query='{"over":"a","as":"b","return_exceptions":1}'),
    Node("MAP", query='{"over":"a","as":"b"}'),
    Node("SQL", query="x", options={"timeout": 0}),
    Node("SQL", query="x", options={"timeout": "5"}),
    Node("SQL", query="x", options={"start_delay": -1}),
    Node("MAP", left=ONE, query='{"over":"input","as":"b"}', options={"timeout": 1}),
]


@pytest.mark.parametrize("graph", REFUSED, ids=range(len(REFUSED)))
def test_both_sides_refuse_in_the_same_words(conn: psycopg.Connection, graph: Node) -> None:
    said = said_by_python(graph.to_json())
    assert said is not None
    assert said_by_sql(conn, graph.to_json()) == said


@pytest.mark.parametrize(
    "graph", [steps(), steps(STEP), steps({"step": "b", "after": ["a"]}, STEP)]
)
def test_both_sides_take_what_is_right(conn: psycopg.Connection, graph: Node) -> None:
    assert said_by_python(graph.to_json()) is None
    assert said_by_sql(conn, graph.to_json()) is None


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, 10**23, 1e23, "a", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


@settings(
    max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(st.tuples(JSON, JSON), min_size=10, max_size=10))
def test_containment_is_that_of_postgres(
    conn: psycopg.Connection, pairs: list[tuple[Any, Any]]
) -> None:
    texts = [[json.dumps(part) for part in pair] for pair in pairs]
    query = (
        "SELECT array_agg(v::jsonb @> p::jsonb ORDER BY n)"
        " FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY u (v, p, n)"
    )
    expected = value(conn, query, *map(list, zip(*texts, strict=True)))
    assert [contains(one, pattern) for one, pattern in pairs] == expected
