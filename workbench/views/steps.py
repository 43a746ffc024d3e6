"""The steps of a run as nested lists: sequences flat, everything else with what it directs inside.

One row a step: status, title, size of the result, when it ran within the run, attempt, duration.
A row opens to what `step_detail` shows. Built from the leaves upwards, because graphs nest deeper
than Python recurses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from workbench.store.records import NodeRow, RunRow
from workbench.views import preview
from workbench.views.clock import countdown, lasting, said
from workbench.views.folding import stretches, tally
from workbench.views.markup import Safe, join, tag
from workbench.views.reasons import reason
from workbench.views.run_data import RunData, visible
from workbench.views.status import badge, of_node
from workbench.views.step_detail import detail, error_line
from workbench.views.titles import Part, Title, parts, title
from workbench.views.words import count, duration

__all__ = ["attempt_words", "lasted", "step_list", "step_title"]

_FOLD_FROM = 60  # steps in a run before settled ones are folded
_MOST = 60  # steps in a row, and branches beside each other, that are drawn then
_MOST_BRANCHES = 20
_PLAIN = ("completed", "cancelled")  # outcomes of attempts that are statuses; all others failed
_BARS = 20  # attempts drawn in a step's bar


class _Item(NamedTuple):
    """A step of a sequence; a leaf is rendered only when it is shown: most of a large run are not."""

    number: int
    status: str
    html: Callable[[], Safe]

    def shown(self, role: str | None) -> Safe:
        return tag("li", self.html(), data_key=f"#{self.number}", role=role)


def step_title(data: RunData, node: NodeRow) -> Title:
    """Name a node of a run."""
    return title(node, len(data.children.get(node.node_id, ())))


def step_list(data: RunData) -> Safe:
    """Return all steps of a run: a list, or a tree when steps are nested."""
    items: dict[int, list[_Item]] = {}
    fold = len(data.nodes) > _FOLD_FROM
    shown = visible(data)
    tree = any(place.level for place in shown)
    levels = {place.node.node_id: place.level for place in shown} if tree else {}
    hidden = _hidden(data) if fold else frozenset()
    for node in reversed(data.nodes):
        if node.node_id in hidden:
            items[node.node_id] = [_Item(node.node_id, of_node(node), Safe)]
            continue
        below = parts(node, data.children.get(node.node_id, []))
        if node.node_type == "THEN":
            items[node.node_id] = [item for part in below for item in items.pop(part.child.node_id)]
            continue
        lists = [_list(items.pop(part.child.node_id), fold, "group") for part in below]
        drawn = [_inner(node, *each) for each in zip(below, lists, strict=True)]
        inner = _few(below, drawn) if fold else drawn
        status = of_node(node)
        step = partial(_step, data, node, status, inner, levels.get(node.node_id))
        items[node.node_id] = [_Item(node.node_id, status, step)]
    return _list(items[0], fold, "tree" if tree else None) if items else Safe()


def _list(items: list[_Item], fold: bool, role: str | None) -> Safe:
    own = None if role is None else "none"  # in a tree the row is the item
    shown = _folded(items, own) if fold else [item.shown(own) for item in items]
    return tag("ol", shown, class_="wb-steps", role=role, aria_label=role == "tree" and "steps")


def _folded(items: list[_Item], role: str | None) -> Iterable[Safe]:
    """Leave out what need not be seen of long rows of steps."""
    statuses = [item.status for item in items]
    for places in stretches(statuses, _MOST):
        first, last = items[places[0]], items[places[-1]]
        if len(places) == 1:
            yield first.shown(role)
        else:
            text = f"{count(len(places), 'more step')}, #{first.number} to #{last.number}"
            yield tag("li", _fold_row([statuses[each] for each in places], text), role=role)


def _hidden(data: RunData) -> frozenset[int]:
    """Return the nodes that need not be drawn: the middle of many branches, and what is below."""
    found: set[int] = set()
    for above, children in data.children.items():
        ordered = [part.child for part in parts(data.by_id[above], children)]
        for places in stretches([of_node(child) for child in ordered], _MOST_BRANCHES):
            if len(places) > 1:
                found.update(ordered[each].node_id for each in places)
    if found:
        for node in data.nodes:  # parents come first
            if node.parent_id in found:
                found.add(node.node_id)
    return frozenset(found)


def _step(data: RunData, node: NodeRow, status: str, inner: list[Safe], level: int | None) -> Safe:
    iterations = data.iterations_of.get(node.node_id, ())
    more = detail(node, data.attempts_of.get(node.node_id, ()), iterations)
    row = [
        badge(status),
        _title(step_title(data, node), node),
        tag("span", preview.summary(node), class_="wb-meta"),
        _bar(data, node, status),
        _attempt(data.run, node, status),
        _time(data.run, node, status),
        tag("span", class_="wb-more" if more else None, aria_hidden="true"),
        tag("span", line, class_="wb-line") if (line := error_line(node)) else None,
        _reason(data, node),
    ]
    item: dict[str, str | int | None] = {"class_": f"wb-row wb-is-{status}"}
    if level is not None:
        item |= {"role": "treeitem", "aria_level": level + 1, "tabindex": None if more else 0}
    if more and level is not None:  # what it opens to is an item below it
        more = tag("div", more, role="treeitem", aria_level=level + 2, tabindex="-1")
    shown = tag("details", tag("summary", row, **item), more) if more else tag("div", row, **item)
    below = tag("div", inner, class_="wb-inner", data_kind=node.node_type) if inner else None
    return join(shown, below)


def _reason(data: RunData, node: NodeRow) -> Safe | None:
    found = reason(data, node)
    if found is None:
        return None
    words = said(found.pieces, data.run.as_of)
    return tag("span", words, class_=f"wb-line wb-is-{found.look}")


def _inner(node: NodeRow, part: Part, steps: Safe) -> Safe:
    """Return a part of a composite: what it is for, then its steps."""
    notes = [tag("span", part.note, class_="wb-of")] if part.note else []
    if node.node_type == "LOOP" and part.heading == "body" and node.iteration > 1:
        notes.append(
            tag("span", f"+ {count(node.iteration - 1, 'earlier iteration')}", class_="wb-of")
        )
    heading = tag("div", part.heading, notes, class_="wb-heading")
    idle = " wb-idle" if part.note in ("not taken", "too late") else ""
    return tag("div", heading, steps, class_=f"wb-branch{idle}")


def _few(below: list[Part], drawn: list[Safe]) -> list[Safe]:
    """Leave out what need not be seen of many branches."""
    statuses = [of_node(part.child) for part in below]
    shown: list[Safe] = []
    for places in stretches(statuses, _MOST_BRANCHES):
        if len(places) == 1:
            shown.append(drawn[places[0]])
        else:
            text = f"{len(places):,} more branches, {places[0] + 1:,} to {places[-1] + 1:,}"
            row = _fold_row([statuses[each] for each in places], text)
            shown.append(tag("div", row, class_="wb-branch"))
    return shown


def _fold_row(statuses: Sequence[str], text: str) -> Safe:
    """Return the row that stands for many: their usual status, and how many have each if they differ."""
    counts = Counter(statuses)
    usual, _ = counts.most_common(1)[0]
    more = f": {tally(counts)}" if len(counts) > 1 else ""
    said = tag("span", text, more, class_="wb-title wb-fold")
    return tag("div", badge(usual), said, class_=f"wb-row wb-is-{usual}")


def _title(named: Title, node: NodeRow) -> Safe:
    text = tag("code" if named.is_code else "span", named.text, class_="wb-text", title=named.text)
    name = node.result_name
    return tag(
        "span",
        tag("span", named.kind, class_="wb-kind"),
        text if named.text else None,
        tag("span", "→ ", tag("b", name), class_="wb-name", title=name) if name else None,
        class_="wb-title",
    )


def _time(run: RunRow, node: NodeRow, status: str) -> Safe:
    seconds = lasted(run, node, status)
    if seconds is None:
        return tag("span", class_="wb-time")
    return lasting(seconds, None if node.finished_at else node.started_at, "wb-time")


def _attempt(run: RunRow, node: NodeRow, status: str) -> Safe:
    words = _which_attempt(run, node, status)
    wait = None
    if until := _next_attempt(run, node, status):
        wait = join(" in ", countdown(run.as_of, until))
    return tag("span", words, wait, class_="wb-meta wb-attempt", title=words or None)


def lasted(run: RunRow, node: NodeRow, status: str) -> float | None:
    """Return the seconds that a node's last attempt took, or has taken so far."""
    if node.started_at is None or status == "retrying":
        return None
    if node.iteration > 1 and node.finished_at is not None:
        return None  # only the last iteration's start is known
    end = node.finished_at or (run.as_of if status in ("running", "waiting") else None)
    return None if end is None else (end - node.started_at).total_seconds()


