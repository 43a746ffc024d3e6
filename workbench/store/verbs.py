"""One function for each verb of an engine: the statement that asks Postgres for it, and how its
rows read.

The bodies are in `functions/40_engine.sql` and `50_liveness.sql`. Statements are composed into
pipelines by the engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from psycopg import pq

from workbench.store.wire import Statement, rows

BEGIN = Statement(b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
COMMIT = Statement(b"COMMIT")
ROLLBACK = Statement(b"ROLLBACK")
UNLOCK = Statement(b"SELECT pg_advisory_unlock_all()")
DATABASE = Statement(b"SELECT current_database()")


class RunRow(NamedTuple):
    """A run as `df._load` and `df._due` return it; `graph`, `input`, `vars` and `nodes` are JSON
    text. `signalled`: there are signals that no wait has taken; `reported`: outside workers have
    reported about steps of it.
    """

    id: str
    status: str
    version: int
    graph: str
    label: str | None
    input: str
    vars: str
    database: str | None
    max_attempts: int
    max_backoff: float
    on_failure: str
    nodes: str | None
    signalled: bool
    reported: bool


class LockedRow(NamedTuple):
    """A locked run; `nodes` is what changed since the caller's copy, None when it is current.
    The status `deleted` stands for a run that is not there.
    """

    id: str
    status: str
    version: int
    nodes: str | None


class SignalRow(NamedTuple):
    """A signal that no wait has taken; `data` is JSON text, None when nothing waits for it."""

    run: str
    id: int
    name: str
    sent_at: datetime
    data: str | None


class TaskReport(NamedTuple):
    """What an outside worker has said of the step that it had claimed: its output, JSON text, or an
    error, with the delay in seconds that it asks for.
    """

    run: str
    node: int
    token: str
    started_at: datetime
    input: str
    output: str | None
    error: str | None
    delay: float | None


class ClaimedRow(NamedTuple):
    """A leaf that is now this engine's to execute."""

    run: str
    node: int
    token: str
    rev: int
    ready_at: datetime
    suspect: bool


class Survey(NamedTuple):
    """The database's clock; in how many seconds something is due that is not yet; whether a ready
    leaf has been waiting for room.
    """

    at: datetime
    next_due: float | None
    waits: bool


class Leaf(NamedTuple):
    """A running leaf as the database sees it."""

    run: str
    node: int
    token: str


class Watched(NamedTuple):
    """Another engine: `held` says whether its lock is there, `trust_in` for how many seconds the
    server has had its sessions if it lost all since the engine was heard of, else infinite.
    """

    id: str
    held: bool
    last_seen_at: str
    trust_in: float


def array(items: Iterable[str]) -> bytes:
    """A text-format array of any strings."""
    quoted = ('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items)
    return ("{" + ",".join(quoted) + "}").encode()


def _number(value: int) -> bytes:
    return b"%d" % value


def due(most: int) -> Statement:
    return Statement(b"SELECT * FROM df._due($1)", (_number(most),), prepared=True)


def load(runs: Iterable[str]) -> Statement:
    return Statement(b"SELECT * FROM df._load($1, '{}')", (array(runs),), prepared=True)


def lock(runs: Sequence[str], versions: Sequence[int]) -> Statement:
    return Statement(
        b"SELECT * FROM df._lock($1, $2)", (array(runs), array(map(str, versions))), prepared=True
    )


def lock_one(run: str, version: int) -> Statement:
    """For a step's session, which keeps no prepared statements."""
    return Statement(b"SELECT df._lock_one($1, $2)", (run.encode(), _number(version)))


def claim(
    engine: str, tokens: Sequence[str], handlers: Iterable[str], *, suspect: bool, since: datetime
) -> Statement:
    return Statement(
        b"SELECT * FROM df._claim($1, $2, $3, $4, $5)",
        (
            engine.encode(),
            array(tokens),
            array(handlers),
            b"t" if suspect else b"f",
            since.isoformat().encode(),
        ),
        prepared=True,
    )


def checkpoint(
    engine: str,
    at: datetime,
    documents: Sequence[str | None],
    *,
    tell: bool = False,
    frees: bool = False,
    prepared: bool = True,
) -> Statement:
    """`documents` are the JSON arrays of `df._checkpoint`, from `runs` to `signals`."""
    return Statement(
        b"SELECT df._checkpoint($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        (
            engine.encode(),
            at.isoformat().encode(),
            *(None if document is None else document.encode() for document in documents),
            b"t" if tell else b"f",
            b"t" if frees else b"f",
        ),
        prepared,
    )


