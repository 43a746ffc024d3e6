"""What a graph must be to start."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.unit.graph_strategies import GRAPHS
from workbench.errors import GraphError
from workbench.graph import Node, break_, if_rows, loop, py, ref, seq, sql, validate
from workbench.graph.shapes import NODE_TYPES

ONE = sql("SELECT 1")


def _refused(graph: Node) -> str:
    with pytest.raises(GraphError) as caught:
        validate(graph)
    return str(caught.value).removeprefix("Invalid durable function graph: ")


@given(GRAPHS)
def test_well_formed_graphs_pass(graph: Node) -> None:
    validate(graph)


def test_the_types_are_listed_in_one_order() -> None:
    assert ", ".join(NODE_TYPES) == (
        "SQL, THEN, IF, JOIN, LOOP, BREAK, RACE, SLEEP, WAIT_SCHEDULE, HTTP, HTTP_MULTIPART, "
        "SIGNAL, PYTHON, EXTERNAL, FLOW, MAP"
    )


@pytest.mark.parametrize(
    "node",
    [
        Node("IF", left=ONE, right=ONE, condition=ONE),
        Node(
            "IF",
            left=ONE,
            right=ONE,
            query='{"condition_type":"result_has_rows","result_name":"input"}',
        ),
        Node("RACE", left=ONE, right=ONE),
        Node("LOOP", left=ONE, query='{"min_interval":1}'),
        Node("BREAK", query='{"break_value":null}'),
        Node("SLEEP", query="0"),
        Node("WAIT_SCHEDULE", query='{"cron_expr":"* * * * *"}'),
        Node("SIGNAL", query='{"signal_name":"ok","timeout_seconds":null}'),
        Node("HTTP", query='{"url":"http://a/","method":"GET"}'),
        Node("HTTP_MULTIPART", query='{"url":"http://a/","method":"POST","parts":[{}]}'),
        Node("HTTP", query='{"url":"{base}","method":"get","headers":null,"timeout_seconds":null}'),
        Node("PYTHON", query='{"handler":"m:f"}'),
        Node("EXTERNAL", query='{"handler":"resize","input":{"w":{"$ref":"input"}}}'),
    ],
)
def test_every_type_has_a_valid_form(node: Node) -> None:
    validate(node)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Node("NOPE"), "root: Unknown node_type 'NOPE'. Valid types: SQL, THEN"),
        (Node("SQL"), "root: query is missing; SQL nodes need it"),
        (Node("THEN", left=ONE), "root: right_node is missing; THEN nodes need it"),
        (Node("RACE", right=ONE), "root: left_node is missing; RACE nodes need it"),
        (Node("THEN", left=ONE, right=ONE, query="x"), "root: query is not valid for THEN nodes"),
        (
            Node("SQL", query="x", condition=ONE),
            "root: condition_node is not valid for SQL nodes",
        ),
        (
            Node("RACE", left=ONE, right=ONE, extra=(ONE,)),
            "root: extra_nodes is not valid for RACE nodes",
        ),
        (
            Node("IF", left=ONE, right=ONE),
            "root: condition_node is missing; IF nodes need a condition",
        ),
        (
            Node("LOOP", left=ONE, query='{"condition_node":"12345678"}'),
            "root: condition_node in LOOP must be a first-class Durofut field, not embedded in",
        ),
        (
            Node("JOIN", left=ONE, right=ONE, query='{"extra_nodes":[]}'),
            "root: extra_nodes in JOIN must be a first-class Durofut field, not embedded in",
        ),
        (Node("BREAK", query="nope"), "root: query in BREAK must be valid JSON config"),
        (Node("BREAK", query="[]"), "root: query in BREAK must be a JSON config object"),
        (Node("SIGNAL", query="{}"), "root: query in SIGNAL lacks 'signal_name'"),
        (Node("SIGNAL", query='{"signal_name":""}'), "root: Signal name cannot be empty"),
        (Node("PYTHON", query='{"handler":""}'), "root: handler in PYTHON must be a name"),
        (Node("SLEEP", query="-1"), "root: query in SLEEP must be a number of seconds"),
        (
            ONE >> Node("SQL", query="x", result_name="a b"),
            "root.right: result_name 'a b' is not a valid identifier",
        ),
        (
            ONE >> Node("SQL", query="x", result_name="input"),
            "root.right: result_name 'input' is reserved for the run's input",
        ),
        (
            Node("SQL", query="x", retry={"max_attempts": 0}),
            "root: retry max_attempts must be an integer >= 1, not 0",
        ),
        (
            Node("SQL", query="x", retry={"base_delay": float("inf")}),
            "root: retry base_delay must be seconds, finite and >= 0, not inf",
        ),
        (Node("SQL", query="x", retry={"tries": 3}), "root: unknown key 'tries' in retry"),
        (Node("SQL", query="x", policy={"sql": {}}), "root: unknown key 'sql' in policy"),
        (
            Node("SQL", query="x", policy={"http": {"max_concurrency": True}}),
            "root: policy max_concurrency must be an integer >= 1, not true",
        ),
        (
            Node("SQL", query="x", options={"transaction": "no"}),
            "root: option 'transaction' must be true or false",
        ),
        (
            Node("SLEEP", query="1", options={"transaction": False}),
            "root: option 'transaction' is not valid for SLEEP nodes",
        ),
    ],
)
def test_a_refusal_names_path_and_reason(node: Node, message: str) -> None:
    assert _refused(node).startswith(message)


def _uses(name: str) -> Node:
    return py("m:f", v=ref(name))


def test_an_earlier_name_and_the_input_are_known() -> None:
    validate(seq(ONE.named("a"), _uses("a"), _uses("input")))


def test_an_unknown_name_is_refused_with_the_closest_one() -> None:
    assert _refused(seq(ONE.named("staged"), _uses("stagd"))) == (
        "root.right: ref('stagd') in 'm:f': no earlier step gives that name. "
        "Did you mean 'staged'? Known here: input, staged"
    )


def test_a_name_is_not_known_before_its_step() -> None:
    assert "no earlier step gives that name" in _refused(seq(_uses("a"), ONE.named("a")))


def test_a_compound_name_is_not_known_inside_it() -> None:
    assert "'whole'" in _refused((ONE >> _uses("whole")).named("whole"))


def test_either_branch_of_an_if_may_have_given_the_name() -> None:
    choice = Node("IF", condition=ONE.named("c"), left=ONE.named("a"), right=ONE.named("b"))
    validate(seq(choice, _uses("a"), _uses("b"), _uses("c")))


def test_the_branches_of_an_if_do_not_see_each_other() -> None:
    choice = Node("IF", condition=ONE, left=ONE.named("a"), right=_uses("a"))
    assert _refused(choice).startswith("root.right: ref('a')")


def test_a_condition_is_seen_by_both_branches() -> None:
    validate(Node("IF", condition=ONE.named("c"), left=_uses("c"), right=_uses("c")))


@pytest.mark.parametrize("kind", ["JOIN", "RACE"])
def test_branches_see_what_precedes_them_only(kind: str) -> None:
    validate(ONE.named("a") >> Node(kind, left=_uses("a"), right=_uses("a")))
    assert "ref('b')" in _refused(Node(kind, left=ONE.named("b"), right=_uses("b")))


@pytest.mark.parametrize("kind", ["JOIN", "RACE"])
def test_names_of_branches_are_known_afterwards(kind: str) -> None:
    validate(Node(kind, left=ONE.named("a"), right=ONE.named("b")) >> _uses("a") >> _uses("b"))


def test_a_loop_keeps_names_for_its_next_iteration() -> None:
    validate(ONE >> Node("LOOP", left=_uses("a") >> ONE.named("a"), condition=_uses("a")))


def test_a_root_loop_starts_each_iteration_empty() -> None:
    body = _uses("a") >> ONE.named("a")
    assert "root.left.left: ref('a')" in _refused(Node("LOOP", left=body))


def test_a_root_loops_condition_sees_its_body() -> None:
    validate(Node("LOOP", left=ONE.named("a"), condition=_uses("a")))


def test_a_step_of_a_flow_sees_what_it_depends_on_and_the_input() -> None:
    def flow(after: str) -> Node:
        query = f'{{"slug":"f","steps":[{{"step":"a"}},{{"step":"b"{after}}}]}}'
        return Node("FLOW", query=query, extra=(ONE.named("a"), _uses("a").named("b")))

    validate(flow(',"after":["a"]'))
    assert _refused(flow("")).startswith("root.extra_nodes[1]: ref('a') in")
    assert _refused(flow(',"after":["a"]') >> _uses("a")).startswith("root.right: ref('a') in")


@pytest.mark.parametrize("name", ["x", "nput"])
def test_if_rows_asks_a_name_that_an_earlier_step_gives(name: str) -> None:
    validate(ONE.named("x") >> if_rows("x", ONE, ONE))
    assert _refused(ONE >> if_rows(name, ONE, ONE)).startswith(
        f"root.right: df.if_rows: result '{name}' not found: no earlier step gives that name."
    )


def test_if_rows_guesses_a_misspelt_name() -> None:
    assert "Did you mean 'staged'? Known here: input, staged" in _refused(
        ONE.named("staged") >> if_rows("stagd", ONE, ONE)
    )


def test_a_break_value_is_not_looked_at() -> None:
    validate(loop(break_("$nobody")))
