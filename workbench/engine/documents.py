"""Decisions as the JSON documents that `df._checkpoint` writes.

Results are embedded as the text they already are; what is NULL, zero or false is left out. Tokens,
ids and words of ours hold nothing to escape.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from workbench.engine.model import AttemptEnd, Decision, NodeState, Value
from workbench.store import verbs
from workbench.store.wire import Statement

__all__ = ["statement"]


def statement(
    engine: str,
    at: datetime,
    decisions: Iterable[tuple[str, Decision]],
    *,
    tell: bool = False,
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
    """
    runs: list[str] = []
    nodes: list[str] = []
    attempts: list[str] = []
    named: list[str] = []
    for run, decision in decisions:
        runs.append(_run(run, decision))
        nodes += [
            _node(run, number, state, decision.values.get(number))
            for number, state in decision.nodes.items()
        ]
        attempts += [_attempt(run, attempt, decision.version) for attempt in decision.attempts]
        named += [
            _named(run, name, number, value) for name, (number, value) in decision.names.items()
        ]
    documents = [f"[{','.join(part)}]" if part else None for part in (runs, nodes, attempts, named)]
    return verbs.checkpoint(engine, at, documents, tell=tell, prepared=prepared)


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
    error = "" if decision.error is None else f',"error":{_json(decision.error)}'
    parked = "" if decision.parked is None else f',"parked":{_json(decision.parked)}'
    return (
        f'{{"id":"{run}","status":"{decision.status}","version":{decision.version}{error}{parked}}}'
    )


def _node(run: str, number: int, state: NodeState, value: Value | None) -> str:
    counts = f',"attempt":{state.attempt}' if state.attempt else ""
    if state.losses or state.faults or state.autocommit:
        autocommit = _json(state.autocommit)
        counts += f',"losses":{state.losses},"faults":{state.faults},"autocommit":{autocommit}'
    if state.result_node is not None:
        counts += f',"result_node":{state.result_node}'
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
    return (
        f'{{"run":"{run}","node_id":{end.node},"rev":{rev},"attempt":{end.attempt},"token":"{end.token}"'
        f"{_word('engine_id', end.engine)}{_time('started_at', end.started_at)}"
        f"{_word('fingerprint', end.fingerprint)}{more}}}"
    )


def _named(run: str, name: str, number: int, value: Value) -> str:
    return f'{{"run":"{run}","name":"{name}","node_id":{number}{_value("value", value)}}}'
