"""Starting runs: which database is meant, and the call of `df._start` with its errors in the words
of this package.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from workbench.errors import GraphError, UsageError
from workbench.store import embedded
from workbench.store.database import conninfo
from workbench.store.migrate import migrate

__all__ = ["EMBEDDED_CEILINGS", "Start", "start", "target"]

#: What runs at once on the embedded database, whose user is its administrator; a server starts with
#: 2 of each, since it serves others too.
EMBEDDED_CEILINGS = {"max_activity_concurrency": "32", "max_http_concurrency": "8"}

_CALL = "SELECT df._start(%s, %s, %s, 'caller', %s, %s, %s, %s, %s, %s, %s)"


@dataclass(frozen=True)
class Start:
    """The arguments of a start; `graph`, `input` and `variables` are JSON text."""

    graph: str
    label: str | None
    database: str | None
    max_attempts: int
    max_backoff: float | timedelta | str
    on_failure: str
    idempotency_key: str | None
    on_conflict: str
    input: str
    variables: str


def target(home: str | Path | None) -> str:
    """The database that `connect` means without a DSN; the embedded one is made ready for use."""
    if home is None and (named := os.environ.get("WORKBENCH_DSN")):
        return conninfo(named)
    dsn = embedded.ensure(None if home is None else Path(home))
    migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name, value in EMBEDDED_CEILINGS.items():
            conn.execute(
                "INSERT INTO df.settings VALUES (%s, %s) ON CONFLICT (name) DO NOTHING",
                (name, value),
            )
    return dsn


def start(conn: psycopg.Connection[Any], call: Start) -> str:
    """Start a run in the connection's transaction; the new run's id.

    Raises
    ------
    GraphError
        The graph was refused.
    UsageError
        An argument was refused.
    """
    try:
        row = conn.execute(_CALL, _arguments(call)).fetchone()
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as refused:
        message = refused.diag.message_primary or str(refused)
        kind = GraphError if message.startswith("Invalid durable function") else UsageError
        hint = f" {refused.diag.message_hint}" if refused.diag.message_hint else ""
        raise kind(
            f"{message}.{hint} Nothing was started."
            if not message.endswith(".")
            else f"{message}{hint}"
        ) from None
    assert row is not None
    return str(row[0])


def _arguments(call: Start) -> tuple[object, ...]:
    for name in ("label", "idempotency_key", "database"):
        text = getattr(call, name)
        if text is not None and (not isinstance(text, str) or "\x00" in text):
            raise UsageError(
                f"{name} must be text without NUL (\\x00), not {text!r:.80}: nothing was started"
            )
    if isinstance(call.max_attempts, bool) or not isinstance(call.max_attempts, int):
        raise UsageError(
            f"max_attempts must be a whole number from 1, not {call.max_attempts!r}: nothing was started"
        )
    return (
        call.graph, call.label, call.database, call.max_attempts, _interval(call.max_backoff), call.on_failure,
        call.idempotency_key, call.on_conflict, call.input, call.variables,
    )  # fmt: skip


def _interval(value: float | timedelta | str) -> timedelta | str:
    if isinstance(value, bool) or not isinstance(value, int | float | str | timedelta):
        raise UsageError(
            f"max_backoff takes seconds, a timedelta or text like '10 minutes', not {value!r}: nothing was started"
        )
    if isinstance(value, int | float):
        try:
            return timedelta(seconds=value)
        except (ValueError, OverflowError):
            raise UsageError(
                f"max_backoff={value!r} is no length of time: nothing was started"
            ) from None
    return value
