"""`bench.simulate`: what the engine would do with a graph when its attempts came out so, without a
database and without waiting.

The decider runs on a virtual clock (`engine.simulate`); here are the outcomes as people give them,
and the way from the simulation to the rows that views show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from workbench.engine import simulate as engine
from workbench.engine.model import TERMINAL, Decision, Event, Run
from workbench.engine.plan import Plan, Planned
from workbench.engine.policy import Policy
from workbench.errors import RetryAfter, StateError, UsageError
from workbench.graph import durations
from workbench.graph.node import Node
from workbench.graph.values import encode
from workbench.store.records import AttemptRow, Error, IterationRow, NodeRow, RunRow
from workbench.views.run_data import RunData
from workbench.views.simulation_view import SimulationView

__all__ = ["Crashes", "Fails", "Outcomes", "Succeeds", "checked_policy", "simulate"]


@dataclass(frozen=True, slots=True)
class Succeeds:
    """An attempt that succeeds with a JSON value, after `seconds` of virtual time."""

    value: Any = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Fails:
    """An attempt that fails, after `seconds`.

    `sqlstate` decides whether it is tried again, as for a real error; `retry_after` is the delay,
    in seconds, that the step asks for.
    """

    message: str = "simulated failure"
    sqlstate: str | None = None
    seconds: float = 0.0
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Crashes:
    """An attempt whose engine dies after `seconds`: it uses up no attempt."""

    seconds: float = 0.0


Outcome = Succeeds | Fails | Crashes | Exception
Outcomes = Mapping[str, Outcome | Sequence[Outcome]]


def simulate(
    graph: Node, outcomes: Outcomes, policy: Policy, at: datetime | None, most: int
) -> SimulationView:
    """Run a valid graph on a virtual clock; see `Bench.simulate`."""
    began = at or engine.EPOCH
    simulation = _Recorded(Run("simulated", Plan.of(graph), policy), began)
    plan = simulation.run.plan
    told = _by_number(plan, outcomes)
    queues: dict[int, Iterator[Outcome]] = {}

    def outcome_of(claimed: engine.Try) -> engine.Outcome:
        if claimed.node not in queues:
            queues[claimed.node] = iter(told.get(_source(simulation.run.plan, claimed.node), ()))
        return _told(next(queues[claimed.node], Succeeds()))

    with suppress(StateError):  # it would go on, and is shown as running
        simulation.run_to_end(outcome_of, most)
    return SimulationView(_data(simulation, policy, began))


def checked_policy(max_attempts: int, max_backoff: object, on_failure: str) -> Policy:
    """Return the policy that a run started with these would have.

    Raises
    ------
    UsageError
        `df.start` would refuse them.
    """
    longest = durations.seconds(max_backoff, "simulate(max_backoff=…)")
    if type(max_attempts) is not int or max_attempts < 1:
        raise UsageError(
            f"simulate(): max_attempts must be a whole number of at least 1, not {max_attempts!r}: "
            "it counts the first try"
        )
    if longest <= 0:
        raise UsageError(f"simulate(): max_backoff must be above zero, not {max_backoff!r}")
    if on_failure not in ("fail", "continue"):
        raise UsageError(f"simulate(): on_failure is 'fail' or 'continue', not {on_failure!r}")
    return Policy(max_attempts, float(longest), on_failure)


class _Recorded(engine.Simulation):
    """A simulation that remembers, as the database does, when nodes ended and what iterations
    there were.
    """

    def __init__(self, run: Run, now: datetime) -> None:
        super().__init__(run, now)
        self.finished_at: dict[int, datetime] = {}
        self.iterations: list[IterationRow] = []

    def report(self, event: Event) -> Decision:
        now = self.now
        decision = super().report(event)
        for number, state in decision.nodes.items():
            if state.status in TERMINAL:
                self.finished_at[number] = now
        self.iterations += [
            IterationRow(end.loop, end.iteration, end.started_at or now, now, end.error)
            for end in decision.iterations
        ]
        return decision


def _source(plan: Plan, node: int) -> int:
    """The node of the graph whose outcomes are a leaf's: those of a map are its elements'."""
    planned = plan[node]
    if planned.map is not None and planned.name is None and planned.parent == planned.map:
        return plan[planned.map].origin
    return planned.origin


def _by_number(plan: Plan, outcomes: Outcomes) -> dict[int, Sequence[Outcome]]:
    names = {node.name: node.number for node in plan if node.name is not None}
    numbers = {f"#{node.number}": node.number for node in plan}
    found = {}
    for name, given in outcomes.items():
        number = names.get(name, numbers.get(name))
        if number is None:
            raise UsageError(_unknown(name, names, len(plan)))
        found[number] = given if isinstance(given, Sequence) else [given]
    return found


def _unknown(name: str, names: Mapping[str, int], count: int) -> str:
    close = get_close_matches(name, names, 1)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(sorted(names)) or "none is named"
    return (
        f"simulate(): the graph has no node {name!r}{guess} Its names: {listed}; "
        f"its numbers: #0 to #{count - 1}"
    )


def _told(outcome: Outcome) -> engine.Outcome:
    """Put an outcome into the engine's words."""
    match outcome:
        case Succeeds(value, seconds):
            return engine.Succeeds(encode(value, "value"), seconds)
        case Fails(message, sqlstate, seconds, delay):
            error: dict[str, Any] = {"type": "Fails", "message": message}
            if sqlstate is not None:
                error["sqlstate"] = sqlstate
            return engine.Fails(error, seconds, delay, None if delay is None else "retry_after")
        case Crashes(seconds):
            return engine.Crashes(seconds=seconds)
        case RetryAfter():
            error = {"type": "RetryAfter", "message": str(outcome)}
            return engine.Fails(error, 0.0, outcome.seconds, "retry_after")
        case Exception():
            error = {"type": type(outcome).__name__, "message": str(outcome)}
            if (state := getattr(outcome, "sqlstate", None)) is not None:
                error["sqlstate"] = state
            return engine.Fails(error)
    raise UsageError(
        f"simulate(): {outcome!r} is no outcome; use Succeeds(), Fails(), Crashes() or an exception"
    )


