"""Control flow: what begins when a node begins, and what its parent makes of its end.

A node is begun from above and its end is told upwards: it succeeded with a value, it failed, or a
BREAK leaves the loop around it. Values are not here: `source` is the leaf (or the JOIN) that has the
value, and `value` only what became known just now. Attempts and events are in `machine`.
"""

from __future__ import annotations

from typing import Any

from workbench.engine.flows import Flows
from workbench.engine.model import Error, IterationEnd, SetName, Value
from workbench.engine.plan import Planned
from workbench.engine.turn import later
from workbench.graph.schedule import next_after
from workbench.graph.truth import is_true
from workbench.graph.values import decode, encode

__all__ = ["Control", "break_value"]

MIN_INTERVAL = 1.0  # seconds from start to start of a loop's iterations, unless the loop says so
AFTER_ABANDONED = 1.0  # seconds at least until the next iteration, whatever the loop says

_NO_LOOP = {
    "type": "StepError",
    "message": "df.break() was called outside of a loop. df.break() may only be used inside df.loop().",
    "permanent": True,
}


class Control(Flows):
    """The rules of the composites and of the waits; those of FLOW and MAP are in `flows`."""

    # Going down: a node begins.

    def begin(self, node: int) -> None:
        planned, state = self.plan[node], self.state(node)
        if state.status != "pending":
            return  # what was to begin it has been closed in the meantime
        if state.reused:  # its result is that of an earlier run, and already in its row
            self.succeeded(node, None, node)
            return
        if planned.is_executed:
            self.change(node, "ready", ready_at=later(self.now, self.delay(planned)))
        elif planned.type == "FLOW":
            self.begun(node, "running")
            self.then(self.resolve, node, planned.branches)
        elif planned.type == "MAP":
            self.begun(node, "running")
            self.begin_elements(planned, self.size_of_source(planned))
        elif planned.waits:
            self.wait(planned)
        elif planned.type == "BREAK":
            self.succeeded(node, Value(break_value(planned.config["break_value"])), node)
        else:
            state = self.begun(node, "running")
            state.iteration = 1 if planned.type == "LOOP" else 0
            for child in self.first_children(planned):
                self.then(self.begin, child)

    def delay(self, planned: Planned) -> float:
        """Seconds from when a leaf could run until it may; those of a FLOW's map are its elements'."""
        found: float = planned.option("start_delay", 0)
        if planned.map is not None and planned.parent == planned.map:
            above = self.plan[planned.map]
            found += above.option("start_delay", 0) if above.step is not None else 0
        return found

    def first_children(self, planned: Planned) -> list[int]:
        """Those to begin with, the first one last."""
        if planned.type in ("JOIN", "RACE"):
            return list(planned.branches[::-1])
        first = planned.condition if planned.type == "IF" else planned.left
        assert first is not None
        return [first]

    def wait(self, planned: Planned) -> None:
        until: Any = None
        if planned.type == "SLEEP":
            until = later(self.now, _seconds(planned))
        elif planned.type == "WAIT_SCHEDULE":
            config = planned.config
            until = next_after(config["cron_expr"], config.get("timezone", "UTC"), self.now)
        else:
            self.decision.listens = True
            if (timeout := planned.config.get("timeout_seconds")) is not None:
                until = later(self.now, timeout)
        self.begun(planned.number, "waiting", until)

    # Coming up: a node has ended, and its parent decides what that means.

    def succeeded(self, node: int, value: Value | None, source: int) -> None:
        """A node's value is that of `source`."""
        planned = self.plan[node]
        if planned.type == "BREAK" and planned.loop is None:
            self.failed(node, _NO_LOOP)
            return
        if planned.step is not None and planned.waits and value is not None:
            fault = self.unmappable(planned.step, value)
            if fault is not None:
                self.refused_output(planned, fault)
                return
        state = self.change(node, "completed", result_node=source if source != node else None)
        state.abandoned = 0
        if node == source and value is not None:
            self.decision.values[node] = value
            state.falsy = planned.judged and not is_true(value.json, value.columns)
        if planned.step is not None and not state.reused:
            self.note_facts(planned.step, value)
        if planned.name is not None:
            self.decision.names.append(SetName(planned.scope, planned.name, source, value))
        if planned.type == "BREAK":
            self.left_by_break(node, value, source)
        elif planned.parent is None:
            self.decision.status = "completed"
        else:
            self.then(self.child_succeeded, planned.parent, node, value, source)

    def child_succeeded(self, node: int, child: int, value: Value | None, source: int) -> None:
        planned = self.plan[node]
        if planned.type == "THEN" and child == planned.left:
            self.then(self.begin, planned.right)
        elif planned.type == "JOIN":
            self.branch_ended(planned)
        elif planned.type == "FLOW":
            self.then(self.resolve, node, planned.steps[child].dependents)
        elif planned.type == "MAP":
            self.note_element(planned, child, value)
            self.element_ended(planned)
        elif planned.type == "IF" and child == planned.condition:
            self.choose(planned, not self.state(source).falsy)
        elif planned.type == "LOOP":
            self.part_ended(planned, child, source)
        else:
            if planned.type == "RACE":
                self.won(planned, child)
            self.succeeded(node, value, source)

    def failed(self, node: int, error: Error) -> None:
        self.change(node, "failed", error=error)
        parent = self.plan[node].parent
        if parent is None:
            self.end_run("failed", error)
        else:
            self.then(self.child_failed, parent, node, error)

    def child_failed(self, node: int, child: int, error: Error) -> None:
        planned = self.plan[node]
        if planned.type == "JOIN":
            self.branch_ended(planned)
        elif planned.type == "FLOW":
            self.step_failed(planned, child, error)
        elif planned.type == "MAP":
            self.element_failed(planned, child, error)
        elif planned.type == "RACE":
            self.won(planned, child)
            side = "left" if child == planned.left else "right"
            self.failed(node, _prefixed(f"RACE {side} branch failed", error))
        elif planned.type == "LOOP" and self.run.policy.on_failure == "continue":
            self.end_iteration(planned, error)
        else:
            self.failed(node, error)

    def left_by_break(self, node: int, value: Value | None, source: int) -> None:
        """A BREAK leaves what is around this node."""
        parent = self.plan[node].parent
        assert parent is not None
        self.then(self.child_left_by_break, parent, node, value, source)

    def child_left_by_break(self, node: int, child: int, value: Value | None, source: int) -> None:
        """What a break unwinds through is completed with its value, and names nothing."""
        planned = self.plan[node]
        if planned.type == "JOIN":
            self.branch_ended(planned)
            return
        if planned.type == "RACE":
            self.won(planned, child)
        if planned.type == "LOOP":
            self.close(node + 1, planned.last)
            self.succeeded(node, value, source)
        elif planned.type == "MAP":
            self.close_elements(planned)
            self.change(node, "completed", result_node=source)
            self.left_by_break(node, value, source)
        else:
            self.change(node, "completed", result_node=source)
            self.left_by_break(node, value, source)

    def end_run(self, status: str, error: Error) -> None:
        """The run is over: nothing in it stays alive."""
        self.decision.status = status
        self.decision.error = error
        for node in self.plan.numbers(0, self.plan[0].last):
            if not self.is_over(node):
                self.cancel(node)

    # IF.

    def choose(self, planned: Planned, truth: bool) -> None:
        taken, other = (planned.left, planned.right) if truth else (planned.right, planned.left)
        assert other is not None
        self.close(other, self.plan[other].last)
        self.then(self.begin, taken)

    # JOIN and RACE.

    def branch_ended(self, planned: Planned) -> None:
        """When all branches have ended, the first one that did not succeed decides, in order."""
        if self.ends(planned.number) < len(planned.branches):
            return
        if self.is_over(planned.number):  # a signal ended several at once: told already
            return
        for position, branch in enumerate(planned.branches, start=1):
            state = self.state(branch)
            if state.status == "failed":
                error = _prefixed(f"JOIN branch {position} failed", state.error or {})
                self.failed(planned.number, error)
                return
            if (left_by := self.broken(branch)) is not None:
                self.merge(planned)
                self.change(planned.number, "completed", result_node=left_by)
                self.left_by_break(planned.number, self.decision.values.get(left_by), left_by)
                return
        self.merge(planned)
        self.decision.gathered[planned.number] = tuple(map(self.source, planned.branches))
        self.succeeded(planned.number, None, planned.number)

    def source(self, node: int) -> int:
        """The node whose row has this one's value."""
        pointer = self.state(node).result_node
        return node if pointer is None else pointer

    def broken(self, branch: int) -> int | None:
        """The BREAK by which a completed branch was left, if its loop is around the branch."""
        source = self.plan[self.source(branch)]
        if source.type == "BREAK" and source.loop is not None and source.loop < branch:
            return source.number
        return None

    def merge(self, planned: Planned) -> None:
        for branch in planned.branches:
            self.move_names(branch)

    def won(self, planned: Planned, winner: int) -> None:
        """The others end, and what they named is forgotten."""
        for branch in planned.branches:
            if branch != winner:
                self.close(branch, self.plan[branch].last)
                self.forget_names(branch)
        self.move_names(winner)

    # LOOP.

    def part_ended(self, planned: Planned, child: int, source: int) -> None:
        """The body or the condition of a loop has succeeded: the condition is asked after the
        body, whose value is the loop's when it ends so.
        """
        node = planned.number
        if child == planned.left:
            self.change(node, "running", result_node=source)
            if planned.condition is None:
                self.end_iteration(planned)
            else:
                self.then(self.begin, planned.condition)
        elif self.state(source).falsy == bool(planned.option("until", default=False)):
            self.end_iteration(planned)
        else:
            self.succeeded(node, None, self.source(node))

    def end_iteration(self, planned: Planned, error: Error | None = None) -> None:
        """Another iteration follows: in this same decision, if its time has come and this one took
        any.
        """
        node, state = planned.number, self.state(planned.number)
        began = state.started_at or self.now
        interval = planned.option("min_interval", MIN_INTERVAL)
        self.decision.iterations.append(
            IterationEnd(node, planned.last, state.iteration, began, error)
        )
        due = later(began, interval)
        if error is not None:
            due = max(due, later(self.now, AFTER_ABANDONED))
        changed = self.change(node, "waiting", ready_at=max(due, self.now), error=error)
        changed.abandoned = 0 if error is None else state.abandoned + 1
        if due <= self.now and began < self.now:
            # At last: what is left to be done belongs to the iteration that has ended.
            self.at_last(self.iterate, node)

    def iterate(self, node: int) -> None:
        """The next iteration begins, unless something has first to be read from the rows of the one
        before: then the run is due again at once.
        """
        planned = self.plan[node]
        if self.state(node).status != "waiting" or self.reads_rows(node + 1, planned.last):
            return
        self.reset(node + 1, planned.last)
        self.forget_iteration(node)
        state = self.begun(node, "running")
        state.iteration += 1
        self.then(self.begin, planned.left)

    # Waits.

    def time_came(self, node: int) -> None:
        """A timer's time has come, unless the node has moved on."""
        planned, state = self.plan[node], self.state(node)
        if state.timer is None or state.timer > self.now:
            return
        if planned.type == "LOOP":
            self.iterate(node)
        elif planned.type == "SLEEP":
            self.succeeded(node, Value(f'{{"slept":true,"seconds":{_seconds(planned)}}}'), node)
        elif planned.type == "WAIT_SCHEDULE":
            self.succeeded(node, Value('{"scheduled":true}'), node)
        elif planned.type == "SIGNAL":
            self.signalled(node, None)

    def signalled(self, node: int, data: str | None) -> None:
        """A wait for a signal is over; without data its time was."""
        name = encode(self.plan[node].config["signal_name"])
        timed_out = "true" if data is None else "false"
        text = f'{{"signal_name":{name},"timed_out":{timed_out},"data":{data or "null"}}}'
        self.succeeded(node, Value(text), node)


def break_value(text: str | None) -> str:
    """The value of a BREAK: JSON as it is, other text as a string."""
    if text is None:
        return "null"
    try:
        return encode(decode(text))
    except (ValueError, RecursionError):  # no JSON, or none that can be stored
        return encode(text)


def _seconds(sleep: Planned) -> int | float:
    text = sleep.query or "0"
    return int(text) if text.isdigit() else float(text)


def _prefixed(prefix: str, error: Error) -> Error:
    return {**error, "message": f"{prefix}: {error.get('message', '')}"}
