"""IF: the condition is a step like any other; one arm runs, the other is skipped. And BREAK where it
may not be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.playing import (
    FALSE,
    TRUE,
    end,
    message,
    names,
    no,
    ok,
    play,
    result,
    started,
    statuses,
    tried,
)
from workbench.engine.model import CancelRequested, Completed, Failed, Value
from workbench.engine.policy import Policy
from workbench.engine.simulate import Outcome, Succeeds
from workbench.graph import (
    Node,
    break_,
    if_,
    if_rows,
    join,
    loop,
    race,
    seq,
    sleep,
    sql,
    wait_for_signal,
)

# The arms are #1 and #2, the condition is #3.
CHOICE = if_("c", "then", "else")


@pytest.mark.parametrize(("answer", "taken"), [(TRUE, "then"), (FALSE, "else")])
def test_one_arm_runs_and_gives_the_value(answer: Outcome, taken: str) -> None:
    simulation = play(CHOICE, c=answer)
    assert (result(simulation), tried(simulation)) == (taken, [("c", 0), (taken, 0)])


@pytest.mark.parametrize(
    ("answer", "arms"),
    [(TRUE, ["completed", "skipped"]), (FALSE, ["skipped", "completed"])],
)
def test_the_other_arm_is_skipped(answer: Outcome, arms: list[str]) -> None:
    assert statuses(play(CHOICE, c=answer)) == ["completed", *arms, "completed"]


def test_all_of_an_untaken_arm_is_skipped_as_soon_as_the_condition_is_known() -> None:
    simulation = started(if_("c", seq("a", join("b", sleep(5))), "d"))
    end(simulation, "c", FALSE)
    assert statuses(simulation) == ["running", *["skipped"] * 5, "ready", "completed"]


def test_the_first_column_of_the_first_row_decides_in_select_list_order() -> None:
    simulation = started(CHOICE)
    claimed = simulation.claim(3)
    rows = Value('{"rows":[{"a":0,"z":1}],"row_count":1}', (("z", "int4"), ("a", "int4")))
    simulation.report(Completed(3, claimed.token, rows))
    assert simulation.ready == [1]


def test_a_condition_may_be_a_sequence_and_its_last_step_decides() -> None:
    assert result(play(if_(seq("c", "d"), "then", "else"), c=TRUE, d=FALSE)) == "else"


def test_a_condition_may_wait() -> None:
    assert result(play(if_(sleep(2), "then", "else"))) == "then"
    assert result(play(if_(wait_for_signal("s", 2), "then", "else"))) == "then"


def test_a_join_as_condition_is_true() -> None:
    assert result(play(if_(join("c", "d"), "then", "else"), c=FALSE, d=FALSE)) == "then"


def test_a_race_as_condition_is_judged_by_its_winner() -> None:
    condition = race("c", "d")
    assert result(play(if_(condition, "then", "else"), c=ok(1, 2), d=ok(0, 1))) == "else"


def test_a_loop_as_condition_is_judged_by_its_last_body() -> None:
    assert result(play(if_(loop("c", while_="d"), "then", "else"), c=FALSE, d=FALSE)) == "else"
    assert result(play(if_(loop(break_("no")), "then", "else"))) == "else"


def test_an_if_as_condition_is_judged_by_its_arm() -> None:
    assert result(play(if_(if_("c", "d", "e"), "then", "else"), c=TRUE, d=FALSE)) == "else"


def test_a_named_condition_is_known_afterwards() -> None:
    simulation = play(if_(sql("c").named("x"), sql("a").named("y"), "else").named("z"), c=TRUE)
    assert names(simulation) == {"x": True, "y": "a", "z": "a"}


def test_a_failing_condition_fails_the_if_and_no_arm_begins() -> None:
    simulation = play(CHOICE, c=no("no answer"))
    assert (simulation.status, message(simulation)) == ("failed", "no answer")
    assert statuses(simulation) == ["failed", "cancelled", "cancelled", "failed"]


def test_a_failing_arm_fails_the_if() -> None:
    simulation = play(CHOICE, c=TRUE, then=no("bad arm"))
    assert message(simulation) == "bad arm"
    assert statuses(simulation) == ["failed", "failed", "skipped", "completed"]


def test_a_condition_is_tried_again_as_any_step_is() -> None:
    simulation = play(CHOICE, Policy(max_attempts=2), c=[no(), FALSE])
    assert tried(simulation) == [("c", 0), ("c", 1), ("else", 1)]


# if_rows: an engine looks up the name, the decider gets its word for it.


@pytest.mark.parametrize(("word", "taken"), [("true", 1), ("false", 2)])
def test_whether_a_result_has_rows_is_looked_up_by_an_engine(word: str, taken: int) -> None:
    simulation = started(if_rows("x", "then", "else"))
    assert simulation.ready == [0]
    claimed = simulation.claim(0)
    simulation.report(Succeeds(word).event(0, claimed.token))
    assert simulation.ready == [taken]
    assert simulation.run.nodes[0].status == "running"
    assert simulation.running == {}
    go = simulation.claim(taken)
    simulation.report(ok("done").event(taken, go.token))
    assert result(simulation) == "done"


def test_a_lookup_that_fails_fails_the_if() -> None:
    simulation = started(if_rows("x", "then", "else"))
    error = {"type": "StepError", "message": "df.if_rows: result 'x' not found", "permanent": True}
    claimed = simulation.claim(0)
    simulation.report(Failed(0, claimed.token, error))
    assert statuses(simulation) == ["failed", "cancelled", "cancelled"]
    assert message(simulation) == "df.if_rows: result 'x' not found"


def test_an_if_rows_may_be_cancelled_while_it_looks() -> None:
    simulation = started(if_rows("x", "then", "else"))
    late = simulation.claim(0)
    simulation.report(CancelRequested("enough"))
    assert [row.outcome for row in simulation.attempts] == ["cancelled"]
    assert simulation.report(Succeeds("true").event(0, late.token)).refused


# BREAK.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None), ("done", "done"), ('"done"', "done"), ("7", 7), ("[1, 2]", [1, 2]),
        ("NaN", "NaN"), ("", ""), ({"a": [None]}, {"a": [None]}),
    ],
)  # fmt: skip
def test_the_value_of_a_break_is_json_if_it_is_json(value: Any, expected: Any) -> None:
    graph = loop(break_(value))
    simulation = started(graph)
    for node in simulation.ready:  # one with braces in it is looked at by an engine first
        text = simulation.run.plan[node].config["break_value"]
        simulation.report(Succeeds(text).event(node, simulation.claim(node).token))
    assert result(simulation) == expected


def test_a_break_that_refers_to_names_is_looked_up_by_an_engine() -> None:
    simulation = started(loop(seq(sql("a").named("x"), break_("$x"))))
    end(simulation, "a", ok(5))
    [node] = simulation.ready
    simulation.report(ok(5).event(node, simulation.claim(node).token))
    assert result(simulation) == 5


@pytest.mark.parametrize(
    "graph",
    [
        break_(1),
        seq("a", break_(1), "b"),
        if_("a", break_(1), break_(2)),
        seq(loop(break_(1)), break_(2)),
    ],
)
def test_a_break_outside_of_a_loop_fails_the_run(graph: Node) -> None:
    simulation = play(graph)
    assert simulation.status == "failed"
    assert message(simulation) == (
        "df.break() was called outside of a loop. df.break() may only be used inside df.loop()."
    )


def test_a_break_outside_of_a_loop_is_a_failing_branch() -> None:
    assert message(play(join("a", break_(1)))).startswith("JOIN branch 2 failed: df.break() was")
    assert message(play(race("a", break_(1)))).startswith("RACE right branch failed: df.break()")
