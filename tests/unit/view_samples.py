"""Rows for the tests of views: small runs in every state, without a database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from workbench.store.records import AttemptRow, NodeRow, RunRow, RunsRow
from workbench.views.run_data import RunData
from workbench.views.run_view import RunView

START = datetime(2026, 11, 30, 9, 12, 5, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(**given: Any) -> RunRow:
    values: dict[str, Any] = {
        "run_id": "3f9a12bc",
        "label": "nightly",
        "status": "running",
        "version": 3,
        "submitted_by": "ann",
        "database": None,
        "max_attempts": 3,
        "max_backoff": 16.0,
        "on_failure": "fail",
        "created_at": at(0),
        "started_at": at(0),
        "finished_at": None,
        "updated_at": at(0),
        "wake_at": None,
        "error": None,
        "parked": None,
        "restart_of_run_id": None,
        "idempotency_key": None,
        "input_preview": "null",
        "live_engines": 1,
        "as_of": at(60),
    }
    return RunRow(**(values | given))


def view_of(run: RunRow, nodes: Sequence[NodeRow], *others: Any, **more: Any) -> RunView:
    """The view of a run with these rows; others are attempts, iterations and unread signals."""
    return RunView(RunData(run, nodes, *others), **more)


def node(number: int, parent: int | None, order: int | None, kind: str, **given: Any) -> NodeRow:
    values: dict[str, Any] = {
        "depth": 0,
        "query": None,
        "result_name": None,
        "handler": None,
        "status": "pending",
        "attempt": 0,
        "losses": 0,
        "ready_at": None,
        "started_at": None,
        "finished_at": None,
        "error": None,
        "result_node": None,
        "result_preview": None,
        "row_count": None,
        "result_bytes": None,
        "columns": None,
        "engine_id": None,
        "exactly_once": kind == "SQL",
    }
    return NodeRow(node_id=number, parent_id=parent, ord=order, node_type=kind, **(values | given))


def attempt(number: int, attempt: int, outcome: str, **given: Any) -> AttemptRow:
    values: dict[str, Any] = {
        "rev": attempt,
        "started_at": at(0),
        "finished_at": at(1),
        "error": None,
        "delay": None,
        "delay_source": None,
        "engine_id": "e1",
        "host": "lab",
        "pid": 1,
        "fingerprint": None,
        "exactly_once": True,
    }
    return AttemptRow(node_id=number, attempt=attempt, outcome=outcome, **(values | given))


def listed(run_id: str, **given: Any) -> RunsRow:
    values: dict[str, Any] = {
        "label": "nightly",
        "status": "completed",
        "submitted_by": "ann",
        "created_at": at(0),
        "started_at": at(0),
        "finished_at": at(95),
        "error": None,
        "parked": None,
        "restart_of_run_id": None,
        "steps": 4,
        "steps_done": 4,
        "retrying": False,
        "waiting": False,
        "as_of": at(120),
    }
    return RunsRow(run_id=run_id, **(values | given))


def sequence(*steps: NodeRow) -> list[NodeRow]:
    """Nodes of `steps[0] >> (steps[1] >> …)`, renumbered in pre-order."""
    from dataclasses import replace

    nodes: list[NodeRow] = []
    parent: int | None = None
    order: int | None = None
    for index, step in enumerate(steps):
        if index < len(steps) - 1:
            nodes.append(node(len(nodes), parent, order, "THEN"))
            parent = nodes[-1].node_id
            nodes.append(replace(step, node_id=len(nodes), parent_id=parent, ord=1))
            order = 2
        else:
            nodes.append(replace(step, node_id=len(nodes), parent_id=parent, ord=order))
    return nodes
