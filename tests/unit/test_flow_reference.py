"""Random flows come to what a direct reading of the reference says, in whatever order they run."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.flow_interpreter import Given, interpret
from tests.unit.flow_playing import Called, Playing
from workbench.engine.model import TERMINAL, Completed, Value
from workbench.engine.simulate import Crashes, Fails, Outcome, Succeeds
from workbench.flow import Flow
from workbench.graph.control import each
from workbench.graph.values import encode

SLUGS = "abcdefg"
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [1, None, "x", {"k": 1}, {"k": 2}, [], [1], [{"k": 1}, {"k": 2}], [[]]]
)
PATTERNS: st.SearchStrategy[Any] = st.sampled_from(
    [1, {"k": 1}, {}, [], [{"k": 1}], [1], [{}], None]
)
INPUTS = st.sampled_from([None, {"go": 1}, {"go": 2}, [], [1, 2], 5])
ROOT = st.none() | st.sampled_from([{"go": 1}, {}, {"go": 2, "no": 1}])
MODES = ["skip", "skip-cascade", "fail"]


@st.composite
def flows(draw: st.DrawFn, lists: bool) -> list[Given]:
    """Steps in an order in which they may run; maps over the input only if that is a list."""
    steps: list[Given] = []
    for slug in SLUGS[: draw(st.integers(1, len(SLUGS)))]:
        earlier = [step.slug for step in steps]
        after = (
            tuple(draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)))
            if earlier
            else ()
        )
        over = None
        if draw(st.booleans()) and (after or lists):
            over = after[0] if after else "input"
            after = after[:1]  # else a cascade from another one may be first, or its output
        condition: st.SearchStrategy[Any] = ROOT
        if after:
            condition = st.none() | st.dictionaries(st.sampled_from(after), PATTERNS, max_size=2)
        if_ = None if over == "input" and not after else draw(condition)
        steps.append(
            Given(
                slug,
                after,
                over,
                if_,
                draw(st.none() | condition),
                draw(st.none() | st.sampled_from(after)) if after else None,
                draw(st.sampled_from(MODES)),
                draw(st.sampled_from(MODES)),
                over is not None and draw(st.booleans()),
                draw(st.none() | st.tuples(VALUES)),
            )
        )
    return steps


def built(steps: list[Given]) -> Flow:
    flow = Flow("f", max_attempts=1)
    for step in steps:
        node: Any = "SELECT 1"
        if step.over is not None:
            node = each(step.over, node, return_exceptions=step.return_exceptions)
        flow.add(
            step.slug,
            node,
            after=step.after,
            if_=step.if_,
            if_not=step.if_not,
            if_skipped=step.if_skipped,
            when_unmet=step.when_unmet,
            when_exhausted=step.when_exhausted,
        )
    return flow


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Given], Any]:
    given_ = draw(INPUTS)
    return draw(flows(lists=isinstance(given_, list))), given_


@settings(max_examples=400, deadline=None)
@given(runs(), st.data())
def test_a_flow_comes_to_what_the_reference_says(
    drawn: tuple[list[Given], Any], data: st.DataObject
) -> None:
    steps, given_ = drawn
    outcomes = {step.slug: step.outcome for step in steps}
    playing = Playing(built(steps), given_)

    def handler(called: Called) -> Outcome:
        slug = playing.slug(called.node)
        seconds = data.draw(st.integers(0, 3))
        if called.losses == 0 and data.draw(st.booleans()):
            return Crashes(seconds=seconds)
        outcome = outcomes[slug]
        return Fails(seconds=seconds) if outcome is None else Succeeds(encode(outcome[0]), seconds)

    playing.handlers = dict.fromkeys(outcomes, handler)
    playing.run()
    expected = interpret(steps, given_)
    assert playing.status == expected.status
    assert {state.status for state in playing.live_nodes()} <= TERMINAL
    stale = Completed(0, "no such token", Value("1"))
    assert playing.simulation.report(stale).refused
    if expected.status == "failed":
        assert "failed" in playing.statuses.values()
        return
    made = {slug: (m.status, m.reason) for slug, m in expected.steps.items()}
    assert {s: (status, playing.reason(s)) for s, status in playing.statuses.items()} == made
    assert _plain(playing.output) == _plain(expected.output)
    assert max((attempt for *_, attempt in playing.calls), default=1) == 1


def _plain(value: Any) -> Any:
    """Errors in the place of values look alike."""
    if isinstance(value, dict):
        return "error" if "message" in value else {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value
