"""What keeps a node from going on, and what came of its branches: one sentence, in words.

Sentences are pieces (`clock.Piece`), so that times in them stay current in a live picture. Errors
of steps are not here but in `step_detail`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from workbench.store.records import NodeRow
from workbench.views.clock import At, Left, Piece
from workbench.views.run_data import RunData
from workbench.views.titles import config
from workbench.views.words import listed, one_line

__all__ = ["Reason", "reason"]

_OVER = ("completed", "failed", "cancelled", "skipped")


class Reason(NamedTuple):
    """A sentence, and the status whose look it has."""

    look: str
    pieces: tuple[Piece, ...]


def reason(data: RunData, node: NodeRow) -> Reason | None:
    """Say why a node waits, or which of its branches decides; None when there is nothing to say."""
    if node.node_type in ("JOIN", "RACE"):
        return _branches(data, node)
    if node.node_type == "MAP" and node.size is not None:
        return _elements(data, node)
    if node.status == "running" and node.progress is not None:
        return Reason("running", (_progress(node.progress),))
    if node.node_type == "LOOP" and node.abandoned:
        return _abandoned(data, node)
    if node.status == "waiting" and (say := _WAITS.get(node.node_type)):
        return Reason("waiting", say(node, data.run.as_of))
    if node.node_type == "SIGNAL" and node.status == "completed" and _timed_out(node):
        return Reason("skipped", ("timed out",))
    if node.status == "ready" and node.handler in data.run.missing_handlers:
        return Reason("retrying", (f"no live engine has the handler {node.handler}",))
    return None


def _sleep(node: NodeRow, now: datetime) -> tuple[Piece, ...]:
    return _due("wakes", node.ready_at, now)


def _schedule(node: NodeRow, now: datetime) -> tuple[Piece, ...]:
    return _due("fires", node.ready_at, now) + _in_its_zone(node)


def _signal(node: NodeRow, now: datetime) -> tuple[Piece, ...]:
    name = one_line(str(config(node).get("signal_name", "?")))
    found: tuple[Piece, ...] = (f"waits for signal {name}",)
    if node.started_at is not None:
        found += (" since ", At(node.started_at))
    return (
        found if node.ready_at is None else (*found, ", ", *_due("times out", node.ready_at, now))
    )


def _external(node: NodeRow, now: datetime) -> tuple[Piece, ...]:
    name = one_line(str(config(node).get("handler", "?")))
    found: tuple[Piece, ...] = (f"waits for a worker to claim {name}",)
    return found if node.started_at is None else (*found, " since ", At(node.started_at))


def _next_iteration(node: NodeRow, now: datetime) -> tuple[Piece, ...]:
    return _due(f"iteration {node.iteration + 1:,} begins", node.ready_at, now)


_WAITS: Final[dict[str, Callable[[NodeRow, datetime], tuple[Piece, ...]]]] = {
    "SLEEP": _sleep,
    "WAIT_SCHEDULE": _schedule,
    "SIGNAL": _signal,
    "EXTERNAL": _external,
    "LOOP": _next_iteration,
}


def _due(what: str, at: datetime | None, now: datetime) -> tuple[Piece, ...]:
    if at is None:
        return (what,)
    if at <= now:  # an engine that is alive is about to do it
        return (f"{what} now: it was due at ", At(at))
    return (f"{what} at ", At(at), ", in ", Left(at))


def _in_its_zone(node: NodeRow) -> tuple[Piece, ...]:
    """Name the time by the clock that the schedule goes by."""
    zone = str(config(node).get("timezone", "UTC"))
    if node.ready_at is None:
        return ()
    try:
        local = node.ready_at.astimezone(ZoneInfo(zone))
    except (ValueError, OSError):  # no such zone on this machine
        return (f" ({zone})",)
    return (f" ({local:%a %H:%M} in {zone})",)


def _abandoned(data: RunData, node: NodeRow) -> Reason:
    """A loop that goes on although its last iterations failed."""
    many = (
        "the last iteration was"
        if node.abandoned == 1
        else f"{node.abandoned:,} iterations in a row were"
    )
    ended = data.iterations_of.get(node.node_id, ())
    error = (ended[-1].error if ended else None) or node.error or {}
    why = one_line(str(error.get("message") or error.get("type") or ""))[:160]
    said: tuple[Piece, ...] = (f"{many} abandoned", f": {why}" if why else "")
    if node.status == "waiting":
        said += ("; ", *_next_iteration(node, data.run.as_of))
    return Reason("retrying" if node.status not in _OVER else "skipped", said)


def _branches(data: RunData, node: NodeRow) -> Reason | None:
    """A failed branch of a JOIN is waited with; that of a RACE decides it."""
    branches = data.children.get(node.node_id, [])
    failed = [number for number, each in enumerate(branches, 1) if each.status == "failed"]
    if not failed or node.status in ("cancelled", "skipped", "pending"):
        return None
    said = f"{'branch' if len(failed) == 1 else 'branches'} {listed(failed)} failed"
    left = sum(each.status not in _OVER for each in branches)
    if node.status == "running" and left:
        said += f"; waits for {left:,} more"
    return Reason("failed", (said,))


def _elements(data: RunData, node: NodeRow) -> Reason | None:
    """How many elements of a map are done, and which of them failed."""
    elements = data.children.get(node.node_id, [])
    failed = [number for number, each in enumerate(elements) if each.status == "failed"]
    done = sum(each.status == "completed" for each in elements)
    said = [] if node.status == "completed" else [f"{done:,} of {len(elements):,} elements done"]
    if failed:
        more = f" and {len(failed) - 5:,} more" if len(failed) > 5 else ""
        which = ", ".join(map(str, failed[:5])) if more else listed(failed)
        said.append(f"{'element' if len(failed) == 1 else 'elements'} {which}{more} failed")
    return Reason("failed" if failed else "running", ("; ".join(said),)) if said else None


def _progress(said: Mapping[str, Any]) -> str:
    note = said.get("note")
    percent = f"{int(float(said.get('fraction', 0)) * 100)} %"
    return percent if not note else f"{percent}, {one_line(str(note))}"


def _timed_out(node: NodeRow) -> bool:
    try:
        found = json.loads(node.result_preview or "null")
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("timed_out") is True
