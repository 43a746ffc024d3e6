"""How the activity view looks, as HTML and as text: pure functions of its data.

The reasons come in words and moments from the database; here the moments become elements that a
live front end keeps current.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Final

from workbench.store.activity import ActivityRow, ReasonPart
from workbench.views.activity_data import PAGE, ActivityData
from workbench.views.base import page
from workbench.views.clock import At, countdown, lasting
from workbench.views.clock import said as moment_html
from workbench.views.markup import Child, Safe, join, tag
from workbench.views.status import STATUSES, badge
from workbench.views.words import as_of, clock, count, duration, one_line, shorten

__all__ = [
    "LOOKS",
    "activity_css",
    "activity_html",
    "activity_text",
    "idle_words",
    "reason_html",
    "reason_text",
    "state_badge",
]

#: A state looks like the status that means the same; what is wedged has an icon of its own.
LOOKS: Final = {"working": "running", "waiting": "waiting", "retrying": "retrying"}
_WEDGED_ICON = "⚠"
_TEXT_ROWS = 200
_HEADINGS: Final = (
    ("state", ""), ("run", ""), ("reason", "wb-grow"), ("idle", "wb-num"), ("running", "wb-num"),
    ("failed", "wb-num"), ("next wake", "wb-num"),
)  # fmt: skip


@cache
def activity_css() -> Safe:
    """The looks that only this view has."""
    return Safe(resources.files(__package__).joinpath("activity.css").read_text("utf-8"))


def activity_html(data: ActivityData, *, live: bool = False) -> Safe:
    """Return the table, the worst first; when `live` with what the front end's buttons hang on."""
    rows = data.chosen()
    first = min(data.query.page, max(len(rows) - 1, 0) // PAGE) * PAGE
    return page(
        "Activity",
        data.as_of,
        None if live else tag("style", activity_css()),
        _head(data),
        _table(data, rows[first : first + PAGE], live) if rows else _nothing(data),
        _pager(len(rows), first, live) if len(rows) > PAGE else None,
        style=not live,
    )


def activity_text(data: ActivityData) -> str:
    """Return the rows as text, one a line, and an error below its own."""
    rows = data.chosen()
    lines = [f"Activity: {_how_many(data)}", ""]
    for row in rows[:_TEXT_ROWS]:
        icon = STATUSES[LOOKS[row.state]].icon if row.state in LOOKS else _WEDGED_ICON
        label = f"  {one_line(row.label)}" if row.label else ""
        lines.append(
            f"{icon} {row.run_id}  {row.state:<8}  {reason_text(row)}{label}  "
            f"(idle {duration(row.idle_seconds)})"
        )
        if row.last_error:
            lines.append(f"{'':<12}last error: {shorten(one_line(row.last_error), 160)}")
    if len(rows) > _TEXT_ROWS:
        lines.append(f"and {len(rows) - _TEXT_ROWS:,} more in .df")
    return "\n".join([*lines, "", as_of(data.as_of)])


def reason_text(row: ActivityRow) -> str:
    """Return why, with times of day in the machine's zone."""
    return "".join(_word(part, row.as_of) for part in row.reason_parts)


def idle_words(data: ActivityData) -> str:
    """Say which runs were asked for; empty for all."""
    return f"idle for at least {duration(data.query.idle)}" if data.query.idle else ""


def _how_many(data: ActivityData) -> str:
    found, live = len(data.activity.rows), data.activity.live
    if not data.query.idle and found >= live:
        return count(live, "live run")
    return f"{found:,} of {count(live, 'live run')} {idle_words(data)}".rstrip()


def _head(data: ActivityData) -> Safe:
    counted = [
        tag("li", state_badge(state, f"{number:,} {state}"))
        for state, number in data.counts.items()
    ]
    return tag(
        "header",
        tag(
            "div",
            tag("span", "Activity", class_="wb-label"),
            tag("span", _how_many(data), class_="wb-long wb-quiet"),
            class_="wb-head-line",
        ),
        tag("ul", counted, class_="wb-facts") if counted else None,
        class_="wb-head",
    )


def _nothing(data: ActivityData) -> Safe:
    if data.activity.rows:
        said: Child = "No run is as you ask."
    elif data.activity.live:
        said = f"Nothing is {idle_words(data)}: all that is unfinished moves."
    else:
        said = "Nothing is unfinished."
    return tag("div", tag("p", said), class_="wb-none")


def _table(data: ActivityData, rows: Sequence[ActivityRow], live: bool) -> Safe:
    cells = [
        tag("th", _heading(data, name, live), **_sorted(data, name, side))
        for name, side in _HEADINGS
    ]
    if live:
        cells.append(tag("th", tag("span", "actions", class_="wb-unseen"), scope="col"))
    body = [_row(row, live) for row in rows]
    table = tag(
        "table", tag("thead", tag("tr", cells)), tag("tbody", body), class_="wb-wide wb-activity"
    )
    return tag("div", table, class_="wb-list", tabindex="0")


def _sorted(data: ActivityData, name: str, side: str) -> dict[str, str | None]:
    way = "descending" if data.query.backwards else "ascending"
    return {
        "scope": "col",
        "class_": side or None,
        "aria_sort": way if data.query.sort == name else None,
    }


def _heading(data: ActivityData, name: str, live: bool) -> Child:
    if not live:
        return name
    arrow = "" if data.query.sort != name else " ▾" if data.query.backwards else " ▴"
    return tag("button", f"{name}{arrow}", type="button", class_="wb-sort", data_sort=name)


def _row(row: ActivityRow, live: bool) -> Safe:
    error = shorten(one_line(row.last_error), 200) if row.last_error else ""
    look = f"wb-second wb-errline wb-is-{'failed' if row.state in ('wedged', 'retrying') else row.state}"
    return tag(
        "tr",
        tag("td", state_badge(row.state)),
        tag("td", tag("code", row.run_id, class_="wb-id"), _second(row.label), title=row.label),
        tag(
            "td",
            tag("div", reason_html(row), class_="wb-why"),
            tag("div", error, class_=look, title=row.last_error) if error else None,
            class_="wb-grow",
        ),
        tag(
            "td",
            lasting(row.idle_seconds, row.last_activity_at),
            tag("div", moment_html((At(row.last_activity_at),), row.as_of), class_="wb-second"),
            class_="wb-num",
        ),
        tag("td", row.running or "", class_="wb-num"),
        tag("td", row.failed or "", class_="wb-num"),
        tag("td", _next(row), class_="wb-num"),
        tag("td", class_="wb-acts", data_run=row.run_id, data_signal=row.signal, data_can=_can(row))
        if live
        else None,
        data_key=row.run_id,
    )


def _second(text: str | None) -> Safe | None:
    return tag("div", text, class_="wb-second") if text else None


def _can(row: ActivityRow) -> str:
    acts = ["retry_now"] if row.state == "retrying" and row.attempt else []
    return " ".join([*acts, *(["signal"] if row.signal is not None else []), "cancel"])


def _next(row: ActivityRow) -> Child:
    if row.next_wake_at is None:
        return ""
    if row.next_wake_at <= row.as_of:
        return "now"
    return join(
        "in ",
        countdown(row.as_of, row.next_wake_at),
        tag("div", moment_html((At(row.next_wake_at),), row.as_of), class_="wb-second"),
    )


def _pager(total: int, first: int, live: bool) -> Safe:
    last = min(first + PAGE, total)
    said = tag("span", f"{first + 1:,} to {last:,} of {total:,}")
    if not live:
        return tag("p", said, "; .df has them all", class_="wb-none")
    number = first // PAGE
    back = _turn("Previous", number - 1, disabled=first == 0)
    return tag(
        "p", back, said, _turn("Next", number + 1, disabled=last == total), class_="wb-pager"
    )


def _turn(name: str, number: int, *, disabled: bool) -> Safe:
    return tag(
        "button", name, type="button", class_="wb-button", data_page=number, disabled=disabled
    )


def state_badge(state: str, word: str | None = None) -> Safe:
    """Return a state of a live run as icon and word."""
    if state in LOOKS:
        return badge(LOOKS[state], word or state)
    icon = tag("span", _WEDGED_ICON, class_="wb-icon", aria_hidden="true")
    return tag(
        "span",
        icon,
        tag("span", word or state, class_="wb-word"),
        class_=f"wb-status wb-is-{state}",
    )


def reason_html(row: ActivityRow) -> Safe:
    """Return why, with moments that a live front end keeps current."""
    return join(_piece(part, row.as_of) for part in row.reason_parts)


def _piece(part: ReasonPart, now: datetime) -> Child:
    if isinstance(part, str):
        return part
    ((kind, text),) = part.items()
    at = datetime.fromisoformat(text)
    if kind == "left":
        return countdown(now, at)
    return lasting((now - at).total_seconds(), at) if kind == "for" else moment_html((At(at),), now)


def _word(part: ReasonPart, now: datetime) -> str:
    if isinstance(part, str):
        return part
    ((kind, text),) = part.items()
    at = datetime.fromisoformat(text)
    if kind == "at":
        return clock(at, now)
    return duration(abs((at - now).total_seconds()))
