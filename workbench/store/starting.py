"""Starting runs: which database is meant, and the call of `df._start` with its errors in the words
of this package.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from workbench.errors import DatabaseError, GraphError, UsageError
from workbench.graph.handlers import is_importing
from workbench.store import embedded
from workbench.store.database import conninfo
from workbench.store.migrate import migrate

__all__ = ["EMBEDDED_CEILINGS", "Start", "start", "target"]

#: What runs at once on the embedded database, whose user is its administrator; a server starts with
#: 2 of each, since it serves others too.
EMBEDDED_CEILINGS = {"max_activity_concurrency": "32", "max_http_concurrency": "8"}

_CALL = "SELECT df._start(%s, %s, %s, 'caller', %s, %s, %s, %s, %s, %s, %s, %s)"


#: Characters of a label: it is shown whole, in lists.
MAX_LABEL = 1000


@dataclass(frozen=True)
class Start:
    """The arguments of a start; `graph` and `input` are JSON text, `vars` a mapping of text.

    `tell`: notify the engines of this role, since none is called up directly.
    """

    graph: str
    label: str | None
    database: str | None
    max_attempts: int
    max_backoff: float | timedelta | str
    on_failure: str
    idempotency_key: str | None
    on_conflict: str
    input: str
    vars: object
    tell: bool = True


def target(home: str | Path | None) -> str:
    """The database that `connect` means without a DSN; the embedded one is made ready for use."""
    if home is None and (named := os.environ.get("WORKBENCH_DSN")):
        return conninfo(named)
    if home is not None and not str(home).strip():
        raise UsageError(
            "an empty home names no directory (an unset variable?); connect() without one uses the "
            "user's data directory"
        )
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
    DatabaseError
        The role lacks a right.
    """
    if is_importing():
        raise UsageError(
            "an engine is importing this module for a handler in it, and the module starts a run: nothing was "
            'started. Put what a script does below `if __name__ == "__main__":`.'
        )
    try:
        with _notices_as_warnings(conn):
            row = conn.execute(_CALL, _arguments(call)).fetchone()
    except psycopg.errors.InsufficientPrivilege as refused:
        raise DatabaseError(
            f"{_reason(refused)} Nothing was started. The schema's owner grants what is missing."
        ) from None
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as refused:
        reason = _reason(refused)
        kind = GraphError if reason.startswith("Invalid durable function") else UsageError
        raise kind(f"{reason} Nothing was started.") from None
    assert row is not None
    return str(row[0])


@contextmanager
def _notices_as_warnings(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """What the server thinks of a graph, where its user sees it."""

    def warn(notice: psycopg.errors.Diagnostic) -> None:
        hint = f". {notice.message_hint}" if notice.message_hint else ""
        told.append(f"{notice.message_primary}{hint}")

    told: list[str] = []
    conn.add_notice_handler(warn)
    try:
        yield
    finally:
        conn.remove_notice_handler(warn)
    for text in told:
        warnings.warn(text, stacklevel=5)  # the caller of Bench.start


def _reason(refused: psycopg.Error) -> str:
    """The server's sentence, and its hint."""
    message = (refused.diag.message_primary or str(refused)).rstrip(".")
    hint = f" {refused.diag.message_hint}" if refused.diag.message_hint else ""
    return f"{message}.{hint}"


def _arguments(call: Start) -> tuple[object, ...]:
    for name in ("label", "idempotency_key", "database", "on_failure", "on_conflict"):
        if (text := getattr(call, name)) is not None:
            _check_text(name, text)
    if call.label is not None and len(call.label) > MAX_LABEL:
        raise UsageError(
            f"label has {len(call.label)} characters; at most {MAX_LABEL} fit into lists: nothing was started. "
            "Longer text belongs into input."
        )
    attempts: object = call.max_attempts
    if isinstance(attempts, bool) or not isinstance(attempts, int) or not 0 < attempts < 2**31:
        raise UsageError(
            f"max_attempts must be a whole number from 1 to 2147483647, not {attempts!r}: nothing was started"
        )
    return (
        call.graph, call.label, call.database, call.max_attempts, _interval(call.max_backoff), call.on_failure,
        call.idempotency_key, call.on_conflict, call.input, _variables(call.vars), call.tell,
    )  # fmt: skip


def _check_text(name: str, text: object) -> None:
    """UsageError unless Postgres can hold it."""
    try:
        fine = isinstance(text, str) and b"\x00" not in text.encode()
    except UnicodeEncodeError:
        fine = False
    if not fine:
        raise UsageError(
            f"{name} must be text without NUL (\\x00) and lone surrogates, not {text!r:.80}: nothing was started"
        )


def _variables(given: object) -> str:
    """`vars` as JSON text."""
    if not isinstance(given, Mapping):
        raise UsageError(
            f"vars is a mapping of names to text, not {type(given).__name__}: nothing was started"
        )
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise UsageError(
                f"vars[{name!r}] is a {type(value).__name__}: variables are text, e.g. str({value!r}). "
                "Nothing was started."
            )
        _check_text("the name of a variable", name)
        _check_text(f"vars[{name!r}]", value)
    return json.dumps(dict(given), ensure_ascii=False)


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
    if isinstance(value, str):
        _check_text("max_backoff", value)
    return value
