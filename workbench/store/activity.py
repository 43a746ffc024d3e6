"""Reading which runs work, wait or are wedged, and why: `df._activity`, over an ordinary connection.

The SQL is in `functions/65_activity.sql`, where the reasons get their words; `df.instance_activity`
there is the same for people who speak SQL. The rows are plain data; views take nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row, tuple_row

__all__ = ["MOST", "Activity", "ActivityRow", "ReasonPart", "activity"]

MOST = 10_000  # rows that one look reads, the worst ones

Connection = psycopg.Connection[Any]
ReasonPart = str | Mapping[str, str]
"""Words, or a moment in ISO 8601: {"at": …}, {"left": …} until it, {"for": …} since it."""


@dataclass(frozen=True, slots=True)
class ActivityRow:
    """One run that has not ended.

    `state` is wedged, retrying, waiting or working, and `reason` says why; `reason_parts` are the
    same words with their moments apart. `idle_seconds` is how long nothing in it has moved.
    `running` and `failed` count steps. The reason is about node `node_id`, whose attempt under way
    or next is `attempt`. `abandoned` counts iterations of a loop given up in a row. `signal` is the
    first signal that the run waits for. `as_of` is the database's clock.
    """

    run_id: str
    label: str | None
    status: str
    submitted_by: str
    last_activity_at: datetime
    idle_seconds: float
    running: int
    failed: int
    last_error: str | None
    last_error_at: datetime | None
    state: str
    reason: str
    reason_parts: Sequence[ReasonPart]
    node_id: int | None
    next_wake_at: datetime | None
    attempt: int | None
    max_attempts: int | None
    abandoned: int
    engine_alive: bool
    signal: str | None
    as_of: datetime


class Activity(NamedTuple):
    """The runs idle for as long as was asked, the worst first; how many runs have not ended in
    all, and as of when.
    """

    rows: tuple[ActivityRow, ...]
    live: int
    as_of: datetime


def activity(conn: Connection, idle_for: timedelta = timedelta(0), most: int = MOST) -> Activity:
    """Read the live runs in which nothing has moved for `idle_for`, at most `most` of them."""
    with conn.cursor(row_factory=class_row(ActivityRow)) as cursor:
        rows = cursor.execute("SELECT * FROM df._activity(%s, %s)", (idle_for, most)).fetchall()
    with conn.cursor(row_factory=tuple_row) as cursor:
        counted = cursor.execute("SELECT df._live_runs(), df.now()").fetchone()
    assert counted is not None  # one row, always
    live, now = counted
    return Activity(tuple(rows), live, rows[0].as_of if rows else now)
