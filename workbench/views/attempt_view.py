"""The view of one attempt: what was executed, the error with its place in it, what it
printed, who executed it.

`attempt_html` and `attempt_text` are pure functions of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from workbench.store.records import AttemptRow, NodeRow
from workbench.views.base import View, page
from workbench.views.clock import when
from workbench.views.lineage_html import history_css
from workbench.views.markup import Child, Safe, tag
from workbench.views.preview import json_block
from workbench.views.status import STATUSES, badge
from workbench.views.step_detail import delay_words, error_block, error_text
from workbench.views.titles import config, handler_of, title
from workbench.views.words import duration, moment

if TYPE_CHECKING:
    import pandas

__all__ = ["AttemptView", "with_caret"]

_LOOKS = {"completed": "completed", "cancelled": "cancelled", "worker_lost": "retrying"}


class AttemptView(View):
    """One attempt.

    Parameters:
        run_id: its run.
        node: the step that it is of.
        row: the attempt.
        executed: what it executed; None: exactly what the graph says.
        most: how many attempts there may be.
        logs: what its handler printed and logged; None: nothing.
    """

    def __init__(
        self,
        run_id: str,
        node: NodeRow,
        row: AttemptRow,
        executed: str | None,
        most: int,
        logs: str | None = None,
    ) -> None:
        self.run_id = run_id
        self.node = node
        self.row = row
        self.executed = executed
        self.most = most
        self.logs = logs

    @property
    def df(self) -> pandas.DataFrame:
        """What the picture says, as columns `fact` and `value` (text)."""
        import pandas

        dtype = pandas.Series(["text"]).dtype
        facts = [("what was executed", self.source), *self._facts()]
        facts += [("output", self.logs)] if self.logs else []
        columns = {
            name: pandas.Series([str(fact[place]) for fact in facts], dtype=dtype)
            for place, name in enumerate(("fact", "value"))
        }
        return pandas.DataFrame(columns)

    @property
    def source(self) -> str:
        """What was executed, as text."""
        if self.executed is not None:
            return self.executed
        if self.node.node_type in ("PYTHON", "EXTERNAL"):
            return json.dumps(config(self.node).get("input") or {}, ensure_ascii=False)
        if self.node.node_type == "SQL":
            return (self.node.query or "").strip("\n")
        return "nothing: it ended before the request was made"

    def html(self) -> Safe:
        error = self.row.error
        facts = [tag("li", name, " ", tag("b", value)) for name, value in self._facts(html=True)]
        line = tag(
            "div",
            tag("span", badge(self._look, self._outcome, class_="wb-pill"), class_="wb-now"),
            tag("span", self._title, class_="wb-label"),
            tag("code", self.run_id, class_="wb-id"),
            tag("span", f"attempt {self.row.attempt} of {self.most}", class_="wb-long wb-quiet"),
            class_="wb-head-line",
        )
        parts = [
            tag("div", tag("div", self._caption, class_="wb-cap"), self._source_html()),
            tag("div", tag("div", "error", class_="wb-cap"), error_block(error)) if error else None,
            self._logs_html(),
        ]
        return page(
            f"Attempt {self.row.attempt} of {self._title}",
            None,
            tag("style", history_css()),
            tag("header", line, tag("ul", facts, class_="wb-facts"), class_="wb-head"),
            tag("div", parts, class_="wb-attempt-body"),
        )

    def __str__(self) -> str:
        icon = STATUSES[self._look].icon
        lines = [
            f"{icon} attempt {self.row.attempt} of {self.most} of {self._title}, run {self.run_id}: "
            f"{self._outcome}",
            *(f"{name} {value}" for name, value in self._facts()),
            "",
            f"{self._caption}:",
            *(text for text, _ in with_caret(self.source, self._position)),
        ]
        if error := self.row.error:
            lines += ["", f"{error.get('type') or 'error'}: {error_text(error)}"]
            lines += [
                f"{key.upper()}: {error[key]}" for key in ("detail", "hint") if error.get(key)
            ]
            lines += ["", str(error["traceback"]).rstrip()] if error.get("traceback") else []
        lines += ["", "printed and logged:", self.logs.rstrip()] if self.logs else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<AttemptView {self._title}, attempt {self.row.attempt}: {self._outcome}>"

    @property
    def _title(self) -> str:
        named = f"{self.node.result_name} (#{self.node.node_id})" if self.node.result_name else None
        return named or f"#{self.node.node_id} {title(self.node)}"

    @property
    def _outcome(self) -> str:
        return self.row.outcome.replace("_", " ")

    @property
    def _look(self) -> str:
        return _LOOKS.get(self.row.outcome, "failed")

    @property
    def _caption(self) -> str:
        if self.node.node_type in ("PYTHON", "EXTERNAL"):
            return f"input of {handler_of(self.node)}"
        return "statement" if self.node.node_type == "SQL" else "request"

    @property
    def _position(self) -> int | None:
        position = (self.row.error or {}).get("position")
        return position if isinstance(position, int) and self.node.node_type == "SQL" else None

    def _logs_html(self) -> Safe | None:
        if not self.logs:
            return None
        text = tag("pre", self.logs.rstrip("\n"), class_="wb-block")
        return tag("div", tag("div", "printed and logged", class_="wb-cap"), text)

    def _source_html(self) -> Safe:
        if self.node.node_type != "SQL":
            try:
                return json_block(json.loads(self.source))
            except ValueError:  # cut, or nothing
                return tag("pre", self.source, class_="wb-block", tabindex="0")
        lines = [
            tag("span", f"{text}\n", class_="wb-caret" if caret else None)
            for text, caret in with_caret(self.source, self._position)
        ]
        return tag("pre", lines, class_="wb-block", tabindex="0")

    def _facts(self, *, html: bool = False) -> list[tuple[str, Child]]:
        row = self.row
        facts: list[tuple[str, Child]] = []
        if row.started_at is not None:
            facts.append(("started", when(row.started_at) if html else moment(row.started_at)))
            facts.append(("took", duration((row.finished_at - row.started_at).total_seconds())))
        if said := delay_words(row):
            facts.append(("then", said))
        if row.engine_id:
            where = f" on {row.host}, pid {row.pid}" if row.host else ""
            facts.append(("engine", f"{row.engine_id}{where}"))
        if row.fingerprint:
            facts.append(("code", row.fingerprint))
        facts.append(("", "exactly once" if row.exactly_once else "at least once"))
        return facts


def with_caret(text: str, position: int | None) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a statement, and below the one with an error a caret at its place.

    Parameters:
        position: of the error in characters from 1; None when it has no place.
    """
    rest = None if position is None else position - 1
    for line in text.split("\n"):
        yield line, False
        if rest is not None and 0 <= rest <= len(line):
            # What stands before it keeps its tabs, so that the caret stands below its place.
            yield "".join("\t" if c == "\t" else " " for c in line[:rest]) + "^", True
            rest = None
        elif rest is not None:
            rest -= len(line) + 1
