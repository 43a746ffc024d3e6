"""`Node`: the immutable element that every graph is made of, and its operators.

A graph is its root node. Nodes hold no run state, know no database, and compare by the JSON they
stand for. Builders are in `build`, the JSON in `codec`, the SQL in `to_sql`, the rules in
`validate`, the picture in `tree`; they are imported inside the methods that use them because all
of them import this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from workbench.errors import GraphError
from workbench.graph.shapes import name_fault

if TYPE_CHECKING:
    from workbench.graph.build import Step


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """One element of a graph, with everything below it.

    Parameters:
        node_type: one of `shapes.NODE_TYPES`; checked by `validate`, not here.
        left, right, condition, extra: the children, in pre-order.
        query: the SQL text, or the type's JSON config as text.
        result_name: the name under which later nodes find the result.
        retry, policy, options: optional JSON objects; do not change them after building.

    Attributes:
        count: nodes in this tree; a node that is used twice counts twice.
        depth: levels below this node; 0 for a leaf.
    """

    node_type: str
    left: Node | None = None
    right: Node | None = None
    condition: Node | None = None
    extra: tuple[Node, ...] = ()
    query: str | None = None
    result_name: str | None = None
    retry: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None
    options: Mapping[str, Any] | None = None
    # Kept here because every check needs them and a shared subtree can stand for 2^40 nodes.
    count: int = field(init=False)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        count, depth = 1, 0
        for child in self.children():
            count += child.count
            depth = max(depth, child.depth + 1)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "depth", depth)

    def children(self) -> Iterator[Node]:
        """Yield the direct children in pre-order: left, right, condition, extras."""
        for child in (self.left, self.right, self.condition):
            if child is not None:
                yield child
        yield from self.extra

    def named(self, name: str) -> Node:
        """Return this node with a name for its result, as `df."as"` does.

        Raises:
            GraphError: the name is not an identifier, or is the reserved `input`.
        """
        if fault := name_fault(name):
            raise GraphError(f"df.as: {fault}")
        return replace(self, result_name=name)

    def to_json(self) -> str:
        """Return the graph as compact JSON text, byte-equal to what `df.*` builds in SQL."""
        from workbench.graph.codec import dumps

        return dumps(self)

    def to_sql(self) -> str:
        """Return a SQL expression of `df.*` calls that builds the same graph; see `to_sql`."""
        from workbench.graph.to_sql import to_sql

        return to_sql(self)

    def __rshift__(self, other: Step) -> Node:
        """`a >> b`: run a, then b; the value is b's."""
        from workbench.graph.build import as_node

        return Node("THEN", left=self, right=as_node(other))

    def __rrshift__(self, other: Step) -> Node:
        from workbench.graph.build import as_node

        return Node("THEN", left=as_node(other), right=self)

    def __and__(self, other: Step) -> Node:
        """`a & b`: both side by side; the value is the list of both."""
        from workbench.graph.build import as_node

        return Node("JOIN", left=self, right=as_node(other))

    def __rand__(self, other: Step) -> Node:
        from workbench.graph.build import as_node

        return Node("JOIN", left=as_node(other), right=self)

    def __or__(self, other: Step) -> Node:
        """`a | b`: both side by side; the first to end decides, and the other is cancelled."""
        from workbench.graph.build import as_node

        return Node("RACE", left=self, right=as_node(other))

    def __ror__(self, other: Step) -> Node:
        from workbench.graph.build import as_node

        return Node("RACE", left=as_node(other), right=self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return self is other or (self.count == other.count and self.to_json() == other.to_json())

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __bool__(self) -> NoReturn:
        raise GraphError(
            "a Node has no truth value: `and`, `or`, `not` and `if` see Python objects, not what "
            "a step returns. Join steps with `a >> b`, `a & b`, `a | b`; let a step's value decide "
            "with if_(condition, then, else_); to test for a missing node write `node is None`"
        )

    def __repr__(self) -> str:
        from workbench.graph.tree import label

        size = f", {self.count} nodes" if self.count > 1 else ""
        return f"<Node {' '.join(label(self).split())}{size}>"

    def __str__(self) -> str:
        from workbench.graph.tree import tree

        return tree(self)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        # Pictures are of a layer above; it is looked for only when a cell shows a graph.
        bundle: dict[str, Any] = import_module("workbench.views.explain_view").node_bundle(self)
        return bundle
