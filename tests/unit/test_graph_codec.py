"""The JSON text of graphs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from tests.unit.graph_strategies import GRAPHS
from workbench.errors import GraphError
from workbench.graph import Node, dumps, loads, loop, seq, sql, validate


@given(GRAPHS)
def test_a_graph_survives_its_text(graph: Node) -> None:
    text = dumps(graph)
    assert loads(text) == graph
    assert dumps(loads(text)) == text


@given(GRAPHS)
def test_the_text_is_compact_json(graph: Node) -> None:
    text = dumps(graph)
    assert json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) == text


def test_keys_come_in_one_order_and_empty_ones_are_absent() -> None:
    leaf = sql("SELECT 1")
    node = Node(
        "JOIN",
        left=leaf,
        right=leaf,
        extra=(leaf,),
        query="{}",
        result_name="x",
        retry={"max_attempts": 3, "base_delay": 0.5},
        policy={"http": {"max_concurrency": 2}},
        options={},
    )
    one = '{"node_type":"SQL","query":"SELECT 1"}'
    assert dumps(node) == (
        f'{{"node_type":"JOIN","left_node":{one},"right_node":{one},"extra_nodes":[{one}],'
        '"query":"{}","result_name":"x","retry":{"max_attempts":3,"base_delay":0.5},'
        '"policy":{"http":{"max_concurrency":2}}}'
    )


def test_escapes_are_those_of_the_server() -> None:
    assert dumps(sql('\x01\b\f\n\r\t\x1f\x7f"\\/é😀')) == (
        '{"node_type":"SQL","query":"\\u0001\\b\\f\\n\\r\\t\\u001f\x7f\\"\\\\/é😀"}'
    )


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_text_that_postgres_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(GraphError, match=r"NUL|surrogate"):
        dumps(sql(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope", "root: not JSON"),
        ("[1]", "root: a graph must be a JSON object"),
        ("{}", "root: failed to deserialize Durofut child: a node needs a node_type"),
        ('{"node_type":"X"}', "root: Unknown node_type 'X'. Valid types: SQL, THEN, IF, JOIN, "),
        ('{"node_type":"SQL","qery":"x"}', "root: unknown key 'qery'"),
        ('{"node_type":"SQL","query":1}', "root: query must be text, not int"),
        ('{"node_type":"SQL","retry":[1]}', "root: retry must be a JSON object, not list"),
        (
            '{"node_type":"THEN","left_node":"x"}',
            "root.left: failed to deserialize Durofut child: left_node must be a JSON object",
        ),
        (
            '{"node_type":"THEN","left_node":{"node_type":"SQL"},"right_node":{"query":"x"}}',
            "root.right: failed to deserialize Durofut child: a node needs a node_type",
        ),
        (
            '{"node_type":"IF","condition_node":"x"}',
            "root: condition_node must be a Durofut JSON object",
        ),
        (
            '{"node_type":"JOIN","extra_nodes":["x"]}',
            "root: extra_nodes entries must be Durofut JSON objects",
        ),
        (
            '{"node_type":"JOIN","extra_nodes":[{"node_type":"SQL"},{"node_type":"X"}]}',
            "root.extra_nodes[1]: Unknown node_type 'X'",
        ),
    ],
)
def test_a_refused_text_names_the_path(text: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        loads(text)
    assert str(caught.value).startswith(f"Invalid durable function graph: {message}")


_LEAF = '{"node_type":"SQL","query":"SELECT 1"}'
_BOTH = f'"left_node":{_LEAF},"right_node":{_LEAF}'
_ROWS = '"query":"{\\"condition_type\\":\\"result_has_rows\\",\\"result_name\\":\\"input\\"}"'
_KINDS = {
    "then": (f'{{"node_type":"THEN","left_node":{_LEAF},"right_node":', "}"),
    "join": (f'{{"node_type":"JOIN",{_BOTH},"extra_nodes":[', "]}"),
    "race": ('{"node_type":"RACE","left_node":', f',"right_node":{_LEAF}}}'),
    "body": ('{"node_type":"LOOP","left_node":', "}"),
    "while": (f'{{"node_type":"LOOP","left_node":{_LEAF},"condition_node":', "}"),
    "condition": (f'{{"node_type":"IF",{_BOTH},"condition_node":', "}"),
    "branch": (
        f'{{"node_type":"IF","left_node":{_LEAF},"right_node":',
        f',"condition_node":{_LEAF}}}',
    ),
    "if_rows": (f'{{"node_type":"IF","left_node":{_LEAF},"right_node":', f",{_ROWS}}}"),
}


def _nested(levels: int, kind: str = "join") -> str:
    before, after = _KINDS[kind]
    return before * levels + _LEAF + after * levels


@pytest.mark.parametrize("kind", _KINDS)
def test_256_levels_pass(kind: str) -> None:
    graph = loads(_nested(256, kind))
    validate(graph)
    assert graph.depth == 256
    assert dumps(graph) == _nested(256, kind)
    assert str(graph)
    assert graph.to_sql()


@pytest.mark.parametrize("kind", _KINDS)
def test_257_levels_are_refused_however_they_are_nested(kind: str) -> None:
    inner = loads(_nested(256, kind))
    with pytest.raises(GraphError, match="maximum nesting depth of 256"):
        validate(loop(inner))
    with pytest.raises(GraphError, match="maximum nesting depth of 256"):
        loads(_nested(257, kind))


@pytest.mark.parametrize("levels", [257, 20_000])
def test_deeper_graphs_are_refused_without_a_crash(levels: int) -> None:
    with pytest.raises(GraphError, match="root: Graph exceeds maximum nesting depth of 256"):
        loads(_nested(levels))


def test_a_chain_that_is_built_too_deep_is_refused() -> None:
    graph = sql("SELECT 0")
    for n in range(100_000):
        graph = graph >> f"SELECT {n}"
    with pytest.raises(GraphError, match="Build long sequences with seq"):
        validate(graph)


def test_ten_thousand_nodes_pass_and_one_more_does_not() -> None:
    graph = seq(*["SELECT 1"] * 5000)
    validate(Node("LOOP", left=graph))
    with pytest.raises(GraphError, match="Workflow exceeds maximum node count of 10000"):
        validate(graph >> "SELECT 1")