def attempt_words(run: RunRow, node: NodeRow, status: str) -> str:
    """Say which attempt a step is at, when that tells something, and when the next one is."""
    said = _which_attempt(run, node, status)
    if until := _next_attempt(run, node, status):
        said += f" in {duration((until - run.as_of).total_seconds())}"
    return said


def _which_attempt(run: RunRow, node: NodeRow, status: str) -> str:
    if node.node_type == "LOOP":
        return f"iteration {node.iteration:,}" if node.iteration else ""
    if node.reused_run and status == "completed":
        return f"reused from {node.reused_run}"
    number = node.attempt + (1 if status in ("running", "retrying") else 0)
    lost = f"lost {node.losses}×" if node.losses else ""
    if node.attempt < 1 or number < 2:
        return lost if number else ""
    of = f" of {run.max_attempts}" if run.max_attempts >= number else ""
    return f"attempt {number}{of}"


def _next_attempt(run: RunRow, node: NodeRow, status: str) -> datetime | None:
    waits = status == "retrying" and node.attempt and node.ready_at and node.ready_at > run.as_of
    return node.ready_at if waits else None


def _bar(data: RunData, node: NodeRow, status: str) -> Safe:
    """Draw when a step's attempts, or a loop's iterations, ran: from the run's start to its end or
    to now.
    """
    run = data.run
    start = run.started_at or run.created_at
    whole = ((run.finished_at or run.as_of) - start).total_seconds()
    ended = _spans(data, node)
    if status in ("running", "waiting") or node.node_type == "LOOP" or not ended:
        rests = status == "waiting" and node.node_type == "LOOP" and bool(ended)
        since = ended[-1][1] if rests else node.started_at
        ended.append((since, node.finished_at or run.as_of, status))
    marks = [_mark(start, whole, *span) for span in ended if span[0] is not None]
    return tag("span", marks, class_="wb-bar" if marks else "wb-no-bar", aria_hidden="true")


def _spans(data: RunData, node: NodeRow) -> list[tuple[datetime | None, datetime, str]]:
    if node.node_type == "LOOP":
        return [
            (each.started_at, each.finished_at, "failed" if each.error else "completed")
            for each in data.iterations_of.get(node.node_id, ())
        ]
    return [
        (a.started_at, a.finished_at, a.outcome if a.outcome in _PLAIN else "failed")
        for a in data.attempts_of.get(node.node_id, ())[-_BARS:]
    ]


def _mark(
    start: datetime, whole: float, began: datetime | None, ended: datetime, status: str
) -> Safe:
    """Draw one attempt. A live picture draws it again from its data as the whole grows."""
    if began is None or whole <= 0:
        return Safe()
    since, until = ((at - start).total_seconds() for at in (began, ended))
    left = min(max(since / whole, 0), 0.98) * 100
    width = min(max((until - since) / whole, 0) * 100, 100 - left)
    return tag(
        "i",
        class_=f"wb-is-{status}",
        style=f"left:{left:.1f}%;width:{width:.1f}%",
        data_from=round(since, 3),
        data_to=None if status in ("running", "waiting") else round(until, 3),
    )
