"""The view of one run: what it is, how it stands, what went wrong, its steps, its result.

`run_html`, `run_text` and `run_frame` are pure functions of `RunData`; `RunView` holds the three
together as a cell's output.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from workbench.store.records import NodeRow, RunRow
from workbench.views import live, preview
from workbench.views.base import View, page
from workbench.views.clock import lasting, milliseconds, told, when
from workbench.views.live import Source
from workbench.views.markup import EMPTY, Safe, join, tag
from workbench.views.picture import run_picture
from workbench.views.reasons import reason
from workbench.views.run_data import Place, RunData, visible, waited_for
from workbench.views.status import STATUSES, badge, of_node, of_run
from workbench.views.step_detail import error_line, error_text
from workbench.views.steps import attempt_words, lasted, step_list, step_title
from workbench.views.titles import config
from workbench.views.words import as_of, count, duration, one_line, shorten

if TYPE_CHECKING:
    import pandas

__all__ = ["RunView", "run_frame", "run_header", "run_html", "run_line", "run_text", "signal_names"]

_LINES = 100  # steps in the text form


class RunView(View):
    """One run as of `data.run.as_of`.

    Parameters:
        data: what `store.monitor` reads; without attempts only their count shows.
        source: where newer data comes from; with it the view is live until the run has ended.
    """

    def __init__(self, data: RunData, *, source: Source | None = None) -> None:
        self.data = data
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
        failed = self.data.run.status == "failed"
        if self._source is None or (self.data.ended and not failed):
            return bundle  # nothing will change or can be done: this survives the kernel
        return bundle | live.widget(self._source, self.data)

    def __repr__(self) -> str:
        return f"<RunView {self.data.run.run_id} {of_run(self.data.run, self.data.nodes)}>"


def run_frame(data: RunData) -> pandas.DataFrame:
    """Return the steps as a DataFrame, a row each in pre-order, THENs left out.

    Index `node_id`. Columns: `type`, `title`, `name`, `status`, `waits_for`, `error` (text);
    `attempt`, `losses`, `iteration` (int64); `rows` (Int64); `started_at`, `finished_at`, `due_at`
    (datetime64[us, UTC]; the last when a wait ends); `seconds` (float64, of the last attempt).
    """
    import pandas

    nodes = [node for node in data.nodes if node.node_type != "THEN"]
    text = pandas.Series(["text"]).dtype
    times = "datetime64[us, UTC]"
    columns = {
        "type": ([n.node_type for n in nodes], text),
        "title": ([step_title(data, n).text for n in nodes], text),
        "name": ([n.result_name for n in nodes], text),
        "status": ([of_node(n) for n in nodes], text),
        "attempt": ([n.attempt for n in nodes], "int64"),
        "losses": ([n.losses for n in nodes], "int64"),
        "iteration": ([n.iteration for n in nodes], "int64"),
        "rows": ([n.row_count for n in nodes], "Int64"),
        "started_at": ([n.started_at for n in nodes], times),
        "finished_at": ([n.finished_at for n in nodes], times),
        "due_at": ([_due_at(n) for n in nodes], times),
        "seconds": ([lasted(data.run, n, of_node(n)) for n in nodes], "float64"),
        "waits_for": ([_reason(data, n) or None for n in nodes], text),
        "error": ([error_text(n.error) if n.error else None for n in nodes], text),
    }
    index = pandas.Index([n.node_id for n in nodes], name="node_id", dtype="int64")
    return pandas.DataFrame(
        {name: pandas.Series(values, index, dtype) for name, (values, dtype) in columns.items()},
        index=index,
    )


def _due_at(node: NodeRow) -> datetime | None:
    return node.ready_at if of_node(node) in ("waiting", "retrying") else None


def _reason(data: RunData, node: NodeRow) -> str:
    found = reason(data, node)
    return told(found.pieces, data.run.as_of) if found else ""


def run_text(data: RunData) -> str:
    """Return a run as text: a header, then a line a step."""
    run = data.run
    status = of_run(run, data.nodes)
    label = f" ({run.label})" if run.label else ""
    lines = [f"Run {run.run_id}{label}", f"{STATUSES[status].icon} {status}, {_age(run)}"]
    lines += [note.replace("`", "") for note in (_what(run), _next(data), _unread(data)) if note]
    lines.append("")
    rows = [_text_row(data, place) for place in _in_text(data)]
    width = min(max((len(row[1]) for row in rows), default=0), 72)
    lines += [f"{mark} {title:<{width}}  {rest}".rstrip() for mark, title, rest in rows]
    if left := len(visible(data)) - len(rows):
        lines.append(f"… and {count(left, 'more step')} in .df")
    return "\n".join([*lines, "", as_of(run.as_of)])


def run_line(data: RunData, width: int = 78) -> str:
    """Return how a run stands in one line: its state, how many steps are done, what it does."""
    leaves = [node for node in data.nodes if node.node_id not in data.children]
    done = sum(node.status in ("completed", "skipped") for node in leaves)
    status = of_run(data.run, data.nodes)
    done_of = f"{done:,} of {count(len(leaves), 'step')}"
    said = f"{STATUSES[status].icon} run {data.run.run_id} {status}, {done_of}, {_took(data.run)}"
    under_way = [
        node for node in leaves if of_node(node) in ("retrying", "waiting", "running", "failed")
    ]
    why = next((found for node in under_way if (found := _reason(data, node))), "")
    if not why and under_way:
        why = str(step_title(data, under_way[0]))
    return shorten(f"{said}: {one_line(why)}" if why else said, width)


def _in_text(data: RunData) -> list[Place]:
    """Return the steps of the text form: all of a small run, else those that are not settled."""
    steps = visible(data)
    if len(steps) <= _LINES:
        return steps
    telling = [
        step
        for number, step in enumerate(steps)
        if number < _LINES // 10 or of_node(step.node) not in ("completed", "pending", "skipped")
    ]
    return telling[:_LINES]


def _text_row(data: RunData, place: Place) -> tuple[str, str, str]:
    node = place.node
    status = of_node(node)
    seconds = lasted(data.run, node, status)
    name = f" → {node.result_name}" if node.result_name else ""
    rest = [
        status,
        attempt_words(data.run, node, status),
        preview.summary(node),
        "" if seconds is None else duration(seconds),
        error_line(node) or "",
        _reason(data, node),
    ]
    part = f"{place.heading}: " if place.heading not in ("", "body") else ""
    title = f"{'    ' * place.level}{part}{shorten(str(step_title(data, node)), 60)}{name}"
    return STATUSES[status].icon, title, "  ".join(part for part in rest if part)


def run_html(data: RunData, *, style: bool = True) -> Safe:
    """Return a run as a picture; without its `style` where that is there already."""
    run = data.run
    status = of_run(run, data.nodes)
    return page(
        f"Run {run.run_id}, {status}",
        run.as_of,
        run_header(data),
        _note(data, status),
        step_list(data),
        _result(data),
        run_picture(data),
        style=style,
        data_start=milliseconds(run.started_at or run.created_at),
        data_end=milliseconds(run.finished_at) if run.finished_at else None,
    )


def run_header(data: RunData) -> Safe:
    """Return what stands above every picture of a run: status, label, id, duration, facts."""
    run = data.run
    status = of_run(run, data.nodes)
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
    if run.flow:
        facts.append(("flow", f"{run.flow}, version {run.flow_version}"))
    if run.input_preview != "null":
        facts.append(("input", shorten(one_line(run.input_preview), 60)))
    if (shown := sum(map(len, data.attempts_of.values()))) < run.attempts:
        facts.append(("attempts", f"{shown:,} of {run.attempts:,} shown"))
    if data.signals:
        facts.append(("unread signals", _signals(data)))
    if run.restart_of_run_id:
        of = "resumed from" if run.kind == "resume" else "retry of"
        facts.append((of, run.restart_of_run_id))
    if run.database:
        facts.append(("database", run.database))
    return facts


def signal_names(data: RunData) -> list[str]:
    """Return the names of the signals that steps wait for, each once."""
    names = (config(node).get("signal_name") for node in waited_for(data))
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _signals(data: RunData) -> str:
    """Name the signals that nothing has taken yet: `approval (2), go (1)`."""
    return ", ".join(f"{one_line(each.name)} ({each.unread:,})" for each in data.signals)


def _unread(data: RunData) -> str | None:
    return f"unread signals: {_signals(data)}" if data.signals else None


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
        return "`run.failure` has the attempt; `run.retry()` runs it once more, `run.resume()` from here."
    if run.status in ("pending", "running") and not run.live_engines:
        return "No engine is alive to advance it: `bench.work()` starts one here."
    if run.waits_for:
        return f"It waits: {run.waits_for}."
    names = signal_names(data) if of_run(run, data.nodes) == "waiting" else []
    return f"It waits for a signal: {_calls(names)}." if names else None


def _calls(names: list[str]) -> str:
    shown = [f"`run.signal({json.dumps(name, ensure_ascii=False)})`" for name in names[:3]]
    return " or ".join(shown) + (" …" if len(names) > 3 else "")


def _with_code(text: str) -> list[Safe | str]:
    return [tag("code", part) if index % 2 else part for index, part in enumerate(text.split("`"))]


def _result(data: RunData) -> Safe:
    """Return the run's value: the root's, or that of the node which decided it."""
    if data.run.status != "completed" or len(data.nodes) < 2:
        return EMPTY
    root = data.nodes[0]
    decided = data.by_id[root.result_node] if root.result_node is not None else root
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


def _took(run: RunRow) -> str:
    return duration(_seconds(run))


def _age(run: RunRow) -> str:
    if run.finished_at:
        return f"took {_took(run)}"
    return f"for {_took(run)}, {count(run.live_engines, 'engine')} alive"
