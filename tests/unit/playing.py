"""Playing a graph on the virtual clock: leaves are told apart by the text of their SQL; no tests.

A leaf that no outcome is given for succeeds at once, with its text as its value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from workbench.engine.model import Decision, ReportEvent, Start
from workbench.engine.policy import Policy
from workbench.engine.simulate import EPOCH, Fails, Outcome, Simulation, Succeeds, Try
from workbench.graph import Node

Script = Outcome | Sequence[Outcome]

CONTINUE = Policy(on_failure="continue")
TRUE, FALSE = Succeeds("true"), Succeeds("false")


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def ok(value: Any = None, after: float = 0.0) -> Succeeds:
    return Succeeds(json.dumps(value), after)


def no(message: str = "broken", after: float = 0.0) -> Fails:
    return Fails({"type": "ValueError", "message": message}, after)


def play(graph: Node, policy: Policy = Policy(), **outcomes: Script) -> Simulation:  # noqa: B008 - immutable
    """The graph after all of it has run that can run."""
    simulation = Simulation.of(graph, policy)
    go_on(simulation, **outcomes)
    return simulation


def go_on(simulation: Simulation, **outcomes: Script) -> None:
    """Several outcomes of a leaf are those of its tries, one after the other."""
    scripts: Mapping[str, Iterator[Outcome]] = {
        text: iter([script] if isinstance(script, Outcome) else script)
        for text, script in outcomes.items()
    }
    last: dict[str, Outcome] = {}

    def outcome_of(each: Try) -> Outcome:
        text = simulation.run.plan[each.node].query or ""
        default = last.get(text, Succeeds(json.dumps(text)))
        last[text] = next(scripts.get(text, iter(())), default)
        return last[text]

    simulation.run_to_end(outcome_of, most=10_000)


def started(graph: Node, policy: Policy = Policy()) -> Simulation:  # noqa: B008 - immutable
    simulation = Simulation.of(graph, policy)
    simulation.report(Start())
    return simulation


def claim(simulation: Simulation, text: str) -> Try:
    """Take the ready leaf with this text."""
    [node] = [n for n in simulation.ready if simulation.run.plan[n].query == text]
    return simulation.claim(node)


def end(simulation: Simulation, text: str, outcome: Outcome = Succeeds()) -> Decision:  # noqa: B008 - immutable
    """Execute the ready leaf with this text, in no time."""
    return simulation.report(report_of(claim(simulation, text), outcome))


def report_of(claimed: Try, outcome: Outcome = Succeeds()) -> ReportEvent:  # noqa: B008 - immutable
    return outcome.event(claimed.node, claimed.token)


def result(simulation: Simulation) -> Any:
    assert simulation.value is not None
    return json.loads(simulation.value.json)


def names(simulation: Simulation) -> dict[str, Any]:
    return {name: json.loads(value.json) for name, value in simulation.names.items()}


def message(simulation: Simulation) -> str:
    assert simulation.error is not None
    return str(simulation.error["message"])


def statuses(simulation: Simulation) -> list[str]:
    return [state.status for state in simulation.run.nodes]


def tried(simulation: Simulation) -> list[tuple[str, float]]:
    """The text of each attempt and the second in which it began, in the order of their ends."""
    plan = simulation.run.plan
    return [
        (plan[row.node].query or "", (row.start - EPOCH).total_seconds())
        for row in simulation.attempts
    ]


def seconds(simulation: Simulation) -> float:
    return (simulation.now - EPOCH).total_seconds()
