"""Waking a damaged run: something in it should be alive and nothing is. It is begun where it
stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.playing import CONTINUE, FALSE, TRUE, end, no, ok, play, result, started, statuses
from workbench.engine.model import Wake
from workbench.engine.plan import Plan
from workbench.engine.policy import Policy
from workbench.engine.simulate import Simulation, Succeeds
from workbench.graph import Node, break_, if_, if_rows, join, loop, race, seq, sleep, sql


def damage(simulation: Simulation, **nodes: str) -> None:
    """Give nodes, `n3="pending"`, a status that nobody decided."""
    for name, status in nodes.items():
        number = int(name[1:])
        old = simulation.run.nodes[number]
        pointer = old.result_node if status == "completed" else None
        new = replace(old, status=status, token=None, ready_at=None, result_node=pointer)
        simulation._unqueue(number, old)
        simulation.run.set(number, new)


def test_the_branches_that_never_began_begin() -> None:
    simulation = started(join("a", "b", "c"))
    end(simulation, "b")
    damage(simulation, n1="pending", n3="pending")
    simulation.report(Wake())
    assert statuses(simulation) == ["running", "ready", "completed", "ready"]


def test_a_join_whose_branches_have_all_ended_ends() -> None:
    simulation = started(join("a", "b"))
    end(simulation, "a", ok(1))
    end(simulation, "b", ok(2))
    simulation.run.status = "running"
    damage(simulation, n0="running")
    simulation.report(Wake())
    assert result(simulation) == [1, 2]


def test_a_join_with_a_failed_branch_fails_once_all_have_ended() -> None:
    simulation = started(loop(join("a", "b")), CONTINUE)
    end(simulation, "a", no())
    end(simulation, "b")
    damage(simulation, n0="running", n1="running")
    simulation.report(Wake())
    assert statuses(simulation) == ["waiting", "failed", "failed", "completed"]


def test_a_race_that_nobody_has_won_begins_again() -> None:
    simulation = started(race("a", "b"))
    damage(simulation, n1="pending", n2="pending")
    simulation.report(Wake())
    assert statuses(simulation) == ["running", "ready", "ready"]


@pytest.mark.parametrize("outcome", [ok(1), no()])
def test_a_race_that_somebody_has_won_ends(outcome: Succeeds) -> None:
    simulation = started(race("a", "b"))
    end(simulation, "a", outcome)
    ended = simulation.status
    simulation.run.status = "running"
    damage(simulation, n0="running", n2="pending")
    simulation.report(Wake())
    assert (simulation.status, statuses(simulation)[2]) == (ended, "skipped")


def test_a_loop_whose_body_never_began_begins_it() -> None:
    simulation = started(loop("a", while_="c"))
    damage(simulation, n1="pending")
    simulation.report(Wake())
    assert statuses(simulation) == ["running", "ready", "pending"]


def test_a_loop_whose_body_has_ended_asks_its_condition() -> None:
    simulation = started(loop("a", while_="c"))
    end(simulation, "a")
    damage(simulation, n2="pending")
    simulation.report(Wake())
    assert statuses(simulation) == ["running", "completed", "ready"]
    assert simulation.run.nodes[0].result_node == 1


@pytest.mark.parametrize(("answer", "status"), [(TRUE, "waiting"), (FALSE, "completed")])
def test_a_loop_whose_condition_has_answered_goes_by_it(answer: Succeeds, status: str) -> None:
    simulation = started(loop("a", while_="c"))
    end(simulation, "a", ok(7))
    end(simulation, "c", answer)
    pointer = simulation.run.nodes[0].result_node
    simulation.run.status = "running"
    damage(simulation, n0="running")
    simulation.run.nodes[0].result_node = pointer if pointer is not None else 1
    simulation.report(Wake())
    assert statuses(simulation)[0] == status


def test_a_loop_whose_body_failed_is_abandoned_or_fails() -> None:
    for policy, status in [(CONTINUE, "waiting"), (Policy(), "failed")]:
        simulation = started(loop("a", while_="c"), policy)
        end(simulation, "a", no())
        simulation.run.status = "running"
        damage(simulation, n0="running", n2="pending")
        simulation.report(Wake())
        assert statuses(simulation)[0] == status


def test_a_loop_that_waits_needs_no_repair() -> None:
    simulation = started(loop("a"))
    end(simulation, "a")
    assert simulation.report(Wake()).nodes == {}


def test_an_if_asks_its_condition_again_when_that_never_began() -> None:
    simulation = started(if_("c", "a", "b"))
    damage(simulation, n3="pending")
    simulation.report(Wake())
    assert statuses(simulation) == ["running", "pending", "pending", "ready"]


def test_an_if_goes_by_the_answer_it_has() -> None:
    simulation = started(if_("c", "a", "b"))
    end(simulation, "c", FALSE)
    damage(simulation, n2="pending")
    simulation.report(Wake())
    assert statuses(simulation) == ["running", "skipped", "ready", "completed"]


def test_an_if_whose_arm_has_ended_ends() -> None:
    simulation = started(seq(if_("c", "a", "b"), "d"))
    end(simulation, "c", TRUE)
    end(simulation, "a", ok(4))
    damage(simulation, n1="running", n5="pending")
    simulation.report(Wake())
    assert statuses(simulation)[1:] == ["completed", "completed", "skipped", "completed", "ready"]
    assert simulation.run.nodes[1].result_node == 2


def test_an_if_rows_looks_again_when_nobody_knows_what_it_saw() -> None:
    simulation = started(if_rows("x", "a", "b"))
    claimed = simulation.claim(0)
    simulation.report(Succeeds("true").event(0, claimed.token))
    damage(simulation, n1="pending")
    simulation.report(Wake())
    assert statuses(simulation) == ["ready", "pending", "skipped"]
    claimed = simulation.claim(0)
    simulation.report(Succeeds("true").event(0, claimed.token))
    assert statuses(simulation) == ["running", "ready", "skipped"]


def test_a_leaf_that_runs_without_a_claim_is_ready_again() -> None:
    simulation = started(seq("a", "b"))
    simulation.claim(1)
    damage(simulation, n1="running")
    simulation.report(Wake())
    assert statuses(simulation) == ["running", "ready", "pending"]


def test_what_was_left_by_a_break_is_left_and_does_not_go_on() -> None:
    simulation = play(loop(seq(if_("c", break_(5), "a"), "never")), c=TRUE)
    simulation.run.status = "running"
    # LOOP, THEN, IF, BREAK, a, c, never
    damage(simulation, n0="running", n1="running", n2="running", n6="pending")
    simulation.report(Wake())
    assert (simulation.status, simulation.run.nodes[0].result_node) == ("completed", 3)
    assert statuses(simulation)[6] == "skipped"


def test_the_innermost_composite_is_repaired_and_those_around_it_follow() -> None:
    simulation = started(join(seq("z", loop(if_("c", "a", "b"))), "d"))
    end(simulation, "d")
    end(simulation, "z")
    end(simulation, "c", TRUE)
    damage(simulation, n5="pending")
    simulation.report(Wake())
    assert simulation.ready == [5]
    end(simulation, "a")
    assert statuses(simulation)[3] == "waiting"


@pytest.mark.parametrize(
    "graph",
    [sql("a"), sleep(1), seq("a", "b"), join("a", "b"), race("a", "b"), loop("a"), if_("a", "b", "c"),
     if_rows("x", "a", "b")],
)  # fmt: skip
def test_a_run_that_is_running_and_never_began_begins(graph: Node) -> None:
    simulation = Simulation.of(graph)
    simulation.run.status = "running"
    simulation.report(Wake())
    assert statuses(simulation) == statuses(started(graph))
    assert len(Plan.of(graph)) == len(simulation.run.nodes)
