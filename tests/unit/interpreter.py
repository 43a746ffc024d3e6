"""A direct interpreter of graphs, written from the language's reference and not from the decider.

A plain recursion on a virtual time of its own, in microseconds: executing a node that begins at a
time gives how and when it ends. Branches are executed one after the other, since what ends when is
known by the numbers. Of a race both sides are tried out first; then the loser is executed again with
the winner's end as its deadline, at and after which nothing happens. No tests.
"""

from __future__ import annotations

import copy
import json
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from workbench.engine.machine import Limits
from workbench.engine.policy import Policy
from workbench.engine.simulate import Crashes, Fails, Outcome, Succeeds
from workbench.graph import Node

SECOND = 1_000_000
FOREVER = 10**30

#: The iterations of the loops around a node, the outermost first.
Path = tuple[int, ...]

_TRUE = [True, 1, -0.5, "yes", "0.1", "off", [0], {"rows": [{"c": "t"}], "row_count": 1}]
_FALSE = [False, 0, None, "no", " F ", "0.0", {"rows": [], "row_count": 0}, {"rows": [{"c": 0}]}]


class Tie(Exception):
    """Two things happen in the same microsecond, and which comes first is nobody's promise."""


class Ending(NamedTuple):
    """How an execution ended; `cut` when its deadline came before that."""

    kind: Literal["value", "failure", "break", "cut"]
    at: int = FOREVER
    value: Any = None
    message: str = ""


CUT = Ending("cut")


@dataclass(frozen=True)
class Script:
    """What each try of each leaf comes to, and how long it takes.

    Drawn from a seed and the place in the graph, so that whoever asks gets the same answer. No two
    tries take the same time. A leaf in a late iteration succeeds, so that loops come to their end.
    """

    seed: int = 0
    failing: float = 0.0
    crashing: float = 0.0

    def outcome(
        self, node: Node, number: int, path: Path, tries: int, seen: Mapping[str, Any]
    ) -> Outcome:
        dice = random.Random(f"{self.seed}/{number}/{path}/{tries}")
        seconds = dice.choice([0, 0, 1, 3]) + dice.randrange(1, SECOND) / SECOND
        where = f"#{number} {path} {tries}"
        late = any(iteration > 3 for iteration in path)
        if not late and dice.random() < self.crashing:
            return Crashes(f"gone at {where}", seconds)
        if not late and dice.random() < self.failing:
            permanent = {"permanent": True} if dice.random() < 0.2 else {}
            error = {"type": "Error", "message": f"broken at {where}", **permanent}
            return Fails(error, seconds, dice.choice([None, None, 0.0, 7.0]))
        value = self.value(node, number, path, seen, dice)
        return Succeeds(json.dumps(value), seconds)

    def value(
        self, node: Node, number: int, path: Path, seen: Mapping[str, Any], dice: random.Random
    ) -> Any:
        word, _, count = (node.query or "").partition(" ")
        if node.node_type == "SQL" and word in ("more", "done"):
            reached = path[-1] >= int(count)
            return dice.choice(_TRUE if reached == (word == "done") else _FALSE)
        if node.node_type == "SQL" and word == "look":
            return digest(dict(seen))
        if node.node_type == "IF":
            return digest(seen.get(json.loads(node.query or "")["result_name"])) % 2 == 0
        if node.node_type == "BREAK":
            return {"broken": digest(dict(seen))}
        return dice.choice([*_TRUE, *_FALSE, f"{number} {path}"])


def digest(value: Any) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())


@dataclass
class Flow:
    """The names of one thread of execution: those it gave itself, before those it began with."""

    around: Flow | None = None
    own: dict[str, Any] = field(default_factory=dict)

    def seen(self) -> dict[str, Any]:
        return {**(self.around.seen() if self.around else {}), **self.own}