def named(run: str, scopes: Iterable[int], names: Iterable[str]) -> Statement:
    return Statement(
        b"SELECT * FROM df._named($1, $2, $3)",
        (run.encode(), array(map(str, scopes)), array(names)),
        prepared=True,
    )


def signals(locked: Iterable[str], waits: Sequence[tuple[str, str]]) -> Statement:
    """`waits` are pairs of run and the name of a signal that its graph waits for."""
    return Statement(
        b"SELECT * FROM df._signals($1, $2, $3)",
        (array(locked), array(run for run, _ in waits), array(name for _, name in waits)),
        prepared=True,
    )


def reports(locked: Iterable[str]) -> Statement:
    return Statement(b"SELECT * FROM df._reports($1)", (array(locked),), prepared=True)


def offer(at: datetime, offered: str) -> Statement:
    """`offered` is the JSON array of `df._offer`."""
    return Statement(
        b"SELECT df._offer($1, $2)", (at.isoformat().encode(), offered.encode()), prepared=True
    )


def survey(handlers: Iterable[str]) -> Statement:
    return Statement(b"SELECT * FROM df._survey($1)", (array(handlers),), prepared=True)


def note_progress(said: str) -> Statement:
    """`said` is the JSON array of `df._note_progress`."""
    return Statement(b"SELECT df._note_progress($1)", (said.encode(),), prepared=True)


def released(engine: str, tokens: Iterable[str]) -> Statement:
    return Statement(
        b"SELECT df._released($1, $2)", (engine.encode(), array(tokens)), prepared=True
    )


def goes_autocommit(leaf: Leaf) -> Statement:
    """For a step's session; its one value is true when the leaf is still that claim's."""
    return Statement(b"SELECT df._goes_autocommit($1, $2, $3)", _leaf(leaf))


def _leaf(leaf: Leaf) -> tuple[bytes, ...]:
    return (leaf.run.encode(), _number(leaf.node), leaf.token.encode())


def wanted_handlers(known: Iterable[str]) -> Statement:
    return Statement(b"SELECT * FROM df._wanted_handlers($1)", (array(known),), prepared=True)


def enter(
    engine: str, host: str, pid: int, version: str, schema_version: int, ceilings: tuple[int, int]
) -> Statement:
    """`ceilings` are those of activities and of HTTP requests over all engines."""
    return Statement(
        b"SELECT df._enter($1, $2, $3, $4, $5, $6, $7)",
        (
            engine.encode(),
            host.encode(),
            _number(pid),
            version.encode(),
            _number(schema_version),
            *map(_number, ceilings),
        ),
    )


def retake(engine: str) -> Statement:
    return Statement(b"SELECT df._retake($1)", (engine.encode(),))


def beat(engine: str, handlers: Iterable[str] | None, *, alone: bool) -> Statement:
    names = None if handlers is None else array(handlers)
    return Statement(
        b"SELECT * FROM df._beat($1, $2, $3)",
        (engine.encode(), names, b"t" if alone else b"f"),
        prepared=True,
    )


def watch(engine: str) -> Statement:
    return Statement(b"SELECT * FROM df._watch($1)", (engine.encode(),), prepared=True)


def bury(engine: str, seen: str) -> Statement:
    return Statement(b"SELECT df._bury($1, $2)", (engine.encode(), seen.encode()), prepared=True)


def leave(engine: str) -> Statement:
    return Statement(b"SELECT df._leave($1)", (engine.encode(),))


def add_session(engine: str, backend: int) -> Statement:
    return Statement(b"SELECT df._add_session($1, $2)", (engine.encode(), _number(backend)))


