"""What is said of lineages and failures: one frozen dataclass a kind of row, plain data.

Views take these, so this module imports no database. The queries are in `lineage`, their SQL in
`functions/33_lineage.sql` and `functions/34_failures.sql`. All times carry a zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from workbench.store.records import Error

__all__ = ["DiffRow", "FailureRow", "LineageRow", "UnresolvedRow"]


@dataclass(frozen=True, slots=True)
class LineageRow:
    """One run of a lineage, in the order of a printed tree: each is followed by its retries, the
    oldest first, and theirs.

    `position` counts from 1, `depth` from 0. `kind` is start, retry or resume. `error` is one
    line, None for a run without one. `is_latest` marks the newest run that nobody has retried.
    """

    run_id: str
    restart_of_run_id: str | None
    position: int
    depth: int
    kind: str
    status: str
    label: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    is_latest: bool


@dataclass(frozen=True, slots=True)
class UnresolvedRow:
    """A failed run of which no retry, and no retry of a retry, has completed.

    `newest_retry` is the last one made of this very run, whatever became of it; None when there is
    none, so this run is the one to retry.
    """

    run_id: str
    label: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime
    error: str | None
    restart_of_run_id: str | None
    newest_retry: str | None
    newest_retry_status: str | None


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Failed attempts that are one failure: one label, one node, one code, one message but for its
    literals.

    `node` is a name, or `#` and the number in pre-order; `code` a SQLSTATE, or an exception's type.
    `fingerprint` stands for these four, 12 hex digits. `attempts` and `runs` are counts; the
    example is the attempt seen last.
    """

    fingerprint: str
    label: str | None
    node: str
    code: str
    message: str
    attempts: int
    runs: int
    first_seen: datetime
    last_seen: datetime
    example_run_id: str
    example_node_id: int
    example_rev: int
    example_error: Error | None


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One thing that differs between a run and its source; None: not set there.

    `what` is handler, engine, setting, variable, policy, input or database.
    """

    what: str
    name: str
    before: str | None
    after: str | None
