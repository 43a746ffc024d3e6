"""`LineageData`: a tree of restarts at one moment, and which of its runs a picture leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from workbench.store.lineage_records import DiffRow, LineageRow

__all__ = ["LineageData"]

_WHOLE = 12  # runs of a tree that is drawn whole
_ENDS = 3  # of a longer chain, so many at either end are drawn


@dataclass(frozen=True)
class LineageData:
    """A lineage.

    Attributes:
        rows: every run, each followed by its retries and theirs.
        diffs: what differed between a run and its source, as far as it was compared.
        current: the run that the lineage was asked of.
        as_of: the moment, by the database's clock.
        leaves: the runs that nobody has retried.
    """

    rows: Sequence[LineageRow]
    diffs: Mapping[str, Sequence[DiffRow]]
    current: str
    as_of: datetime
    leaves: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sources = {row.restart_of_run_id for row in self.rows}
        leaves = frozenset(row.run_id for row in self.rows if row.run_id not in sources)
        object.__setattr__(self, "leaves", leaves)

    @property
    def ended(self) -> bool:
        """Never: whoever may, can retry a run of it at any time."""
        return False

    def same_as(self, other: LineageData) -> bool:
        """Whether the other shows the same, but for the moment at which it was read."""
        return self.rows == other.rows and self.diffs == other.diffs

    def chains(self) -> list[list[LineageRow]]:
        """Return the rows in groups: one that is drawn is alone, those left out stand together."""
        followers = Counter(row.restart_of_run_id for row in self.rows)
        folds = len(self.rows) > _WHOLE
        told = {n for n, row in enumerate(self.rows) if self._tells(row, followers[row.run_id])}
        told |= set(range(_ENDS)) | set(range(len(self.rows) - _ENDS, len(self.rows)))
        groups: list[list[LineageRow]] = []
        open_ = False
        for number, row in enumerate(self.rows):
            hidden = folds and number not in told
            if hidden and open_:
                groups[-1].append(row)
            else:
                groups.append([row])
            open_ = hidden
        return groups

    def _tells(self, row: LineageRow, followers: int) -> bool:
        """Whether a run is looked for: any that is not one failed link of a chain."""
        return row.run_id == self.current or row.status != "failed" or followers != 1
