"""What df.start refuses: nothing is stored, and the text says where and why."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.engine.support import Database
from workbench.graph import Node, loads, sql

ONE = '{"node_type":"SQL","query":"SELECT 1"}'
GRAPH = "Invalid durable function graph: "


def then(left: str, right: str = ONE) -> str:
    return f'{{"node_type":"THEN","left_node":{left},"right_node":{right}}}'


def refused(db: Database, graph: str | None) -> str:
    with pytest.raises(psycopg.Error) as error:
        db.execute("SELECT df.start(%s)", graph)
    assert (
        db.value("SELECT (SELECT count(*) FROM df.instances) + (SELECT count(*) FROM df.nodes)")
        == 0
    )
    return str(error.value.diag.message_primary)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (None, "Invalid durable function: the graph is NULL"),
        (
            '{"node_type":"NOPE","query":"x"}',
            "Invalid durable function: Unknown node_type 'NOPE'. Valid types: SQL, THEN, IF, JOIN, LOOP, "
            "BREAK, RACE, SLEEP, WAIT_SCHEDULE, HTTP, HTTP_MULTIPART, SIGNAL, PYTHON",
        ),
        ('{"node_type":"sql"}', "Invalid durable function: Unknown node_type 'sql'. Valid types: "),
        (
            '{"node_type":"SQL","query":7}',
            "Invalid durable function: Malformed Durofut JSON with node_type 'SQL': query must be text",
        ),
        (
            '{"node_type":"THEN","left_node":[]}',
            "Invalid durable function: Malformed Durofut JSON with node_type 'THEN': "
            "failed to deserialize Durofut child: left_node must be a JSON object",
        ),
        (
            '{"node_type":"SQL","query":"cut off',
            "Invalid durable function: Malformed Durofut JSON: ",
        ),
        ('{"node_type":"SQL"}', GRAPH + "root: query is missing; SQL nodes need it"),
        ("", GRAPH + "root: query is missing; SQL nodes need it"),
        ('{"node_type":"SQL","query":"a\\u0000b"}', GRAPH + "root: text contains NUL (\\u0000)"),
        ('{"node_type":"THEN"}', GRAPH + "root: left_node is missing; THEN nodes need it"),
        (
            f'{{"node_type":"THEN","left_node":{ONE},"right_node":null}}',
            GRAPH + "root: right_node is missing; THEN nodes need it",
        ),
        (
            then(then('{"query":"x"}')),
            GRAPH + "root.left.left: failed to deserialize Durofut child: ",
        ),
        (
            then('{"node_type":"NOPE"}'),
            GRAPH + "root.left: Unknown node_type 'NOPE'. Valid types: ",
        ),
        (
            then(ONE, f'{{"node_type":"SQL","query":"x","left_node":{ONE}}}'),
            GRAPH + "root.right: left_node is not valid for SQL nodes",
        ),
        (
            then(f'{{"node_type":"SQL","query":"x","condition_node":{ONE}}}'),
            GRAPH + "root.left: condition_node is not valid for SQL nodes",
        ),
        (
            f'{{"node_type":"THEN","left_node":{ONE},"right_node":{ONE},"extra_nodes":[{ONE}]}}',
            GRAPH + "root: extra_nodes is not valid for THEN nodes",
        ),
        (
            f'{{"node_type":"THEN","left_node":{ONE},"right_node":{ONE},"query":"x"}}',
            GRAPH + "root: query is not valid for THEN nodes",
        ),
        (
            '{"node_type":"SQL","query":"x","result_name":"9"}',
            GRAPH + "root: result_name '9' is not a valid identifier",
        ),
        (
            '{"node_type":"SQL","query":"x","result_name":"input"}',
            GRAPH + "root: result_name 'input' is reserved for the run's input",
        ),
        (
            '{"node_type":"PYTHON","query":"x"}',
            GRAPH + "root: query in PYTHON must be valid JSON config",
        ),
        (
            '{"node_type":"PYTHON","query":"[]"}',
            GRAPH + "root: query in PYTHON must be a JSON config object",
        ),
        ('{"node_type":"PYTHON","query":"{}"}', GRAPH + "root: query in PYTHON lacks 'handler'"),
        (
            '{"node_type":"FLOW"}',
            GRAPH + "root: query is missing; FLOW nodes need it",
        ),
        (then('{"node_type":"MAP"}'), GRAPH + "root.left: left_node is missing; MAP nodes need it"),
    ],
)
def test_a_broken_graph_is_refused(db: Database, graph: str | None, message: str) -> None:
    assert refused(db, graph).startswith(message)


@pytest.mark.parametrize(
    "text", ["[]", "7", '"x"', "null", '{"a":1}', '{"node_type":7}', "SELECT 1"]
)
def test_text_that_is_no_graph_is_a_statement(db: Database, text: str) -> None:
    run = db.value("SELECT df.start(%s)", text)
    graph = "SELECT graph FROM df.definitions WHERE instance_id = %s"
    assert db.value(graph, run) == {"node_type": "SQL", "query": text}


@pytest.mark.parametrize(
    ("before", "after", "nodes"),
    [
        ("(", " ~> 'x')", 513),
        ("(", " & 'x')", 513),
        ("(", " | 'x')", 513),
        ("df.loop(", ")", 257),
        ("df.loop('x', ", ")", 513),
        ('df."if"(', ", 'x', 'x')", 769),
        ("df.\"if\"('x', ", ", 'x')", 769),
        ("df.if_rows('x', 'x', ", ")", 513),
        ("df.join3('x', 'x', ", ")", 769),
    ],
    ids=["then", "join", "race", "body", "while", "condition", "branch", "if_rows", "extra"],
)
def test_256_levels_pass_and_257_are_refused(
    db: Database, before: str, after: str, nodes: int
) -> None:
    def nested(depth: int) -> str:
        return str(db.value(f"SELECT {before * depth}'x'{after * depth}"))

    message = refused(db, nested(257))
    assert message.startswith(GRAPH + "root: Graph exceeds maximum nesting depth of 256. ")
    run = db.start(graph := nested(256))
    assert db.value("SELECT count(*) FROM df.nodes WHERE instance_id = %s", run) == nodes
    assert loads(graph).depth == 256
    assert loads(graph).to_json() == graph
    # What another printer of JSON wrote takes the long way.
    assert db.value("SELECT df._compact_graph(%s)", json.dumps(json.loads(graph))) == graph


def python_graph(*leaves: Node) -> str:
    """A wide tree's JSON, made without Python's own limits."""
    level = [leaf.to_json() for leaf in leaves]
    while len(level) > 1:
        pairs = [then(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def test_10_000_nodes_is_the_limit(db: Database) -> None:
    step = sql("SELECT 1")
    message = refused(db, python_graph(*[step] * 5_001))
    assert message.startswith(
        GRAPH + "root: Workflow exceeds maximum node count of 10000. It has 10001. "
    )
    run = db.start(python_graph(*[step] * 5_000))
    assert db.value("SELECT count(*) FROM df.nodes WHERE instance_id = %s", run) == 9_999


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "transaction_mode => 'other'",
            "invalid transaction_mode \"other\" for df.start(): expected 'caller' or 'new'",
        ),
        ("transaction_mode => NULL", 'invalid transaction_mode "NULL" for df.start(): '),
        ("max_attempts => 0", "invalid max_attempts 0 for df.start(): expected at least 1"),
        ("max_attempts => NULL", "invalid max_attempts NULL for df.start(): "),
        ("max_backoff => '0'", "invalid max_backoff 00:00:00 for df.start(): "),
        ("max_backoff => '-1 s'", "invalid max_backoff -00:00:01 for df.start(): "),
        ("max_backoff => NULL", "invalid max_backoff NULL for df.start(): "),
        (
            "on_failure => 'retry'",
            "invalid on_failure \"retry\" for df.start(): expected 'fail' or 'continue'",
        ),
        ("on_failure => NULL", 'invalid on_failure "NULL" for df.start(): '),
        (
            "on_conflict => 'x'",
            "invalid on_conflict \"x\" for df.start(): expected 'return' or 'replace'",
        ),
        ("on_conflict => NULL", 'invalid on_conflict "NULL" for df.start(): '),
        (
            "idempotency_key => ''",
            "invalid idempotency_key of 0 bytes for df.start(): expected 1 to 1000",
        ),
        ("idempotency_key => repeat('x', 1001)", "invalid idempotency_key of 1001 bytes "),
        ("database => 'no such'", 'database "no such" does not exist'),
    ],
)
def test_a_wrong_argument_is_refused(db: Database, arguments: str, message: str) -> None:
    with pytest.raises(psycopg.Error) as error:
        db.execute(f"SELECT df.start('SELECT 1', {arguments})")
    assert str(error.value.diag.message_primary).startswith(message)
    assert db.value("SELECT count(*) FROM df.instances") == 0


@pytest.mark.parametrize(
    ("first", "second", "reported"),
    [
        ("transaction_mode => 'x'", '\'{"node_type":"NOPE"}\'', "invalid transaction_mode"),
        ("database => 'no such'", '\'{"node_type":"NOPE"}\'', "Invalid durable function: Unknown"),
        ("database => 'no such'", '\'{"node_type":"SQL"}\'', 'database "no such"'),
    ],
)
def test_faults_are_reported_in_one_order(
    db: Database, first: str, second: str, reported: str
) -> None:
    """Mode, then what the text is, then the database, then the graph's inside."""
    with pytest.raises(psycopg.Error) as error:
        db.execute(f"SELECT df.start({second}, {first})")
    assert str(error.value.diag.message_primary).startswith(reported)


def test_a_very_long_label_is_kept(db: Database) -> None:
    label = "ä'\\\n" * 100_000
    run = db.value("SELECT df.start('SELECT 1', %s)", label)
    labels: list[Any] = db.values("SELECT label FROM df.definitions WHERE instance_id = %s", run)
    assert labels == [label]
