"""What a step's row opens to: the whole statement or input, its error, its attempts, its result; of
a loop its last iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.store.records import AttemptRow, Error, IterationRow, NodeRow
from workbench.views import preview
from workbench.views.clock import when
from workbench.views.markup import EMPTY, Safe, join, tag
from workbench.views.status import badge
from workbench.views.titles import config, handler_of, url_of
from workbench.views.words import count, duration, one_line, shorten

__all__ = ["delay_words", "detail", "error_block", "error_line", "error_text", "is_own_error"]

_LOOKS = {"worker_lost": ("retrying", "worker lost")}
_SOURCES = {
    "backoff": "backoff",
    "retry_after": "RetryAfter",
    "http_retry_after": "Retry-After of the response",
    "worker_lost": "its worker was lost",
}
_ATTEMPTS = 50  # shown, the last ones
_COMPOSITES = frozenset({"THEN", "JOIN", "RACE", "IF", "LOOP", "FLOW", "MAP"})
_TOLD_BY_TITLE = frozenset({"SLEEP", "WAIT_SCHEDULE", "SIGNAL", "IF", "LOOP"})


def detail(
    node: NodeRow, attempts: Sequence[AttemptRow], iterations: Sequence[IterationRow] = ()
) -> Safe:
    """Return what a step opens to; empty when the row says it all."""
    parts = [
        _part(_source_caption(node), _source(node)),
        _part("error", error_block(node.error)) if node.error and is_own_error(node) else None,
        _part("attempts", _attempts(attempts)) if _tells(attempts) else None,
        _part("earlier iterations", _iterations(node, iterations)) if iterations else None,
        _part("result", preview.value(node)) if node.result_preview is not None else None,
    ]
    shown = join(parts)
    return tag("div", shown, class_="wb-detail") if shown else EMPTY


def is_own_error(node: NodeRow) -> bool:
    """Whether a node's error came about in it; composites repeat that of a node below."""
    if not node.error or node.result_node is not None:
        return False
    return node.node_type not in _COMPOSITES or node.error.get("node") == node.node_id


def error_text(error: Error) -> str:
    """Return an error's message with its SQLSTATE."""
    message = str(error.get("message") or error.get("type") or "failed without a message")
    return f"{message} ({error['sqlstate']})" if error.get("sqlstate") else message


def error_line(node: NodeRow) -> str | None:
    """Return in one line the error that came about in a node."""
    if not node.error or not is_own_error(node):
        return None
    return shorten(one_line(error_text(node.error)), 200)


def error_block(error: Error) -> Safe:
    """Return an error with all that is known about it; the traceback behind a click."""
    lines = [
        error_text(error) if not error.get("type") else f"{error['type']}: {error_text(error)}"
    ]
    lines += [
        f"{key.upper()}: {error[key]}" for key in ("detail", "hint", "position") if error.get(key)
    ]
    trace = error.get("traceback")
    text = trace if isinstance(trace, str) else "".join(map(str, trace or ()))
    return join(
        tag("pre", "\n".join(lines), class_="wb-block wb-bad", tabindex="0"),
        tag(
            "details",
            tag("summary", "traceback", class_="wb-link"),
            tag("pre", text, class_="wb-block", tabindex="0"),
        )
        if text
        else None,
    )


def _part(caption: str, content: Safe | None) -> Safe | None:
    if not content:
        return None
    return tag("div", tag("div", caption, class_="wb-cap"), content, data_key=caption)


def _source_caption(node: NodeRow) -> str:
    if node.node_type in ("PYTHON", "EXTERNAL"):
        return f"input of {handler_of(node)}"
    return "statement" if node.node_type == "SQL" else "settings"


