"""One graph, built in Python and in SQL, is one text; `to_sql` and the server are each other's inverse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.graph_strategies import (
    CRONS,
    GRAPHS,
    HEADERS,
    IDENTIFIERS,
    PARTS,
    SECONDS,
    SINKS,
    STATUSES,
    TEXTS,
    URLS,
    ZONES,
)
from workbench.graph import (
    Node,
    break_,
    http,
    http_multipart,
    if_,
    if_rows,
    join,
    loads,
    loop,
    py,
    race,
    ref,
    seq,
    sleep,
    sql,
    wait_for_schedule,
    wait_for_signal,
)
from workbench.graph.build import as_node

NASTY = st.sampled_from(
    [
        "",
        " ",
        "'",
        "\\",
        "\\'",
        '"',
        "$$ $x$ {y}",
        "\r\n\t\b\f\x01\x1f\x7f",
        "\u2028\u00e9\U0001f600",
        "{",
        '{"a": 1}',
        '{"node_type":"NOPE"}',
        '{"node_type":7}',
        "%s %% :x ?",
        "-- no comment\n/* none",
    ]
)
STEPS = NASTY | TEXTS

SAME = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


class Pair(NamedTuple):
    """One graph: as a node, and as the SQL (with its parameters) that builds it from plain texts."""

    node: Node
    call: str
    texts: tuple[str | None, ...]


def leaf(text: str) -> Pair:
    return Pair(sql(text), "df.sql(%s)", (text,))


def wrapped(text: str) -> Pair:
    """A step given as text, which must be wrapped the same way on both sides."""
    node = as_node(text)
    return Pair(node, "df.\"as\"(%s, 'wrapped')", (text,))._replace(node=node.named("wrapped"))


def requested(
    url: str, method: str, body: str | None, headers: dict[str, str] | None, timeout: int
) -> Pair:
    node = http(url, method=method, body=body, headers=headers, timeout=timeout)
    given = None if headers is None else json.dumps(headers)
    call = "df.http(%s, %s, %s, %s::text::jsonb, %s::text::int)"
    return Pair(node, call, (url, method, body, given, str(timeout)))


def with_options(pair: Pair, statuses: list[int] | None, strict: bool, sink: str | None) -> Pair:
    url, method, body, headers, timeout = pair.texts
    node = http(
        str(url),
        method=method,
        body=body,
        headers=json.loads(headers or "null"),
        timeout=int(timeout or 0),
        retry_statuses=statuses,
        raise_for_status=strict,
        sink=sink,
    )
    options = {"raise_for_status": strict, "retry_statuses": statuses or []}
    options |= {"sink": sink} if sink else {}
    call = f"df.with_http({pair.call}, %s::text::jsonb)"
    return Pair(node, call, (*pair.texts, json.dumps(options)))


def uploaded(url: str, parts: list[dict[str, str]], headers: dict[str, str] | None) -> Pair:
    given = None if headers is None else json.dumps(headers)
    call = "df.http_multipart(%s, parts => %s::text::jsonb, headers => %s::text::jsonb)"
    return Pair(http_multipart(url, parts, headers=headers), call, (url, json.dumps(parts), given))


def signalled(name: str, timeout: int | None) -> Pair:
    node = wait_for_signal(name, timeout)
    shown = None if timeout is None else str(timeout)
    return Pair(node, "df.wait_for_signal(%s, %s::text::int)", (name, shown))


_REQUESTS = st.builds(
    requested,
    URLS,
    st.sampled_from(["get", "POST", "Patch"]),
    st.none() | STEPS,
    HEADERS,
    st.integers(1, 99),
)
LEAVES = (
    st.builds(leaf, STEPS)
    | st.builds(wrapped, STEPS)
    | st.integers(0, 2**34).map(lambda n: Pair(sleep(n), f"df.sleep({n})", ()))
    | CRONS.map(lambda cron: Pair(wait_for_schedule(cron), "df.wait_for_schedule(%s)", (cron,)))
    | st.builds(
        lambda cron, zone: Pair(
            wait_for_schedule(cron, zone), "df.wait_for_schedule(%s, %s)", (cron, zone)
        ),
        CRONS,
        ZONES,
    )
    | st.builds(signalled, STEPS.filter(bool), st.none() | st.integers(1, 10**9))
    | (st.none() | STEPS).map(lambda value: Pair(break_(value), "df.break(%s)", (value,)))
    | _REQUESTS
    | st.builds(with_options, _REQUESTS, STATUSES, st.booleans(), SINKS)
    | st.builds(uploaded, URLS, PARTS, HEADERS)
)


def combined(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def two(a: Pair, b: Pair, form: tuple[Any, str]) -> Pair:
        return Pair(form[0](a.node, b.node), form[1].format(a.call, b.call), a.texts + b.texts)

    def three(a: Pair, b: Pair, c: Pair, form: tuple[Any, str]) -> Pair:
        texts = a.texts + b.texts + c.texts
        return Pair(form[0](a.node, b.node, c.node), form[1].format(a.call, b.call, c.call), texts)

    def named(a: Pair, name: str, form: str) -> Pair:
        return Pair(a.node.named(name), form.format(a.call, f"'{name}'"), a.texts)

    def forever(a: Pair, form: str) -> Pair:
        return Pair(loop(a.node), form.format(a.call), a.texts)

    def paced(a: Pair, b: Pair, pace: float) -> Pair:
        call = f"df.loop({a.call}, {b.call}, min_interval => interval '{pace:f} seconds')"
        return Pair(loop(a.node, b.node, min_interval=pace), call, a.texts + b.texts)

    def rows(a: Pair, b: Pair, name: str) -> Pair:
        call = f"df.if_rows('{name}', {a.call}, {b.call})"
        return Pair(if_rows(name, a.node, b.node), call, a.texts + b.texts)

    return (
        st.builds(two, inner, inner, st.sampled_from(TWO))
        | st.builds(three, inner, inner, inner, st.sampled_from(THREE))
        | st.builds(
            named,
            inner,
            IDENTIFIERS,
            st.sampled_from(['df."as"({}, {})', "({} |=> {})", "df.as_op({}, {})"]),
        )
        | st.builds(forever, inner, st.sampled_from(["df.loop({})", "(@> {})"]))
        | st.builds(paced, inner, inner, SECONDS)
        | st.builds(rows, inner, inner, IDENTIFIERS)
    )


TWO = [
    (seq, "df.seq({}, {})"),
    (seq, "({} ~> {})"),
    (join, 'df."join"({}, {})'),
    (join, "({} & {})"),
    (race, "df.race({}, {})"),
    (race, "({} | {})"),
    (loop, "df.loop({}, {})"),
]
THREE = [
    (join, "df.join3({}, {}, {})"),
    (race, "({} | {} | {})"),
    (if_, 'df."if"({}, {}, {})'),
    (if_, "({} ?> {} !> {})"),
]

PAIRS = st.recursive(LEAVES, combined, max_leaves=12)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def value(conn: psycopg.Connection, query: str, params: Any = None) -> str:
    row = conn.execute(query, params).fetchone()
    assert row is not None
    return str(row[0])


@SAME
@given(PAIRS)
def test_python_and_sql_build_the_same_bytes(conn: psycopg.Connection, pair: Pair) -> None:
    assert value(conn, f"SELECT {pair.call}", pair.texts) == pair.node.to_json()


@SAME
@given(GRAPHS)
@example(sql("SELECT 1"))
@example(Node("SQL"))
@example(Node("SQL", query="q", result_name="9 not a name"))
@example(Node("THEN", left=sql("a")))
def test_what_to_sql_writes_builds_the_graph(conn: psycopg.Connection, graph: Node) -> None:
    assert value(conn, f"SELECT {graph.to_sql()}") == graph.to_json()


@SAME
@given(GRAPHS)
def test_a_graph_printed_in_another_way_becomes_the_same_bytes(
    conn: psycopg.Connection, graph: Node
) -> None:
    other = json.dumps(reordered(json.loads(graph.to_json())), indent=1)
    assert value(conn, "SELECT df._compact_graph(%s)", (other,)) == graph.to_json()


def reordered(data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        key: reordered(data[key]) if key.endswith("_node") else data[key] for key in sorted(data)
    }
    if "extra_nodes" in found:
        found["extra_nodes"] = [reordered(child) for child in found["extra_nodes"]]
    return found


@pytest.mark.parametrize("steps", [2, 3, 255, 1000])
def test_long_sequences_survive_the_round_trip(conn: psycopg.Connection, steps: int) -> None:
    graph = seq(*[f"SELECT {n}" for n in range(steps)])
    assert value(conn, f"SELECT {graph.to_sql()}") == graph.to_json()


def test_the_deepest_chain_is_built_by_operators_and_read_back(conn: psycopg.Connection) -> None:
    text = value(conn, "SELECT " + " ~> ".join(f"'SELECT {n}'" for n in range(257)))
    graph = loads(text)
    assert (graph.depth, graph.count) == (256, 513)
    assert graph.to_json() == text == value(conn, f"SELECT {graph.to_sql()}")


def test_a_short_graph_is_written_on_one_line() -> None:
    graph = (sql("SELECT 'a'").named("x") >> "SELECT $x").named("y")
    assert graph.to_sql() == (
        """df."as"(df.seq(df."as"(df.sql('SELECT ''a'''), 'x'), df.sql('SELECT $x')), 'y')"""
    )


def test_a_long_sequence_is_written_one_step_a_line() -> None:
    graph = sql("SELECT 1") >> "SELECT 2" >> py("crm.clean", day=ref("input")["day"]) >> "SELECT 3"
    assert graph.to_sql() == (
        "df.seq(df.seq(df.seq(\n"
        "    df.sql('SELECT 1'),\n"
        "    df.sql('SELECT 2')),\n"
        """    '{"node_type":"PYTHON","query":"{\\"handler\\":\\"crm.clean\\",\\"input\\":{\\"day\\":"""
        """{\\"$ref\\":\\"input.day\\"}}}"}'),\n"""
        "    df.sql('SELECT 3'))"
    )


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (join("a", "b"), "df.\"join\"(df.sql('a'), df.sql('b'))"),
        (join("a", "b", "c"), "df.join3(df.sql('a'), df.sql('b'), df.sql('c'))"),
        (race("a", "b"), "df.race(df.sql('a'), df.sql('b'))"),
        (if_("a", "b", "c"), "df.\"if\"(df.sql('a'), df.sql('b'), df.sql('c'))"),
        (if_rows("r", "b", "c"), "df.if_rows('r', df.sql('b'), df.sql('c'))"),
        (loop("a").named("x"), "df.\"as\"(df.loop(df.sql('a')), 'x')"),
        (
            loop("a", "b", min_interval=0.5),
            "df.loop(df.sql('a'), df.sql('b'), min_interval => interval '0.5 seconds')",
        ),
        (loop("a", min_interval=0), "df.loop(df.sql('a'), min_interval => interval '0 seconds')"),
        (break_(), "df.break()"),
        (break_("it's"), "df.break('it''s')"),
        (sleep("10 minutes"), "df.sleep(600)"),
        (sleep(0.5), """'{"node_type":"SLEEP","query":"0.5"}'"""),
        (wait_for_schedule("0 9 * * 1"), "df.wait_for_schedule('0 9 * * 1')"),
        (
            wait_for_schedule("0 9 * * 1", "Europe/Berlin"),
            "df.wait_for_schedule('0 9 * * 1', 'Europe/Berlin')",
        ),
        (wait_for_signal("ok"), "df.wait_for_signal('ok')"),
        (wait_for_signal("ok", 60), "df.wait_for_signal('ok', 60)"),
        (http("https://h"), "df.http('https://h', 'GET')"),
        (
            http("https://h", body="x", headers={"A": "b"}, timeout=5, retry_statuses=[429]),
            "df.with_http(df.http('https://h', 'POST', body => 'x', headers => '{\"A\":\"b\"}', "
            "timeout_seconds => 5), '{\"retry_statuses\":[429]}')",
        ),
        (
            http("https://h", raise_for_status=True, sink='a.b("c")'),
            "df.with_http(df.http('https://h', 'GET'), "
            """'{"sink":"a.b(\\"c\\")","raise_for_status":true}')""",
        ),
        (
            http_multipart("https://h", [{"name": "a", "data": "x"}], method="PUT"),
            "df.http_multipart('https://h', 'PUT', "
            """parts => '[{"name":"a","data_b64":"eA=="}]')""",
        ),
    ],
)
def test_what_sql_has_a_function_for_is_a_call(
    conn: psycopg.Connection, graph: Node, text: str
) -> None:
    assert graph.to_sql() == text
    assert value(conn, f"SELECT {text}") == graph.to_json()


@pytest.mark.parametrize(
    "graph",
    [
        join("a", "b", "c", "d"),
        loop("a", until="b"),
        http("https://h", timeout=0.5),
        Node("LOOP", left=sql("a"), options={"min_interval": 1}),
        Node("LOOP", left=sql("a"), options={"min_interval": 2.0}),
        Node("BREAK", query='{"break_value": "x"}'),
        Node("BREAK", query='{"break_value":"\\ud800"}'),
        Node("SLEEP", query="05"),
        Node("WAIT_SCHEDULE", query='{"cron_expr":"* * *"}'),
        Node("SIGNAL", query='{"signal_name":"x"}'),
        Node("HTTP", query='{"url":"https://h","method":"GET"}'),
        Node("HTTP", query="[]"),
        Node("JOIN", left=sql("a"), right=sql("b"), query="{}"),
    ],
)
def test_what_sql_would_write_in_another_way_stays_json(
    conn: psycopg.Connection, graph: Node
) -> None:
    assert graph.to_sql().startswith("'{")
    assert value(conn, f"SELECT {graph.to_sql()}") == graph.to_json()