@dataclass
class Interpreter:
    """Executes a graph as the reference says.

    Parameters
    ----------
    signals:
        For each wait, by its number, when signals are sent to it and with which data.

    Attributes
    ----------
    tries:
        Every try of a leaf: when it began, its number, its path.
    iterations:
        Every iteration that another one followed: its loop, its number, when it began, and whether
        it was abandoned.
    """

    script: Script
    policy: Policy
    limits: Limits
    signals: Mapping[int, Sequence[tuple[int, Any]]] = field(default_factory=dict)
    tries: list[tuple[int, int, Path]] = field(default_factory=list)
    iterations: list[tuple[int, int, int, bool]] = field(default_factory=list)
    taken: dict[int, int] = field(default_factory=dict)
    at_once: set[int] = field(default_factory=set)
    flow: Flow = field(default_factory=Flow)

    def run(self, graph: Node) -> Ending:
        return self.execute(graph, 0, 0, FOREVER, self.flow, ())

    def execute(
        self, node: Node, number: int, start: int, deadline: int, flow: Flow, path: Path
    ) -> Ending:
        """What begins at or after its deadline does not begin, what ends then does not end."""
        if start >= deadline:
            return CUT
        execute = getattr(self, f"execute_{node.node_type.lower()}", self.execute_leaf)
        ending: Ending = execute(node, number, start, deadline, flow, path)
        if ending.at == deadline and path:
            raise Tie  # an iteration may or may not have ended before its loop lost
        if ending.at >= deadline:
            return CUT
        named = ending.kind == "value" or (ending.kind == "break" and node.node_type == "BREAK")
        if named and node.result_name is not None:
            flow.own[node.result_name] = ending.value
        return ending

    # Leaves.

    def execute_leaf(
        self, node: Node, number: int, at: int, deadline: int, flow: Flow, path: Path
    ) -> Ending:
        failures = losses = 0
        while at < deadline:
            self.tries.append((at, number, path))
            outcome = self.script.outcome(node, number, path, failures + losses, flow.seen())
            at += round(outcome.seconds * SECOND)
            if isinstance(outcome, Succeeds):
                return Ending("value", at, json.loads(outcome.value))
            if isinstance(outcome, Crashes):
                losses += 1
                if losses == self.limits.lost:
                    return Ending("failure", at, message=outcome.reason)
            else:
                failures += 1
                if failures == self.policy.max_attempts or "permanent" in outcome.error:
                    return Ending("failure", at, message=outcome.error["message"])
                if at < deadline:  # a failure that nobody learned of is no wait
                    at += round(self.delay(outcome, failures) * SECOND)
        return CUT

    def delay(self, outcome: Fails, failures: int) -> float:
        if outcome.delay is not None:
            return outcome.delay
        return min(self.policy.base_delay * 2.0 ** (failures - 1), self.policy.max_backoff)

    def execute_sleep(self, node: Node, _: int, start: int, *__: Any) -> Ending:
        seconds = json.loads(node.query or "")
        return Ending("value", start + round(seconds * SECOND), {"slept": True, "seconds": seconds})

    def execute_wait_schedule(self, _: Node, __: int, start: int, *___: Any) -> Ending:
        minute = 60 * SECOND  # the only schedule there is: every minute
        return Ending("value", (start // minute + 1) * minute, {"scheduled": True})

    def execute_signal(self, node: Node, number: int, start: int, deadline: int, *_: Any) -> Ending:
        config = json.loads(node.query or "")
        end = start + config["timeout_seconds"] * SECOND
        taken = self.taken.get(number, 0)
        unread = self.signals.get(number, ())[taken : taken + 1]
        result = {"signal_name": config["signal_name"], "timed_out": True, "data": None}
        for sent, data in unread:
            if sent <= end and max(sent, start) < deadline:
                self.taken[number] = taken + 1
                result |= {"timed_out": False, "data": data}
                end = max(sent, start)
                if sent <= start:
                    self.at_once.add(start)
        return Ending("value", end, result)

    def execute_break(
        self, node: Node, number: int, start: int, deadline: int, flow: Flow, path: Path
    ) -> Ending:
        text = json.loads(node.query or "")["break_value"]
        ending = Ending("value", start, text)
        if text is not None and "$" in text:
            ending = self.execute_leaf(node, number, start, deadline, flow, path)
        elif text is not None and text.isdigit():
            ending = Ending("value", start, int(text))
        if ending.kind != "value":
            return ending
        if not path:
            return Ending("failure", ending.at, message="df.break() was called outside of a loop.")
        return ending._replace(kind="break")

    # Composites.

    def execute_then(
        self, node: Node, number: int, start: int, deadline: int, flow: Flow, path: Path
    ) -> Ending:
        assert node.left is not None
        assert node.right is not None
        first = self.execute(node.left, number + 1, start, deadline, flow, path)
        if first.kind != "value":
            return first
        second = number + 1 + node.left.count
        return self.execute(node.right, second, first.at, deadline, flow, path)

    def execute_if(
        self, node: Node, number: int, start: int, deadline: int, flow: Flow, path: Path
    ) -> Ending:
        assert node.left is not None
        assert node.right is not None
        right = number + 1 + node.left.count
        if node.condition is None:
            asked = self.execute_leaf(node, number, start, deadline, flow, path)
        else:
            asked = self.execute(
                node.condition, right + node.right.count, start, deadline, flow, path
            )
        if asked.kind != "value":
            return asked
        if truth(asked.value):
            return self.execute(node.left, number + 1, asked.at, deadline, flow, path)
        return self.execute(node.right, right, asked.at, deadline, flow, path)

    def execute_join(
        self, node: Node, number: int, start: int, deadline: int, flow: Flow, path: Path
    ) -> Ending:
        flows, endings = [], []
        for child, n in numbered(node, number):
            flows.append(Flow(flow))
            endings.append(self.execute(child, n, start, deadline, flows[-1], path))
        if CUT in endings:
            return CUT
        last = max(ending.at for ending in endings)
        values = [ending.value for ending in endings]
        decisive = Ending("value", last, values)
        for position, ending in reversed(list(enumerate(endings, start=1))):
            if ending.kind == "failure":
                message = f"JOIN branch {position} failed: {ending.message}"
                decisive = Ending("failure", last, message=message)
            elif ending.kind == "break":
                decisive = Ending("break", last, ending.value)
        if decisive.kind != "failure":
            for branch in flows:
                flow.own |= branch.own
        return decisive

    def execute_race(
        self, node: Node, number: int, start: int, deadline: int, flow: Flow, path: Path
    ) -> Ending:
        branches = numbered(node, number)
        ends = [self.tried_out(child, n, start, flow, path) for child, n in branches]
        end = min(ends)
        if len(set(ends)) == 1 and end % SECOND and end != start:
            raise Tie
        winner = ends.index(end)
        flows = [Flow(flow) for _ in branches]
        untils = [deadline if place == winner else min(end, deadline) for place in range(2)]
        endings = [
            self.execute(child, n, start, until, inside, path)
            for (child, n), until, inside in zip(branches, untils, flows, strict=True)
        ]
        decisive = endings[winner]
        if decisive.kind == "cut":
            return CUT
        flow.own |= flows[winner].own
        if decisive.kind == "failure":
            side = ("left", "right")[winner]
            return decisive._replace(message=f"RACE {side} branch failed: {decisive.message}")
        return decisive

    def tried_out(self, node: Node, number: int, start: int, flow: Flow, path: Path) -> int:
        """When it would end if nothing came in between."""
        trial = Interpreter(self.script, self.policy, self.limits, self.signals)
        trial.taken = copy.copy(self.taken)
        end = trial.execute(node, number, start, FOREVER, Flow(flow), path).at
        if end in trial.at_once:  # it takes one transition more than other things of that moment
            raise Tie
        return end

    def execute_loop(
        self, node: Node, number: int, start: int, deadline: int, flow: Flow, path: Path
    ) -> Ending:
        assert node.left is not None
        options = node.options or {}
        interval = round(options.get("min_interval", 1) * SECOND)
        iteration, began = 1, start
        while began < deadline:
            ending, goes_on = self.iteration(
                node, number, began, deadline, flow, (*path, iteration)
            )
            if not goes_on:
                return ending._replace(kind="value") if ending.kind == "break" else ending
            abandoned = ending.kind == "failure"
            self.iterations.append((number, iteration, began, abandoned))
            pause = SECOND if abandoned else 0
            began = max(began + interval, ending.at + pause)
            iteration += 1
            if number == 0 and began < deadline:
                flow.own.clear()
        return CUT

    def iteration(
        self, node: Node, number: int, start: int, deadline: int, flow: Flow, path: Path
    ) -> tuple[Ending, bool]:
        """How body and condition ended, and whether another iteration follows."""
        assert node.left is not None
        body = asked = self.execute(node.left, number + 1, start, deadline, flow, path)
        if body.kind == "value" and node.condition is not None:
            condition = number + 1 + node.left.count
            asked = self.execute(node.condition, condition, body.at, deadline, flow, path)
        if asked.kind == "failure":
            return asked, self.policy.on_failure == "continue"
        if asked.kind != "value":
            return asked, False
        goes_on = True
        if node.condition is not None:
            goes_on = truth(asked.value) != (node.options or {}).get("until", False)
        return Ending("value", asked.at, body.value), goes_on


def numbered(node: Node, number: int) -> list[tuple[Node, int]]:
    """A node's children with their numbers."""
    found, following = [], number + 1
    for child in node.children():
        found.append((child, following))
        following += child.count
    return found


def truth(value: Any) -> bool:
    """Reference, section 10."""
    if isinstance(value, dict) and isinstance(value.get("rows"), list):
        if value["rows"] == []:
            return False
        value = next(iter(value["rows"][0].values()))
    if not isinstance(value, str):
        return bool(value)
    text = value.strip().lower()
    if text in ("", "false", "f", "no"):
        return False
    try:
        return float(text) != 0
    except ValueError:
        return True
