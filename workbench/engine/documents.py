"""Decisions as the JSON documents that `df._checkpoint` writes.

Results are embedded as the text they already are; what is NULL, zero or false is left out. Tokens,
ids and words of ours hold nothing to escape.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from workbench.engine.failure import clean
from workbench.engine.model import (
    AttemptEnd,
    Decision,
    Gathered,
    IterationEnd,
    MoveNames,
    NameChange,
    NodeState,
    Run,
    SetName,
    Value,
)
from workbench.engine.plan import Expansion
from workbench.store import verbs
from workbench.store.wire import Statement

__all__ = ["offers", "statement"]

#: Characters of what an attempt executed that its row keeps.
EXECUTED_LIMIT = 64_000
#: The arguments of `df._checkpoint`, in order.
PARTS = (
    "runs",
    "dropped",
    "expanded",
    "nodes",
    "attempts",
    "cancelled",
    "gathered",
    "named",
    "moved",
    "iterations",
    "signals",
)


def statement(
    engine: str,
    at: datetime,
    decisions: Iterable[tuple[str, Decision]],
    *,
    tell: bool = False,
    frees: bool = False,
    prepared: bool = True,
) -> Statement:
    """The one statement that makes these decisions durable.

    Parameters
    ----------
    engine:
        Whose claims the decisions make.
    at:
        The moment at which all of them were decided.
    decisions:
        Pairs of run id and decision.
    tell:
        Whether the commit wakes the other engines.
    frees:
        Whether it leaves room that others may be waiting for.
    """
    parts: dict[str, list[str]] = {name: [] for name in PARTS}
    for run, decision in decisions:
        parts["runs"].append(_run(run, decision))
        parts["dropped"] += [_dropped(run, first, last) for first, last in decision.dropped]
        parts["expanded"] += [_expanded(run, decision, e) for e in decision.expanded.values()]
        new = {n for e in decision.expanded.values() for n in _ready_elements(decision, e)}
        parts["nodes"] += [
            _node(run, number, state, _result(decision, number, state))
            for number, state in decision.nodes.items()
            if number not in new
        ]
        parts["attempts"] += [_attempt(run, end, decision.version) for end in decision.attempts]
        parts["cancelled"] += [
            _cancelled(run, number, decision.version)
            for number, state in decision.nodes.items()
            if state.status == "cancelled"
        ]
        parts["gathered"] += [
            _gathered(run, number, sources)
            for number, sources in decision.gathered.items()
            if decision.nodes[number].status == "completed"
        ]
        parts["iterations"] += [_iteration(run, end, decision) for end in decision.iterations]
        _add_names(parts, run, decision)
        if decision.listens or decision.taken or decision.looked_at:
            parts["signals"].append(_signals(run, decision))
    documents = [f"[{','.join(part)}]" if part else None for part in parts.values()]
    return verbs.checkpoint(engine, at, documents, tell=tell, frees=frees, prepared=prepared)


def offers(at: datetime, decisions: Iterable[tuple[Run, Decision]]) -> Statement | None:
    """The statement that offers steps to outside workers; None when there are none."""
    rows = [
        f'{{"run":"{run.id}","node_id":{node},"handler":{_json(run.plan[node].config["handler"])},'
        f'"input":{given}}}'
        for run, decision in decisions
        for node, given in decision.offered.items()
        if decision.nodes[node].status == "waiting"
    ]
    return verbs.offer(at, f"[{','.join(rows)}]") if rows else None


def _add_names(parts: dict[str, list[str]], run: str, decision: Decision) -> None:
    """Names that are only set can be written all at once; where some also move, the order counts."""
    changes = decision.names
    if all(isinstance(change, SetName) for change in changes):
        # The same name twice: the last one stays.
        last = {change[:2]: change for change in changes}
        parts["named"] += [_name(run, change, decision) for change in last.values()]
    else:
        parts["moved"] += [_name(run, change, decision) for change in changes]


def _result(decision: Decision, number: int, state: NodeState) -> Value | None:
    """A node's value, unless the next iteration has begun already."""
    return decision.values.get(number) if state.status == "completed" else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _time(name: str, value: datetime | None) -> str:
    return "" if value is None else f',"{name}":"{value.isoformat()}"'


def _word(name: str, value: str | None) -> str:
    return "" if value is None else f',"{name}":"{value}"'


def _value(name: str, value: Value | None) -> str:
    """In an array, so that a JSON null does not become NULL."""
    if value is None:
        return ""
    columns = "" if value.columns is None else f',"columns":{_json(value.columns)}'
    return f',"{name}":[{value.json}]{columns}'


def _run(run: str, decision: Decision) -> str:
    more = _time("wake_at", decision.wake_at) + (',"woken":true' if decision.woken else "")
    if decision.error is not None:
        more += f',"error":{_json(decision.error)}'
    if decision.parked is not None:
        more += f',"parked":{_json(decision.parked)}'
    return f'{{"id":"{run}","status":"{decision.status}","version":{decision.version}{more}}}'


