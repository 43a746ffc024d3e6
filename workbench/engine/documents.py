"""Decisions as the JSON documents that `df._checkpoint` writes. Results are embedded as the text
they already are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from workbench.engine.model import TERMINAL, AttemptEnd, Decision, NodeState, Value
from workbench.store import verbs
from workbench.store.wire import Statement

__all__ = ["statement"]


def statement(decisions: Iterable[tuple[str, Decision]], *, prepared: bool = True) -> Statement:
    """The one statement that makes these decisions durable, given as pairs of run id and
    decision.
    """
    runs: list[str] = []
    nodes: list[str] = []
    attempts: list[str] = []
    named: list[str] = []
    for run, decision in decisions:
        at = decision.at.isoformat()
        runs.append(_run(run, decision, at))
        for number, state in decision.nodes.items():
            nodes.append(_node(run, number, state, at, decision.values.get(number)))
        for attempt in decision.attempts:
            attempts.append(_attempt(run, attempt, decision.version, at))
        for name, (number, value) in decision.names.items():
            named.append(_named(run, name, number, value))
    return verbs.checkpoint(
        _array(runs) or "[]", _array(nodes), _array(attempts), _array(named), prepared=prepared
    )


def _array(records: list[str]) -> str | None:
    return f"[{','.join(records)}]" if records else None


def _json(value: Any) -> str:
    return "null" if value is None else json.dumps(value, ensure_ascii=False)


def _text(value: str | None) -> str:
    """For values that hold nothing to escape: tokens, engine ids, words of ours."""
    return "null" if value is None else f'"{value}"'


def _time(value: datetime | None) -> str:
    return "null" if value is None else f'"{value.isoformat()}"'


def _columns(value: Value) -> str:
    return "null" if value.columns is None else json.dumps(value.columns, ensure_ascii=False)


def _run(run: str, decision: Decision, at: str) -> str:
    return (
        f'{{"id":"{run}","status":"{decision.status}","version":{decision.version},"wake_at":null,'
        f'"error":{_json(decision.error)},"parked":{_json(decision.parked)},"at":"{at}"}}'
    )


def _node(run: str, number: int, state: NodeState, at: str, value: Value | None) -> str:
    finished = f'"{at}"' if state.status in TERMINAL else "null"
    result = "" if value is None else f',"result":[{value.json}],"columns":{_columns(value)}'
    return (
        f'{{"run":"{run}","node_id":{number},"status":"{state.status}","rev":{state.rev},"attempt":{state.attempt},'
        f'"losses":{state.losses},"faults":{state.faults},"autocommit":{"true" if state.autocommit else "false"},'
        f'"token":{_text(state.token)},"engine_id":{_text(state.engine)},"ready_at":{_time(state.ready_at)},'
        f'"started_at":{_time(state.started_at)},"finished_at":{finished},"result_node":{_json(state.result_node)},'
        f'"error":{_json(state.error)}{result}}}'
    )


def _attempt(run: str, end: AttemptEnd, rev: int, at: str) -> str:
    return (
        f'{{"run":"{run}","node_id":{end.node},"rev":{rev},"attempt":{end.attempt},"outcome":"{end.outcome}",'
        f'"token":{_text(end.token)},"engine_id":{_text(end.engine)},"started_at":{_time(end.started_at)},'
        f'"finished_at":"{at}","error":{_json(end.error)},"delay":{_json(end.delay)},"delay_source":{_text(end.delay_source)},'
        f'"fingerprint":{_text(end.fingerprint)},"exactly_once":{"true" if end.exactly_once else "false"}}}'
    )


def _named(run: str, name: str, number: int, value: Value) -> str:
    return (
        f'{{"run":"{run}","scope":"","name":"{name}","node_id":{number},'
        f'"value":[{value.json}],"columns":{_columns(value)}}}'
    )
