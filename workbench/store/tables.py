"""The database as a database: a query's rows as a DataFrame, a DataFrame as a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from workbench.errors import UsageError

if TYPE_CHECKING:
    import pandas

__all__ = ["load", "query"]

#: dtype kinds of numpy to PostgreSQL types; whatever is not here becomes text.
_TYPES = {"i": "bigint", "u": "numeric", "f": "double precision", "b": "boolean", "M": "timestamp"}


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
    names = [str(name) for name in frame.columns]
    if not names or len(set(names)) != len(names):
        raise UsageError(
            f"a table needs columns with different names, and this frame has {names}: nothing was written"
        )
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
            for row in frame.itertuples(index=False, name=None):
                copy.write_row([_cell(value) for value in row])
    return len(frame)


def _parts(table: str) -> list[str]:
    parts = table.split(".")
    if not 1 <= len(parts) <= 2 or not all(
        re.fullmatch(r"[^\x00\".]{1,63}", part) for part in parts
    ):
        raise UsageError(f"{table!r} cannot name a table: write name or schema.name")
    return parts


def _type(column: pandas.Series[Any]) -> str:
    if getattr(column.dtype, "tz", None) is not None:
        return "timestamptz"
    return _TYPES.get(getattr(column.dtype, "kind", "O"), "text")


def _cell(value: Any) -> Any:
    """Missing values of any kind are NULL; numpy's scalars become Python's."""
    import pandas

    if value is None or value is pandas.NaT or value is pandas.NA or value != value:
        return None
    return value.item() if hasattr(value, "item") else value
