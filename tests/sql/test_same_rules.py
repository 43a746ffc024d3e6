"""What both sides can refuse, they refuse in the same words: `validate` in Python, `df.start` in SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.graph_strategies import GRAPHS, JSON_VALUES
from workbench.errors import GraphError
from workbench.graph import Node, loads, seq, sql, validate

ONE = sql("SELECT 1")
URL = "https://host/"
GET = '{"url":"https://host/","method":"GET"}'


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def said_by_sql(conn: psycopg.Connection, graph: str) -> str | None:
    """The refusal of a graph; nothing is kept of one that is started."""
    try:
        with conn.transaction(force_rollback=True):
            conn.execute("SELECT df.start(%s)", (graph,))
    except psycopg.Error as error:
        return str(error.diag.message_primary)
    return None


def said_by_python(graph: str) -> str | None:
    try:
        validate(loads(graph))
    except GraphError as error:
        return str(error)
    return None


def node(kind: str, config: Any, **more: Any) -> Node:
    return Node(kind, query=config if isinstance(config, str) else json.dumps(config), **more)


def option(kind: str, query: str, options: dict[str, Any]) -> Node:
    return Node(kind, query=query, options=options)


def retry(**keys: Any) -> Node:
    return Node("SQL", query="x", retry=keys)


def policy(**keys: Any) -> Node:
    return Node("SQL", query="x", policy=keys)


def http(**config: Any) -> Node:
    return node("HTTP", {"url": URL, "method": "GET", **config})


def multipart(**config: Any) -> Node:
    return node("HTTP_MULTIPART", {"url": URL, "method": "POST", "parts": [{}], **config})


def rows(config: Any) -> Node:
    return node("IF", config, left=ONE, right=ONE)


# What is written for a sink, and how the refusal shows it.
NO_SINKS = [
    (value, json.dumps(value, ensure_ascii=False))
    for value in (
        "",
        "pages(body)",
        "a.b",
        "a.b()",
        "a.b(c,d)",
        "a.b(c) ",
        "a.b(c)\n",
        "d.a.b(c)",
        "a.b (c)",
        "1.b(c)",
        "a.$b(c)",
        'a."b(c)',
        'a.""(c)',
        'a."b"c(d)',
        'a."b"".c"(d',
        "a.b(c); DROP TABLE x",
        "{schema}.b(c)",
        7,
        None,
        True,
        ["a.b(c)"],
    )
]

REFUSED: list[tuple[Node, str]] = [
    (Node("SQL"), "query is missing; SQL nodes need it"),
    (sql(" "), "query is missing; SQL nodes need it"),
    (Node("THEN", left=ONE), "right_node is missing; THEN nodes need it"),
    (Node("THEN", left=ONE, right=ONE, query="x"), "query is not valid for THEN nodes"),
    (Node("RACE", left=ONE, right=ONE, query="x"), "query is not valid for RACE nodes"),
    (Node("RACE", right=ONE), "left_node is missing; RACE nodes need it"),
    (Node("JOIN", left=ONE), "right_node is missing; JOIN nodes need it"),
    (Node("LOOP"), "left_node is missing; LOOP nodes need it"),
    (Node("LOOP", left=ONE, right=ONE), "right_node is not valid for LOOP nodes"),
    (Node("RACE", left=ONE, right=ONE, extra=(ONE,)), "extra_nodes is not valid for RACE nodes"),
    (sql("x").named("x") >> Node("SLEEP"), "query is missing; SLEEP nodes need it"),
    (Node("SQL", query="x", result_name="input"), "result_name 'input' is reserved"),
    (Node("SQL", query="x", result_name="9x"), "result_name '9x' is not a valid identifier"),
    (Node("SQL", query="x", left=sql("y")), "left_node is not valid for SQL nodes"),
    (Node("SLEEP", query="1", condition=ONE), "condition_node is not valid for SLEEP nodes"),
    (Node("BREAK", query="x", extra=(ONE,)), "extra_nodes is not valid for BREAK nodes"),
    (seq("a", Node("SQL", query="b", condition=ONE), "d"), "condition_node is not valid for SQL"),
    (Node("IF", left=ONE, right=ONE), "condition_node is missing; IF nodes need a condition"),
    (Node("IF", left=ONE, condition=ONE), "right_node is missing; IF nodes need it"),
    (rows({"condition_type": "x"}), "condition_node is missing; IF nodes need a condition"),
    (rows({"condition_type": "result_has_rows"}), "query in IF lacks 'result_name'"),
    (
        rows({"condition_type": "result_has_rows", "result_name": ""}),
        "df.if_rows: result name cannot be empty",
    ),
    (
        rows({"condition_type": "result_has_rows", "result_name": "a b"}),
        "df.if_rows: 'a b' is not a valid identifier",
    ),
    (rows({"condition_node": "12345678"}), "condition_node in IF must be a first-class Durofut"),
    (
        node("LOOP", {"condition_node": "1"}, left=ONE),
        "condition_node in LOOP must be a first-class Durofut field, not embedded in query",
    ),
    (
        node("JOIN", {"extra_nodes": []}, left=ONE, right=ONE),
        "extra_nodes in JOIN must be a first-class Durofut field, not embedded in query",
    ),
    (node("JOIN", "[", left=ONE, right=ONE), "query in JOIN must be valid JSON config"),
    (node("LOOP", "[]", left=ONE), "query in LOOP must be a JSON config object"),
    *[
        (node(kind, text), f"query in {kind} must be {what}")
        for kind in (
            "BREAK",
            "WAIT_SCHEDULE",
            "SIGNAL",
            "PYTHON",
            "EXTERNAL",
            "HTTP",
            "HTTP_MULTIPART",
        )
        for text, what in [
            ("", "valid JSON config"),
            ("x", "valid JSON config"),
            ('{"a":NaN}', "valid JSON config"),
            ("[]", "a JSON config object"),
        ]
    ],
    (node("BREAK", {}), "query in BREAK lacks 'break_value'"),
    (node("BREAK", {"break_value": 7}), "break_value in BREAK must be text or null, not number"),
    (node("PYTHON", {}), "query in PYTHON lacks 'handler'"),
    (node("PYTHON", {"handler": ""}), "handler in PYTHON must be a name"),
    (node("EXTERNAL", {"input": {}}), "query in EXTERNAL lacks 'handler'"),
    *[
        (
            node("EXTERNAL", {"handler": handler}),
            "handler in EXTERNAL must be a name of 1 to 200 characters",
        )
        for handler in ("", "  ", "x" * 201, 7, None)
    ],
    (
        node("EXTERNAL", {"handler": "h", "input": [1]}),
        "input in EXTERNAL must be an object, not array",
    ),
    (
        option("EXTERNAL", '{"handler":"h"}', {"timeout": 5}),
        "option 'timeout' is not valid for EXTERNAL nodes; it has start_delay",
    ),
    *[
        (Node("SLEEP", query=text), f"query in SLEEP must be a number of seconds from 0 to {most}")
        for most in [31557600000]
        for text in ("", "-1", "1e3", "x", ".5", "1.", "0.1234567", "31557600001", " 1", "٣")
    ],
    (node("WAIT_SCHEDULE", {}), "query in WAIT_SCHEDULE lacks 'cron_expr'"),
    (
        node("WAIT_SCHEDULE", {"cron_expr": 5}),
        "cron_expr in WAIT_SCHEDULE must be text, not number",
    ),
    (
        node("WAIT_SCHEDULE", {"cron_expr": "* * * * *", "timezone": None}),
        "timezone in WAIT_SCHEDULE must be text, not null",
    ),
    (node("WAIT_SCHEDULE", {"cron_expr": "* * *"}), "Invalid cron expression '* * *': "),
    (
        node("WAIT_SCHEDULE", {"cron_expr": "* * * * *", "timezone": "Mars/Olympus"}),
        "Unknown time zone 'Mars/Olympus'",
    ),
    (node("SIGNAL", {}), "query in SIGNAL lacks 'signal_name'"),
    (node("SIGNAL", {"signal_name": ""}), "Signal name cannot be empty"),
    (node("SIGNAL", {"signal_name": 7}), "Signal name cannot be empty"),
    (node("SIGNAL", {"signal_name": "s", "timeout_seconds": 0}), "Timeout must be positive"),
    (node("SIGNAL", {"signal_name": "s", "timeout_seconds": -5}), "Timeout must be positive"),
    *[
        (
            node("SIGNAL", {"signal_name": "s", "timeout_seconds": value}),
            f"Timeout must be a whole number of seconds up to 2147483647, not {shown}",
        )
        for value, shown in [(0.5, "0.5"), ("5", '"5"'), (True, "true"), (2**31, "2147483648")]
    ],
    (node("HTTP", {"method": "GET"}), "query in HTTP lacks 'url'"),
    (node("HTTP", {"url": URL}), "query in HTTP lacks 'method'"),
    (
        http(method="FETCH"),
        "Invalid HTTP method: FETCH. Must be GET, POST, PUT, DELETE, or PATCH",
    ),
    (http(method=None), "Invalid HTTP method: null. Must be "),
    (http(method="gEt", timeout_seconds=0), "Timeout must be positive"),
    (http(timeout_seconds="1"), 'Timeout must be a number of seconds up to 2147483647, not "1"'),
    (
        http(url="ftp://host/"),
        "Blocked: unsupported URL scheme 'ftp'. Only http and https are allowed.",
    ),
    (http(url="$base/x"), "Blocked: unsupported URL scheme ''. Only http and https are allowed."),
    (http(url="localhost:80/x"), "Blocked: unsupported URL scheme 'localhost'."),
    (http(url=""), "Blocked: unsupported URL scheme ''."),
    (http(url="https:///x"), "Invalid URL 'https:///x': it names no host"),
    (http(url=7), "url in HTTP must be text, not number"),
    (http(headers=[]), "headers must be a JSON object of names and texts, not array"),
    (http(headers={"A": 1}), "header 'A' must be text, not number; write it in quotes"),
    (http(headers={"A": None}), "header 'A' must be text, not null; write it in quotes"),
    (http(headers={"Bb": 1, "A": True}), "header 'A' must be text, not boolean"),
    (http(headers={"A B": "x"}), "header 'A B' has no valid name; use letters"),
    (http(headers={"": "x"}), "header '' has no valid name"),
    (http(headers={"A": "x\r\nB: y"}), "header 'A' contains a line break; remove it"),
    (http(body={}), "body in HTTP must be text, not object"),
    (
        multipart(method="GET"),
        "Invalid HTTP method for multipart: GET. Must be POST, PUT, or PATCH",
    ),
    (multipart(parts=None), "parts is required and cannot be NULL"),
    (multipart(parts={}), "parts must be a JSON array of part objects"),
    (multipart(parts=[]), "parts must contain at least one part"),
    (
        node("HTTP_MULTIPART", {"url": URL, "method": "PUT"}),
        "query in HTTP_MULTIPART lacks 'parts'",
    ),
    (
        option("SLEEP", "1", {"transaction": False}),
        "option 'transaction' is not valid for SLEEP nodes",
    ),
    (
        option("SQL", "x", {"transaction": 1}),
        "option 'transaction' must be true or false, not 1",
    ),
    (
        option("SQL", "x", {"trans": 1}),
        "option 'trans' is not valid for SQL nodes; it has transaction",
    ),
    (
        option("SQL", "x", {"sink": "a.b(c)"}),
        "option 'sink' is not valid for SQL nodes; it has transaction",
    ),
    (
        option("HTTP", GET, {"zink": "a.b(c)"}),
        "option 'zink' is not valid for HTTP nodes; it has retry_statuses, raise_for_status, sink",
    ),
    *[
        (
            option("HTTP", GET, {"sink": value}),
            f"option 'sink' must read schema.table(column), not {shown}",
        )
        for value, shown in NO_SINKS
    ],
    (
        option("HTTP", GET, {"raise_for_status": None}),
        "option 'raise_for_status' must be true or false, not null",
    ),
    *[
        (
            Node("HTTP", query=GET, options={"retry_statuses": value}),
            "option 'retry_statuses' must be a list of HTTP statuses from 100 to 599, "
            f"not {json.dumps(value)}",
        )
        for value in (429, [99], [600], ["429"], [429.5], [True], None)
    ],
    *[
        (
            Node("LOOP", left=ONE, options={"min_interval": value}),
            f"option 'min_interval' must be seconds from 0 to 31557600000, not {json.dumps(value)}",
        )
        for value in (-1, -0.5, "1", True, None, 10**11)
    ],
    (
        Node("LOOP", left=ONE, condition=ONE, options={"until": 1}),
        "option 'until' must be true or false, not 1",
    ),
    (Node("LOOP", left=ONE, options={"until": True}), "option 'until' needs a condition_node"),
    (retry(max_attempts=0), "retry max_attempts must be an integer >= 1, not 0"),
    (retry(max_attempts=1.5), "retry max_attempts must be an integer >= 1, not 1.5"),
    (retry(base_delay=-1), "retry base_delay must be seconds, finite and >= 0, not -1"),
    (retry(tries=3), "unknown key 'tries' in retry; use max_attempts, base_delay, max_backoff"),
    (policy(sql={}), "unknown key 'sql' in policy; the only one is 'http'"),
    (policy(http=3), 'policy must read {"http": {"max_concurrency": N}}'),
    (policy(http={}), 'policy must read {"http": {"max_concurrency": N}}'),
    (
        policy(http={"max_concurrency": 0}),
        "policy max_concurrency must be an integer >= 1, not 0",
    ),
]


@pytest.mark.parametrize(("graph", "message"), REFUSED)
def test_both_sides_refuse_in_the_same_words(
    conn: psycopg.Connection, graph: Node, message: str
) -> None:
    said = said_by_python(graph.to_json())
    assert said is not None
    assert said.partition(": ")[2].partition(": ")[2].startswith(message)
    assert said_by_sql(conn, graph.to_json()) == said


@pytest.mark.parametrize(
    "graph",
    [
        http(url="{base}/x"),
        http(url="{secret:HOST}/x"),
        http(url="HTTPS://host"),
        http(method="patch", headers={}, body="", timeout_seconds=0.5),
        http(headers=None, body=None, timeout_seconds=None),
        http(other="ignored"),
        multipart(headers=None, timeout_seconds=2147483647),
        node("SIGNAL", {"signal_name": "ä b"}),
        node("WAIT_SCHEDULE", {"cron_expr": "0 0 * * 7", "timezone": "UTC"}),
        Node("SLEEP", query="31557600000"),
        Node("SLEEP", query="00.000001"),
        Node("LOOP", left=ONE, query="{}", options={"min_interval": 0, "until": False}),
        Node("JOIN", left=ONE, right=ONE, query="{}"),
        Node("SQL", query="x", retry={"max_attempts": 2, "base_delay": 0}),
    ],
)
def test_both_sides_take_it(conn: psycopg.Connection, graph: Node) -> None:
    assert said_by_python(graph.to_json()) is None
    assert said_by_sql(conn, graph.to_json()) is None


SAME = settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
CONFIGS = {
    "BREAK": ["break_value"],
    "SIGNAL": ["signal_name", "timeout_seconds"],
    "WAIT_SCHEDULE": ["cron_expr", "timezone"],
    "HTTP": ["url", "method", "body", "headers", "timeout_seconds"],
    "HTTP_MULTIPART": ["url", "method", "parts", "headers", "timeout_seconds"],
}
VALUES = JSON_VALUES | st.sampled_from(["GET", "POST", URL, "* * * * *", "UTC", 5, {"A": "b"}])
BROKEN = st.sampled_from(sorted(CONFIGS)).flatmap(
    lambda kind: st.fixed_dictionaries(
        {}, optional=dict.fromkeys([*CONFIGS[kind], "extra"], VALUES)
    ).map(lambda config: node(kind, config))
)


@SAME
@given(BROKEN)
def test_any_config_is_judged_alike(conn: psycopg.Connection, graph: Node) -> None:
    """Texts may differ in how they cut or quote a value; the verdict may not."""
    said, also = said_by_python(graph.to_json()), said_by_sql(conn, graph.to_json())
    assert (said or "")[:60] == (also or "")[:60]


@SAME
@given(GRAPHS)
def test_well_formed_graphs_start(conn: psycopg.Connection, graph: Node) -> None:
    assert said_by_sql(conn, graph.to_json()) is None
