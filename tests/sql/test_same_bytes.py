"""One graph, built in Python and in SQL, is one text; `to_sql` and the server are each other's inverse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.graph_strategies import GRAPHS, IDENTIFIERS, TEXTS
from workbench.graph import Node, loads, py, ref, seq, sql
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
    texts: tuple[str, ...]


def leaf(text: str) -> Pair:
    return Pair(sql(text), "df.sql(%s)", (text,))


def wrapped(text: str) -> Pair:
    """A step given as text, which must be wrapped the same way on both sides."""
    node = as_node(text)
    return Pair(node, "df.\"as\"(%s, 'wrapped')", (text,))._replace(node=node.named("wrapped"))


def chained(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def then(a: Pair, b: Pair, form: str) -> Pair:
        return Pair(a.node >> b.node, form.format(a.call, b.call), a.texts + b.texts)

    def named(a: Pair, name: str, form: str) -> Pair:
        return Pair(a.node.named(name), form.format(a.call, f"'{name}'"), a.texts)

    return st.builds(
        then, inner, inner, st.sampled_from(["df.seq({}, {})", "({} ~> {})"])
    ) | st.builds(
        named,
        inner,
        IDENTIFIERS,
        st.sampled_from(['df."as"({}, {})', "({} |=> {})", "df.as_op({}, {})"]),
    )


PAIRS = st.recursive(st.builds(leaf, STEPS) | st.builds(wrapped, STEPS), chained, max_leaves=12)


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
    return {
        key: reordered(data[key]) if key.endswith("_node") else data[key] for key in sorted(data)
    }


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
