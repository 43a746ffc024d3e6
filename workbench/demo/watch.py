"""Watching a run and telling its attempts as they end; waiting until something about it is true."""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.demo.story import Story
from workbench.errors import StateError
from workbench.run import Run
from workbench.store.records import AttemptRow, NodeRow
from workbench.views.words import count, duration

__all__ = ["Watch"]

_LOOK = 0.02  # seconds between two looks at the run
_PATIENCE = 60.0  # seconds until the demo gives up


class Watch:
    """Tells a run's story, each attempt once."""

    def __init__(self, run: Run, story: Story) -> None:
        self._run = run
        self._story = story
        self._told = 0

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Tell what happens until `true()`; `what` is said when it does not come about.

        Raises
        ------
        StateError
            The run ended before, or a minute has passed.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            ended = self._run.done()
            self._tell_news()
            if true():
                return
            if ended or time.monotonic() > deadline:
                raise StateError(
                    f"the demo waited for {what}, and run {self._run.id} is {self._run.status}: "
                    f"{self._run.error or 'without an error'}. Please report this."
                )
            time.sleep(_LOOK)

    def _tell_news(self) -> None:
        attempts = self._run.attempts
        if len(attempts) == self._told:
            return
        nodes = {node.node_id: node for node in self._run.nodes}
        for attempt in attempts[self._told :]:
            self._tell(attempt, nodes[attempt.node_id])
        self._told = len(attempts)

    def _tell(self, attempt: AttemptRow, node: NodeRow) -> None:
        if attempt.outcome == "completed":
            again = f"; attempt {attempt.attempt} succeeded" if attempt.attempt > 1 else ""
            how = "by SQL, exactly once" if attempt.exactly_once else "by a Python handler"
            rows = count(node.row_count or 0, "row")
            self._story.tell(f"{rows} {how}{again}", "completed", node.result_name)
        elif attempt.outcome == "failed":
            message = (attempt.error or {}).get("message")
            self._story.tell(
                f"attempt {attempt.attempt} failed: {message}", "failed", node.result_name
            )
            self._tell_wait(attempt, node)

    def _tell_wait(self, attempt: AttemptRow, node: NodeRow) -> None:
        if attempt.delay is not None:
            wait = f"waits {duration(attempt.delay)} for attempt {attempt.attempt + 1}"
            self._story.tell(f"{wait}; the wait is a row in Postgres", "retrying", node.result_name)
