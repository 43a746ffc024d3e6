"""The database as a database: a query's rows as a DataFrame, a DataFrame as a table."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from workbench.errors import UsageError
from workbench.graph.values import encode

if TYPE_CHECKING:
    import pandas

__all__ = ["load", "query"]

#: dtype kinds of numpy to PostgreSQL types; whatever is not here becomes text.
_TYPES = {
    "i": "bigint",
    "u": "numeric",
    "f": "double precision",
    "b": "boolean",
    "M": "timestamp",
    "m": "interval",
}


def query(conn: psycopg.Connection[Any], text: str, parameters: Any) -> pandas.DataFrame:
    """Rows of a query as a DataFrame, columns in select-list order; no columns for a statement that
    returns none.
    """
    import pandas

    with conn.cursor() as cursor:
        cursor.execute(text, parameters)
        if cursor.description is None:
            return pandas.DataFrame()
        columns = [column.name for column in cursor.description]
        return pandas.DataFrame(cursor.fetchall(), columns=pandas.Index(columns))


def load(
    conn: psycopg.Connection[Any], frame: pandas.DataFrame, table: str, *, replace: bool
) -> int:
    """Make a table of a DataFrame, in one transaction; the number of rows written."""
    import pandas

    if not isinstance(frame, pandas.DataFrame):
        raise UsageError(
            f"bench.load() takes a DataFrame, not {type(frame).__name__}: nothing was written. "
            "pandas.DataFrame(data) makes one."
        )
    names = _names(frame)
    target = sql.Identifier(*_parts(table))
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(_type(frame[column])))
        for name, column in zip(names, frame.columns, strict=True)
    ]
    with conn.transaction(), conn.cursor() as cursor:
        if replace:
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(target))
        try:
            cursor.execute(
                sql.SQL("CREATE TABLE {} ({})").format(target, sql.SQL(", ").join(columns))
            )
        except psycopg.errors.DuplicateTable:
            raise UsageError(
                f"table {table} exists: nothing was written. Pass replace=True to drop it first."
            ) from None
        with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(target)) as copy:
            for number, row in enumerate(frame.itertuples(index=False, name=None)):
                copy.write_row(
                    [_cell(value, name, number) for name, value in zip(names, row, strict=True)]
                )
    return len(frame)


def _names(frame: pandas.DataFrame) -> list[str]:
    """The columns' names as text."""
    names = [str(name) for name in frame.columns]
    if not names or len(set(names)) != len(names):
        raise UsageError(
            f"a table needs columns with different names, and this frame has {names}: nothing was written"
        )
    for name in names:
        if not _is_identifier(name):
            raise UsageError(
                f"column {name!r} cannot be a table's: a name has 1 to 63 bytes and no NUL; nothing was written"
            )
    return names


def _is_identifier(name: str) -> bool:
    return "\x00" not in name and 1 <= len(name.encode(errors="replace")) <= 63


def _parts(table: object) -> list[str]:
    parts = table.split(".") if isinstance(table, str) else []
    if not 1 <= len(parts) <= 2 or not all(_is_identifier(p) and '"' not in p for p in parts):
        raise UsageError(f"{table!r:.80} cannot name a table: write name or schema.name")
    return parts


def _type(column: pandas.Series[Any]) -> str:
    if getattr(column.dtype, "tz", None) is not None:
        return "timestamptz"
    return _TYPES.get(getattr(column.dtype, "kind", "O"), "text")


def _cell(value: Any, column: str, row: int) -> Any:
    """Missing values of any kind are NULL, numpy's are Python's, lists and dicts their JSON text."""
    import pandas

    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or value is pandas.NaT or value is pandas.NA:
        return None
    if isinstance(value, float | Decimal) and value != value:
        return None
    if isinstance(value, dict | list | tuple):
        return encode(value, f"frame[{column!r}][{row}]")
    if isinstance(value, str) and not _is_text(value):
        encode(value, f"frame[{column!r}][{row}]")  # says where and what
    return value


def _is_text(value: str) -> bool:
    """Whether Postgres can hold it."""
    if "\x00" in value:
        return False
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        return False
    return True
