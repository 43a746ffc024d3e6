"""How far a MAP has come: a bar of its elements by status, and those that fail, with their errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from workbench.store.records import NodeRow
from workbench.views.markup import Safe, tag
from workbench.views.run_data import RunData
from workbench.views.status import of_node
from workbench.views.step_detail import error_line
from workbench.views.words import count

__all__ = ["progress_lines"]

_SHOWN = ("completed", "running", "retrying", "waiting", "failed")
_FAILING = 5  # elements named


def progress_lines(data: RunData, node: NodeRow) -> list[Safe]:
    """Return what is said of a MAP's elements below its status, nothing of one without any."""
    elements = data.children.get(node.node_id, ())
    if node.node_type != "MAP" or not elements or elements[0].element is None:
        return []
    failing = [each for each in elements if each.error and of_node(each) in ("failed", "retrying")]
    lines = [_bar(elements)] if node.status != "completed" or failing else []
    lines += [_failing(each) for each in failing[:_FAILING]]
    if len(failing) > _FAILING:
        more = f"… {count(len(failing) - _FAILING, 'more failing element')}"
        lines.append(tag("div", more, class_="wb-card-line wb-is-failed"))
    return lines


def _bar(elements: Sequence[NodeRow]) -> Safe:
    states = Counter(map(of_node, elements))
    done = states["completed"]
    each = [f"{states[status]:,} {status}" for status in _SHOWN[1:] if states[status]]
    parts = [
        tag(
            "i",
            class_=f"wb-is-{status}",
            style=f"width:{100 * states[status] / len(elements):.2f}%",
        )
        for status in _SHOWN
        if states[status]
    ]
    said = f"{done:,} of {len(elements):,} elements done"
    return tag(
        "div",
        tag("span", parts, class_="wb-map-bar", role="img", aria_label=said),
        tag("span", f"{done:,}/{len(elements):,}", class_="wb-meta"),
        class_="wb-map-line",
        title="; ".join([said, ", ".join(each)]) if each else said,
    )


def _failing(element: NodeRow) -> Safe:
    index = (element.element or [0])[-1]
    return tag(
        "div",
        tag("b", f"[{index}] "),
        error_line(element),
        class_=f"wb-card-line wb-is-{of_node(element)}",
    )
