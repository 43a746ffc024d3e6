"""A value in a picture: rows as a table, everything else as JSON text; long ones cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from workbench.store.records import NodeRow
from workbench.views.markup import Safe, join, tag
from workbench.views.words import count, shorten, size

__all__ = ["json_block", "summary", "value"]

_CELL = 120  # characters shown of one cell
_LINE = 90  # characters of JSON that stay on one line
_TEXT = 4000  # characters shown of a text
_NUMBERS = frozenset({"smallint", "integer", "bigint", "real", "double precision", "numeric"})


def summary(node: NodeRow) -> str:
    """Say in two words how large a node's value is: `812 rows`, `14 kB`."""
    if node.row_count is not None:
        if node.node_type == "SQL" and not node.row_count and not node.columns:
            return "done"
        return count(node.row_count, "row" if node.node_type == "SQL" else "item")
    if node.result_bytes is None or node.result_preview == "null":
        return ""
    return size(node.result_bytes)


def value(node: NodeRow) -> Safe:
    """Return the beginning of a node's value."""
    preview = node.result_preview or "null"
    try:
        found = json.loads(preview)
    except ValueError:
        return _text(f"{preview}…")
    rows = found.get("rows") if isinstance(found, dict) else found
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        return _table(rows, node.columns, node.row_count)
    if isinstance(found, dict) and rows == [] and "row_count" in found:
        return _no_rows(node.columns)
    return json_block(found)


def json_block(found: Any) -> Safe:
    """Return a JSON value as text: on one line when it is short."""
    text = json.dumps(found, ensure_ascii=False)
    return _text(text if len(text) <= _LINE else json.dumps(found, ensure_ascii=False, indent=2))


def _text(text: str) -> Safe:
    return tag("pre", shorten(text, _TEXT), class_="wb-block", tabindex="0")


def _no_rows(columns: Sequence[Sequence[str]] | None) -> Safe:
    if not columns:
        return tag("p", "done; the statement returns no rows", class_="wb-null")
    return join(_grid(columns, []), tag("p", "no rows", class_="wb-null"))


def _table(
    rows: list[dict[str, Any]], columns: Sequence[Sequence[str]] | None, total: int | None
) -> Safe:
    names = columns or [(name, "") for name in dict.fromkeys(key for row in rows for key in row)]
    left = (total or len(rows)) - len(rows)
    rest = tag("p", f"and {count(left, 'more row')}", class_="wb-null") if left > 0 else None
    return join(_grid(names, rows), rest)


def _grid(columns: Sequence[Sequence[str]], rows: list[dict[str, Any]]) -> Safe:
    numeric = [
        kind in _NUMBERS or (not kind and bool(rows) and all(_is_number(r.get(name)) for r in rows))
        for name, kind in columns
    ]
    align = ["wb-num" if is_number else None for is_number in numeric]
    head = [
        tag("th", name, tag("span", kind, class_="wb-type") if kind else None, class_=side)
        for (name, kind), side in zip(columns, align, strict=True)
    ]
    body = [
        tag(
            "tr",
            [
                tag("td", _cell(row.get(name)), class_=side)
                for (name, _), side in zip(columns, align, strict=True)
            ],
        )
        for row in rows
    ]
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", head)), tag("tbody", body)),
        class_="wb-scroll",
        tabindex="0",
    )


def _is_number(item: Any) -> bool:
    return item is None or (isinstance(item, int | float) and not isinstance(item, bool))


def _cell(item: Any) -> str:
    if item is None:
        return tag("span", "null", class_="wb-null")
    text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
    return shorten(text, _CELL)
