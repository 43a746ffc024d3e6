"""What is done to a run: cancel it, signal it, have it try again now, retry or resume it as a new run.

What these mean is in the database; here they are called, and a new run finds its engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import psycopg

from workbench.errors import StateError
from workbench.graph.build import Step, as_node
from workbench.graph.codec import loads
from workbench.graph.node import Node
from workbench.graph.resume import unchanged
from workbench.graph.validate import validate
from workbench.graph.values import encode
from workbench.run_handle import Handle
from workbench.store import acting, lineage, monitor
from workbench.store.database import Database

if TYPE_CHECKING:
    from workbench.views.resume_view import ResumePlan

__all__ = ["Acts"]

Connection = psycopg.Connection[Any]


class Acts(Handle):
    """The acts of a `Run`."""

    def cancel(self, reason: str = "Cancelled by user") -> bool:
        """Cancel the run: at once, also when no engine is alive. A running SQL step is rolled back.

        Returns
        -------
        bool
            True when the run is now cancelled (also when it was before), False when it had ended
            otherwise.
        """
        with self._database.connection() as conn:
            return acting.cancel(conn, self.id, reason)

    def signal(self, name: str, data: Any = None) -> None:
        """Send a signal: a step that waits for one of this name goes on with `data`.

        Kept until a step takes it, when none waits yet.

        Parameters
        ----------
        name:
            As in `wait_for_signal`; upper and lower case differ.
        data:
            Any JSON value; later steps see it as `$step.data`.

        Raises
        ------
        NotFound
            There is no such run, or it is another role's.
        StateError
            The run has ended, or 1,000 signals of this name are unread.
        ValueRefused
            `data` holds something that JSON cannot.
        """
        text = encode(data, "data")
        with self._database.connection() as conn:
            acting.signal(conn, self.id, name, text)

    def retry_now(self, node: str | int | None = None) -> int:
        """End the wait for the next attempt at once: of a node, or of all that wait for one.

        Parameters
        ----------
        node:
            Its name or its number in pre-order (`"fetch"`, `3`, `"#3"`).

        Returns
        -------
        int
            How many waits ended.

        Raises
        ------
        NotFound
            There is no such run or node.
        StateError
            Nothing waits for another attempt.
        """
        name = f"#{node}" if isinstance(node, int) else node
        with self._database.connection() as conn:
            return acting.retry_now(conn, self.id, name)

    def retry(self) -> Self:
        """Run a failed run once more, from its first step, as a new run; this one stays as it is.

        The same graph, input, variables, label, database and policy, to the byte; the handlers are
        those that engines have now.

        Returns
        -------
        Run
            The new run.

        Raises
        ------
        NotFound
            There is no such run, or it is not visible to this role.
        StateError
            It has not failed; the text names its status.
        DatabaseError
            It is another role's, which only that role can retry.
        """
        return self._again(lambda conn, tell: lineage.retry_run(conn, self.id, tell=tell))

    def resume(self, graph: Step | None = None) -> Self:
        """Run a failed run once more as a new run that takes over the results of steps that succeeded.

        `resume_plan` says beforehand which those are.

        Parameters
        ----------
        graph:
            A repaired graph: what is the same as in this run up to the first difference, side by
            side in every branch, is taken over. None: the same graph.

        Returns
        -------
        Run
            The new run.

        Raises
        ------
        GraphError
            The graph was refused.
        NotFound, StateError, DatabaseError
            As `retry`.
        """
        if graph is None:
            return self._again(lambda conn, tell: lineage.resume_run(conn, self.id, tell=tell))
        node, pairs = self._repaired(graph)
        text = node.to_json()
        return self._again(
            lambda conn, tell: lineage.resume_run(conn, self.id, graph=text, pairs=pairs, tell=tell)
        )

    def resume_plan(self, graph: Step | None = None) -> ResumePlan:
        """Which steps `resume` would take over and which it would run; nothing is started.

        Parameters
        ----------
        graph:
            As in `resume`.

        Returns
        -------
        ResumePlan
            A step a row; `.df` is the DataFrame behind it, index `node_id`.

        Raises
        ------
        GraphError
            The graph was refused.
        StateError
            The run has not failed.
        """
        from workbench.views.resume_view import ResumePlan

        if (status := self.status) != "failed":
            raise StateError(
                f"run {self.id} is {status}, and only a failed run can be resumed; "
                "run.explain() shows what it does"
            )
        before = self._definition()
        node, pairs = (
            (before, {number: number for number in range(before.count)})
            if graph is None
            else self._repaired(graph)
        )
        with self._database.connection() as conn:
            finished = set(lineage.finished_leaves(conn, self.id))
        reused = {ours: theirs for ours, theirs in pairs.items() if theirs in finished}
        return ResumePlan(self.id, node, reused)

    def _definition(self) -> Node:
        with self._database.connection() as conn:
            return loads(monitor.definition(conn, self.id).graph)

    def _repaired(self, graph: Step) -> tuple[Node, dict[int, int]]:
        node = as_node(graph)
        validate(node)
        return node, unchanged(self._definition(), node)

    def _again(self, begin: Callable[[Connection, bool], str]) -> Self:
        """Begin a run that follows this one, with an engine for it unless that is held."""
        works = self._waiter.work_unless_held()  # before anything is stored, as in `start`
        with self._database.connection() as conn:
            following = begin(conn, not works)
        self._waiter.wake()
        return type(self)(following, self._database, self._waiter)

    def _beside(self, act: Callable[[Self], Self], run_id: str | None = None) -> str:
        """Make a run of this one, or of another, over a connection of its own; the new one's id."""
        database = Database(self._database.dsn)
        try:
            return act(type(self)(run_id or self.id, database, self._waiter)).id
        finally:
            database.close()
