"""JSON values as SQL text: single literals, and whole row sets as a FROM item.

The rules of df-language §9. Strings are quoted with doubled quotes, which is complete while
`standard_conforming_strings` is on. Where the values come from is `substitute`'s business.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

from workbench.errors import SubstitutionError
from workbench.graph.values import Json, encode

MAX_ROWS: Final = 10_000
"""Rows that `$name.*` may expand to (df-language reference, limits)."""

# Written bare, these type names mean one character or bit; void and record are no column types.
_USABLE_TYPES: Final = {
    "character": "bpchar",
    "character[]": "bpchar[]",
    "bit": '"bit"',
    "bit[]": '"bit"[]',
    "void": "text",
    "unknown": "text",
    "record": "jsonb",
    "record[]": "jsonb",
}
_BYTEA_PREFIX: Final = "base64:"


def quote(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Json) -> str:
    """Return one value as a SQL literal: no casts; objects and arrays as quoted JSON text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        text = encode(value, "value")
        # Bare, `5 -$x` would read `5 --3`: a comment.
        return f"({text})" if text.startswith("-") else text
    return quote(value if isinstance(value, str) else encode(value, "value"))


def row_set(name: str, rows: Sequence[Mapping[str, Json]], types: Mapping[str, str] | None) -> str:
    """Return rows as a FROM item named `name`.

    Parameters:
        rows: the rows, each column name → value.
        types: column name → type, in column order; None when only JSON is known.

    Raises:
        SubstitutionError: more than 10,000 rows.
    """
    if len(rows) > MAX_ROWS:
        raise SubstitutionError(
            f"${name}.* has {len(rows)} rows, the limit is {MAX_ROWS}; keep the rows in a table "
            "and join with it"
        )
    columns = list(types or dict.fromkeys(key for row in rows for key in row))
    if not rows or not columns:
        return _no_rows(name, columns, types or {})
    lines = [
        ",".join(_cell(row.get(column), types, column, index == 0) for column in columns)
        for index, row in enumerate(rows)
    ]
    values = ",".join(f"({line})" for line in lines)
    return f"(VALUES {values}) AS {quote_name(name)}({','.join(map(quote_name, columns))})"


def _no_rows(name: str, columns: Sequence[str], types: Mapping[str, str]) -> str:
    listed = ", ".join(
        f"NULL::{_usable(types[column])} AS {quote_name(column)}" for column in columns
    )
    return f"(SELECT {listed or 'NULL'} WHERE false) AS {quote_name(name)}"


def _cell(value: Json, types: Mapping[str, str] | None, column: str, first: bool) -> str:
    if types is None:
        return _untyped(value)
    kind = _usable(types[column])
    text = "NULL" if value is None else _typed(value, kind)
    # The first row decides the columns' types; later ones are unknown literals that follow it.
    return f"CAST({text} AS {kind})" if first else text


def _untyped(value: Json) -> str:
    if value is None or isinstance(value, bool | int | float):
        return literal(value)
    return literal(value) + "::text"


def _typed(value: Json, kind: str) -> str:
    if isinstance(value, dict) and kind not in ("json", "jsonb"):
        return f"jsonb_populate_record(NULL::{kind}, {literal(value)})"
    return quote(_type_text(value, kind))


def _type_text(value: Json, kind: str) -> str:
    """Return the text that the type's input function reads."""
    if kind in ("json", "jsonb"):
        return encode(value, "value")
    if isinstance(value, list) and kind.endswith("[]"):
        return _array_text(value, kind.removesuffix("[]"))
    if isinstance(value, str):
        return _bytea_text(value) if kind == "bytea" else value
    return encode(value, "value")


def _array_text(items: Sequence[Json], element: str) -> str:
    return "{" + ",".join(_element_text(item, element) for item in items) + "}"


def _element_text(item: Json, element: str) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, list) and element not in ("json", "jsonb"):
        return _array_text(item, element)
    text = _type_text(item, element).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _bytea_text(value: str) -> str:
    if not value.startswith(_BYTEA_PREFIX):
        return value
    try:
        return "\\x" + base64.b64decode(value.removeprefix(_BYTEA_PREFIX), validate=True).hex()
    except (binascii.Error, ValueError):
        return value


def _usable(kind: str) -> str:
    return _USABLE_TYPES.get(kind, kind)
