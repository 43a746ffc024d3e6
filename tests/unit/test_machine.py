"""The decider, event by event: how runs start, go on, fail, are cancelled and revived.

What becomes of a single attempt is in `test_machine_attempts`, any order of events at all in
`test_machine_property`.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from workbench.engine.machine import decide
from workbench.engine.model import (
    AttemptEnd,
    CancelRequested,
    Completed,
    Decision,
    Event,
    Failed,
    Faulted,
    Lost,
    NodeState,
    Released,
    Run,
    SetName,
    Start,
    Value,
    Wake,
)
from workbench.engine.plan import Plan
from workbench.engine.policy import Policy
from workbench.engine.simulate import Simulation, Succeeds
from workbench.graph import Node, py, seq, sql

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ONE, TWO = Value("1"), Value("2")
BROKEN = {"type": "ValueError", "message": "broken"}


def pending(graph: Node, policy: Policy = Policy()) -> Run:  # noqa: B008 - immutable
    return Run("1a2b3c4d", Plan.of(graph), policy)


def two_steps() -> Node:
    """Node 0 is the sequence, 1 and 2 its steps."""
    return (sql("SELECT 1").named("a") >> py("m:f").named("b")).named("both")


def claimed(run: Run, node: int, token: str = "t") -> Run:
    """The run after an engine has taken a ready leaf."""
    assert run.nodes[node].status == "ready"
    run.nodes[node] = replace(
        run.nodes[node], status="running", token=token, engine="e", ready_at=None, started_at=NOW
    )
    return run


def after(run: Run, *events: Event) -> Run:
    """The run after these events, none of which may be refused."""
    for event in events:
        decision = decide(run, event, NOW)
        assert not decision.refused
        run.apply(decision)
    return run


def in_second_step() -> Run:
    run = claimed(after(pending(two_steps()), Start()), 1)
    return claimed(after(run, Completed(1, "t", ONE)), 2, "u")


# Starting and going on.


def test_a_started_leaf_is_ready_now() -> None:
    assert decide(pending(sql("SELECT 1")), Start(), NOW) == Decision(
        1, "running", NOW, nodes={0: NodeState("ready", rev=1, ready_at=NOW)}, woken=True
    )


def test_a_started_sequence_has_its_first_step_ready_and_the_second_untouched() -> None:
    decision = decide(pending(two_steps()), Start(), NOW)
    assert decision.nodes == {
        0: NodeState("running", rev=1, started_at=NOW),
        1: NodeState("ready", rev=1, ready_at=NOW),
    }
    assert decision.ready == [1]


def test_a_run_starts_once() -> None:
    run = after(pending(two_steps()), Start())
    assert decide(run, Start(), NOW) == Decision(1, "running", NOW, refused=True)


def test_the_next_step_becomes_ready_in_the_decision_that_completes_the_one_before() -> None:
    run = claimed(after(pending(two_steps()), Start()), 1)
    assert decide(run, Completed(1, "t", ONE, "abc"), NOW) == Decision(
        2,
        "running",
        NOW,
        nodes={
            1: NodeState("completed", rev=2, attempt=1, started_at=NOW),
            2: NodeState("ready", rev=2, ready_at=NOW),
        },
        values={1: ONE},
        names=[SetName(0, "a", 1, ONE)],
        attempts=[AttemptEnd(1, 1, "completed", "t", "e", NOW, None, None, None, "abc", True)],
    )


def test_a_sequence_completes_with_its_last_step_and_has_that_steps_value() -> None:
    assert decide(in_second_step(), Completed(2, "u", TWO), NOW) == Decision(
        3,
        "completed",
        NOW,
        nodes={
            2: NodeState("completed", rev=3, attempt=1, started_at=NOW),
            0: NodeState("completed", rev=3, started_at=NOW, result_node=2),
        },
        values={2: TWO},
        names=[SetName(0, "b", 2, TWO), SetName(0, "both", 2, TWO)],
        attempts=[AttemptEnd(2, 1, "completed", "u", "e", NOW)],
    )


def test_a_name_that_is_given_twice_is_that_of_the_node_that_completed_last() -> None:
    graph = (sql("SELECT 1") >> sql("SELECT 2").named("x")).named("x")
    run = claimed(after(pending(graph), Start()), 1)
    run = claimed(after(run, Completed(1, "t", ONE)), 2, "u")
    assert decide(run, Completed(2, "u", TWO), NOW).names == [SetName(0, "x", 2, TWO)] * 2


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000])
def test_steps_run_in_order_however_the_sequence_is_nested(length: int) -> None:
    simulation = Simulation.of(seq(*["SELECT 1"] * length))
    simulation.run_to_end(lambda each: Succeeds(str(each.node)))
    order = [attempt.node for attempt in simulation.attempts]
    assert order == sorted(order)
    assert len(order) == length
    assert simulation.value == Value(str(order[-1]))


def test_a_chain_as_deep_as_graphs_may_be_runs_without_recursion() -> None:
    graph = sql("SELECT 1")
    for _ in range(256):
        graph = sql("SELECT 1") >> graph
    simulation = Simulation.of(graph)
    assert simulation.run_to_end(lambda _: Succeeds()) == "completed"
    assert len(simulation.attempts) == 257


# Failing.


def test_a_failed_step_fails_its_sequence_and_the_run_and_cancels_what_has_not_begun() -> None:
    run = claimed(after(pending(two_steps()), Start()), 1)
    error = {**BROKEN, "node": 1, "attempt": 1}
    assert decide(run, Failed(1, "t", BROKEN, fingerprint="abc"), NOW) == Decision(
        2,
        "failed",
        NOW,
        nodes={
            1: NodeState("failed", rev=2, attempt=1, started_at=NOW, error=error),
            0: NodeState("failed", rev=2, started_at=NOW, error=error),
            2: NodeState("cancelled", rev=2),
        },
        attempts=[AttemptEnd(1, 1, "failed", "t", "e", NOW, error, None, None, "abc", True)],
        error=error,
    )


# Cancelling.

CANCELLED = {"type": "Cancelled", "message": "enough"}


def test_cancelling_a_run_that_has_not_started_needs_no_engine() -> None:
    assert decide(pending(two_steps()), CancelRequested("enough"), NOW) == Decision(
        1,
        "cancelled",
        NOW,
        nodes={n: NodeState("cancelled", rev=1) for n in range(3)},
        error=CANCELLED,
    )


def test_cancelling_ends_the_running_attempt_and_keeps_what_was_completed() -> None:
    assert decide(in_second_step(), CancelRequested("enough"), NOW) == Decision(
        3,
        "cancelled",
        NOW,
        nodes={
            0: NodeState("cancelled", rev=3, started_at=NOW),
            2: NodeState("cancelled", rev=3, started_at=NOW),
        },
        attempts=[AttemptEnd(2, 1, "cancelled", "u", "e", NOW)],
        error=CANCELLED,
    )


def test_cancelling_a_wait_for_retry_keeps_the_error_that_was_waited_for() -> None:
    run = claimed(after(pending(sql("SELECT 1"), Policy(max_attempts=2)), Start()), 0)
    after(run, Failed(0, "t", BROKEN), CancelRequested("enough"))
    assert run.nodes[0] == NodeState(
        "cancelled", 3, 1, started_at=NOW, error={**BROKEN, "node": 0, "attempt": 1}
    )


def test_a_step_that_cancels_its_own_run_completes_and_nothing_begins_after_it() -> None:
    run = claimed(after(pending(two_steps()), Start()), 1)
    assert decide(run, Completed(1, "t", ONE, cancel="enough"), NOW) == Decision(
        2,
        "cancelled",
        NOW,
        nodes={
            1: NodeState("completed", rev=2, attempt=1, started_at=NOW),
            2: NodeState("cancelled", rev=2),
            0: NodeState("cancelled", rev=2, started_at=NOW),
        },
        values={1: ONE},
        names=[SetName(0, "a", 1, ONE)],
        attempts=[AttemptEnd(1, 1, "completed", "t", "e", NOW, exactly_once=True)],
        error=CANCELLED,
    )


def test_a_last_step_that_cancels_its_own_run_finds_it_complete() -> None:
    run = after(in_second_step(), Completed(2, "u", TWO, cancel="enough"))
    assert run.status == "completed"


# What is refused.


def reports(token: str) -> list[Event]:
    """Every way in which a claim of the second step may end."""
    return [
        Completed(2, token, ONE),
        Failed(2, token, BROKEN),
        Lost(2, token, "gone"),
        Faulted(2, token, BROKEN),
        Released(2, token),
    ]


@pytest.mark.parametrize("late", reports("older"))
def test_a_late_report_changes_nothing(late: Event) -> None:
    assert decide(in_second_step(), late, NOW) == Decision(2, "running", NOW, refused=True)


@pytest.mark.parametrize("node", [-1, 0, 1, 3])
def test_a_token_is_good_for_its_own_node_only(node: int) -> None:
    assert decide(in_second_step(), Completed(node, "u", ONE), NOW).refused


@pytest.mark.parametrize("ending", reports("u"))
def test_a_claim_ends_once(ending: Event) -> None:
    run = after(in_second_step(), ending)
    assert [event for event in reports("u") if not decide(run, event, NOW).refused] == []


@pytest.mark.parametrize(
    "ending", [Completed(2, "u", ONE), Failed(2, "u", BROKEN), CancelRequested("enough")]
)
def test_a_finished_run_refuses_everything(ending: Event) -> None:
    run = after(in_second_step(), ending)
    for event in [*reports("u"), Start(), Wake(), CancelRequested("again")]:
        decision = decide(run, event, NOW + timedelta(days=1))
        assert (decision.refused, decision.version, decision.nodes) == (True, run.version, {})


def test_a_refused_decision_is_not_taken_over() -> None:
    run = in_second_step()
    nodes = list(run.nodes)
    run.apply(decide(run, Completed(2, "older", ONE), NOW))
    assert (run.version, run.nodes) == (2, nodes)


# Reviving.


def test_reviving_a_run_that_never_began_begins_it() -> None:
    run = pending(two_steps())
    run.status = "running"
    assert decide(run, Wake(), NOW) == decide(pending(two_steps()), Start(), NOW)


def test_reviving_goes_on_after_the_last_completed_step() -> None:
    run = after(pending(two_steps()), Start())
    run.nodes[1] = NodeState("completed", rev=1)
    assert decide(run, Wake(), NOW).nodes == {2: NodeState("ready", rev=2, ready_at=NOW)}


def test_reviving_goes_on_inside_the_innermost_sequence() -> None:
    run = after(pending(seq("SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4")), Start())
    completed, running = NodeState("completed", rev=1), NodeState("running", rev=1)
    run.nodes[1:5] = [completed, completed, completed, running]  # 4 is the second pair
    assert decide(run, Wake(), NOW).nodes == {5: NodeState("ready", rev=2, ready_at=NOW)}


def test_waking_a_run_in_which_something_is_going_on_changes_no_node() -> None:
    ready = after(pending(two_steps()), Start())
    for run in (ready, in_second_step()):
        assert decide(run, Wake(), NOW) == Decision(run.version + 1, "running", NOW, woken=True)


def test_a_run_that_is_due_is_not_due_any_more_once_it_has_been_woken() -> None:
    run = after(pending(two_steps()), Start())
    run.plan.has_timers = True
    assert decide(run, Wake(), NOW).wake_at is None


# Several events in one transition.


def test_two_events_of_one_moment_are_one_transition() -> None:
    run = claimed(after(pending(two_steps()), Start()), 1)
    first = decide(run, Completed(1, "t", ONE), NOW)
    both = decide(run, CancelRequested("enough"), NOW, after=first)
    assert both == decide(run, Completed(1, "t", ONE, cancel="enough"), NOW)


def test_a_refused_event_leaves_what_was_decided_before_it_as_it_was() -> None:
    run = claimed(after(pending(two_steps()), Start()), 1)
    first = decide(run, Completed(1, "t", ONE), NOW)
    before = copy.deepcopy(first)
    for event in [*reports("t"), Completed(1, "t", TWO), Start()]:
        assert decide(run, event, NOW, after=first).refused
    assert first == before
