"""Which names a node may refer to: an analysis of the graph before it runs.

It follows the flow: THEN and IF share one map of names, JOIN and RACE branches see what precedes
them and not each other, a loop's names stay from one iteration to the next (except in a root
loop, which starts empty). Refused is only what can never be known; a name from a branch that may
not be taken passes here and may fail when the node runs. `$name` in SQL is not looked at: an
unknown one is left to the server.
"""

from __future__ import annotations

import json

from workbench.graph.node import Node
from workbench.graph.shapes import RESERVED_NAME, did_you_mean, invalid
from workbench.graph.substitute import input_references
from workbench.graph.walk import walk

_CALLS = ("PYTHON", "EXTERNAL")
_REFER = (*_CALLS, "FLOW", "MAP")


def check_references(root: Node) -> None:
    """Check the `{"$ref": …}` of every PYTHON and EXTERNAL node and the name that every `if_rows` asks.

    The graph's shape must have been checked before; its depth bounds the recursion here.

    Raises:
        GraphError: a reference to a name that no earlier node gives.
    """
    if any(visit.node.node_type in _REFER or _asks_rows(visit.node) for visit in walk(root)):
        _visit(root, "root", _Names())


class _Names:
    """The names that may be known at one point of the flow."""

    def __init__(self) -> None:
        self.known = {RESERVED_NAME}
        self._opened: list[list[str]] = [[]]

    def add(self, name: str | None) -> None:
        if name is not None and name not in self.known:
            self.known.add(name)
            self._opened[-1].append(name)

    def open_branch(self) -> None:
        self._opened.append([])

    def close_branch(self) -> list[str]:
        """Forget and return what the branch added."""
        names = self._opened.pop()
        self.known.difference_update(names)
        return names


def _visit(node: Node, path: str, names: _Names) -> None:
    """Check a node and what is below it, then add the names it leaves behind."""
    kind = node.node_type
    if kind in _CALLS:
        _check_input(node, path, names)
    elif _asks_rows(node):
        _check_rows(node, path, names)
    elif kind == "FLOW":
        _visit_steps(node, path, names)
        return
    elif kind == "MAP":
        _visit_elements(node, path, names)
        return
    if kind == "LOOP" and path != "root":
        _add_all(node, names)
    branches: list[str] = []
    for slot, child in _in_order(node):
        branch = kind in ("JOIN", "RACE") or (kind == "IF" and slot != "condition_node")
        if branch:
            names.open_branch()
        _visit(child, f"{path}.{slot}", names)
        if branch:
            branches += names.close_branch()
    for name in branches:
        names.add(name)
    names.add(node.result_name)


def _visit_steps(flow: Node, path: str, names: _Names) -> None:
    """Each step sees those that it depends on; nobody else does."""
    steps = json.loads(flow.query or "{}")["steps"]
    for index, (child, step) in enumerate(zip(flow.extra, steps, strict=True)):
        names.open_branch()
        for dependency in step.get("after", ()):
            names.add(dependency)
        _visit(child, f"{path}.extra_nodes[{index}]", names)
        names.close_branch()
    names.add(flow.result_name)


def _visit_elements(node: Node, path: str, names: _Names) -> None:
    """What the body names is known within it; it sees its element."""
    config = json.loads(node.query or "{}")
    if config["over"] not in names.known:
        raise invalid(
            path,
            f"MAP over {config['over']!r}: no earlier step gives that name."
            f"{did_you_mean(config['over'], names.known)} Known here: "
            f"{', '.join(sorted(names.known))}",
        )
    assert node.left is not None
    names.open_branch()
    names.add(config["as"])
    _visit(node.left, f"{path}.left", names)
    names.close_branch()
    names.add(node.result_name)


def _in_order(node: Node) -> list[tuple[str, Node]]:
    """Return the children in the order in which they run."""
    found = [("left", node.left), ("right", node.right)]
    # An IF asks first, a LOOP asks after its body.
    found.insert(0 if node.node_type == "IF" else 2, ("condition_node", node.condition))
    found += [(f"extra_nodes[{index}]", child) for index, child in enumerate(node.extra)]
    return [(slot, child) for slot, child in found if child is not None]


def _add_all(node: Node, names: _Names) -> None:
    for visit in walk(node):
        if visit.node is not node:
            names.add(visit.node.result_name)


def _check_input(node: Node, path: str, names: _Names) -> None:
    config = json.loads(node.query or "{}")
    for name in sorted(input_references(config.get("input"))):
        if name not in names.known:
            raise invalid(
                path,
                f"ref({name!r}) in {config['handler']!r}: no earlier step gives that name."
                f"{did_you_mean(name, names.known)} Known here: "
                f"{', '.join(sorted(names.known))}",
            )


def _asks_rows(node: Node) -> bool:
    return node.node_type == "IF" and node.condition is None


def _check_rows(node: Node, path: str, names: _Names) -> None:
    name = json.loads(node.query or "{}")["result_name"]
    if name not in names.known:
        raise invalid(
            path,
            f"df.if_rows: result '{name}' not found: no earlier step gives that name."
            f"{did_you_mean(name, names.known)} Known here: {', '.join(sorted(names.known))}",
        )
