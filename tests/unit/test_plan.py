"""Plans: numbers, relatives, branches and loops of a laid-out graph."""

from __future__ import annotations

import pytest

from workbench.engine.plan import RUN_SCOPE, Plan
from workbench.graph import (
    Node,
    break_,
    if_,
    if_rows,
    join,
    loop,
    py,
    race,
    seq,
    sleep,
    sql,
    wait_for_schedule,
    wait_for_signal,
)

# 0 JOIN, 1 THEN, 2 a, 3 LOOP, 4 IF, 5 BREAK, 6 RACE, 7 b, 8 c, 9 d (condition of 4), 10 e
# (condition of 3), 11 f, 12 SLEEP
GRAPH = join(
    seq("a", loop(if_(sql("d").named("x"), break_(1), race("b", "c")), while_="e")), "f", sleep(1)
)
PLAN = Plan.of(GRAPH)


def test_nodes_are_numbered_in_pre_order() -> None:
    assert [node.type for node in PLAN] == [
        "JOIN", "THEN", "SQL", "LOOP", "IF", "BREAK", "RACE", "SQL", "SQL", "SQL", "SQL", "SQL",
        "SLEEP",
    ]  # fmt: skip
    assert [node.query for node in PLAN if node.type == "SQL"] == list("abcdef")


def test_every_node_knows_its_parent_and_its_last_descendant() -> None:
    assert [node.parent for node in PLAN] == [None, 0, 1, 1, 3, 4, 4, 6, 6, 4, 3, 0, 0]
    assert [node.last for node in PLAN] == [12, 10, 2, 10, 9, 5, 8, 7, 8, 9, 10, 11, 12]


def test_children_are_named_by_their_place() -> None:
    loop_, if_node = PLAN[3], PLAN[4]
    assert (loop_.left, loop_.right, loop_.condition) == (4, None, 10)
    assert (if_node.left, if_node.right, if_node.condition) == (5, 6, 9)
    assert PLAN[0].branches == (1, 11, 12)


def test_the_root_of_a_branch_is_the_scope_of_all_of_it() -> None:
    assert [node.scope for node in PLAN] == [0, 1, 1, 1, 1, 1, 1, 7, 8, 1, 1, 11, 12]
    assert PLAN.scopes(7) == [7, 1, RUN_SCOPE]
    assert PLAN.scopes(0) == [RUN_SCOPE]


def test_a_node_knows_the_loops_around_it_and_the_join_it_is_a_branch_of() -> None:
    assert [node.loop for node in PLAN] == [None, None, None, None, 3, 3, 3, 3, 3, 3, 3, None, None]
    assert [node.number for node in PLAN if 0 in node.counted_by] == [1, 11, 12]
    assert Plan.of(loop(seq("a", loop(loop("b"))))).loops(5) == [0, 3, 4]


def test_only_what_a_condition_may_look_at_is_judged() -> None:
    assert [node.number for node in PLAN if node.judged] == [9, 10]
    inside = Plan.of(if_(seq("a", join("b", "c")), "d", "e"))
    assert [node.query for node in inside if node.judged and node.query] == ["a", "b", "c"]


def test_parts_without_names_or_branches_are_known_as_such() -> None:
    assert [node.number for node in PLAN if PLAN.gives_names(node.number)] == [0, 1, 3, 4, 9]
    assert [node.number for node in PLAN if PLAN.forks(node.number)] == [0, 1, 3, 4, 6]
    assert PLAN.names == {"x"}


def test_the_waits_for_each_signal_are_known() -> None:
    plan = Plan.of(join(wait_for_signal("a"), wait_for_signal("b"), wait_for_signal("a", 5)))
    assert plan.listeners == {"a": [1, 3], "b": [2]}


@pytest.mark.parametrize(
    ("graph", "timers"),
    [
        (sql("a"), False), (join("a", race("b", "c")), False), (loop("a"), True), (sleep(1), True),
        (wait_for_schedule("* * * * *"), True), (wait_for_signal("s"), True),
    ],
)  # fmt: skip
def test_a_plan_knows_whether_anything_in_it_is_ever_due(graph: Node, timers: bool) -> None:
    assert Plan.of(graph).has_timers == timers


@pytest.mark.parametrize(
    ("graph", "executed", "waits"),
    [
        (sql("a"), True, False), (py("m:f"), True, False), (sleep(1), False, True),
        (wait_for_signal("s"), False, True), (wait_for_schedule("* * * * *"), False, True),
        (join("a", "b"), False, False), (if_("a", "b", "c"), False, False),
        (if_rows("x", "b", "c"), True, False), (break_("text"), False, False),
        (break_("$x"), True, False), (break_("a {v}"), True, False), (break_(), False, False),
    ],
)  # fmt: skip
def test_what_an_engine_claims_and_what_waits_by_itself(
    graph: Node, executed: bool, waits: bool
) -> None:
    node = Plan.of(graph)[0]
    assert (node.is_executed, node.waits) == (executed, waits)


def test_a_plan_of_json_is_that_of_the_graph() -> None:
    assert Plan.parse(GRAPH.to_json()).nodes == PLAN.nodes
