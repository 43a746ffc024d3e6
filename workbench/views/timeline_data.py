"""When everything in a run happened: attempts, the waits between and before them, iterations.

Pure functions of `RunData`. A wait has a source: who chose it or what it was for. How it looks is in
`timeline_html` and `timeline_figure`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from workbench.store.records import AttemptRow, Error, IterationRow, NodeRow
from workbench.views.run_data import RunData, visible
from workbench.views.titles import title

__all__ = ["LINES", "SOURCES", "Line", "Span", "bounds", "drawn", "lines"]

LINES = 200  # drawn at once
_SPANS = 3000  # drawn in all of them, and in each at least so many, the last ones
_SPANS_EACH = 20

SOURCES: Final[Mapping[str, str]] = {
    "backoff": "backoff",
    "retry_after": "retry_after",
    "http_retry_after": "Retry-After",
    "worker_lost": "worker lost",
    "schedule": "schedule",
    "signal": "signal",
    "sleep": "sleep",
    "interval": "loop interval",
    "capacity": "capacity",
}
"""Every source of a wait, and how it is said."""

_WAITS: Final = {
    "SLEEP": "sleep",
    "WAIT_SCHEDULE": "schedule",
    "SIGNAL": "signal",
    "LOOP": "interval",
}
_OVER: Final = frozenset({"completed", "failed", "cancelled", "skipped"})
_HELD_BACK = timedelta(seconds=1)  # after that a ready step is said to wait for room


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted.

    `kind` is attempt, wait or iteration. `word` is the outcome (completed, failed, worker_lost,
    cancelled, running, abandoned), or the source of a wait. `end` is None while it goes on; a wait
    whose end is known has it also when that is to come. `delay`, in seconds, was chosen after a
    failed attempt, by `delay_source`.
    """

    kind: str
    node: int
    start: datetime
    end: datetime | None
    word: str
    attempt: int | None = None
    iteration: int | None = None
    error: Error | None = None
    delay: float | None = None
    delay_source: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A node and what happened to it, in the order of starts; `level` is how deep it is nested."""

    node: NodeRow
    name: str
    level: int
    spans: tuple[Span, ...]


def lines(data: RunData, *, fold: bool = True) -> list[Line]:
    """Return a line for each leaf and each loop that has begun.

    Parameters:
        fold: of the nodes in a loop show the iteration under way only; its own line has them all.
            Else all iterations that are kept.
    """
    ended = data.attempts_of if fold else _by_node(data.attempts)
    ranges = _ranges(data)
    found = []
    for level, node, _ in visible(data):
        loop = ranges.get(node.node_id)
        spans = tuple(_spans(data, node, ended.get(node.node_id, ()), loop))
        if spans:
            found.append(Line(node, _name(data, node), level, spans))
    return found


def drawn(shown: Sequence[Line]) -> list[Line]:
    """Return what a picture has room for: the first lines, and of each the last spans."""
    first = shown[:LINES]
    each = max(_SPANS // max(len(first), 1), _SPANS_EACH)
    return [replace(line, spans=line.spans[-each:]) for line in first]


def bounds(data: RunData, shown: Sequence[Line]) -> tuple[datetime, datetime]:
    """Return the first and the last moment to draw; never the same."""
    spans = [span for line in shown for span in line.spans]
    first = min([span.start for span in spans], default=data.run.started_at or data.run.created_at)
    last = data.run.finished_at or data.as_of
    last = max(
        [
            last,
            *(span.end for span in spans if span.end is not None and span.end < _far(last, first)),
        ]
    )
    return first, max(last, first + timedelta(milliseconds=10))


def _far(last: datetime, first: datetime) -> datetime:
    """What ends later than that, a sleep of a year, is cut off: else nothing else could be seen."""
    return last + max((last - first) * 0.5, timedelta(seconds=2))


def _spans(
    data: RunData, node: NodeRow, ended: Sequence[AttemptRow], loop: _Range | None
) -> Iterator[Span]:
    if node.node_type == "LOOP":
        yield from _iterations(data, node)
        return
    for index, attempt in enumerate(ended):
        following = ended[index + 1] if index + 1 < len(ended) else None
        yield _attempt(attempt, loop)
        yield from _between(data, node, attempt, following, loop)
    yield from _under_way(data, node, bool(ended))


def _attempt(row: AttemptRow, loop: _Range | None) -> Span:
    start = row.started_at or row.finished_at
    return Span(
        "attempt",
        row.node_id,
        start,
        row.finished_at,
        row.outcome,
        row.attempt,
        None if loop is None else loop.iteration_at(start),
        row.error,
        row.delay,
        row.delay_source,
    )


def _between(
    data: RunData,
    node: NodeRow,
    ended: AttemptRow,
    following: AttemptRow | None,
    loop: _Range | None,
) -> Iterator[Span]:
    """The wait after an attempt: what was chosen, and for how much longer there was no room."""
    if ended.delay is None:
        return
    begins = following.started_at if following else _next_start(node)
    iteration = None if loop is None else loop.iteration_at(ended.started_at or ended.finished_at)
    due = ended.finished_at + timedelta(seconds=ended.delay)
    source = ended.delay_source or "backoff"
    until = begins if begins is not None and begins < due else due  # somebody said: now
    if until > ended.finished_at:
        yield Span("wait", node.node_id, ended.finished_at, until, source, ended.attempt, iteration)
    held = (begins or data.as_of) - due
    if held > _HELD_BACK and (following or node.status in ("ready", "running")):
        word = "capacity" if ended.delay else source
        yield Span("wait", node.node_id, due, begins, word, ended.attempt, iteration)


def _next_start(node: NodeRow) -> datetime | None:
    return node.started_at if node.status == "running" else None


def _under_way(data: RunData, node: NodeRow, has_ended: bool) -> Iterator[Span]:
    """What has no row in the attempts: a wait, an attempt that runs, a step held back."""
    if (source := _WAITS.get(node.node_type)) is not None:
        if node.started_at is not None and node.status != "pending":
            end = node.finished_at if node.status in _OVER else node.ready_at
            yield Span("wait", node.node_id, node.started_at, end, source)
    elif node.status == "running" and node.started_at is not None and node.engine_id:
        yield Span("attempt", node.node_id, node.started_at, None, "running", node.attempt + 1)
    elif (
        node.status == "ready"
        and node.ready_at is not None
        and not has_ended
        and (data.as_of - node.ready_at > _HELD_BACK)
    ):
        yield Span("wait", node.node_id, node.ready_at, None, "capacity")


def _iterations(data: RunData, node: NodeRow) -> Iterator[Span]:
    """The iterations of a loop, and the waits between them that its pace makes."""
    since: datetime | None = None
    for row in data.iterations_of.get(node.node_id, ()):
        yield from _pause(node, since, row.started_at, row.iteration - 1)
        since = row.finished_at
        word = "abandoned" if row.error else "completed"
        yield _iteration(node, row.started_at, since, word, row.iteration, row.error)
    if node.started_at is None:
        return
    if node.status == "waiting":
        begun = since or node.started_at
        yield Span("wait", node.node_id, begun, node.ready_at, "interval", None, node.iteration)
    else:
        yield from _pause(node, since, node.started_at, node.iteration - 1)
        yield _iteration(
            node, node.started_at, node.finished_at, node.status, node.iteration, node.error
        )


def _iteration(
    node: NodeRow,
    start: datetime,
    end: datetime | None,
    word: str,
    number: int,
    error: Error | None,
) -> Span:
    return Span("iteration", node.node_id, start, end, word, None, number, error)


def _pause(node: NodeRow, since: datetime | None, until: datetime, number: int) -> Iterator[Span]:
    if since is not None and until > since:
        yield Span("wait", node.node_id, since, until, "interval", None, number)


class _Range:
    """The iterations of a loop that are kept: which one a moment was in."""

    def __init__(self, node: NodeRow, ended: Sequence[IterationRow]) -> None:
        known = [(row.started_at, row.iteration) for row in ended]
        if node.started_at is not None:
            known.append((node.started_at, node.iteration))
        self._starts, self._numbers = [at for at, _ in known], [number for _, number in known]

    def iteration_at(self, moment: datetime) -> int | None:
        place = bisect_right(self._starts, moment)
        return self._numbers[place - 1] if place else None


def _ranges(data: RunData) -> dict[int, _Range]:
    """The innermost loop around each node."""
    found: dict[int, _Range] = {}
    own = {
        node.node_id: _Range(node, data.iterations_of.get(node.node_id, ()))
        for node in data.nodes
        if node.node_type == "LOOP"
    }
    for node in data.nodes:  # parents come first
        if node.parent_id is not None:
            above = own.get(node.parent_id) or found.get(node.parent_id)
            if above is not None:
                found[node.node_id] = above
    return found


def _by_node(attempts: Sequence[AttemptRow]) -> dict[int, list[AttemptRow]]:
    found: dict[int, list[AttemptRow]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.node_id].append(attempt)
    return found


def _name(data: RunData, node: NodeRow) -> str:
    if node.result_name:
        return node.result_name
    named = title(node, len(data.children.get(node.node_id, ())))
    return f"{named.kind} {named.text}".strip() if not named.is_code else named.text or named.kind
