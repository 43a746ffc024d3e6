"""HTTP policies in a picture: what a scope's frame says, and why a step inside of it waits.

What the database knows of them is read by `store.explain`; frames are drawn by `picture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from workbench.store.explain_records import HeldRow, ScopeRow
from workbench.views.clock import At, Piece

__all__ = ["Limit", "held_pieces", "limits"]

_SETTINGS = {"http ceiling": "max_http_concurrency", "activity ceiling": "max_activity_concurrency"}
_CEILINGS = {"http ceiling": "HTTP ceiling", "activity ceiling": "activity ceiling"}
_SHOWN = 3  # holders named on a card; the text form has ten


class Limit(NamedTuple):
    """What stands above a scope: its limit, its id, and how full it is."""

    most: int
    scope: str = ""
    facts: str = ""
    full: bool = False


def limits(scopes: Sequence[ScopeRow], *, ended: bool) -> dict[int, Limit]:
    """Return the scopes of a run by their nodes; of one that has ended nothing is in use."""
    return {row.node_id: _limit(row, ended) for row in scopes}


def held_pieces(held: HeldRow, run_id: str) -> tuple[Piece, ...]:
    """Say what holds an HTTP step back: its place in line, and who is in since when."""
    if held.place is None:
        full = f"{held.in_use} of {held.max_concurrency}"
        setting = _SETTINGS[held.barrier]
        said: tuple[Piece, ...] = (f"{_CEILINGS[held.barrier]} {full} (setting {setting}): ",)
    else:
        said = (f"{_ordinal(held.place)} in line for {held.barrier}, held by ",)
    for number, holder in enumerate(held.holders[:_SHOWN]):
        said += (", " if number else "", *_holder(holder, run_id))
    more = len(held.holders) - _SHOWN
    return (*said, f" and {more} more") if more > 0 else said


def _limit(row: ScopeRow, ended: bool) -> Limit:
    if ended:
        return Limit(row.max_concurrency, row.scope)
    facts = f"{row.in_use} in use · {row.waiting} waiting"
    return Limit(row.max_concurrency, row.scope, facts, row.in_use >= row.max_concurrency)


def _holder(holder: dict[str, Any], run_id: str) -> tuple[Piece, ...]:
    if (others := holder.get("others")) is not None:
        return ("another role's run" if others == 1 else f"{others} of other roles' runs",)
    name = "a cancelled one" if holder["node"] is None else f"#{holder['node']}"
    of = "" if holder["run"] == run_id else f" of {holder['run']}"
    since: tuple[Piece, ...] = ()
    if holder["since"] is not None:
        since = (" since ", At(datetime.fromisoformat(holder["since"])))
    return (f"{name}{of}", *since, f" on {holder['engine']}")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 < number % 100 < 14 else ending}"
