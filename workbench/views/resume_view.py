"""The view of what resuming a run would do: which steps it would take over, and which it would run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.graph.node import Node
from workbench.views.base import View, page
from workbench.views.markup import Safe, tag
from workbench.views.sketch import sketch
from workbench.views.status import badge
from workbench.views.titles import title
from workbench.views.words import count

if TYPE_CHECKING:
    import pandas

__all__ = ["ResumePlan"]

_COMPOSITES = frozenset({"THEN", "JOIN", "RACE", "IF", "LOOP", "FLOW", "MAP"})


class ResumePlan(View):
    """What `run.resume` would do.

    Parameters:
        run_id: the failed run.
        graph: what would be started.
        reused: number of a step of `graph` → number of the step of the run whose result it takes
            over.
    """

    def __init__(self, run_id: str, graph: Node, reused: Mapping[int, int]) -> None:
        self.run_id = run_id
        self.graph = graph
        self.reused = dict(reused)
        self.steps = [node for node in sketch(graph) if node.node_type not in _COMPOSITES]

    @property
    def df(self) -> pandas.DataFrame:
        """One row a step in pre-order.

        Index `node_id`. Columns: `title`, `name`, `what` (`runs` or `reused`; text), `reused_node`
        (Int64, the step of the run whose result it takes over).
        """
        import pandas

        text = pandas.Series(["text"]).dtype
        numbers = [node.node_id for node in self.steps]
        index = pandas.Index(numbers, name="node_id", dtype="int64")
        columns = {
            "title": ([str(title(node)) for node in self.steps], text),
            "name": ([node.result_name for node in self.steps], text),
            "what": (["reused" if n in self.reused else "runs" for n in numbers], text),
            "reused_node": ([self.reused.get(n) for n in numbers], "Int64"),
        }
        return pandas.DataFrame(
            {n: pandas.Series(values, index, dtype) for n, (values, dtype) in columns.items()},
            index=index,
        )

    def html(self) -> Safe:
        line = tag(
            "div",
            tag("span", "To resume", class_="wb-label"),
            tag("code", self.run_id, class_="wb-id"),
            tag("span", self._counts(), class_="wb-long wb-quiet"),
            class_="wb-head-line",
        )
        head = tag("tr", [tag("th", name, scope="col") for name in ("", "step", "", "name")])
        body = [self._row(node.node_id, *title(node)[:2], node.result_name) for node in self.steps]
        table = tag("table", tag("thead", head), tag("tbody", body), class_="wb-wide")
        return page(
            f"To resume {self.run_id}",
            None,
            tag("header", line, class_="wb-head"),
            tag("div", table, class_="wb-list", tabindex="0"),
        )

    def __str__(self) -> str:
        lines = [
            f"#{node.node_id:<4} {self._what(node.node_id):<16} {title(node)}"
            + (f" → {node.result_name}" if node.result_name else "")
            for node in self.steps
        ]
        return "\n".join([f"To resume {self.run_id}: {self._counts()}", "", *lines])

    def __repr__(self) -> str:
        return f"<ResumePlan {self.run_id}: {self._counts()}>"

    def _counts(self) -> str:
        reused = sum(node.node_id in self.reused for node in self.steps)
        return f"{count(reused, 'step')} reused, {len(self.steps) - reused:,} to run"

    def _what(self, number: int) -> str:
        return f"reused from #{self.reused[number]}" if number in self.reused else "runs"

    def _row(self, number: int, kind: str, text: str, name: str | None) -> Safe:
        look = "completed" if number in self.reused else "pending"
        return tag(
            "tr",
            tag("td", badge(look, self._what(number))),
            tag("td", f"#{number}"),
            tag(
                "td", tag("span", kind, class_="wb-kind"), " ", tag("code", text), class_="wb-grow"
            ),
            tag("td", name or ""),
        )