def end_sessions() -> Statement:
    return Statement(b"SELECT df._end_sessions()", prepared=True)


def orphans(most: int) -> Statement:
    return Statement(b"SELECT * FROM df._orphans($1)", (_number(most),), prepared=True)


def held(engine: str) -> Statement:
    return Statement(b"SELECT * FROM df._held($1)", (engine.encode(),), prepared=True)


def releasing(engine: str) -> Statement:
    return Statement(b"SELECT df._releasing($1)", (engine.encode(),), prepared=True)


def revive(most: int) -> Statement:
    return Statement(b"SELECT df._revive($1)", (_number(most),), prepared=True)


def fail_orphaned(most: int) -> Statement:
    return Statement(b"SELECT df._fail_orphaned_runs($1)", (_number(most),), prepared=True)


def prune(most: int) -> Statement:
    return Statement(b"SELECT df._prune($1)", (_number(most),), prepared=True)


def setting(name: str) -> Statement:
    return Statement(b"SELECT df._setting($1)", (name.encode(),))


# How the rows read.


def read_runs(result: pq.abc.PGresult) -> list[RunRow]:
    return [
        RunRow(
            r[0], r[1], int(r[2]), r[3], r[4], r[5], r[6], r[7], int(r[8]), float(r[9]), r[10], r[11],
            r[12] == "t", r[13] == "t"
        )
        for r in _texts(result)
    ]  # fmt: skip


def read_signals(result: pq.abc.PGresult) -> list[SignalRow]:
    return [
        SignalRow(r[0], int(r[1]), r[2], datetime.fromisoformat(r[3]), r[4]) for r in _texts(result)
    ]


def read_reports(result: pq.abc.PGresult) -> list[TaskReport]:
    return [
        TaskReport(
            r[0], int(r[1]), r[2], datetime.fromisoformat(r[3]), r[4], r[5], r[6],
            None if r[7] is None else float(r[7])
        )
        for r in _texts(result)
    ]  # fmt: skip


def read_survey(result: pq.abc.PGresult) -> Survey:
    at, next_due, waits = rows(result)[0]
    seconds = None if next_due is None else float(next_due)
    return Survey(datetime.fromisoformat(str(at)), seconds, waits == "t")


def read_locked(result: pq.abc.PGresult) -> list[LockedRow]:
    return [LockedRow(r[0], r[1], int(r[2]), r[3]) for r in _texts(result)]


def read_locked_one(result: pq.abc.PGresult) -> tuple[list[LockedRow], datetime | None]:
    """The run of a step, and the clock; nothing when it is gone."""
    text = rows(result)[0][0]
    if text is None:
        return [], None
    run, status, version, nodes, at = json.loads(text)
    return [LockedRow(run, status, version, nodes)], datetime.fromisoformat(at)


def read_claims(result: pq.abc.PGresult) -> tuple[list[ClaimedRow], bool]:
    """The claims, and whether a ceiling or a scope has kept others back."""
    found = _texts(result)
    held_back = bool(found) and found[-1][0] is None
    return [
        ClaimedRow(r[0], int(r[1]), r[2], int(r[3]), datetime.fromisoformat(r[4]), r[5] == "t")
        for r in (found[:-1] if held_back else found)
    ], held_back


def read_orphans(result: pq.abc.PGresult) -> list[tuple[Leaf, str | None]]:
    """Each leaf, and how it was lost; None when it was left behind in order."""
    return [(Leaf(r[0], int(r[1]), r[2]), r[3]) for r in _texts(result)]


def read_leaves(result: pq.abc.PGresult) -> list[Leaf]:
    return [Leaf(r[0], int(r[1]), r[2]) for r in _texts(result)]


def read_watched(result: pq.abc.PGresult) -> list[Watched]:
    return [Watched(r[0], r[1] == "t", r[2], float(r[3])) for r in _texts(result)]


def _texts(result: pq.abc.PGresult) -> list[list[Any]]:
    """`rows`, for columns of which the schema says which may be NULL."""
    return rows(result)
