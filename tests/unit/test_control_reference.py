"""The decider against the direct interpreter, over random graphs of all node types.

What each try comes to is drawn; crashes, retries, signals at random times and abandoned iterations
are part of it. Engines restart, reports come twice and late, and runs are woken for nothing: none
of that may show.
"""

from __future__ import annotations

import heapq
import json
import random
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from tests.unit.interpreter import SECOND, Ending, Interpreter, Path, Script, Tie
from tests.unit.machine_strategies import LANGUAGE, LIMITS, POLICIES
from tests.unit.watching import Watched
from workbench.engine.machine import Limits
from workbench.engine.model import Lost, ReportEvent, Start, Wake
from workbench.engine.policy import Policy
from workbench.engine.simulate import EPOCH
from workbench.graph import Node
from workbench.graph.walk import walk

Signals = dict[int, list[tuple[int, Any]]]

SCRIPTS = st.builds(
    Script, st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.4]), st.sampled_from([0.0, 0.2])
)
RULES = st.builds(
    lambda policy, on_failure: Policy(
        policy.max_attempts, policy.max_backoff, on_failure, policy.base_delay
    ),
    POLICIES,
    st.sampled_from(["fail", "continue"]),
)
SENT = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9 * SECOND)), max_size=12)


def moment(time: int) -> datetime:
    return EPOCH + timedelta(microseconds=time)


def microseconds(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def signals_for(graph: Node, sent: list[tuple[int, int]]) -> Signals:
    """Signals for waits that are there, at times that are all different."""
    waits = [visit.number for visit in walk(graph) if visit.node.node_type == "SIGNAL"]
    found: Signals = {}
    for place, (wait, time) in enumerate(sorted(sent, key=lambda each: each[1])):
        if waits:
            found.setdefault(waits[wait % len(waits)], []).append((time + place, place))
    return found


class Driver:
    """Does what engines and the outside do to a run, and some mischief that must not matter."""

    def __init__(self, simulation: Watched, graph: Node, script: Script, noise: int | None) -> None:
        self.simulation = simulation
        self.nodes = [visit.node for visit in walk(graph)]
        self.script = script
        self.noise = None if noise is None else random.Random(noise)
        self.ends: list[tuple[datetime, int, ReportEvent]] = []
        self.past: list[ReportEvent] = []
        self.tries: list[tuple[int, int, Path]] = []

    def drive(self, signals: Signals) -> None:
        sent = [(moment(t), wait, data) for wait, each in signals.items() for t, data in each]
        sent.sort()
        self.simulation.report(Start())
        while not self.simulation.finished:
            self.claim()
            self.mischief()
            end = self.ends[0][0] if self.ends else datetime.max.replace(tzinfo=EPOCH.tzinfo)
            due = self.simulation.next_due
            if sent and sent[0][0] <= min(end, due or end):
                time, wait, data = sent.pop(0)
                self.simulation.advance(time)
                self.simulation.signal(f"signal-{wait}", json.dumps(data))
            elif due is None or end < due:
                self.end()
            else:
                assert self.simulation.advance(), "the run stands still"

    def path(self, node: int) -> Path:
        run = self.simulation.run
        return tuple(run.nodes[loop].iteration for loop in run.plan.loops(node))

    def claim(self) -> None:
        simulation = self.simulation
        for node in simulation.ready:
            seen = {n: json.loads(value.json) for n, value in simulation.names_at(node).items()}
            claimed = simulation.claim(node)
            path, tries = self.path(node), claimed.attempt - 1 + claimed.losses
            self.tries.append((microseconds(simulation.now), node, path))
            outcome = self.script.outcome(self.nodes[node], node, path, tries, seen)
            end = simulation.now + timedelta(seconds=outcome.seconds)
            report = outcome.event(node, claimed.token)
            heapq.heappush(self.ends, (end, len(self.tries), report))

    def end(self) -> None:
        end, _, report = heapq.heappop(self.ends)
        if self.simulation.holds(report):
            self.simulation.advance(end)
            assert not self.simulation.report(report).refused
        self.past.append(report)

    def mischief(self) -> None:
        if self.noise is None:
            return
        version = self.simulation.run.version
        match self.noise.randrange(6):
            case 0 if self.past:
                assert self.simulation.report(self.noise.choice(self.past)).refused
            case 1:
                assert self.simulation.report(Start()).refused
            case 2:
                node = self.noise.randrange(len(self.nodes))
                assert self.simulation.report(Lost(node, "nobody's", "gone")).refused
            case 3 if (due := self.simulation.next_due) is None or due > self.simulation.now:
                # (A wait that is due is about to be woken in earnest.)
                assert self.simulation.report(Wake()).nodes == {}
                version += 1
            case 4:
                self.simulation.restart()
        assert self.simulation.run.version == version


def ended(simulation: Watched) -> Ending:
    at = microseconds(simulation.now)
    if simulation.value is not None:
        return Ending("value", at, json.loads(simulation.value.json))
    assert simulation.error is not None
    return Ending("failure", at, message=str(simulation.error["message"]))


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    graph=LANGUAGE,
    script=SCRIPTS,
    policy=RULES,
    limits=LIMITS,
    sent=SENT,
    noise=st.none() | st.integers(0, 10**6),
)
def test_the_decider_does_what_the_reference_says(
    graph: Node,
    script: Script,
    policy: Policy,
    limits: Limits,
    sent: list[tuple[int, int]],
    noise: int | None,
) -> None:
    signals = signals_for(graph, sent)
    interpreter = Interpreter(script, policy, limits, signals)
    try:
        expected = interpreter.run(graph)
    except Tie:
        assume(False)
    event(expected.kind)

    simulation = Watched.of(graph, policy, limits)
    assert isinstance(simulation, Watched)
    driver = Driver(simulation, graph, script, noise)
    driver.drive(signals)

    actual = ended(simulation)
    # A step that was lost too often says more than why it was lost the last time.
    assert actual.message.startswith(expected.message)
    assert actual._replace(message="") == expected._replace(message="")
    names = {name: json.loads(value.json) for name, value in simulation.names.items()}
    assert names == interpreter.flow.own
    if actual.kind == "value":  # what branches named is known outside, or by nobody
        assert [scope for scope, known in simulation.scopes.items() if known and scope] == []
    assert sorted(driver.tries) == sorted(interpreter.tries)
    assert sorted(history(simulation)) == sorted(interpreter.iterations)


def history(simulation: Watched) -> list[tuple[int, int, int, bool]]:
    return [
        (end.loop, end.iteration, microseconds(end.started_at or EPOCH), end.error is not None)
        for end in simulation.__dict__.get("iterations", [])
    ]
