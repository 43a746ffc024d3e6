"""The view of one run: what it is, how it stands, what went wrong, its steps, its result.

`run_html`, `run_text` and `run_frame` are pure functions of `RunData`; `RunView` holds the three
together as a cell's output.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from workbench.store.records import AttemptRow, NodeRow, RunRow
from workbench.views import live, preview
from workbench.views.base import View, page
from workbench.views.clock import lasting, milliseconds, when
from workbench.views.live import Source
from workbench.views.markup import EMPTY, Safe, join, tag
from workbench.views.status import STATUSES, badge, of_node, of_run
from workbench.views.step_detail import error_line, error_text
from workbench.views.steps import (
    RunData,
    attempt_words,
    lasted,
    step_list,
    step_title,
    visible,
)
from workbench.views.words import as_of, count, duration, one_line, shorten

if TYPE_CHECKING:
    import pandas

__all__ = ["RunData", "RunView", "run_frame", "run_html", "run_text"]

_LINES = 100  # steps in the text form


class RunView(View):
    """One run as of `run.as_of`.

    Parameters:
        run, nodes, attempts: what `store.monitor` reads; without attempts only their count shows.
        source: where newer data comes from; with it the view is live until the run has ended.
    """

    def __init__(
        self,
        run: RunRow,
        nodes: Sequence[NodeRow],
        attempts: Sequence[AttemptRow] = (),
        *,
        source: Source | None = None,
    ) -> None:
        self.data = RunData(run, nodes, attempts)
        self._source = source

    @property
    def df(self) -> pandas.DataFrame:
        """One row a step; see `run_frame`."""
        return run_frame(self.data)

    def html(self) -> Safe:
        return run_html(self.data)

    def __str__(self) -> str:
        return run_text(self.data)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(include, exclude)
        if self._source is None or self.data.ended:
            return bundle  # nothing will change: this survives the kernel
        return bundle | live.widget(self._source, self.data)

    def __repr__(self) -> str:
        return f"<RunView {self.data.run.run_id} {of_run(self.data.run, self.data.nodes)}>"


def run_frame(data: RunData) -> pandas.DataFrame:
    """Return the steps as a DataFrame, a row each in pre-order, THENs left out.

    Index `node_id`. Columns: `type`, `title`, `name`, `status`, `error` (text); `attempt`,
    `losses` (int64); `rows` (Int64); `started_at`, `finished_at` (datetime64[us, UTC]); `seconds`
    (float64, of the last attempt).
    """
    import pandas

    nodes = [node for _, node in visible(data)]
    text = pandas.Series(["text"]).dtype
    times = "datetime64[us, UTC]"
    columns = {
        "type": ([n.node_type for n in nodes], text),
        "title": ([step_title(data, n).text for n in nodes], text),
        "name": ([n.result_name for n in nodes], text),
        "status": ([of_node(n) for n in nodes], text),
        "attempt": ([n.attempt for n in nodes], "int64"),
        "losses": ([n.losses for n in nodes], "int64"),
        "rows": ([n.row_count for n in nodes], "Int64"),
        "started_at": ([n.started_at for n in nodes], times),
        "finished_at": ([n.finished_at for n in nodes], times),
        "seconds": ([lasted(data.run, n, of_node(n)) for n in nodes], "float64"),
        "error": ([error_text(n.error) if n.error else None for n in nodes], text),
    }
    index = pandas.Index([n.node_id for n in nodes], name="node_id", dtype="int64")
    return pandas.DataFrame(
        {name: pandas.Series(values, index, dtype) for name, (values, dtype) in columns.items()},
        index=index,
    )


def run_text(data: RunData) -> str:
    """Return a run as text: a header, then a line a step."""
    run = data.run
    status = of_run(run, data.nodes)
    label = f" ({run.label})" if run.label else ""
    lines = [f"Run {run.run_id}{label}", f"{STATUSES[status].icon} {status}, {_age(run)}"]
    lines += [note.replace("`", "") for note in (_what(run), _next(data)) if note]
    lines.append("")
    rows = [_text_row(data, level, node) for level, node in _in_text(data)]
    width = min(max((len(row[1]) for row in rows), default=0), 72)
    lines += [f"{mark} {title:<{width}}  {rest}".rstrip() for mark, title, rest in rows]
    if left := len(visible(data)) - len(rows):
        lines.append(f"… and {count(left, 'more step')} in .df")
    return "\n".join([*lines, "", as_of(run.as_of)])


def _in_text(data: RunData) -> list[tuple[int, NodeRow]]:
    """Return the steps of the text form: all of a small run, else those that are not settled."""
    steps = visible(data)
    if len(steps) <= _LINES:
        return steps
    telling = [
        step
        for number, step in enumerate(steps)
        if number < _LINES // 10 or of_node(step[1]) not in ("completed", "pending", "skipped")
    ]
    return telling[:_LINES]


def _text_row(data: RunData, level: int, node: NodeRow) -> tuple[str, str, str]:
    status = of_node(node)
    seconds = lasted(data.run, node, status)
    name = f" → {node.result_name}" if node.result_name else ""
    rest = [
        status,
        attempt_words(data.run, node, status),
        preview.summary(node),
        "" if seconds is None else duration(seconds),
        error_line(node) or "",
    ]
    title = f"{'    ' * level}{shorten(str(step_title(data, node)), 60)}{name}"
    return STATUSES[status].icon, title, "  ".join(part for part in rest if part)


def run_html(data: RunData, *, style: bool = True) -> Safe:
    """Return a run as a picture; without its `style` where that is there already."""
    run = data.run
    status = of_run(run, data.nodes)
    return page(
        f"Run {run.run_id}, {status}",
        run.as_of,
        _header(data, status),
        _note(data, status),
        step_list(data),
        _result(data),
        style=style,
        data_start=milliseconds(run.started_at or run.created_at),
        data_end=milliseconds(run.finished_at) if run.finished_at else None,
    )


def _header(data: RunData, status: str) -> Safe:
    run = data.run
    line = tag(
        "div",
        tag("span", badge(status, class_="wb-pill"), class_="wb-now", role="status"),
        tag("span", run.label, class_="wb-label") if run.label else None,
        tag("code", run.run_id, class_="wb-id"),
        _running_time(run),
        class_="wb-head-line",
    )
    facts = [tag("li", name, " ", tag("b", value)) for name, value in _facts(data)]
    return tag("header", line, tag("ul", facts, class_="wb-facts"), class_="wb-head")


def _running_time(run: RunRow) -> Safe | None:
    if run.started_at is None:
        return None
    return lasting(_seconds(run), None if run.finished_at else run.started_at, "wb-long")


def _facts(data: RunData) -> list[tuple[str, str]]:
    run = data.run
    leaves = [node for node in data.nodes if node.node_id not in data.children]
    done = sum(node.status in ("completed", "skipped") for node in leaves)
    facts = [
        ("started", when(run.started_at)) if run.started_at else ("created", when(run.created_at)),
        ("steps", f"{done:,} of {len(leaves):,}"),
        ("policy", _policy(run)),
    ]
    if run.input_preview != "null":
        facts.append(("input", shorten(one_line(run.input_preview), 60)))
    if run.restart_of_run_id:
        facts.append(("retry of", run.restart_of_run_id))
    if run.database:
        facts.append(("database", run.database))
    return facts


def _policy(run: RunRow) -> str:
    if run.max_attempts == 1:
        said = "1 attempt"
    else:
        said = f"{run.max_attempts} attempts, backoff to {duration(run.max_backoff)}"
    return f"{said}, then the loop goes on" if run.on_failure == "continue" else said


def _note(data: RunData, status: str) -> Safe | None:
    run = data.run
    what, move = _what(run), _next(data)
    if not what and not move:
        return None
    resting = any(of_node(node) == "retrying" for node in data.nodes)
    look = "failed" if run.parked else "retrying" if resting else status
    return tag(
        "div",
        tag("p", what, class_="wb-note-what") if what else None,
        tag("p", where, class_="wb-note-where") if (where := _where(data)) else None,
        tag("p", _with_code(move), class_="wb-note-next") if move else None,
        class_=f"wb-note wb-is-{look}",
        data_key="note",
        role="status",
    )


def _what(run: RunRow) -> str | None:
    """Say what went wrong."""
    if run.parked:
        return f"Engines leave this run alone: {error_text(run.parked)}"
    return shorten(error_text(run.error), 1200) if run.error else None


def _where(data: RunData) -> str | None:
    """Name the step that decided a failed run: the one that failed last without a cause below."""
    if data.run.status != "failed":
        return None
    failed = [n for n in data.nodes if n.status == "failed" and n.node_id not in data.children]
    if not failed:
        return None
    node = max(failed, key=lambda n: (n.finished_at is not None, n.finished_at, n.node_id))
    named = node.result_name or f"#{node.node_id}"
    tries = f"attempt {node.attempt} of {data.run.max_attempts}"
    return f"in step {named} · {step_title(data, node)} · {tries}"


def _next(data: RunData) -> str | None:
    """Say the next move; code between backquotes."""
    run = data.run
    if run.status == "failed":
        return "`run.failure` has the attempt; `bench.start(run.definition)` starts its graph anew."
    if run.status in ("pending", "running") and not run.live_engines:
        return "No engine is alive to advance it: `bench.work()` starts one here."
    return f"It waits: {run.waits_for}." if run.waits_for else None


def _with_code(text: str) -> list[Safe | str]:
    return [tag("code", part) if index % 2 else part for index, part in enumerate(text.split("`"))]


def _result(data: RunData) -> Safe:
    """Return the run's value: the root's, or that of the node which decided it."""
    if data.run.status != "completed" or len(data.nodes) < 2:
        return EMPTY
    root = data.nodes[0]
    decided = data.nodes[root.result_node] if root.result_node is not None else root
    if decided.result_preview is None:
        return EMPTY
    size = preview.summary(decided)
    caption = join("result", f" · {size}" if size else "")
    return tag(
        "div",
        tag("div", caption, class_="wb-cap"),
        preview.value(decided),
        class_="wb-part",
        data_key="result",
    )


def _seconds(run: RunRow) -> float:
    start = run.started_at or run.created_at
    return ((run.finished_at or run.as_of) - start).total_seconds()


def _age(run: RunRow) -> str:
    if run.finished_at:
        return f"took {duration(_seconds(run))}"
    return f"for {duration(_seconds(run))}, {count(run.live_engines, 'engine')} alive"
