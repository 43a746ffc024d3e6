"""The picture of a graph: steps as cards from top to bottom, branches side by side, loops as frames,
HTTP policies as frames around what shares their limit.

One picture for graphs that have not started and for runs, whose cards say how they stand. Nested
lists, so that it reads without eyes, too. Built from the leaves upwards, because graphs nest deeper
than Python recurses; what is too long, too wide or too deep to be looked at is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from workbench.store.explain_records import HeldRow
from workbench.store.records import NodeRow
from workbench.views.clock import lasting, said
from workbench.views.flow_picture import FlowStep, flow_picture
from workbench.views.limits import Limit, held_pieces
from workbench.views.map_progress import progress_lines
from workbench.views.markup import EMPTY, Safe, tag
from workbench.views.reasons import reason
from workbench.views.run_data import RunData
from workbench.views.status import badge, of_node
from workbench.views.step_detail import error_line
from workbench.views.steps import attempt_words, lasted
from workbench.views.titles import Part, parts, title
from workbench.views.words import count

__all__ = ["graph_picture", "run_picture"]

_LONG = 12  # steps of a sequence, and branches, beyond which the middle is left out
_WIDE = 8
_DEEP = 12  # levels drawn
_LARGEST = 150  # nodes of a run whose picture is part of its view
_LIVE = ("running", "waiting", "retrying", "failed")
_STACKED = frozenset({"LOOP", "MAP"})  # their parts stand one below the other


class Look(NamedTuple):
    """How a node stands: its status, what is said beside that, and lines below."""

    status: str
    beside: Safe = EMPTY
    lines: tuple[Safe, ...] = ()


class _Item(NamedTuple):
    """A drawn step, and whether it is one of those that people look for."""

    html: Safe
    live: bool
    size: int  # nodes in it


def graph_picture(
    nodes: Sequence[NodeRow],
    look: Callable[[NodeRow], Look] | None = None,
    limits: Mapping[int, Limit] | None = None,
) -> Safe:
    """Return the picture of a graph given by its nodes in pre-order.

    Parameters:
        look: says how a node stands.
        limits: the HTTP policies, by the nodes that have them.
    """
    limits = limits or {}
    bodies, inside = _bodies_of_steps(nodes)
    nodes = [node for node in nodes if node.node_id not in inside]
    children: dict[int, list[NodeRow]] = defaultdict(list)
    for node in nodes:
        if node.parent_id is not None:
            children[node.parent_id].append(node)
    levels = _levels(nodes)
    drawn: dict[int, list[_Item]] = {}
    for node in reversed(nodes):
        below = parts(node, children.get(node.node_id, ()))
        inner = [(part, drawn.pop(part.child.node_id)) for part in below]
        if node.node_type == "THEN":
            drawn[node.node_id] = [item for _, items in inner for item in items]
        elif node.node_type == "FLOW":
            drawn[node.node_id] = [_flow(node, [part.child for part in below], bodies, look)]
        elif levels[node.node_id] > _DEEP:
            drawn[node.node_id] = [_too_deep(inner)]
        else:
            drawn[node.node_id] = [_step(node, inner, look)]
        if (limit := limits.get(node.node_id)) and levels[node.node_id] <= _DEEP:
            drawn[node.node_id] = [_scope(node, limit, drawn[node.node_id])]
    return tag("div", _chain(drawn[0]), class_="wb-graph", tabindex="0") if nodes else EMPTY


def run_picture(data: RunData) -> Safe:
    """Return the picture of a run behind a click; nothing for plain sequences and large graphs."""
    branched = any(n.node_type != "THEN" and n.node_id in data.children for n in data.nodes)
    _, inside = _bodies_of_steps(data.nodes)
    is_flow = bool(data.nodes) and data.nodes[0].node_type == "FLOW"  # drawn folded
    if not branched or (len(data.nodes) - len(inside) > _LARGEST and not is_flow):
        return EMPTY
    return tag(
        "details",
        tag("summary", "graph", class_="wb-link"),
        graph_picture(data.nodes, look_of(data)),
        class_="wb-part",
        data_key="graph",
    )


def look_of(data: RunData, held: Iterable[HeldRow] = ()) -> Callable[[NodeRow], Look]:
    """Return what says how the nodes of a run stand; `held` are those that have no room."""
    barriers = {row.node_id: row for row in held}

    def look(node: NodeRow) -> Look:
        status = of_node(node)
        seconds = lasted(data.run, node, status)
        spent = None
        if seconds is not None:
            spent = lasting(seconds, None if node.finished_at else node.started_at)
        tries = attempt_words(data.run, node, status)
        beside = tag("span", [tries, " · " if tries and spent else None, spent], class_="wb-meta")
        lines: list[Safe] = []
        if error := error_line(node):
            tone = "skipped" if status == "skipped" else "failed"
            lines.append(tag("div", error, class_=f"wb-card-line wb-is-{tone}"))
        progress = progress_lines(data, node)
        if not progress and (found := reason(data, node)):
            words = said(found.pieces, data.run.as_of)
            lines.append(tag("div", words, class_=f"wb-card-line wb-is-{found.look}"))
        lines += progress
        if barrier := barriers.get(node.node_id):
            words = said(held_pieces(barrier, data.run.run_id), data.run.as_of)
            lines.append(tag("div", words, class_="wb-card-line wb-is-waiting"))
        return Look(status, beside, tuple(lines))

    return look


def _levels(nodes: Iterable[NodeRow]) -> dict[int, int]:
    levels: dict[int, int] = {}
    flat: set[int] = set()
    for node in nodes:
        above = node.parent_id
        levels[node.node_id] = 0 if above is None else levels[above] + (above not in flat)
        if node.node_type == "THEN":
            flat.add(node.node_id)
    return levels


def _step(
    node: NodeRow, inner: list[tuple[Part, list[_Item]]], look: Callable[[NodeRow], Look] | None
) -> _Item:
    state = look(node) if look else Look("pending")
    items = [item for _, items in inner for item in items]
    top = _head(node, state if look else None, len(inner))
    html = _frame(node, top, state, inner) if inner else tag("div", top, class_="wb-card")
    live = state.status in _LIVE or any(item.live for item in items)
    step = tag("li", html, class_=f"wb-step wb-is-{state.status}", data_key=f"#{node.node_id}")
    return _Item(step, live, 1 + sum(item.size for item in items))


def _flow(
    node: NodeRow,
    steps: Sequence[NodeRow],
    bodies: Mapping[int, NodeRow],
    look: Callable[[NodeRow], Look] | None,
) -> _Item:
    state = look(node) if look else Look("pending")
    shown = []
    for step in steps:
        stands = look(step) if look else None
        body = bodies.get(step.node_id, step)
        shown.append(FlowStep(step, body, *(stands or (None, EMPTY, ()))))
    html = tag(
        "div",
        tag("div", _head(node, state if look else None, len(steps)), class_="wb-frame-head"),
        flow_picture(node, shown),
        class_="wb-frame wb-frame-flow",
        role="group",
        aria_label=f"FLOW, {state.status}" if look else "FLOW",
    )
    live = state.status in _LIVE
    framed = tag("li", html, class_=f"wb-step wb-is-{state.status}", data_key=f"#{node.node_id}")
    return _Item(framed, live, 1 + len(steps))


def _bodies_of_steps(nodes: Sequence[NodeRow]) -> tuple[dict[int, NodeRow], set[int]]:
    """What maps that are steps of a FLOW execute, by the map; and all nodes in such maps: a step is one
    card, whatever is in it.
    """
    kinds = {node.node_id: node for node in nodes}
    bodies: dict[int, NodeRow] = {}
    inside: set[int] = set()
    for node in nodes:
        above = None if node.parent_id is None else kinds[node.parent_id]
        if above is None or above.parent_id is None:
            continue
        if above.node_id in inside or kinds[above.parent_id].node_type == "FLOW":
            inside.add(node.node_id)
            bodies.setdefault(above.node_id, node)
    return bodies, inside


def _scope(node: NodeRow, limit: Limit, items: list[_Item]) -> _Item:
    """Return a policy's frame around the steps that share its limit."""
    said = f"HTTP ≤ {limit.most}"
    head = tag(
        "div",
        tag("b", said),
        tag("span", limit.scope, class_="wb-id") if limit.scope else None,
        tag("span", limit.facts, class_="wb-meta") if limit.facts else None,
        class_=f"wb-scope-head{' wb-full' if limit.full else ''}",
    )
    html = tag(
        "div",
        head,
        _chain(items),
        class_="wb-scope",
        role="group",
        aria_label=f"policy: {said} at once",
    )
    step = tag("li", html, class_="wb-step wb-scoped", data_key=f"scope {node.node_id}")
    return _Item(step, any(item.live for item in items), sum(item.size for item in items))


