"""Runs with a history, for the tests of the timeline, without a database."""

from __future__ import annotations

from typing import Any

from tests.unit.view_samples import at, attempt, node, run
from workbench.store.records import IterationRow
from workbench.views.run_data import RunData

__all__ = ["case_five", "everything", "looping"]

E1: dict[str, Any] = {"type": "Error", "message": "e1"}
E2: dict[str, Any] = {"type": "OperationalError", "message": "e2", "sqlstate": "40001"}


def case_five() -> RunData:
    """Fails "e1", "e2", passes."""
    return RunData(
        run(status="completed", started_at=at(0), finished_at=at(3.6), as_of=at(10)),
        [
            node(
                *(0, None, None, "PYTHON"),
                handler="etl:fetch",
                result_name="fetch",
                status="completed",
                attempt=2,
                started_at=at(3.3),
                finished_at=at(3.6),
            )
        ],
        [
            attempt(
                *(0, 1, "failed"),
                started_at=at(0),
                finished_at=at(0.1),
                error=E1,
                delay=1.0,
                delay_source="backoff",
            ),
            attempt(
                *(0, 2, "failed"),
                started_at=at(1.15),
                finished_at=at(1.25),
                error=E2,
                delay=2.0,
                delay_source="backoff",
            ),
            attempt(0, 3, "completed", started_at=at(3.3), finished_at=at(3.6)),
        ],
    )


def everything() -> RunData:
    """A live run with each kind of wait, one below the other."""
    steps: list[dict[str, Any]] = [
        {"kind": "SQL", "query": "SELECT 1", "result_name": "load", "status": "completed"},
        {
            "kind": "SLEEP",
            "query": "6",
            "status": "completed",
            "started_at": at(2),
            "finished_at": at(8),
        },
        {
            "kind": "SIGNAL",
            "query": '{"signal_name": "approval"}',
            "status": "waiting",
            "started_at": at(8),
        },
        {
            "kind": "WAIT_SCHEDULE",
            "query": '{"cron_expr": "* * * * *"}',
            "status": "waiting",
            "started_at": at(8),
            "ready_at": at(40),
        },
        {
            "kind": "HTTP",
            "query": '{"method": "GET", "url": "https://example.org/rates"}',
            "result_name": "rates",
            "status": "ready",
            "attempt": 1,
            "ready_at": at(36),
        },
        {
            "kind": "PYTHON",
            "handler": "etl:train",
            "status": "running",
            "started_at": at(22),
            "losses": 1,
            "engine_id": "e2",
        },
        {"kind": "SQL", "query": "VACUUM orders", "status": "ready", "ready_at": at(8)},
    ]
    nodes = [node(0, None, None, "JOIN", status="running", started_at=at(0))]
    for number, step in enumerate(steps, 1):
        nodes.append(node(number, 0, number if number < 3 else number + 1, **step))
    return RunData(
        run(started_at=at(0), as_of=at(30)),
        nodes,
        [
            attempt(1, 1, "completed", started_at=at(0), finished_at=at(2), rev=1),
            attempt(
                *(5, 1, "failed"),
                started_at=at(9),
                finished_at=at(11),
                error={"type": "HttpError", "message": "503"},
                delay=25.0,
                delay_source="http_retry_after",
                rev=2,
            ),
            attempt(
                *(6, 1, "worker_lost"),
                started_at=at(9),
                finished_at=at(20),
                error={"type": "WorkerLost", "message": "engine e1 is gone"},
                delay=0.0,
                delay_source="worker_lost",
                rev=3,
            ),
        ],
    )


def looping() -> RunData:
    """The fourth iteration of a loop whose second was abandoned."""
    return RunData(
        run(started_at=at(0), as_of=at(31), on_failure="continue"),
        [
            node(0, None, None, "LOOP", status="running", started_at=at(30), iteration=4),
            node(
                1,
                0,
                1,
                "SQL",
                query="SELECT 1",
                status="running",
                started_at=at(30.5),
                engine_id="e1",
            ),
        ],
        [
            attempt(1, 1, "completed", started_at=at(0.1), finished_at=at(1), rev=1),
            attempt(1, 1, "failed", started_at=at(10.1), finished_at=at(11), rev=2, error=E2),
            attempt(1, 1, "completed", started_at=at(20.1), finished_at=at(21), rev=3),
        ],
        [
            IterationRow(0, 1, at(0), at(1), None),
            IterationRow(0, 2, at(10), at(11), E2),
            IterationRow(0, 3, at(20), at(21), None),
        ],
    )