def _data(simulation: _Recorded, policy: Policy, began: datetime) -> RunData:
    nodes = list(_nodes(simulation))
    attempts = [_attempt(number, row) for number, row in enumerate(simulation.attempts)]
    return RunData(_run(simulation, policy, began), nodes, attempts, simulation.iterations)


def _run(simulation: _Recorded, policy: Policy, began: datetime) -> RunRow:
    return RunRow(
        run_id="simulated",
        label=None,
        status=simulation.status,
        version=simulation.run.version,
        submitted_by="",
        database=None,
        max_attempts=policy.max_attempts,
        max_backoff=policy.max_backoff,
        on_failure=policy.on_failure,
        created_at=began,
        started_at=began,
        finished_at=simulation.now if simulation.finished else None,
        updated_at=simulation.now,
        wake_at=None,
        error=simulation.error,
        parked=None,
        restart_of_run_id=None,
        idempotency_key=None,
        input_preview="null",
        live_engines=1,
        as_of=simulation.now,
        attempts=len(simulation.attempts),
    )


def _nodes(simulation: _Recorded) -> Iterator[NodeRow]:
    plan = simulation.run.plan
    depths: dict[int, int] = {}
    for planned in map(plan.__getitem__, plan.numbers(0, plan[0].last)):
        state = simulation.run.nodes[planned.number]
        depths[planned.number] = 0 if planned.parent is None else depths[planned.parent] + 1
        yield NodeRow(
            node_id=planned.number,
            parent_id=planned.parent,
            ord=_order(plan, planned),
            depth=depths[planned.number],
            node_type=planned.type,
            query=planned.query,
            result_name=_name(plan, planned),
            handler=planned.config.get("handler") if planned.type == "PYTHON" else None,
            status=state.status,
            attempt=state.attempt,
            losses=state.losses,
            ready_at=state.ready_at,
            started_at=state.started_at,
            finished_at=simulation.finished_at.get(planned.number),
            error=state.error,
            result_node=state.result_node,
            result_preview=_preview(simulation, planned.number),
            row_count=None,
            result_bytes=None,
            columns=None,
            engine_id=state.engine,
            exactly_once=planned.type == "SQL",
            iteration=state.iteration,
            abandoned=state.abandoned,
            options=planned.options,
            element=list(planned.element) or None,
            size=state.size,
        )


def _order(plan: Plan, planned: Planned) -> int | None:
    """Which child of its parent a node is, as in the rows of a real run."""
    if planned.parent is None:
        return None
    above = plan[planned.parent]
    if above.type == "MAP":
        return planned.element[-1] + 1
    places = (above.left, above.right, above.condition, *above.extra)
    return places.index(planned.number) + 1


def _name(plan: Plan, planned: Planned) -> str | None:
    """An element is called after its map."""
    if planned.name is None and planned.parent is not None and planned.parent == planned.map:
        above = plan[planned.parent].name
        return None if above is None else f"{above}[{planned.element[-1]}]"
    return planned.name


def _preview(simulation: _Recorded, number: int) -> str | None:
    value = simulation.values.get(number)
    return None if value is None else value.json[:2000]


def _attempt(number: int, row: engine.Attempt) -> AttemptRow:
    error: Error | None = row.error
    return AttemptRow(
        node_id=row.node,
        rev=number,
        attempt=row.number,
        outcome=row.outcome,
        started_at=row.start,
        finished_at=row.end,
        error=error,
        delay=row.delay,
        delay_source=row.source,
        engine_id="simulator",
        host=None,
        pid=None,
        fingerprint=None,
        exactly_once=False,
    )
