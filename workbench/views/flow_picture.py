"""The picture of a FLOW: its steps as cards in layers, below what they depend on, with lines between.

The cards are a list in the order of definition, each saying what it comes after, so that the picture
reads without eyes, too. Of a large flow only some steps are drawn: those that people look for, then
the first ones; a dashed line leads through steps that are left out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.store.records import NodeRow
from workbench.views.dag_layout import Line, lay_out
from workbench.views.markup import Safe, tag
from workbench.views.status import STATUSES, badge
from workbench.views.titles import config, title
from workbench.views.words import count, one_line, shorten

__all__ = ["FlowStep", "flow_picture"]

_WIDTH = 232  # pixels of a card
_LINE = 19  # of a line of text in it
_AROUND = 17  # above and below them
_DRAWN = 60  # steps drawn of a flow
_LOOKED_FOR = ("failed", "running", "retrying", "waiting")  # in this order


class FlowStep(NamedTuple):
    """A step, what it does, how it stands and what is said of that, a line each; `status` is None
    when nothing executes the flow.
    """

    node: NodeRow
    body: NodeRow
    status: str | None
    beside: Safe
    lines: Sequence[Safe]

    @property
    def slug(self) -> str:
        return self.node.result_name or f"#{self.node.node_id}"


def flow_picture(flow: NodeRow, steps: Sequence[FlowStep]) -> Safe:
    """Return the steps of a flow as a layered DAG."""
    said = config(flow).get("steps")
    rules = {str(rule.get("step")): rule for rule in said or () if isinstance(rule, dict)}
    after = {step.slug: _after(rules.get(step.slug, {})) for step in steps}
    drawn = _drawn(steps)
    numbers = {step.slug: number for number, step in enumerate(drawn)}
    cards = [_card(step, rules.get(step.slug, {})) for step in drawn]
    direct = [
        (numbers[upper], numbers[lower])
        for lower, all_upper in after.items()
        for upper in all_upper
        if upper in numbers and lower in numbers
    ]
    through = _through(after, numbers) if len(drawn) < len(steps) else []
    sizes = [(_WIDTH, height) for _, height in cards]
    layout = lay_out(sizes, [*direct, *through])
    places = [
        tag(
            "li",
            html,
            class_=f"wb-step wb-is-{step.status or 'pending'}",
            style=f"left:{box.left:.0f}px;top:{box.top:.0f}px;width:{box.width:.0f}px;height:{box.height:.0f}px",
            data_key=f"#{step.node.node_id}",
        )
        for step, (html, _), box in zip(drawn, cards, layout.boxes, strict=True)
    ]
    indirect = set(through)
    paths = [
        _path(line, drawn[line.source].status, hidden=(line.source, line.target) in indirect)
        for line in layout.lines
    ]
    size = f"width:{layout.width:.0f}px;height:{layout.height:.0f}px"
    picture = tag(
        "div",
        tag("svg", paths, class_="wb-edges", style=size, aria_hidden="true", focusable="false"),
        tag("ul", places, class_="wb-dag-steps"),
        class_="wb-dag",
        style=size,
    )
    return tag("div", picture, _left_out(steps, drawn), class_="wb-dag-frame")


def _after(rule: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(map(str, rule.get("after") or ()))


def _drawn(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps that are drawn, in the order of definition."""
    if len(steps) <= _DRAWN:
        return list(steps)
    rank = {status: place for place, status in enumerate(_LOOKED_FOR)}
    order = sorted(range(len(steps)), key=lambda n: (rank.get(steps[n].status or "", 9), n))
    return [steps[number] for number in sorted(order[:_DRAWN])]


def _through(
    after: Mapping[str, Sequence[str]], numbers: Mapping[str, int]
) -> list[tuple[int, int]]:
    """Pairs of drawn steps with nothing but steps that are left out between them."""
    below: dict[str, list[str]] = defaultdict(list)
    for lower, all_upper in after.items():
        for upper in all_upper:
            below[upper].append(lower)
    found: list[tuple[int, int]] = []
    for start, number in numbers.items():
        hidden = [step for step in below[start] if step not in numbers]
        seen, reached = set(hidden), set[int]()
        while hidden:
            for step in below[hidden.pop()]:
                if step in numbers:
                    reached.add(numbers[step])
                elif step not in seen:
                    seen.add(step)
                    hidden.append(step)
        reached -= {numbers[step] for step in below[start] if step in numbers}
        found += [(number, other) for other in sorted(reached)]
    return found


def _card(step: FlowStep, rule: Mapping[str, Any]) -> tuple[Safe, int]:
    """A step's card, and how high it is."""
    named = title(step.body)
    text = "" if named.text == step.slug else named.text
    is_map = step.body is not step.node
    kind = f"MAP · {named.kind}" if is_map else named.kind
    depends = ", ".join(_after(rule))
    order = f", after {depends}" if depends else ""
    lines = [
        tag(
            "div",
            tag("b", step.slug, title=step.slug),
            tag("span", order, class_="wb-unseen"),
            tag("span", kind, class_="wb-kind"),
            class_="wb-dag-name",
        )
    ]
    if text:
        code = tag("code" if named.is_code else "span", text, class_="wb-text", title=text)
        lines.append(tag("div", code, class_="wb-dag-line"))
    notes = [title(step.node).text, *_conditions(rule)] if is_map else _conditions(rule)
    lines += [tag("div", note, class_="wb-dag-line wb-meta", title=note) for note in notes]
    if step.status is not None:
        state = [badge(step.status), step.beside]
        lines.append(tag("div", state, class_="wb-dag-line wb-card-state"))
    lines += [tag("div", line, class_="wb-dag-line") for line in step.lines]
    return tag("div", lines, class_="wb-card"), _AROUND + _LINE * len(lines)


def _conditions(rule: Mapping[str, Any]) -> list[str]:
    """What a step asks before it runs, a line each."""
    found = [
        f"{word} {shorten(one_line(json.dumps(rule[key], ensure_ascii=False)), 120)}"
        for key, word in (("if", "if"), ("if_not", "if not"))
        if key in rule
    ]
    if rule.get("if_skipped"):
        found.append(f"if {rule['if_skipped']} was skipped")
    return found


def _path(line: Line, status: str | None, *, hidden: bool) -> Safe:
    """A smooth line with a head at its end."""
    (x, y), *rest = line.points
    d = f"M{x:.0f} {y:.0f}"
    for right, down in rest:
        if right == x:
            d += f"V{down:.0f}"
        else:
            half = (y + down) / 2
            d += f"C{x:.0f} {half:.0f} {right:.0f} {half:.0f} {right:.0f} {down:.0f}"
        x, y = right, down
    d += f"M{x - 4:.0f} {y - 6:.0f}L{x:.0f} {y:.0f}L{x + 4:.0f} {y - 6:.0f}"
    look = " wb-went" if status == "completed" else ""
    look += " wb-through" if hidden or status in ("skipped", "cancelled") else ""
    return tag("path", d=d, class_=f"wb-edge{look}")


def _left_out(steps: Sequence[FlowStep], drawn: Iterable[FlowStep]) -> Safe | None:
    shown = {step.slug for step in drawn}
    hidden = [step for step in steps if step.slug not in shown]
    if not hidden:
        return None
    states = Counter(step.status for step in hidden if step.status)
    each = ", ".join(f"{states[status]:,} {status}" for status in STATUSES if states[status])
    words = f"… {count(len(hidden), 'more step')}{f': {each}' if each else ''}"
    return tag("div", words, class_="wb-fold")
