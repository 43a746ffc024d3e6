"""Live runs in every state, for the tests of the activity view, without a database."""

from __future__ import annotations

from typing import Any

from tests.unit.view_samples import at
from workbench.store.activity import Activity, ActivityRow
from workbench.views.activity_data import ActivityData, Query

__all__ = ["NOW", "ROWS", "activity", "row"]

NOW = at(3600)


def row(run_id: str, state: str, *parts: Any, **given: Any) -> ActivityRow:
    values: dict[str, Any] = {
        "label": None,
        "status": "running",
        "submitted_by": "ann",
        "last_activity_at": at(3540),
        "idle_seconds": 60.0,
        "running": 0,
        "failed": 0,
        "last_error": None,
        "last_error_at": None,
        "reason": "in the session's zone",
        "node_id": 0,
        "next_wake_at": None,
        "attempt": None,
        "max_attempts": None,
        "abandoned": 0,
        "engine_alive": True,
        "signal": None,
        "as_of": NOW,
    }
    return ActivityRow(run_id=run_id, state=state, reason_parts=parts, **(values | given))


def moment(kind: str, seconds: float) -> dict[str, str]:
    return {kind: at(seconds).isoformat()}


ROWS = (
    row(
        "aaaaaaa1",
        "wedged",
        "lock wait: blocked by pid 4711 (UPDATE orders SET n=2) for ",
        moment("for", 3120),
        label="nightly orders",
        idle_seconds=480.0,
        last_activity_at=at(3120),
        running=1,
        node_id=2,
        attempt=1,
        max_attempts=5,
    ),
    row(
        "aaaaaaa2",
        "wedged",
        "loop abandoned 14 iterations in a row",
        label="compactor",
        idle_seconds=0.4,
        last_activity_at=at(3599.6),
        failed=1,
        abandoned=14,
        last_error="canceling statement due to lock timeout",
        last_error_at=at(3599),
    ),
    row(
        "bbbbbbb1",
        "retrying",
        "3rd of 5 attempts in ",
        moment("left", 3606),
        label="rates",
        failed=1,
        next_wake_at=at(3606),
        attempt=3,
        max_attempts=5,
        last_error="e2 <b>",
        last_error_at=at(3540),
        idle_seconds=2.0,
        last_activity_at=at(3598),
    ),
    row(
        "ccccccc1",
        "waiting",
        "waits for signal approval since ",
        moment("at", 0),
        label="release",
        idle_seconds=3600.0,
        last_activity_at=at(0),
        signal="approval",
    ),
    row(
        "ddddddd1",
        "working",
        "runs for ",
        moment("for", 3596),
        running=1,
        idle_seconds=4.0,
        last_activity_at=at(3596),
        attempt=1,
        max_attempts=1,
    ),
)


def activity(*rows: ActivityRow, live: int | None = None, **query: Any) -> ActivityData:
    found = Activity(rows, len(rows) if live is None else live, NOW)
    return ActivityData(found, Query(**query))