def _source(node: NodeRow) -> Safe | None:
    if node.node_type == "SQL":
        return tag(
            "pre", shorten((node.query or "").strip(), 8000), class_="wb-block", tabindex="0"
        )
    if node.node_type in ("HTTP", "HTTP_MULTIPART"):
        return preview.json_block(_request(node))
    shown: Any = config(node)
    if node.node_type in ("PYTHON", "EXTERNAL"):
        return preview.json_block(shown.get("input")) if shown else None
    if node.node_type in _TOLD_BY_TITLE or not (shown or node.options):
        return None
    return preview.json_block({**shown, **(node.options or {})})


def _request(node: NodeRow) -> dict[str, Any]:
    """Return a request as the graph has it: of headers only the names, of files only the sizes."""
    shown = {**config(node), **(node.options or {})}
    shown["url"] = url_of(shown)
    if headers := shown.get("headers"):
        shown["headers"] = ", ".join(headers)
    if isinstance(parts := shown.get("parts"), list):
        shown["parts"] = [each.get("name") for each in parts if isinstance(each, dict)]
    return {key: value for key, value in shown.items() if value is not None}


def _tells(attempts: Sequence[AttemptRow]) -> bool:
    return len(attempts) > 1 or any(a.outcome != "completed" for a in attempts)


def _attempts(attempts: Sequence[AttemptRow]) -> Safe:
    head = tag(
        "tr", [tag("th", name) for name in ("attempt", "outcome", "started", "took", "then")]
    )
    body = [_attempt(attempt) for attempt in attempts[-_ATTEMPTS:]]
    table = tag("table", tag("thead", head), tag("tbody", body), class_="wb-wide")
    return tag("div", table, class_="wb-scroll wb-full", tabindex="0")


def _attempt(attempt: AttemptRow) -> Safe:
    look, word = _LOOKS.get(attempt.outcome, (attempt.outcome, attempt.outcome))
    took = (
        ""
        if attempt.started_at is None
        else duration((attempt.finished_at - attempt.started_at).total_seconds())
    )
    where = f"engine {attempt.engine_id} on {attempt.host}" if attempt.host else None
    return tag(
        "tr",
        tag("td", attempt.attempt),
        tag("td", badge(look, word), title=where),
        tag("td", when(attempt.started_at) if attempt.started_at else ""),
        tag("td", took),
        tag("td", _then(attempt), class_="wb-grow", title=_then(attempt)),
    )


def _iterations(node: NodeRow, ended: Sequence[IterationRow]) -> Safe:
    """Return the last iterations as a table, the newest first, and how many there were before."""
    names = ("iteration", "outcome", "started", "took", "")
    head = tag("tr", [tag("th", name) for name in names])
    body = [_iteration(each) for each in reversed(ended)]
    table = tag("table", tag("thead", head), tag("tbody", body), class_="wb-wide")
    more = ended[0].iteration - 1
    before = tag("p", f"and {count(more, 'iteration')} before", class_="wb-null") if more else None
    return join(tag("div", table, class_="wb-scroll wb-full", tabindex="0"), before)


def _iteration(ended: IterationRow) -> Safe:
    look, word = ("failed", "abandoned") if ended.error else ("completed", "completed")
    why = shorten(one_line(error_text(ended.error)), 200) if ended.error else ""
    return tag(
        "tr",
        tag("td", f"{ended.iteration:,}"),
        tag("td", badge(look, word)),
        tag("td", when(ended.started_at)),
        tag("td", duration((ended.finished_at - ended.started_at).total_seconds())),
        tag("td", why, class_="wb-grow", title=why or None),
    )


def _then(attempt: AttemptRow) -> str:
    said = [] if attempt.error is None else [shorten(one_line(error_text(attempt.error)), 200)]
    if again := delay_words(attempt):
        said.insert(0, again)
    return " · ".join(said)


def delay_words(attempt: AttemptRow) -> str:
    """Say how long after an attempt the next one came, and who said so; empty when none did."""
    if attempt.delay is None:
        return ""
    source = _SOURCES.get(attempt.delay_source or "", attempt.delay_source)
    return f"again after {duration(attempt.delay)} ({source})"