def _head(node: NodeRow, state: Look | None, branches: int) -> list[Safe | None]:
    """Return what a card or a frame says of its node."""
    named = title(node, branches)
    name = (
        tag("span", "→ ", tag("b", node.result_name), class_="wb-name")
        if node.result_name
        else None
    )
    text = tag("code" if named.is_code else "span", named.text, class_="wb-text", title=named.text)
    first = [tag("span", named.kind, class_="wb-kind"), text if named.text else None, name]
    standing = None
    if state is not None:
        standing = tag("div", badge(state.status), state.beside, class_="wb-card-state")
    return [tag("div", first, class_="wb-card-top"), standing, *(state.lines if state else ())]


def _frame(
    node: NodeRow, top: list[Safe | None], state: Look, inner: list[tuple[Part, list[_Item]]]
) -> Safe:
    """Return a composite: its head, what it asks, then its parts."""
    kind = node.node_type
    asked = [each for each in inner if each[0].heading == "condition"]
    others = [each for each in inner if each[0].heading != "condition"]
    stacked = " wb-stack" if kind in _STACKED else ""
    return tag(
        "div",
        tag("div", top, class_="wb-frame-head"),
        tag("ul", [_fork(*each) for each in asked], class_="wb-forks wb-stack") if asked else None,
        tag("ul", _few_forks(others), class_=f"wb-forks{stacked}"),
        class_=f"wb-frame wb-frame-{kind.lower()}",
        role="group",
        aria_label=f"{kind}, {state.status}" if state.beside else kind,
    )