def _node(run: str, number: int, state: NodeState, value: Value | None) -> str:
    counts = f',"attempt":{state.attempt}' if state.attempt else ""
    if state.losses or state.faults or state.autocommit:
        autocommit = _json(state.autocommit)
        counts += f',"losses":{state.losses},"faults":{state.faults},"autocommit":{autocommit}'
    if state.result_node is not None:
        counts += f',"result_node":{state.result_node}'
    if state.iteration:
        counts += f',"iteration":{state.iteration},"abandoned":{state.abandoned}'
    if state.falsy:
        counts += ',"falsy":true'
    if state.base is not None:
        counts += f',"base":{state.base}'
    if state.size is not None:
        counts += f',"size":{state.size}'
    if state.facts:
        counts += f',"facts":{state.facts}'
    if state.reused and state.status == "completed":
        counts += ',"kept":true'
    if state.token is None and state.status in ("running", "waiting"):
        counts += _time("started_at", state.started_at)
    error = "" if state.error is None else f',"error":{_json(state.error)}'
    return (
        f'{{"run":"{run}","node_id":{number},"status":"{state.status}","rev":{state.rev}{counts}'
        f"{_word('token', state.token)}{_time('ready_at', state.ready_at)}{error}"
        f"{_value('result', value)}}}"
    )


def _attempt(run: str, end: AttemptEnd, rev: int) -> str:
    more = ',"exactly_once":true' if end.exactly_once else ""
    if end.outcome != "completed":
        more += f',"outcome":"{end.outcome}"'
    if end.error is not None:
        more += f',"error":{_json(end.error)}'
    if end.delay is not None:
        more += f',"delay":{end.delay}{_word("delay_source", end.delay_source)}'
    if end.executed is not None:
        more += f',"executed":{_json(clean(end.executed, EXECUTED_LIMIT))}'
    if end.logs is not None:
        more += f',"logs":{_json(clean(end.logs, EXECUTED_LIMIT))}'
    if end.iterations:
        more += f',"iterations":{_json(end.iterations)}'
    if end.pattern is not None:
        more += f',"pattern":{end.pattern},"element":{_json(end.element)}'
    return (
        f'{{"run":"{run}","node_id":{end.node},"rev":{rev},"attempt":{end.attempt},"token":"{end.token}"'
        f"{_word('engine_id', end.engine)}{_time('started_at', end.started_at)}"
        f"{_word('fingerprint', end.fingerprint)}{more}}}"
    )


def _cancelled(run: str, number: int, rev: int) -> str:
    return f'{{"run":"{run}","node_id":{number},"rev":{rev}}}'


def _signals(run: str, decision: Decision) -> str:
    return (
        f'{{"run":"{run}","taken":{_json(decision.taken)},"looked_at":{_json(decision.looked_at)}'
        f',"listens":{_json(decision.listens)}}}'
    )


def _gathered(run: str, node: int, sources: Gathered) -> str:
    names = f',"names":{_json(list(sources))}' if isinstance(sources, dict) else ""
    numbers = list(sources.values()) if isinstance(sources, dict) else sources
    return f'{{"run":"{run}","node_id":{node},"sources":{_json(numbers)}{names}}}'


def _dropped(run: str, first: int, last: int) -> str:
    return f'{{"run":"{run}","from":{first},"to":{last}}}'


def _ready_elements(decision: Decision, expansion: Expansion) -> list[int]:
    """The elements that are but ready: their rows are made so, not changed afterwards."""
    if expansion.stride > 1 or expansion.kept:
        return []
    return [n for n in expansion.roots if decision.nodes[n].status == "ready"]


def _expanded(run: str, decision: Decision, expansion: Expansion) -> str:
    """Where the elements are, what they are called, and which of their nodes are but patterns."""
    assert decision.plan is not None
    plan, planned = decision.plan, decision.plan[expansion.map]
    inner = [
        n - planned.number
        for n in range(planned.number + 1, planned.last + 1)
        if plan[n].map != planned.number
    ]
    ready = _ready_elements(decision, expansion)
    return (
        f'{{"run":"{run}","node_id":{planned.number},"base":{expansion.base},"size":{expansion.size},'
        f'"stride":{expansion.stride},"inner":{_json(inner)},"rev":{decision.version},'
        f'"over":"{planned.config["over"]}","as":"{planned.config["as"]}",'
        f'"scopes":{_json(plan.scopes(planned.number))}'
        f"{_time('ready_at', next((decision.nodes[n].ready_at for n in ready), None))}}}"
    )


def _iteration(run: str, end: IterationEnd, decision: Decision) -> str:
    error = "" if end.error is None else f',"error":{_json(end.error)}'
    return (
        f'{{"run":"{run}","node_id":{end.loop},"last_node":{end.last},"iteration":{end.iteration},'
        f'"rev":{decision.version}{_time("started_at", end.started_at)}{error}}}'
    )


def _name(run: str, change: NameChange, decision: Decision) -> str:
    if isinstance(change, SetName):
        scope, name, source, value = change
        # The database takes the value from the node's row, unless it is not (any more) there.
        state = decision.nodes.get(source)
        gone = state is not None and state.status != "completed"
        own = f'"scope":{scope},"name":"{name}","node_id":{source}'
        own += _value("value", value) if gone else ""
    elif isinstance(change, MoveNames):
        own = f'"scope":{change.scope},"from":{change.branch}'
    else:
        own = f'"from":{change.first},"to":{change.last}'
    return f'{{"run":"{run}",{own}}}'
