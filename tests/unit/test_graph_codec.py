"""The JSON text of graphs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from tests.unit.graph_strategies import GRAPHS
from workbench.errors import GraphError
from workbench.graph import Node, dumps, loads, seq, sql, validate


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


def _nested(levels: int) -> str:
    leaf = '{"node_type":"SQL","query":"SELECT 1"}'
    head = f'{{"node_type":"JOIN","left_node":{leaf},"right_node":{leaf},"extra_nodes":['
    return head * levels + leaf + "]}" * levels


def test_256_levels_pass() -> None:
    graph = loads(_nested(256))
    validate(graph)
    assert graph.depth == 256
    assert loads(dumps(graph)) == graph
    assert str(graph)


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
