"""Results as DataFrames, with the dtypes that `pandas.read_sql` would give.

A result's JSON has lost the difference between a date and a text; the column types that are stored
beside it bring it back. pandas is imported when a frame is made. The other direction, a frame as
rows, is `graph.values.rows`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from workbench.errors import UsageError
from workbench.graph.values import Json

if TYPE_CHECKING:
    import pandas

__all__ = ["frame"]


def frame(
    result: Json, columns: Sequence[Sequence[str]] | None = None, *, decimal: bool = False
) -> pandas.DataFrame:
    """Return a result as a DataFrame with a RangeIndex.

    int types → int64 (float64 with NaN where there are nulls), float and numeric → float64, bool →
    bool (object where there are nulls), date and timestamp → datetime64[us], timestamptz →
    datetime64[us, UTC], bytea → object of bytes, json, arrays and composites → object, all else →
    pandas' own dtype for text. A frame of no rows has the same dtypes. A column with a time that
    datetime64 has no value for (infinity, BC, a year after 9999) stays text.

    Parameters:
        result: the decoded value: `{"rows": [...], ...}`, or a list of dicts.
        columns: name and PostgreSQL type name of each column; without it, pandas infers.
        decimal: numeric becomes object of `Decimal`, exact, instead of float64.

    Raises:
        UsageError: the value is not a set of rows.
    """
    import pandas

    rows = _rows(result)
    if columns is None:
        return pandas.DataFrame.from_records(rows)
    data = {name: _series([row.get(name) for row in rows], kind, decimal) for name, kind in columns}
    return pandas.DataFrame(data, index=pandas.RangeIndex(len(rows)))


def _rows(result: Json) -> list[dict[str, Json]]:
    rows = result.get("rows") if isinstance(result, Mapping) else result
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise UsageError(
            "this result is not a set of rows (a SQL step's result, or a list of dicts): it has no "
            "frame; take the value itself instead"
        )
    return rows


def _series(values: list[Json], kind: str, decimal: bool) -> pandas.Series[Any]:
    import pandas

    if kind == "numeric" and decimal:
        exact = [None if value is None else Decimal(value) for value in values]
        return pandas.Series(exact, dtype=object)
    if make := _MAKERS.get(kind):
        return make(values)
    if kind.endswith("[]") or any(isinstance(value, list | dict) for value in values):
        return pandas.Series(values, dtype=object)
    return _text(values)


def _integer(values: list[Json]) -> pandas.Series[Any]:
    import pandas

    return pandas.Series(values, dtype="float64" if None in values else "int64")


def _float(values: list[Json]) -> pandas.Series[Any]:
    import pandas

    numbers = [float("nan") if value is None else float(value) for value in values]
    return pandas.Series(numbers, dtype="float64")


def _boolean(values: list[Json]) -> pandas.Series[Any]:
    import pandas

    return pandas.Series(values, dtype=object if None in values else "bool")


def _datetime(values: list[Json]) -> pandas.Series[Any]:
    if not _all_iso(values):
        return _text(values)
    return _parsed(values, utc=False).astype("datetime64[us]")


def _instant(values: list[Json]) -> pandas.Series[Any]:
    if not _all_iso(values):
        return _text(values)
    return _parsed(values, utc=True).astype("datetime64[us, UTC]")


def _all_iso(values: list[Json]) -> bool:
    """Tell `2026-11-30` and `2026-11-30T09:12:00` from what kept PostgreSQL's own text."""
    return all(
        text is None or (text[4:5] == "-" and text[:4].isdigit() and " " not in text)
        for text in values
    )


def _parsed(values: list[Json], *, utc: bool) -> pandas.Series[Any]:
    import pandas

    return pandas.to_datetime(pandas.Series(values, dtype=object), format="ISO8601", utc=utc)


def _bytes(values: list[Json]) -> pandas.Series[Any]:
    import pandas

    data = [None if value is None else b64decode(value.removeprefix("base64:")) for value in values]
    return pandas.Series(data, dtype=object)


def _native(values: list[Json]) -> pandas.Series[Any]:
    import pandas

    return pandas.Series(values, dtype=object)


def _text(values: list[Json]) -> pandas.Series[Any]:
    import pandas

    # `str` from pandas 3 on, object before; asked, because it is also an option.
    return pandas.Series(values, dtype=pandas.Series(["text"]).dtype)


_MAKERS: Final[dict[str, Callable[[list[Json]], pandas.Series[Any]]]] = {
    "smallint": _integer,
    "integer": _integer,
    "bigint": _integer,
    "real": _float,
    "double precision": _float,
    "numeric": _float,
    "boolean": _boolean,
    "date": _datetime,
    "timestamp without time zone": _datetime,
    "timestamp with time zone": _instant,
    "bytea": _bytes,
    "json": _native,
    "jsonb": _native,
}
