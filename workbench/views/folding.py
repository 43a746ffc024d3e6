"""Which of many steps in a row are drawn: the ends, and those that people look for.

A list of thousands has to stay a picture that is sent in a moment and read at a glance; what is left
out is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final

from workbench.views.status import STATUSES

__all__ = ["stretches", "tally"]

_KEPT = 3  # at either end of what is folded
_LEAST = 5  # what is left out are at least so many
_QUIET: Final = frozenset({"completed", "pending", "ready", "skipped", "cancelled"})
_SOUGHT: Final = ("failed", "retrying", "running", "waiting")  # the first before the others


def stretches(statuses: Sequence[str], most: int) -> list[range]:
    """Return all places in order: those that are drawn one by one, those left out together.

    Of neighbours of one quiet status the middle is left out. Where more than `most` would remain, the
    ends do, and those with the statuses that people look for.
    """
    drawn = _without_middles(statuses)
    if len(drawn) > most:
        drawn = _most_sought(statuses, drawn, most)
    edges = [-1, *drawn, len(statuses)]
    found: list[range] = []
    for before, after in pairwise(edges):
        if after - before > 1:
            found.append(range(before + 1, after))
        if after < len(statuses):
            found.append(range(after, after + 1))
    return found


def tally(counts: Mapping[str, int]) -> str:
    """Say how many have which status: `480 completed, 12 failed`."""
    return ", ".join(f"{counts[word]:,} {word}" for word in STATUSES if word in counts)


def _without_middles(statuses: Sequence[str]) -> list[int]:
    drawn: list[int] = []
    for status, group in groupby(range(len(statuses)), key=statuses.__getitem__):
        same = list(group)
        if status in _QUIET and len(same) >= 2 * _KEPT + _LEAST:
            same = same[:_KEPT] + same[-_KEPT:]
        drawn += same
    return drawn


def _most_sought(statuses: Sequence[str], drawn: Sequence[int], most: int) -> list[int]:
    ranks = {status: rank for rank, status in enumerate(_SOUGHT)}
    inner = sorted(drawn[_KEPT:-_KEPT], key=lambda place: ranks.get(statuses[place], len(ranks)))
    chosen = inner[: max(most - 2 * _KEPT, 0)]
    return sorted([*drawn[:_KEPT], *chosen, *drawn[-_KEPT:]])
