"""Nodes, builders, the walk and the text picture."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid

import pytest

from workbench.errors import GraphError, HandlerError, ValueRefused
from workbench.graph import (
    Node,
    break_,
    http,
    http_multipart,
    if_,
    if_rows,
    join,
    loop,
    named,
    py,
    race,
    ref,
    seq,
    sleep,
    sql,
    tree,
    wait_for_schedule,
    wait_for_signal,
    walk,
)
from workbench.graph.build import as_node
from workbench.graph.handlers import Handler


def clean(rows: object, limit: int = 10) -> object:
    return rows, limit


def count(ctx: object) -> int:
    return 1


def test_a_text_on_either_side_of_the_operator_is_sql() -> None:
    a, b = sql("SELECT 1"), sql("SELECT 2")
    assert "SELECT 1" >> b == a >> "SELECT 2" == a >> b


def test_the_operator_nests_to_the_left() -> None:
    a, b, c = sql("SELECT 1"), sql("SELECT 2"), sql("SELECT 3")
    assert a >> b >> c == (a >> b) >> c != a >> (b >> c)


def test_equal_graphs_are_one_key() -> None:
    assert len({seq("SELECT 1", "SELECT 2"), sql("SELECT 1") >> "SELECT 2"}) == 1


def test_a_node_is_not_equal_to_its_text() -> None:
    assert sql("SELECT 1") != "SELECT 1"


def test_a_node_has_no_truth_value() -> None:
    with pytest.raises(GraphError, match="has no truth value"):
        bool(sql("SELECT 1"))


@pytest.mark.parametrize("name", ["x y", "1x", "x-y", "é", "a\n"])
def test_a_result_name_must_be_an_identifier(name: str) -> None:
    with pytest.raises(GraphError, match=r"^df\.as: .* is not a valid identifier"):
        sql("SELECT 1").named(name)


def test_a_result_name_must_not_be_empty() -> None:
    with pytest.raises(GraphError, match=r"^df\.as: result name cannot be empty$"):
        named("SELECT 1", "")


def test_the_runs_input_keeps_its_name() -> None:
    with pytest.raises(GraphError, match="reserved for the run's input"):
        sql("SELECT 1").named("input")


def test_naming_changes_a_copy() -> None:
    step = sql("SELECT 1")
    assert (step.named("x").result_name, step.result_name) == ("x", None)


def test_a_sequence_of_three_is_what_the_operator_builds() -> None:
    assert seq("SELECT 1", "SELECT 2", "SELECT 3") == sql("SELECT 1") >> "SELECT 2" >> "SELECT 3"


def test_a_sequence_of_one_is_that_step() -> None:
    assert seq("SELECT 1") == sql("SELECT 1")


def test_a_sequence_needs_a_step() -> None:
    with pytest.raises(GraphError, match="at least one step"):
        seq()


@pytest.mark.parametrize(("steps", "depth"), [(258, 9), (10_000, 14)])
def test_a_long_sequence_stays_shallow(steps: int, depth: int) -> None:
    graph = seq(*(f"SELECT {n}" for n in range(steps)))
    assert (graph.count, graph.depth) == (2 * steps - 1, depth)
    leaves = [visit.node.query for visit in walk(graph) if visit.node.node_type == "SQL"]
    assert leaves == [f"SELECT {n}" for n in range(steps)]


def test_graph_json_is_taken_as_the_node_it_is() -> None:
    step = sql("SELECT 1").named("x")
    assert as_node(step.to_json()) == step


def test_json_of_an_unknown_type_is_sql() -> None:
    assert as_node('{"node_type":"NOPE"}').node_type == "SQL"


def test_broken_graph_json_is_refused_where_it_is_used() -> None:
    with pytest.raises(GraphError, match=r"^Invalid Durofut JSON: failed to deserialize"):
        as_node('{"node_type":"SQL","query":5}')


def test_a_function_is_not_a_step() -> None:
    with pytest.raises(GraphError, match=r"write py\(clean\)"):
        as_node(clean)


def test_values_become_literals_in_code_only() -> None:
    step = sql(
        "SELECT '$day', $day, $n, -$n, $t, $none, $d, $doc -- $day",
        day="O'Brien",
        n=-5,
        t=True,
        none=None,
        d=decimal.Decimal("-1.50"),
        doc={"a": [1]},
    )
    assert step.query == (
        "SELECT '$day', 'O''Brien', (-5), -(-5), true, NULL, (-1.50), '{\"a\":[1]}' -- $day"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime.date(2026, 11, 30), "DATE '2026-11-30'"),
        (datetime.datetime(2026, 11, 30, 9, 12), "TIMESTAMP '2026-11-30 09:12:00'"),  # noqa: DTZ001
        (
            datetime.datetime(2026, 11, 30, 9, 12, tzinfo=datetime.UTC),
            "TIMESTAMPTZ '2026-11-30 09:12:00+00:00'",
        ),
        (datetime.time(9, 12), "TIME '09:12:00'"),
        (uuid.UUID(int=5), "UUID '00000000-0000-0000-0000-000000000005'"),
    ],
)
def test_a_value_that_is_no_json_says_its_type(value: object, text: str) -> None:
    assert sql("SELECT $v", v=value).query == f"SELECT {text}"


def test_values_leave_references_alone() -> None:
    assert sql("SELECT $a, $b", a=1).query == "SELECT 1, $b"


def test_a_value_that_the_query_does_not_use_is_refused() -> None:
    with pytest.raises(GraphError, match=r"no \$dya .* Did you mean 'day'"):
        sql("SELECT $day", dya=1)


def test_a_value_has_no_columns() -> None:
    with pytest.raises(GraphError, match="has no columns"):
        sql("SELECT $x.c", x={"c": 1})


def test_a_value_that_sql_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueRefused, match=r"^x is nan"):
        sql("SELECT $x", x=float("nan"))


def test_an_autocommit_statement_says_so() -> None:
    assert sql("VACUUM t", transaction=False).to_json() == (
        '{"node_type":"SQL","query":"VACUUM t","options":{"transaction":false}}'
    )


def test_references_are_stored_wherever_they_stand() -> None:
    step = py("crm.clean", rows=ref("x"), more=[{"c": ref("x")["a"]["b"]}], n=1)
    assert step.query == (
        '{"handler":"crm.clean","input":{"rows":{"$ref":"x"},'
        '"more":[{"c":{"$ref":"x.a.b"}}],"n":1}}'
    )


def test_a_function_is_stored_by_its_name() -> None:
    assert json.loads(py(clean, rows=[]).query or "")["handler"] == f"{__name__}:clean"


@pytest.mark.parametrize("arguments", [{}, {"rows": 1, "limt": 2}])
def test_arguments_must_fit_the_function(arguments: dict[str, int]) -> None:
    with pytest.raises(GraphError, match=r"The function is clean\(rows"):
        py(clean, **arguments)


@pytest.mark.parametrize("fn", [clean, "crm.clean"])
def test_arguments_without_names_are_refused(fn: Handler | str) -> None:
    with pytest.raises(GraphError, match="give every argument by its name"):
        py(fn, ref("x"))  # type: ignore[arg-type]


def test_the_context_is_given_by_the_engine() -> None:
    assert json.loads(py(count).query or "")["input"] == {}


def test_an_argument_that_json_cannot_hold_names_its_path() -> None:
    with pytest.raises(ValueRefused, match=r'^rows\[0\]\["when"\] is datetime\.date'):
        py(clean, rows=[{"when": datetime.date(2026, 1, 1)}])


def test_an_argument_that_contains_itself_is_refused() -> None:
    rows: list[object] = []
    rows.append(rows)
    with pytest.raises(ValueRefused, match="contains itself"):
        py(clean, rows=rows)


@pytest.mark.parametrize("name", ["", "m:", ":f", "a b"])
def test_a_stored_name_must_be_one(name: str) -> None:
    with pytest.raises(HandlerError, match="is no handler's name"):
        py(name)


@pytest.mark.parametrize("key", ["a.b", "", 0])
def test_a_reference_goes_on_by_names(key: str) -> None:
    with pytest.raises(GraphError, match="without dots"):
        ref("x")[key]


def test_a_reference_is_not_iterable() -> None:
    with pytest.raises(GraphError):
        list(ref("x"))  # type: ignore[call-overload]


def test_the_walk_is_pre_order_and_names_parents_and_paths() -> None:
    leaf = sql("SELECT 1")
    branch = Node("IF", condition=leaf, left=leaf, right=leaf)
    graph = Node("JOIN", left=leaf, right=branch, extra=(leaf, leaf >> leaf))
    assert [(v.number, v.node.node_type, v.parent, v.path) for v in walk(graph)] == [
        (0, "JOIN", None, "root"),
        (1, "SQL", 0, "root.left"),
        (2, "IF", 0, "root.right"),
        (3, "SQL", 2, "root.right.left"),
        (4, "SQL", 2, "root.right.right"),
        (5, "SQL", 2, "root.right.condition_node"),
        (6, "SQL", 0, "root.extra_nodes[0]"),
        (7, "THEN", 0, "root.extra_nodes[1]"),
        (8, "SQL", 7, "root.extra_nodes[1].left"),
        (9, "SQL", 7, "root.extra_nodes[1].right"),
    ]


def test_shared_nodes_count_once_for_each_use() -> None:
    graph = sql("SELECT 1")
    for _ in range(60):
        graph = graph >> graph
    assert (graph.count, graph.depth) == (2**61 - 1, 60)
    with pytest.raises(GraphError, match="maximum node count of 10000"):
        graph.to_json()


def test_the_repr_is_one_line() -> None:
    assert repr(sql("SELECT\n  1").named("x")) == "<Node SQL: SELECT 1 |=> 'x'>"
    assert repr(seq("SELECT 1", "SELECT 2")) == "<Node THEN, 3 nodes>"


def _lines(graph: Node, marks: dict[int, str] | None = None) -> list[str]:
    return [line.rstrip() for line in tree(graph, marks).split("\n")]


def test_a_sequence_is_drawn_flat() -> None:
    graph = sql("SELECT 1").named("a") >> (sql("SELECT 2") >> py("m:f"))
    assert _lines(graph.named("whole")) == [
        "SQL: SELECT 1 |=> 'a'",
        "→ SQL: SELECT 2",
        "→ PYTHON m:f",
    ]


def test_branches_are_drawn_with_their_headings() -> None:
    leaf = sql("SELECT 1")
    choice = Node("IF", condition=sql("SELECT true"), left=leaf >> leaf, right=leaf)
    graph = Node("LOOP", left=Node("JOIN", left=choice, right=leaf), condition=leaf)
    assert _lines(graph) == [
        "LOOP (while)",
        "    ↻ body:",
        "      └─JOIN (2)",
        "          ║ branch 1:",
        "            ├─IF",
        "            │   ? condition:",
        "            │     └─SQL: SELECT true",
        "            │   ✓ then:",
        "            │     └─SQL: SELECT 1",
        "            │     → SQL: SELECT 1",
        "            │   ✗ else:",
        "            │     └─SQL: SELECT 1",
        "          ║ branch 2:",
        "            └─SQL: SELECT 1",
        "    ? while:",
        "      └─SQL: SELECT 1",
    ]


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (sql("SELECT " + "x" * 44), "SQL: SELECT " + "x" * 40 + "..."),
        (sql("é" * 26), "SQL: " + "é" * 23 + "..."),
        (Node("SLEEP", query="5"), "SLEEP 5s"),
        (Node("WAIT_SCHEDULE", query='{"cron_expr":"0 * * * *"}'), "WAIT '0 * * * *'"),
        (Node("SIGNAL", query='{"signal_name":"ok","timeout_seconds":9}'), "SIGNAL 'ok' (9s)"),
        (Node("BREAK", query='{"break_value":null}'), "BREAK"),
        (Node("BREAK", query=f'{{"break_value":"{"x" * 21}"}}'), f"BREAK '{'x' * 17}...'"),
        (Node("HTTP", query='{"url":"http://a/","method":"GET"}'), "HTTP GET http://a/"),
        (sleep("90 s"), "SLEEP 90s"),
        (
            wait_for_schedule("0 9 * * 1", "Europe/Berlin").named("x"),
            "WAIT '0 9 * * 1' Europe/Berlin |=> 'x'",
        ),
        (wait_for_signal("ok"), "SIGNAL 'ok'"),
        (break_("x" * 20), f"BREAK '{'x' * 20}'"),
        (http("https://host/" + "x" * 27, body=""), "HTTP POST https://host/" + "x" * 27),
        (http("https://host/" + "x" * 28), "HTTP GET https://host/" + "x" * 24 + "..."),
        (
            http_multipart("https://host/", [{"name": "a", "data": ""}]).named("up"),
            "HTTP_MULTIPART POST https://host/ |=> 'up'",
        ),
        (loop("SELECT 1"), "LOOP (infinite)"),
        (loop("SELECT 1", while_="SELECT true"), "LOOP (while)"),
        (loop("SELECT 1", until="SELECT true"), "LOOP (until)"),
        (join("a", "b", "c", "d").named("x"), "JOIN (4) |=> 'x'"),
        (race("a", "b").named("x"), "RACE"),
        (if_("a", "b", "c").named("x"), "IF |=> 'x'"),
        (if_rows("r", "b", "c"), "IF"),
    ],
)
def test_each_type_has_its_line(node: Node, line: str) -> None:
    assert _lines(node)[0] == line


def test_a_choice_by_rows_shows_what_it_asks() -> None:
    assert _lines(loop(if_rows("r", break_(), race("a", sleep(5))), until="SELECT $r")) == [
        "LOOP (until)",
        "    ↻ body:",
        "      └─IF",
        "          ? condition:",
        "            └─rows of 'r'",
        "          ✓ then:",
        "            └─BREAK",
        "          ✗ else:",
        "            └─RACE",
        "                ║ branch 1:",
        "                  ├─SQL: a",
        "                ║ branch 2:",
        "                  └─SLEEP 5s",
        "    ? until:",
        "      └─SQL: SELECT $r",
    ]


def test_lines_are_padded_to_the_longest_plus_four() -> None:
    assert {len(line) for line in str(seq("SELECT 1", "SELECT 22")).split("\n")} == {20}


def test_marks_are_placed_by_node_number() -> None:
    assert _lines(seq("SELECT 1", "SELECT 2"), {1: "✓", 2: "⏳"}) == [
        "SQL: SELECT 1 ✓",
        "→ SQL: SELECT 2 ⏳",
    ]
