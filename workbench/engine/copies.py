"""An engine's copies of runs: made from database rows, brought up to date by the rows that changed
since.

Plans are shared by all runs of equal graphs. Nothing here decides or talks to the database.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import datetime
from typing import Any

from workbench.engine.model import TERMINAL, NodeState, Run
from workbench.engine.plan import Plan
from workbench.engine.policy import Policy
from workbench.store.verbs import LockedRow, RunRow

__all__ = ["Copies", "unreadable"]

#: Nodes of the plans that are kept for the next run of the same graph: about 20 MB.
KEPT_NODES = 50_000
#: Nodes of the copies that are kept although nothing of their runs executes.
ASIDE_NODES = 10_000


class _Plans:
    """Plans of the graphs used last, by their JSON."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._nodes = 0

    def of(self, graph: str) -> Plan:
        plan = self._plans.get(graph)
        if plan is not None:
            self._plans.move_to_end(graph)
            return plan
        plan = self._plans[graph] = Plan.parse(graph)
        self._nodes += len(plan)
        while self._nodes > KEPT_NODES and len(self._plans) > 1:
            self._nodes -= len(self._plans.popitem(last=False)[1])
        return plan


class Copies:
    """The runs an engine holds in memory, by id. A copy lives as long as the engine executes a leaf
    of its run, and for a while after that, if it is no large one.

    `database` is the name of the one that holds the runs.
    """

    def __init__(self, database: str | None = None) -> None:
        self._runs: dict[str, Run] = {}
        self._aside: OrderedDict[str, int] = OrderedDict()  # those that may be dropped; their sizes
        self._aside_nodes = 0
        self._plans = _Plans()
        self._database = database

    def __contains__(self, run: str) -> bool:
        return run in self._runs

    def __getitem__(self, run: str) -> Run:
        return self._runs[run]

    def get(self, run: str) -> Run | None:
        return self._runs.get(run)

    def drop(self, run: str) -> None:
        self._runs.pop(run, None)
        self.hold(run)

    def hold(self, run: str) -> None:
        """Something of this run executes here: its copy must stay."""
        self._aside_nodes -= self._aside.pop(run, 0)

    def put_aside(self, run: str) -> None:
        """Nothing of this run executes here: its copy stays while there is room for it."""
        copy = self._runs.get(run)
        if copy is None or copy.status in TERMINAL or len(copy.plan) > ASIDE_NODES:
            self.drop(run)
            return
        self.hold(run)
        self._aside[run] = len(copy.plan)
        self._aside_nodes += len(copy.plan)
        while self._aside_nodes > ASIDE_NODES:
            self.drop(next(iter(self._aside)))

    def clear(self) -> None:
        """Forget everything: after a reconnect no copy is trusted."""
        self._runs.clear()
        self._aside.clear()
        self._aside_nodes = 0

    def distrust(self, run: str) -> None:
        """Have all rows of a run read again when it is next locked."""
        if (copy := self._runs.get(run)) is not None:
            copy.version = -1

    def version(self, run: str) -> int:
        """The version of the copy; -1, which asks for every node, when there is none."""
        copy = self._runs.get(run)
        return -1 if copy is None else copy.version

    def take(self, row: RunRow) -> Run:
        """Make a copy of a whole run, in place of an older one.

        Rows may have been read before a transition that a copy already knows: then it stays.
        """
        if (copy := self._runs.get(row.id)) is not None and copy.version > row.version:
            return copy
        run = Run(
            row.id,
            self._plans.of(row.graph),
            Policy(row.max_attempts, row.max_backoff, row.on_failure),
            row.status,
            row.version,
            label=row.label,
            input=row.input,
            variables=json.loads(row.vars) if row.vars != "{}" else {},
            database=row.database,
            elsewhere=row.database not in (None, self._database),
        )
        _take_nodes(run, row.nodes)
        self._runs[row.id] = run
        return run

    def refresh(self, row: LockedRow, asked: int) -> Run | None:
        """Bring a copy up to date under the run's lock; None when there is none that can be.

        `asked` is the version since which the row tells what has changed; a copy that is older, or
        is not trusted any more, needs all.
        """
        if row.status == "deleted":
            self.drop(row.id)
        run = self._runs.get(row.id)
        if run is None or asked > run.version:
            return None
        if row.version != run.version or row.nodes is not None:
            run.status, run.version = row.status, row.version
            _take_nodes(run, row.nodes)
        return run


def unreadable(row: RunRow) -> Run:
    """Stand in for a run whose graph cannot be read: nothing can be decided about it but to park it."""
    policy = Policy(row.max_attempts, row.max_backoff, row.on_failure)
    return Run(row.id, Plan(()), policy, row.status, row.version, label=row.label)


def _take_nodes(run: Run, rows: str | None) -> None:
    if rows is None:
        return
    run.values.clear()  # somebody else may have given a name anew
    for number, *fields in json.loads(rows):
        run.set(number, _state(fields))


def _state(fields: list[Any]) -> NodeState:
    state = NodeState(*fields)
    if fields[8] is not None:
        state.ready_at = datetime.fromisoformat(fields[8])
    if fields[9] is not None:
        state.started_at = datetime.fromisoformat(fields[9])
    return state
