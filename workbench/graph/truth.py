"""How a condition judges a value: the rules of truth of IF and LOOP (df-language §10).

A result that has rows is judged by the first column of its first row. Any text that is not one of
the words for false is true, `'off'` and `'n'` included.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from workbench.graph.values import Json, decode

__all__ = ["is_true"]

_WORDS: Final = {
    "": False,
    "true": True,
    "t": True,
    "yes": True,
    "false": False,
    "f": False,
    "no": False,
}
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII)


def is_true(json: str, columns: Sequence[tuple[str, str]] | None = None) -> bool:
    """Judge a result.

    Parameters:
        json: the value as JSON text.
        columns: name and type of each column of a SQL result, in select-list order.
    """
    value = decode(json)
    if isinstance(value, dict) and isinstance(rows := value.get("rows"), list):
        return bool(rows) and _judge(_first_column(rows[0], columns))
    return _judge(value)


def _first_column(row: Json, columns: Sequence[tuple[str, str]] | None) -> Json:
    if not isinstance(row, dict):
        return row
    if columns:
        return row.get(columns[0][0])
    return next(iter(row.values()), None)


def _judge(value: Json) -> bool:
    if isinstance(value, str):
        return _judge_text(value.strip().lower())
    return bool(value)


def _judge_text(text: str) -> bool:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return any(digit in "123456789" for digit in text.partition("e")[0])
    return True
