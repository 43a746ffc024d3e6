"""The view of what will happen, or of what a run does: `df.explain`'s text, its rows, a picture.

`node_bundle` is the same picture of a graph that is still a `Node`, as a cell's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from workbench.graph.node import Node
from workbench.graph.shapes import MAX_NODES
from workbench.graph.tree import label, tree
from workbench.store.explain_records import ExplainRow, HeldRow, ScopeRow
from workbench.store.records import NodeRow
from workbench.views.base import View, page
from workbench.views.limits import limits
from workbench.views.markup import Safe, tag
from workbench.views.picture import graph_picture, look_of
from workbench.views.run_data import RunData
from workbench.views.run_view import run_header
from workbench.views.sketch import limits_of, sketch
from workbench.views.words import count

if TYPE_CHECKING:
    import pandas

__all__ = ["ExplainView", "node_bundle"]

_NUMBERS = ("line", "parent_id", "depth", "iteration")


class ExplainView(View):
    """A graph or a run, explained.

    Parameters:
        text: what `df.explain` says, to the letter.
        rows: what that text is printed from; none when there is no valid graph.
        graph: what it is about, when it has not been started.
        run: the run that it is about.
        scopes, held: the HTTP policies of that run, and its steps that have no room.
    """

    def __init__(
        self,
        text: str,
        rows: Sequence[ExplainRow] = (),
        *,
        graph: Node | None = None,
        run: RunData | None = None,
        scopes: Sequence[ScopeRow] = (),
        held: Sequence[HeldRow] = (),
    ) -> None:
        self.text = text
        self.rows = tuple(rows)
        self.graph = graph
        self.run = run
        self.scopes = tuple(scopes)
        self.held = tuple(held)

    @property
    def df(self) -> pandas.DataFrame:
        """One row a node in pre-order.

        Index `node_id`. Columns: `line` (Int64, from 1 in the order of drawing, missing for a
        THEN), `parent_id`, `depth`, `iteration` (Int64), and as text `node_type`, `result_name`,
        `prefix`, `connector`, `heading`, `label`, `status`, `mark`,
        `policy` (limits that begin here), `waits_for` (an HTTP step's place in line).
        """
        import pandas

        text = pandas.Series(["text"]).dtype
        index = pandas.Index([r.node_id for r in self.rows], name="node_id", dtype="int64")
        names = [each.name for each in fields(ExplainRow) if each.name != "node_id"]
        return pandas.DataFrame(
            {
                name: pandas.Series(
                    [getattr(row, name) for row in self.rows],
                    index,
                    "Int64" if name in _NUMBERS else text,
                )
                for name in names
            },
            index=index,
        )

    def html(self) -> Safe:
        if self.run is not None:
            data = self.run
            picture = graph_picture(
                data.nodes, look_of(data, self.held), limits(self.scopes, ended=data.ended)
            )
            label = f"Graph of run {data.run.run_id}"
            return page(label, data.run.as_of, run_header(data), picture)
        if self.graph is not None:
            return node_html(self.graph)
        said = tag("pre", self.text, class_="wb-block", tabindex="0")
        return page("Explained", None, tag("div", said, class_="wb-none"))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        what = self.run.run.run_id if self.run else count(len(self.rows), "node")
        return f"<ExplainView {what}>"


def node_html(node: Node) -> Safe:
    """Return the picture of a graph that nothing executes yet."""
    steps = sketch(node)
    kinds = _kinds(steps)
    head = tag(
        "header",
        tag("div", tag("span", "Graph", class_="wb-label"), class_="wb-head-line"),
        tag("ul", [tag("li", number, " ", kind) for kind, number in kinds], class_="wb-facts"),
        class_="wb-head",
    )
    return page(f"Graph: {label(node)}", None, head, graph_picture(steps, None, limits_of(node)))


def node_bundle(node: Node) -> dict[str, Any]:
    """Return a graph as a cell's output: its picture, and its tree where only text is shown."""
    if node.count > MAX_NODES:
        return {"text/plain": repr(node)}
    return {"text/plain": tree(node), "text/html": str(node_html(node))}


def _kinds(steps: Sequence[NodeRow]) -> list[tuple[str, str]]:
    """Count the steps of each kind, THENs left out."""
    kinds = [step.node_type for step in steps if step.node_type != "THEN"]
    return [(kind, f"{kinds.count(kind):,}") for kind in dict.fromkeys(kinds)]
