"""Errors as data: whatever was raised becomes a plain dict that JSON and Postgres can hold.

Recording a failure never fails: texts are cleaned of what Postgres cannot store and cut, exceptions
whose `str` raises are named by their type, and causes end after a few links.
"""

from __future__ import annotations

import traceback
from typing import Any

import psycopg

from workbench.errors import StepError, ValueRefused

__all__ = ["clean", "describe"]

MESSAGE_LIMIT = (
    8_000  # characters; enough for a statement in an error text, small in a table of failures
)
TRACEBACK_LIMIT = 32_000
CAUSES = 5


def clean(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Text that a jsonb string can hold: no NUL, no lone surrogates, at most `limit` characters."""
    text = text.replace("\x00", "\\0")
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text)} characters in all)"
    return text


def describe(error: BaseException, *, trace: bool = True) -> dict[str, Any]:
    """The error as it is stored: type, message, cause chain, for database errors the server's
    fields.

    `permanent` is set when trying again cannot help whatever the SQLSTATE says.
    """
    described = _fields(error)
    if trace:
        described["traceback"] = clean(_traceback(error), TRACEBACK_LIMIT)
    causes: list[dict[str, Any]] = []
    seen = {id(error)}
    cause = _cause(error)
    while cause is not None and id(cause) not in seen and len(causes) < CAUSES:
        seen.add(id(cause))
        causes.append(_fields(cause))
        cause = _cause(cause)
    if causes:
        described["causes"] = causes
    return described


def _cause(error: BaseException) -> BaseException | None:
    """What a traceback would show as such. Never asked for its truth: a class may define that too."""
    if error.__cause__ is None and not error.__suppress_context__:
        return error.__context__
    return error.__cause__


def _sqlstate(error: BaseException) -> str | None:
    """Of a database error, also when a library has wrapped it (SQLAlchemy's `orig`) or raised from it."""
    for owner, name in (
        (None, "sqlstate"),
        ("orig", "sqlstate"),
        ("orig", "pgcode"),
        ("__cause__", "sqlstate"),
    ):
        try:
            state = getattr(error if owner is None else getattr(error, owner), name)
        except BaseException:  # an exception's attributes may do anything
            continue
        if isinstance(state, str) and len(state) == 5:
            return state
    return None


def _fields(error: BaseException) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": clean(type(error).__qualname__, 200),
        "message": _message(error),
    }
    if isinstance(error, StepError | ValueRefused):
        fields["permanent"] = True
    sqlstate = _sqlstate(error)
    if sqlstate is not None or isinstance(error, psycopg.Error):
        fields["sqlstate"] = sqlstate
    if isinstance(error, psycopg.Error):
        diagnostics = error.diag
        fields["message"] = clean(diagnostics.message_primary or fields["message"])
        for name, value in (
            ("detail", diagnostics.message_detail),
            ("hint", diagnostics.message_hint),
            ("position", diagnostics.statement_position),
            ("context", diagnostics.context),
        ):
            if value:
                fields[name] = int(value) if name == "position" else clean(value)
    return fields


def _message(error: BaseException) -> str:
    try:
        return clean(str(error))
    except BaseException as second:
        return f"(its message could not be read: {type(second).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, chain=False))
    except BaseException:
        return ""
