"""Cancelling, in every state in which a run can be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.playing import (
    CONTINUE,
    TRUE,
    claim,
    end,
    no,
    ok,
    report_of,
    started,
    statuses,
)
from workbench.engine.model import TERMINAL, CancelRequested, Wake
from workbench.engine.policy import Policy
from workbench.engine.simulate import Simulation, Succeeds
from workbench.graph import (
    Node,
    if_,
    if_rows,
    join,
    loop,
    race,
    seq,
    sleep,
    wait_for_schedule,
    wait_for_signal,
)

Prepare = Callable[[Simulation], object]


def as_started(_: Simulation) -> None:
    pass


def between_iterations(simulation: Simulation) -> None:
    end(simulation, "a")
    assert simulation.run.nodes[0].status == "waiting"


def abandoned(simulation: Simulation) -> None:
    end(simulation, "a", no())
    assert simulation.run.nodes[0].status == "waiting"


def one_branch_ended(simulation: Simulation) -> None:
    end(simulation, "a", no())


def claimed(simulation: Simulation) -> None:
    for node in simulation.ready:
        simulation.claim(node)


def in_an_arm(simulation: Simulation) -> None:
    end(simulation, "a", TRUE)


SITUATIONS: list[tuple[Node, Prepare]] = [
    (sleep(60), as_started),
    (wait_for_schedule("0 0 * * *"), as_started),
    (wait_for_signal("go"), as_started),
    (wait_for_signal("go", 60), as_started),
    (loop("a", min_interval=60), between_iterations),
    (loop("a"), abandoned),
    (loop("a"), claimed),
    (join("a", "b", sleep(5)), one_branch_ended),
    (race("a", sleep(5)), claimed),
    (if_("a", "b", seq("c", "d")), as_started),
    (if_("a", "b", seq("c", "d")), in_an_arm),
    (if_rows("x", "b", "c"), as_started),
    (if_rows("x", "b", "c"), claimed),
    (loop(join(seq("a", loop("b")), race(sleep(9), wait_for_signal("go")))), claimed),
]


@pytest.mark.parametrize(("graph", "prepare"), SITUATIONS)
def test_cancelling_ends_everything_for_good(graph: Node, prepare: Prepare) -> None:
    simulation = started(graph, CONTINUE)
    prepare(simulation)
    late = simulation.running
    decision = simulation.report(CancelRequested("enough"))
    assert (decision.status, decision.wake_at) == ("cancelled", None)
    assert decision.error == {"type": "Cancelled", "message": "enough"}
    assert set(statuses(simulation)) <= TERMINAL
    assert (simulation.run.timers, simulation.next_due, simulation.running) == ([], None, {})
    assert [row.token for row in decision.attempts] == list(late.values())
    assert {row.outcome for row in decision.attempts} <= {"cancelled"}
    for node, token in late.items():
        assert simulation.report(ok(1).event(node, token)).refused
    simulation.now = simulation.now.replace(year=2030)
    assert simulation.report(Wake()).refused
    simulation.signal("go")
    assert simulation.status == "cancelled"


def test_a_step_that_cancels_its_run_does_not_begin_another_iteration() -> None:
    simulation = started(loop("a", min_interval=0))
    claimed = claim(simulation, "a")
    simulation.advance(simulation.now.replace(second=9))
    decision = simulation.report(report_of(claimed, Succeeds("1", cancel="enough")))
    assert decision.status == "cancelled"
    assert statuses(simulation) == ["cancelled", "completed"]


def test_a_step_that_cancels_its_run_stops_the_other_branch() -> None:
    simulation = started(join("a", "b"))
    running = claim(simulation, "b")
    end(simulation, "a", Succeeds("1", cancel="enough"))
    assert statuses(simulation) == ["cancelled", "completed", "cancelled"]
    assert simulation.report(report_of(running)).refused


def test_cancelling_beats_a_retry_that_waits() -> None:
    simulation = started(join("a", "b"), Policy(max_attempts=5))
    end(simulation, "a", no())
    simulation.report(CancelRequested("enough"))
    assert simulation.ready == []
    assert statuses(simulation) == ["cancelled"] * 3
