"""How a lineage looks, as HTML and as text: pure functions of its data."""

from __future__ import annotations

from functools import cache
from importlib import resources
from itertools import pairwise

from workbench.store.lineage_records import DiffRow, LineageRow
from workbench.views.base import page
from workbench.views.clock import lasting, when
from workbench.views.lineage_data import LineageData
from workbench.views.markup import Safe, tag
from workbench.views.status import STATUSES, badge
from workbench.views.words import as_of, count, duration, moment, one_line, shorten

__all__ = ["history_css", "lineage_html", "lineage_text", "took", "what_differed"]

_DEEPEST = 10  # steps to the right; deeper runs stand below each other


@cache
def history_css() -> Safe:
    """The looks that lineages, failures and attempts have of their own."""
    return Safe(resources.files(__package__).joinpath("history.css").read_text("utf-8"))


def lineage_html(data: LineageData, *, live: bool = False) -> Safe:
    """Return the tree; when `live` with what the front end's buttons hang on."""
    items = [_item(data, group, live) for group in data.chains()]
    tree = tag("ol", items, class_="wb-restarts", role="tree", aria_label="runs")
    return page(
        "Lineage",
        data.as_of,
        None if live else tag("style", history_css()),
        _head(data),
        tree,
        style=not live,
    )


def lineage_text(data: LineageData) -> str:
    """Return the tree as text, a run a line, and below it what differed from its source."""
    lines = [f"Lineage of {data.current}: {count(len(data.rows), 'run')}", ""]
    for group in data.chains():
        row = group[0]
        indent = "  " * min(row.depth, _DEEPEST)
        if len(group) > 1:
            lines.append(f"{indent}… {_folded(group)}")
            continue
        seconds = took(data, row)
        parts = [
            f"{indent}{STATUSES[row.status].icon} {row.run_id}  {row.kind:<6}  {row.status:<9}",
            moment(row.started_at or row.created_at),
            "" if seconds is None else duration(seconds),
            row.error or "",
            "← this run" if row.run_id == data.current else "",
        ]
        lines.append("  ".join(part for part in parts if part))
        if differs := what_differed(data, row):
            lines.append(f"{indent}    differs: {differs}")
    return "\n".join([*lines, "", as_of(data.as_of)])


def took(data: LineageData, row: LineageRow) -> float | None:
    """Return the seconds from a run's start to its end, or to now."""
    if row.started_at is None:
        return None
    return ((row.finished_at or data.as_of) - row.started_at).total_seconds()


def what_differed(data: LineageData, row: LineageRow) -> str:
    """Say in a line what differed between a run and its source."""
    return ", ".join(map(_difference, data.diffs.get(row.run_id, ())))


def _difference(diff: DiffRow) -> str:
    if diff.what == "handler":
        return f"code of {diff.name.rpartition(':')[2]}"
    name = f"{diff.what} {diff.name}".rstrip()
    before, after = (
        "not set" if value is None else shorten(one_line(value), 40)
        for value in (diff.before, diff.after)
    )
    return f"{name}: {before} → {after}"


def _head(data: LineageData) -> Safe:
    words = [row.status for row in data.rows]
    counted = [
        tag("li", badge(word, f"{words.count(word):,} {word}"))
        for word in STATUSES
        if word in words
    ]
    line = tag(
        "div",
        tag("span", "Lineage", class_="wb-label"),
        tag("code", data.current, class_="wb-id"),
        tag("span", count(len(data.rows), "run"), class_="wb-long wb-quiet"),
        class_="wb-head-line",
    )
    return tag("header", line, tag("ul", counted, class_="wb-facts"), class_="wb-head")


def _item(data: LineageData, group: list[LineageRow], live: bool) -> Safe:
    row = group[0]
    indent = f"--wb-depth:{min(row.depth, _DEEPEST)}"
    if len(group) > 1:
        said = tag("div", f"… {_folded(group)}", class_="wb-restart wb-fold", role="treeitem")
        return tag("li", said, style=indent, data_key=f"fold {row.run_id}", role="none")
    current = row.run_id == data.current
    differs = what_differed(data, row)
    top = tag(
        "div",
        badge(row.status),
        tag("code", row.run_id, class_="wb-id"),
        tag("span", row.kind, class_="wb-kind"),
        tag("span", "this run", class_="wb-mark") if current else None,
        tag("span", row.label, class_="wb-restart-label", title=row.label) if row.label else None,
        tag("span", when(row.started_at or row.created_at), class_="wb-meta"),
        _lasting(data, row),
        tag("span", class_="wb-acts", data_run=row.run_id) if live and _can(data, row) else None,
        class_="wb-restart-top",
    )
    body = tag(
        "div",
        top,
        tag("div", row.error, class_="wb-restart-line wb-is-failed", title=row.error)
        if row.error and row.status != "completed"
        else None,
        tag("div", "differs: ", differs, class_="wb-restart-line", title=differs)
        if differs
        else None,
        class_=f"wb-restart{' wb-current' if current else ''}",
        role="treeitem",
        aria_level=row.depth + 1,
        aria_current="true" if current else None,
        tabindex=0,
    )
    return tag("li", body, style=indent, data_key=row.run_id, role="none")


def _lasting(data: LineageData, row: LineageRow) -> Safe | None:
    seconds = took(data, row)
    if seconds is None:
        return None
    return lasting(seconds, None if row.finished_at else row.started_at, "wb-time")


def _can(data: LineageData, row: LineageRow) -> bool:
    return row.status == "failed" and row.run_id in data.leaves


def _folded(group: list[LineageRow]) -> str:
    """Say what a fold leaves out: all of it failed and was retried."""
    same = all(a.error == b.error for a, b in pairwise(group))
    error = f", each with {group[0].error}" if same and group[0].error else ""
    return f"{count(len(group), 'more failed run')}{error}"
