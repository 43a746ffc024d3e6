"""The timeline as a plotly figure, plain JSON: a bar an attempt, waits hatched and labelled.

Colours are names of the style sheet's variables, which the front end looks up in the theme it is
in; `figure` puts light ones in their place for people who go on with the figure themselves. Times
are milliseconds since 1970; plotly itself is imported only by `figure`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from workbench.views.clock import milliseconds
from workbench.views.run_data import RunData
from workbench.views.status import STATUSES
from workbench.views.timeline_data import SOURCES, Line, Span, bounds
from workbench.views.timeline_html import LOOKS, span_text
from workbench.views.words import duration, one_line, shorten

if TYPE_CHECKING:
    import plotly.graph_objects

__all__ = ["figure", "spec"]

_ROW = 30  # pixels a line
_TALLEST = 900  # pixels; more lines are thinner ones
_THICKNESS = 0.62  # of a line


def spec(data: RunData, shown: Sequence[Line]) -> dict[str, Any]:
    """Return `data`, `layout` and `open` of the figure; the latter are the bars that grow, as pairs
    of the trace's and the bar's number.
    """
    first, last = bounds(data, shown)
    groups: dict[str, list[tuple[int, Span]]] = defaultdict(list)
    for place, line in enumerate(shown):
        for span in line.spans:
            groups[span.word].append((place, span))
    words = [word for word in LOOKS if word in groups]
    traces = [_trace(word, groups[word], data.as_of, last) for word in words]
    growing = [
        [number, bar]
        for number, word in enumerate(words)
        for bar, (_, span) in enumerate(groups[word])
        if span.end is None and not data.ended
    ]
    return {"data": traces, "layout": _layout(data, shown, first, last), "open": growing}


def figure(data: RunData, shown: Sequence[Line]) -> plotly.graph_objects.Figure:
    """Return the same as a plotly figure of its own, in light colours and UTC."""
    import plotly.graph_objects as go

    made = spec(data, shown)
    return go.Figure(_lit(made["data"]), _lit(made["layout"]))


def _trace(
    word: str, spans: Sequence[tuple[int, Span]], now: datetime, last: datetime
) -> dict[str, Any]:
    colour = f"--wb-{LOOKS[word]}"
    wait = spans[0][1].kind == "wait"
    # No outline: plotly then draws at least a pixel, and what took a moment is still to be seen.
    marker: dict[str, Any] = {"color": colour, "line": {"width": 0}}
    if wait:
        marker["pattern"] = {
            "shape": "/", "fillmode": "overlay", "size": 6, "solidity": 0.22, "fgcolor": colour,
            "bgcolor": "--wb-bg",
        }  # fmt: skip
        marker["line"] = {"width": 1, "color": colour}
    return {
        "type": "bar",
        "orientation": "h",
        "name": SOURCES.get(word, word),
        "base": [milliseconds(span.start) for _, span in spans],
        "x": [_lasted(span, now, last) for _, span in spans],
        "y": [place for place, _ in spans],
        "width": _THICKNESS,
        "marker": marker,
        "text": [SOURCES[word] if wait else "" for _ in spans],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"size": 11, "color": "--wb-fg"},
        "constraintext": "none",
        "cliponaxis": True,
        "hovertext": [_hover(span) for _, span in spans],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _lasted(span: Span, now: datetime, last: datetime) -> int:
    end = span.end if span.end is not None else max(now, span.start)
    return max(milliseconds(min(end, last)) - milliseconds(span.start), 1)


def _hover(span: Span) -> str:
    """Everything about a span; values of the run are escaped, for plotly reads tags."""
    said = [span_text(span)]
    if span.iteration is not None and span.kind == "attempt":
        said.append(f"iteration {span.iteration:,}")
    if span.error:
        kind, state = span.error.get("type"), span.error.get("sqlstate")
        said.append(" ".join(str(each) for each in (kind, state and f"SQLSTATE {state}") if each))
    if span.delay is not None and span.kind == "attempt":
        source = SOURCES.get(span.delay_source or "", span.delay_source or "")
        said.append(f"next attempt {duration(span.delay)} later ({source})")
    return "<br>".join(escape(shorten(one_line(line), 160)) for line in said)


def _layout(
    data: RunData, shown: Sequence[Line], first: datetime, last: datetime
) -> dict[str, Any]:
    start, end = milliseconds(first), milliseconds(last)
    edge = max((end - start) // 50, 1)
    names = [f"{'&nbsp;' * 3 * line.level}{escape(_name(line))}" for line in shown]
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "height": min(56 + _ROW * len(shown), _TALLEST),
        "margin": {"l": 8, "r": 12, "t": 8, "b": 30},
        "showlegend": False,
        "dragmode": "pan",
        "uirevision": data.run.run_id,  # zoomed and panned places stay when it is drawn anew
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "--wb-line", "activecolor": "--wb-fg"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "--wb-fg", "size": 12},
        "hoverlabel": {"align": "left", "bgcolor": "--wb-bg", "font": {"color": "--wb-fg"}},
        "xaxis": {
            "type": "date",
            "range": [start - edge, end + edge],
            "gridcolor": "--wb-line",
            "zeroline": False,
        },
        "yaxis": {
            "tickvals": list(range(len(shown))),
            "ticktext": names,
            "range": [len(shown) - 0.4, -0.6],
            "fixedrange": True,
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
        },
        "shapes": [],
    }
    if not data.ended:
        now = milliseconds(data.as_of)
        line = {"color": "--wb-fg", "width": 1.5, "dash": "dot"}
        layout["shapes"] = [
            {"type": "line", "yref": "paper", "x0": now, "x1": now, "y0": 0, "y1": 1, "line": line}
        ]
    return layout


def _name(line: Line) -> str:
    return shorten(one_line(line.name), 34)


def _lit(value: Any) -> Any:
    """Put light colours in place of names, and moments in place of milliseconds where plotly for
    Python wants them.
    """
    if isinstance(value, dict):
        return {
            key: _moments(_lit(item)) if key == "base" else _lit(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_lit(item) for item in value]
    if isinstance(value, str) and value.startswith("--wb-"):
        status = STATUSES.get(value.removeprefix("--wb-"))
        plain = {"--wb-fg": "#1f2328", "--wb-bg": "#ffffff", "--wb-line": "#e4e6e8"}
        return status.light if status else plain[value]
    return value


def _moments(values: list[int]) -> list[datetime]:
    return [datetime.fromtimestamp(value / 1000, UTC) for value in values]
