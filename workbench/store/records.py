"""What the monitoring queries return: one frozen dataclass a kind of row, plain data.

Views take these and nothing else, so this module imports no database. The queries are in
`monitor`, their SQL in `functions/60_monitoring.sql`. All times carry a zone; durations are in
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

__all__ = [
    "AttemptRow",
    "EngineRow",
    "Error",
    "Explained",
    "IterationRow",
    "NodeResult",
    "NodeRow",
    "RunMatch",
    "RunRow",
    "RunsRow",
    "UnreadRow",
]

Error: TypeAlias = Mapping[str, Any]
"""type, message; where known sqlstate, detail, hint, position, traceback, cause."""


#: The statuses that are stored of a run.
RUN_STATUSES: Final = ("pending", "running", "completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `max_backoff` in seconds; `as_of` is the database's clock at the query;
    `missing_handlers` are those that its steps wait for and no living engine has; `attempts`
    counts the ended ones that are kept. `kind` is how it came to be: start, retry or resume;
    `flow` which flow it is as a whole.
    """

    run_id: str
    label: str | None
    status: str
    version: int
    submitted_by: str
    database: str | None
    max_attempts: int
    max_backoff: float
    on_failure: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    wake_at: datetime | None
    error: Error | None
    parked: Error | None
    restart_of_run_id: str | None
    idempotency_key: str | None
    input_preview: str
    live_engines: int
    as_of: datetime
    missing_handlers: Sequence[str] = ()
    attempts: int = 0
    kind: str = "start"
    flow: str | None = None
    flow_version: int | None = None

    @property
    def waits_for(self) -> str | None:
        """What keeps a run that is not finished from going on, in words; code between backquotes."""
        if self.status not in ("pending", "running"):
            return None
        if not self.live_engines:
            return "no engine alive: `bench.work()`"
        if self.missing_handlers:
            names = ", ".join(f"`{name}`" for name in self.missing_handlers)
            return (
                f"no live engine has the handler {names}: run the cell that defines it, or "
                "`workbench worker --import` its module"
            )
        return None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node of a run, in pre-order.

    `ord` is which child of its parent it is (1 left, 2 right, 3 condition, 4… extras). `attempt`
    counts ended attempts, `losses` those that ended with their engine. `result_preview` is at most
    about 2 kB of the value's JSON (a row set: whole rows, as many as fit); `row_count` and
    `result_bytes` are of the whole. A composite has the value of node `result_node`. `columns` is
    `[[name, type], …]`. `ready_at` of a waiting node is when its wait ends or times out, None when
    nothing but a signal ends it. Of a LOOP, `iteration` is the one under way, from 1, begun at
    `started_at`, and `abandoned` how many have been given up in a row. `reused_run`, `reused_node`
    say whose result a leaf of a resumed run has taken over; None when it is executed here. Of the
    elements of a MAP, `element` is the index, from 0, after those of the MAPs around; of a MAP, `size`
    is how many there are. `progress` is what a running handler says of itself.
    """

    node_id: int
    parent_id: int | None
    ord: int | None
    depth: int
    node_type: str
    query: str | None
    result_name: str | None
    handler: str | None
    status: str
    attempt: int
    losses: int
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: Error | None
    result_node: int | None
    result_preview: str | None
    row_count: int | None
    result_bytes: int | None
    columns: list[list[str]] | None
    engine_id: str | None
    exactly_once: bool
    iteration: int = 0
    abandoned: int = 0
    options: Mapping[str, Any] | None = None
    reused_run: str | None = None
    reused_node: int | None = None
    element: list[int] | None = None
    size: int | None = None
    progress: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One ended attempt. `delay` is seconds until the next one, None when there is none."""

    node_id: int
    rev: int
    attempt: int
    outcome: str
    started_at: datetime | None
    finished_at: datetime
    error: Error | None
    delay: float | None
    delay_source: str | None
    engine_id: str | None
    host: str | None
    pid: int | None
    fingerprint: str | None
    exactly_once: bool


@dataclass(frozen=True, slots=True)
class IterationRow:
    """One ended iteration of a LOOP; `error` says why it was abandoned, if it was."""

    node_id: int
    iteration: int
    started_at: datetime
    finished_at: datetime
    error: Error | None


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """Signals of one name that no wait of a run has taken yet."""

    name: str
    unread: int
    first_sent_at: datetime
    last_sent_at: datetime


@dataclass(frozen=True, slots=True)
class RunsRow:
    """One run in a list. `steps` counts leaves, `steps_done` those completed or skipped. Of a
    running one: `retrying` when a step waits for its next attempt and none runs, `waiting` when all
    that is alive waits for a time or a signal.
    """

    run_id: str
    label: str | None
    status: str
    submitted_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: Error | None
    parked: Error | None
    restart_of_run_id: str | None
    steps: int
    steps_done: int
    retrying: bool
    waiting: bool
    as_of: datetime


@dataclass(frozen=True, slots=True)
class RunMatch:
    """A run whose id begins with what was asked for."""

    run_id: str
    label: str | None
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Explained:
    """What `df.explain` says of something: its text, and the valid graph (JSON text) or the id of
    the run that this is about.
    """

    picture: str
    graph: str | None
    run: str | None


@dataclass(frozen=True, slots=True)
class NodeResult:
    """A node's value as JSON text, None while there is none; columns of a SQL result."""

    status: str
    json: str | None
    columns: tuple[tuple[str, str], ...] | None


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One engine. `state` is alive, stopped, dead or silent (its lock or heartbeat is missing)."""

    engine_id: str
    state: str
    role: str
    host: str
    pid: int
    version: str
    handlers: list[str]
    running: int
    started_at: datetime
    last_seen_at: datetime
    ended_at: datetime | None
    as_of: datetime


@dataclass(frozen=True)
class FlowRow:
    """A version of a flow, and how many runs there are of it."""

    slug: str
    version: int
    steps: list[str]
    owner: str
    created_at: datetime
    last_started_at: datetime | None
    runs: int
    unfinished: int
    failed: int
