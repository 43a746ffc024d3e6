"""The decider against a direct reading of the rules: a recursive interpreter without events or clock.

Given what each try of each leaf comes to, both must agree on how the run ends, on its value and
names, on every attempt and on the time it all takes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.machine_strategies import LIMITS, OUTCOMES, POLICIES, RUNNABLE
from workbench.engine.machine import Limits
from workbench.engine.policy import Policy
from workbench.engine.simulate import EPOCH, Crashes, Fails, Outcome, Simulation, Succeeds, Try
from workbench.graph import Node

#: What the tries of the leaves come to, by number; those not listed succeed.
Table = dict[int, list[Outcome]]


class Stopped(Exception):
    """A leaf failed for good."""


@dataclass
class Interpreter:
    """Executes a graph as its words say: a sequence runs its left side, then its right."""

    table: Table
    policy: Policy
    limits: Limits
    names: dict[str, Any] = field(default_factory=dict)
    attempts: list[tuple[int, int, str, float | None]] = field(default_factory=list)
    seconds: float = 0.0

    def run(self, graph: Node) -> tuple[str, Any]:
        try:
            return "completed", self.value(graph, 0)
        except Stopped:
            return "failed", None

    def value(self, node: Node, number: int) -> Any:
        if node.left is None or node.right is None:
            value = self.leaf(number)
        else:
            self.value(node.left, number + 1)
            value = self.value(node.right, number + 1 + node.left.count)
        if node.result_name is not None:
            self.names[node.result_name] = value
        return value

    def leaf(self, number: int) -> Any:
        failures = losses = 0
        for outcome in [*self.table.get(number, []), Succeeds("true")]:
            self.seconds += outcome.seconds
            row = number, failures + 1
            if isinstance(outcome, Succeeds):
                self.attempts.append((*row, "completed", None))
                return json.loads(outcome.value)
            if isinstance(outcome, Crashes):
                losses += 1
                spent = losses == self.limits.lost
                self.wait(*row, "worker_lost", None if spent else 0.0)
            else:
                failures += 1
                spent = failures == self.policy.max_attempts or never_again(outcome)
                self.wait(*row, "failed", None if spent else self.delay(outcome, failures))
        raise AssertionError("the last outcome is a success")

    def delay(self, outcome: Fails, failures: int) -> float:
        if outcome.delay is not None:
            return outcome.delay
        return min(self.policy.base_delay * 2.0 ** (failures - 1), self.policy.max_backoff)

    def wait(self, node: int, attempt: int, outcome: str, delay: float | None) -> None:
        self.attempts.append((node, attempt, outcome, delay))
        if delay is None:
            raise Stopped
        self.seconds += delay


def never_again(outcome: Fails) -> bool:
    return "permanent" in outcome.error or outcome.error.get("sqlstate") == "42P01"


@given(
    graph=RUNNABLE,
    table=st.dictionaries(st.integers(0, 14), st.lists(OUTCOMES, max_size=6), max_size=15),
    policy=POLICIES,
    limits=LIMITS,
)
def test_the_machine_does_what_the_words_say(
    graph: Node, table: Table, policy: Policy, limits: Limits
) -> None:
    expected = Interpreter(table, policy, limits)
    status, value = expected.run(graph)

    script = {node: iter(outcomes) for node, outcomes in table.items()}
    simulation = Simulation.of(graph, policy, limits)

    def outcome_of(claimed: Try) -> Outcome:
        return next(script.get(claimed.node, iter(())), Succeeds("true"))

    assert simulation.run_to_end(outcome_of) == status
    assert (simulation.value and json.loads(simulation.value.json)) == value
    assert {n: json.loads(v.json) for n, v in simulation.names.items()} == expected.names
    assert [
        (a.node, a.number, a.outcome, a.delay) for a in simulation.attempts
    ] == expected.attempts
    assert (simulation.now - EPOCH).total_seconds() == expected.seconds
