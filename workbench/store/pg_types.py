"""Which converter a column has: the types of PostgreSQL by OID.

The usual ones are built in; the others (arrays of anything, domains, composites, enums and whatever
an extension brings) come from the server's catalog. `TypeCatalog` sends nothing: its user runs
`CATALOG_QUERY` in a session of its own and hands over the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from workbench.store import pg_text
from workbench.store.pg_text import Converter

__all__ = ["BASIC_TYPES", "CATALOG_QUERY", "TypeCatalog"]

CATALOG_QUERY: Final = """
WITH RECURSIVE wanted (oid) AS (
    SELECT unnest($1::oid[])
    UNION
    SELECT inner_type.oid FROM wanted w
    JOIN pg_catalog.pg_type t ON t.oid = w.oid
    CROSS JOIN LATERAL (
        SELECT t.typelem WHERE t.typoutput = 'pg_catalog.array_out'::regproc
        UNION ALL SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS inner_type (oid)
)
SELECT t.oid, pg_catalog.format_type(t.oid, NULL), t.typdelim,
       CASE WHEN t.typoutput = 'pg_catalog.array_out'::regproc THEN t.typelem END,
       CASE t.typtype WHEN 'd' THEN t.typbasetype END,
       CASE t.typtype WHEN 'c' THEN coalesce((
           SELECT json_agg(json_build_array(a.attname, a.atttypid::bigint) ORDER BY a.attnum)
           FROM pg_catalog.pg_attribute a
           WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped), '[]') END
FROM wanted w JOIN pg_catalog.pg_type t ON t.oid = w.oid
"""
"""For the types `$1` (oid[]) and all they are made of: OID, name, delimiter of an array of it,
element type of an array, base type of a domain, fields of a composite as JSON."""

_STRING, _QUOTED, _VERBATIM = pg_text.string, pg_text.quoted, pg_text.verbatim

BASIC_TYPES: Final[dict[int, tuple[str, Converter, int]]] = {
    16: ("boolean", pg_text.boolean, 1000),
    17: ("bytea", pg_text.bytea, 1001),
    18: ('"char"', _STRING, 1002),
    19: ("name", _STRING, 1003),
    20: ("bigint", _VERBATIM, 1016),
    21: ("smallint", _VERBATIM, 1005),
    23: ("integer", _VERBATIM, 1007),
    25: ("text", _STRING, 1009),
    26: ("oid", _STRING, 1028),
    114: ("json", pg_text.json_value, 199),
    142: ("xml", _STRING, 143),
    650: ("cidr", _STRING, 651),
    700: ("real", pg_text.float4, 1021),
    701: ("double precision", pg_text.float8, 1022),
    790: ("money", _STRING, 791),
    869: ("inet", _STRING, 1041),
    1042: ("character", _STRING, 1014),
    1043: ("character varying", _STRING, 1015),
    1082: ("date", _QUOTED, 1182),
    1083: ("time without time zone", _STRING, 1183),
    1114: ("timestamp without time zone", pg_text.timestamp, 1115),
    1184: ("timestamp with time zone", pg_text.timestamptz, 1185),
    1186: ("interval", _STRING, 1187),
    1266: ("time with time zone", _STRING, 1270),
    1700: ("numeric", _QUOTED, 1231),
    2205: ("regclass", _STRING, 2210),
    2278: ("void", pg_text.void, 0),
    2950: ("uuid", _QUOTED, 2951),
    3802: ("jsonb", pg_text.json_value, 3807),
}
"""OID → (name as `format_type` gives it, converter, OID of its array); fixed since PostgreSQL 9.4,
checked against the server by the tests (`pg_type.dat` is the source)."""


@dataclass(frozen=True, slots=True)
class _Definition:
    """A row of CATALOG_QUERY."""

    name: str
    delimiter: str
    element: int | None
    base: int | None
    fields: tuple[tuple[str, int], ...] | None


class TypeCatalog:
    """The types met so far in one database, by OID."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._converters: dict[int, Converter] = {}
        self._alterable: set[int] = set()
        for oid, (name, converter, array) in BASIC_TYPES.items():
            self._names[oid], self._converters[oid] = name, converter
            if array:
                self._names[array] = f"{name}[]"
                self._converters[array] = pg_text.array_of(converter)

    def unknown(self, oids: Iterable[int]) -> set[int]:
        """Which of these must be asked for: new ones, and composites, whose fields can change."""
        return {oid for oid in oids if oid not in self._converters or oid in self._alterable}

    def learn(self, rows: Iterable[Sequence[str | None]]) -> None:
        """Take over the rows of CATALOG_QUERY, in text format."""
        found = {int(row[0] or 0): _definition(row) for row in rows}
        for oid in found:
            self._converters.pop(oid, None)
            self._alterable.discard(oid)
        for oid in found:
            self._build(oid, found)

    def name(self, oid: int) -> str:
        """The name as `format_type` gives it; `???`, as there, for a type that is not known."""
        return self._names.get(oid, "???")

    def converter(self, oid: int) -> Converter:
        """The converter; of a type that is not known, its text as a string."""
        return self._converters.get(oid, _STRING)

    def _build(self, oid: int, found: dict[int, _Definition]) -> Converter:
        """Make a type's converter after those of the types it is made of (never itself)."""
        if oid in self._converters or oid not in found:
            return self.converter(oid)
        made = found[oid]
        inner: list[int] = []
        if oid in BASIC_TYPES:
            converter = BASIC_TYPES[oid][1]
        elif made.element is not None:
            inner = [made.element]
            delimiter = found[made.element].delimiter if made.element in found else ","
            converter = pg_text.array_of(self._build(made.element, found), delimiter)
        elif made.base is not None:
            inner = [made.base]
            converter = self._build(made.base, found)
        elif made.fields is not None:
            inner = [field for _, field in made.fields]
            converter = pg_text.composite_of(
                [(name, self._build(field, found)) for name, field in made.fields]
            )
        else:
            converter = _STRING
        if made.fields is not None or not self._alterable.isdisjoint(inner):
            self._alterable.add(oid)
        self._names[oid], self._converters[oid] = made.name, converter
        return converter


def _definition(row: Sequence[str | None]) -> _Definition:
    _, name, delimiter, element, base, fields = row
    return _Definition(
        name or "???",
        delimiter or ",",
        int(element) if element else None,
        int(base) if base else None,
        None if fields is None else tuple((field, oid) for field, oid in json.loads(fields)),
    )
