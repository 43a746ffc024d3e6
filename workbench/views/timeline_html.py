"""The timeline without a browser's scripts: HTML made of positioned bars, and text.

Pure functions of the lines of `timeline_data`. The live picture is `timeline_figure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Final

from workbench.store.records import RunRow
from workbench.views.base import page
from workbench.views.markup import Safe, tag
from workbench.views.run_data import RunData
from workbench.views.status import badge, of_run
from workbench.views.step_detail import error_text
from workbench.views.timeline_data import SOURCES, Line, Span, bounds, drawn, lines
from workbench.views.words import as_of, clock, count, duration, one_line, shorten

__all__ = ["LOOKS", "span_text", "timeline_css", "timeline_html", "timeline_text"]

#: The status whose colour an outcome has; waits are hatched in that of their source.
LOOKS: Final = {
    "completed": "completed", "failed": "failed", "cancelled": "cancelled", "running": "running",
    "worker_lost": "retrying", "abandoned": "failed", "skipped": "skipped",
    "backoff": "retrying", "retry_after": "retrying", "http_retry_after": "retrying",
    "schedule": "waiting", "signal": "waiting", "sleep": "waiting", "interval": "waiting",
    "capacity": "pending",
}  # fmt: skip
_WIDTH = 60  # characters of the text form's bars
_LABELLED = 0.07  # share of the width from which a wait's label has room
_TICKS = 6
_STEPS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600),
    *(7200, 14400, 21600, 43200, 86400, 172800, 604800),
)


@cache
def timeline_css() -> Safe:
    """The looks that only this view has."""
    return Safe(resources.files(__package__).joinpath("timeline.css").read_text("utf-8"))


def timeline_html(data: RunData, *, live: bool = False) -> Safe:
    """Return the timeline as positioned bars, in which hovering names each."""
    found = lines(data)
    shown = drawn(found)
    first, last = bounds(data, shown)
    more = len(found) - len(shown)
    return page(
        f"Timeline of run {data.run.run_id}",
        data.as_of,
        None if live else tag("style", timeline_css()),
        _head(data, found),
        tag(
            "div",
            _axis(first, last),
            [_line(line, data, first, last) for line in shown],
            class_="wb-lines",
            role="table",
            aria_label="attempts and waits by step",
        )
        if shown
        else tag("div", tag("p", "Nothing has begun."), class_="wb-none"),
        tag("p", f"and {count(more, 'more step')} in .df", class_="wb-none") if more > 0 else None,
        style=not live,
    )


def timeline_text(data: RunData) -> str:
    """Return a bar of characters a step (█ attempts, ░ waits), and below it each in words."""
    found = lines(data)
    shown = drawn(found)
    first, last = bounds(data, shown)
    width = max([len(_shown(line)) for line in shown], default=0)
    out = [f"Timeline of {data.run.run_id}: {duration((last - first).total_seconds())}", ""]
    for line in shown:
        out.append(f"{_shown(line):<{width}}  {_drawn(line, data.as_of, first, last)}")
        out.append(f"{'':<{width}}  {shorten('; '.join(map(span_text, line.spans)), 300)}")
    if len(found) > len(shown):
        out.append(f"and {len(found) - len(shown):,} more in .df")
    return "\n".join([*out, "", as_of(data.as_of)])


def span_text(span: Span) -> str:
    """Say one span: `attempt 1 failed after 30 ms: e1`, `backoff 1.0 s`."""
    lasted = "" if span.end is None else duration((span.end - span.start).total_seconds())
    if span.kind == "wait":
        return f"{SOURCES[span.word]} {lasted or 'so far'}"
    what = (
        f"iteration {span.iteration:,}" if span.kind == "iteration" else f"attempt {span.attempt}"
    )
    if span.end is None:
        return f"{what} runs"
    outcome = span.word.replace("_", " ")
    return f"{what} {outcome} after {lasted}{_why(span)}"


def _why(span: Span) -> str:
    return f": {shorten(one_line(error_text(span.error)), 120)}" if span.error else ""


def _shown(line: Line) -> str:
    return shorten(f"{'  ' * line.level}{one_line(line.name)}", 32)


def _drawn(line: Line, now: datetime, first: datetime, last: datetime) -> str:
    cells = [" "] * _WIDTH
    whole = (last - first).total_seconds()
    for span in line.spans:
        left = int((span.start - first).total_seconds() / whole * (_WIDTH - 1))
        until = min(span.end or now, last)
        right = max(int((until - first).total_seconds() / whole * (_WIDTH - 1)), left)
        mark = "░" if span.kind == "wait" else "█"
        for place in range(max(left, 0), min(right + 1, _WIDTH)):
            if mark == "█" or cells[place] == " ":
                cells[place] = mark
    return "".join(cells).rstrip()


def _head(data: RunData, found: Sequence[Line]) -> Safe:
    return tag(
        "header",
        tag(
            "div",
            tag("span", badge(of_run(data.run, data.nodes), class_="wb-pill"), class_="wb-now"),
            tag("span", "Timeline of ", data.run.label or "run", class_="wb-label"),
            tag("code", data.run.run_id, class_="wb-id"),
            tag("span", _lasted(data.run), class_="wb-long"),
            class_="wb-head-line",
        ),
        tag(
            "ul",
            tag("li", count(len(found), "step")),
            tag("li", _attempts(data, found)),
            [_legend(word) for word in _words(found)],
            class_="wb-facts",
        ),
        class_="wb-head",
        data_loops=any(node.node_type == "LOOP" for node in data.nodes),
    )


def _attempts(data: RunData, found: Sequence[Line]) -> str:
    """Say how many attempts there were, and when only the last ones are here."""
    if len(data.attempts) < data.run.attempts:
        return f"the last {len(data.attempts):,} of {count(data.run.attempts, 'attempt')}"
    return count(sum(s.kind == "attempt" for line in found for s in line.spans), "attempt")


def _lasted(run: RunRow) -> str:
    if run.started_at is None:
        return ""
    return duration(((run.finished_at or run.as_of) - run.started_at).total_seconds())


def _words(shown: Sequence[Line]) -> list[str]:
    seen = {span.word for line in shown for span in line.spans}
    return [word for word in LOOKS if word in seen]


def _legend(word: str) -> Safe:
    hatched = " wb-hatched" if word in SOURCES and word != "worker_lost" else ""
    key = tag("i", class_=f"wb-key wb-is-{LOOKS[word]}{hatched}", aria_hidden="true")
    return tag("li", key, SOURCES.get(word, word))


def _axis(first: datetime, last: datetime) -> Safe:
    whole = (last - first).total_seconds()
    step = next((each for each in _STEPS if whole / each <= _TICKS), _STEPS[-1])
    marks = [
        tag("span", duration(number * step), style=f"left:{100 * number * step / whole:.2f}%")
        for number in range(int(whole / step) + 1)
        if number * step / whole < 0.95
    ]
    began = tag("span", clock(first, last), class_="wb-line-name", title="when it began")
    return tag("div", began, tag("div", marks, class_="wb-ticks"), class_="wb-tl wb-axis")


def _line(line: Line, data: RunData, first: datetime, last: datetime) -> Safe:
    name = tag(
        "span",
        one_line(line.name),
        class_="wb-line-name",
        style=f"padding-left:{line.level * 12}px",
        title=f"#{line.node.node_id} {one_line(line.name)}",
        role="rowheader",
    )
    spans = [_bar(span, data.as_of, first, last) for span in line.spans]
    if not data.ended:
        share = 100 * (data.as_of - first).total_seconds() / (last - first).total_seconds()
        spans.append(tag("b", class_="wb-nowline", style=f"left:{share:.2f}%", title="now"))
    said = tag("span", "; ".join(map(span_text, line.spans)), class_="wb-unseen")
    lane = tag("div", spans, said, class_="wb-lane", role="cell")
    return tag("div", name, lane, class_="wb-tl", role="row")


def _bar(span: Span, now: datetime, first: datetime, last: datetime) -> Safe:
    whole = (last - first).total_seconds()
    until = min(span.end or max(now, span.start), last)
    left = max((span.start - first).total_seconds() / whole, 0.0)
    width = max((until - max(span.start, first)).total_seconds() / whole, 0.0)
    wait = span.kind == "wait"
    return tag(
        "i",
        SOURCES[span.word] if wait and width > _LABELLED else None,
        class_=f"wb-is-{LOOKS[span.word]}{' wb-hatched' if wait else ''}",
        style=f"left:{100 * left:.2f}%;width:{100 * width:.2f}%",
        title=span_text(span),
    )
