"""FLOW and MAP: which steps run, skip or fail, and what becomes of a MAP's elements.

A step is looked at when all it depends on has ended. Its condition asks for tests of their outputs,
which were answered when those became known (`dag`): the decider has no values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from workbench.engine.dag import Step, Test
from workbench.engine.model import Error, Value
from workbench.engine.plan import Planned
from workbench.engine.turn import Turn
from workbench.graph.contain import contains
from workbench.graph.substitute import elements_of
from workbench.graph.values import Json, decode, encode

__all__ = ["Flows"]

#: Nodes that the elements of one MAP may have together.
MOST_ELEMENTS = 100_000


class Flows(Turn):
    """The rules of FLOW and MAP."""

    @abstractmethod
    def begin(self, node: int) -> None:
        """A node begins."""

    @abstractmethod
    def succeeded(self, node: int, value: Value | None, source: int) -> None:
        """A node's value is that of `source`."""

    @abstractmethod
    def failed(self, node: int, error: Error) -> None:
        """A node has failed."""

    @abstractmethod
    def source(self, node: int) -> int:
        """The node whose row has this one's value."""

    # FLOW.

    def resolve(self, node: int, candidates: Iterable[int]) -> None:
        """Look at the steps for which all has ended that they depend on, pass after pass, until
        nothing changes; then begin those that are left.

        A pass: the first unmet condition that fails its step fails the flow; the others skip theirs,
        alone or with all that depends on it; maps over nothing complete.
        """
        planned = self.plan[node]
        steps = planned.steps
        if self.is_over(node):
            return
        waiting = {n for n in candidates if self.may_run(steps[n])}
        while True:
            unmet = [n for n in sorted(waiting) if not self.is_met(steps[n])]
            for n in unmet:
                if steps[n].when_unmet == "fail":
                    self.refuse(n)
                    return
            ended = self.skip_unmet(planned, unmet)
            for n in sorted(waiting - ended):
                step = self.plan[n]
                if step.type == "MAP" and self.size_of_source(step) == 0:
                    self.begin(n)
                    ended.add(n)
            if not ended:
                break
            freed = {d for n in ended for d in steps[n].dependents if self.may_run(steps[d])}
            waiting = {n for n in waiting | freed if self.state(n).status == "pending"}
        for n in sorted(waiting, reverse=True):
            self.then(self.begin, n)
        if self.ends(node) == len(steps):
            self.flow_completed(planned)

    def may_run(self, step: Step) -> bool:
        """Whether a step waits for nothing any more."""
        return self.state(step.number).status == "pending" and self.ends(~step.number) == len(
            step.after
        )

    def is_met(self, step: Step) -> bool:
        """Whether the condition of a step holds."""
        if step.if_skipped is not None and self.state(step.if_skipped).status != "skipped":
            return False
        if step.after:
            forbidden = step.if_not is not None and self.hold(step.forbidden)
            return self.hold(step.required) and not forbidden
        if step.if_ is None and step.if_not is None:
            return True
        given = decode(self.run.input)
        required = step.if_ is None or contains(given, step.if_)
        return required and not (step.if_not is not None and contains(given, step.if_not))

    def hold(self, tests: tuple[Test, ...] | None) -> bool:
        """Whether all these tests hold; of a step that has not completed none does."""
        return tests is not None and all(
            self.state(n).status == "completed" and self.state(n).facts >> bit & 1
            for n, bit in tests
        )

    def skip_unmet(self, flow: Planned, unmet: list[int]) -> set[int]:
        """The steps that are skipped because of these conditions."""
        ended = set(unmet)
        cascading = [n for n in unmet if flow.steps[n].when_unmet == "skip-cascade"]
        for n in unmet:
            self.skip(n, "condition_unmet")
        for n in cascading:
            ended |= self.skip_dependents(flow, n)
        return ended

    def skip(self, node: int, reason: str, error: Error | None = None) -> None:
        """A step ends without an output."""
        if error is None:
            error = {"type": "Skipped", "message": _REASONS[reason]}
        self.change(node, "skipped", error={**error, "reason": reason})

    def skip_dependents(self, flow: Planned, node: int) -> set[int]:
        """Skip all that depends on a step, directly or not, and has not begun."""
        skipped: set[int] = set()
        pending = [*flow.steps[node].dependents]
        while pending:
            n = pending.pop()
            if self.state(n).status == "pending":
                self.skip(n, "dependency_skipped")
                skipped.add(n)
                pending += flow.steps[n].dependents
        return skipped

    def refuse(self, node: int) -> None:
        """An unmet condition fails its step, and the flow."""
        planned = self.plan[node]
        assert planned.step is not None
        error = {
            "type": "ConditionNotMet",
            "message": f"step {planned.step.slug!r}: condition not met",
            "permanent": True,
            "node": node,
        }
        self.refused_output(planned, error)

    def step_failed(self, flow: Planned, child: int, error: Error) -> None:
        step = flow.steps[child]
        if step.when_exhausted == "fail":
            self.flow_failed(self.plan[child], error)
            return
        self.skip(child, "handler_failed", error)
        ended = {child}
        if step.when_exhausted == "skip-cascade":
            ended |= self.skip_dependents(flow, child)
        freed = [d for n in ended for d in flow.steps[n].dependents]
        self.then(self.resolve, flow.number, freed)

    def flow_failed(self, step: Planned, error: Error) -> None:
        """The failure of a step is that of its flow; whatever has not ended is cancelled."""
        assert step.parent is not None
        flow = self.plan[step.parent]
        for node in self.plan.numbers(flow.number + 1, flow.last):
            if not self.is_over(node):
                self.cancel(node)
        self.forget_flow(flow)
        self.failed(flow.number, error)

    def flow_completed(self, flow: Planned) -> None:
        """The value of a flow is what its last steps have put out, those that completed."""
        node = flow.number
        leaves = {
            step.slug: self.source(n)
            for n, step in flow.steps.items()
            if not step.dependents and self.state(n).status == "completed"
        }
        self.forget_flow(flow)
        if leaves:
            self.decision.gathered[node] = leaves
            self.succeeded(node, None, node)
        else:
            self.succeeded(node, Value("null"), node)

    def forget_flow(self, flow: Planned) -> None:
        """What its steps are called is nobody else's business."""
        if flow.parent is not None:
            self.forget_names(flow.number)

    # What later steps ask.

    def note_facts(self, step: Step, value: Value | None) -> None:
        """Answer what later steps ask of an output; that of a map is known by its elements."""
        state = self.state(step.number)
        if value is not None and (step.asked or step.mapped_by):
            output = _output(value)
            state.facts = _bits(contains(output, pattern, top=False) for pattern in step.asked)
            state.size = len(output) if isinstance(output, list) else None
        elif step.asked and self.plan[step.number].type == "MAP":
            state.facts = self.facts_of_elements(step)

    def facts_of_elements(self, step: Step) -> int:
        """A list contains a pattern when each part of that is contained in some element."""
        seen = 0
        for element in self.plan.elements(step.number):
            seen |= self.state(element).facts
        answers: list[bool] = []
        place = 0
        for pattern in step.asked:
            if not isinstance(pattern, list):
                answers.append(False)
                continue
            answers.append(all(seen >> n & 1 for n in range(place, place + len(pattern))))
            place += len(pattern)
        return _bits(answers)

    def note_element(self, planned: Planned, element: int, value: Value | None) -> None:
        asked = () if planned.step is None else planned.step.asked_of_elements
        if asked and value is not None and not self.state(element).reused:
            output = _output(value)
            facts = _bits(_is_among(output, pattern) for pattern in asked)
            self.state(element).facts = facts

    def unmappable(self, step: Step, value: Value) -> Error | None:
        """Why the output of a step cannot be, since a map goes over it."""
        if not step.mapped_by or isinstance(output := _output(value), list):
            return None
        facts = _bits(contains(output, pattern, top=False) for pattern in step.asked)
        for n in step.mapped_by:
            later_step = self.plan[n].step
            assert later_step is not None
            if self.state(n).status == "pending" and not self.will_skip(later_step, step, facts):
                return {
                    "type": "NotAList",
                    "message": f"step {step.slug!r} returned {_kind(output)}, and map "
                    f"{later_step.slug!r} goes over it: return a list",
                    "permanent": True,
                    "node": step.number,
                }
        return None

    def will_skip(self, step: Step, producer: Step, facts: int) -> bool:
        """Whether the condition of a step is known to skip it, once the producer has completed with
        these facts.
        """

        def holds(test: Test) -> bool | None:
            n, bit = test
            if n == producer.number:
                return bool(facts >> bit & 1)
            return self.hold((test,)) if self.is_over(n) else None

        if step.when_unmet == "fail":
            return False
        if step.if_skipped is not None and (
            step.if_skipped == producer.number
            or (self.is_over(step.if_skipped) and self.state(step.if_skipped).status != "skipped")
        ):
            return True
        if step.required is None or False in map(holds, step.required):
            return True
        forbidden = step.forbidden if step.if_not is not None else None
        return forbidden is not None and all(map(holds, forbidden))

    def refused_output(self, planned: Planned, fault: Error) -> None:
        """Whatever the step's modes say, its flow fails."""
        self.change(planned.number, "failed", error=fault)
        self.flow_failed(planned, fault)

    # MAP.

    def size_of_source(self, planned: Planned) -> int:
        """How many elements a flow's map has: known from the step that it goes over."""
        assert planned.step is not None
        over = planned.config["over"]
        for n in planned.step.after:
            if self.plan[n].step.slug == over:  # type: ignore[union-attr]
                state = self.state(n)
                return (state.size or 0) if state.status == "completed" else 0
        given = decode(self.run.input)
        return len(given) if isinstance(given, list) else 0

    def begin_elements(self, planned: Planned, size: int) -> None:
        """One body for each element."""
        node = planned.number
        if size == 0:
            self.state(node).size = 0
            self.succeeded(node, Value("[]"), node)
            return
        stride = planned.last - node
        if size * stride > MOST_ELEMENTS:
            error = {
                "type": "StepError",
                "message": f"a map of {size} elements with {stride} nodes each has more than "
                f"{MOST_ELEMENTS} nodes; go over fewer, larger parts",
                "permanent": True,
                "node": node,
            }
            self.failed(node, error)
            return
        for element in reversed(self.expand(node, size)):
            self.then(self.begin, element)

    def go_on(self, planned: Planned) -> None:
        """Begin what should have begun, or end what has."""
        elements = self.plan.elements(planned.number)
        if not elements:
            self.begin_elements(planned, self.size_of_source(planned))
            return
        for element in reversed(elements):
            self.then(self.begin, element)
        self.element_ended(planned)

    def element_ended(self, planned: Planned) -> None:
        node = planned.number
        elements = self.plan.elements(node)
        if self.ends(node) < len(elements) or self.is_over(node):
            return
        self.decision.gathered[node] = tuple(map(self.source, elements))
        self.forget_elements(self.plan.expansions(node, planned.last))
        self.succeeded(node, None, node)

    def element_failed(self, planned: Planned, child: int, error: Error) -> None:
        """The first one decides, unless the place of its value may hold its error."""
        if planned.config.get("return_exceptions"):
            self.note_element(planned, child, Value(encode(dict(error))))
            self.element_ended(planned)
            return
        self.close_elements(planned)
        index = self.plan[child].element[-1]
        message = f"element {index} failed: {error.get('message', '')}"
        self.failed(planned.number, {**error, "message": message})

    def close_elements(self, planned: Planned) -> None:
        """Whatever of its elements has not ended is cancelled."""
        for node in self.plan.numbers(planned.number, planned.number):
            if node != planned.number and not self.is_over(node):
                self.cancel(node)
        self.forget_elements(self.plan.expansions(planned.number, planned.last))


_REASONS = {
    "condition_unmet": "its condition was not met",
    "dependency_skipped": "a step that it depends on was skipped",
}


def _output(value: Value) -> Json:
    """What a condition sees and a map goes over: the rows of a SQL result, else the value."""
    decoded = decode(value.json)
    return elements_of(decoded) if value.columns is not None else decoded


def _bits(answers: Iterable[bool]) -> int:
    return sum(1 << place for place, answer in enumerate(answers) if answer)


def _is_among(element: Json, pattern: Json) -> bool:
    """Whether a list with this element contains a list with this part."""
    return contains([element], [pattern], top=False)


def _kind(value: Any) -> str:
    kinds = {dict: "an object", str: "text", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else kinds.get(type(value), type(value).__name__)