def _few_forks(inner: list[tuple[Part, list[_Item]]]) -> list[Safe]:
    shown = [_fork(*each) for each in inner]
    if len(shown) <= _WIDE:
        return shown
    middle = inner[4:-2]
    kept = [fork for fork, each in zip(shown[4:-2], middle, strict=True) if _is_live(each)][:_WIDE]
    left = len(middle) - len(kept)
    more = tag("li", f"… {left:,} more", class_="wb-fork wb-fold") if left else EMPTY
    return [*shown[:4], *kept, more, *shown[-2:]]


def _is_live(each: tuple[Part, list[_Item]]) -> bool:
    return any(item.live for item in each[1])


def _fork(part: Part, items: list[_Item]) -> Safe:
    note = tag("span", part.note, class_="wb-of") if part.note else None
    idle = " wb-idle" if part.note in ("not taken", "too late") else ""
    return tag(
        "li",
        tag("div", part.heading, note, class_="wb-heading"),
        _chain(items),
        class_=f"wb-fork{idle}",
    )


def _chain(items: list[_Item]) -> Safe:
    """Return steps one after the other; of many, the ends and those that people look for."""
    if len(items) <= _LONG:
        return tag("ol", [item.html for item in items], class_="wb-chain")
    shown: list[Safe] = []
    left = 0
    for place, item in enumerate(items):
        if place < 5 or place >= len(items) - 4 or item.live:
            if left:
                shown.append(_gap(left))
            shown.append(item.html)
            left = 0
        else:
            left += 1
    return tag("ol", shown, class_="wb-chain")


def _gap(left: int) -> Safe:
    return tag("li", f"… {count(left, 'more step')}", class_="wb-step wb-fold")


def _too_deep(inner: list[tuple[Part, list[_Item]]]) -> _Item:
    items = [item for _, items in inner for item in items]
    size = 1 + sum(item.size for item in items)
    html = tag("li", f"… {count(size, 'step')} deeper inside", class_="wb-step wb-fold")
    return _Item(html, any(item.live for item in items), size)
