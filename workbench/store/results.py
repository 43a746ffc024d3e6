"""The rows of a user's SQL statement → the JSON that a SQL step's result is.

    {"rows":[{"id":1,"total":"12.50"}],"row_count":1}

`ResultReader` collects raw text-format rows while they stream in, bounded, and converts them at the
end, column by column. How a type is converted is `pg_text`'s; which type a column has, `pg_types`'.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from psycopg import pq

from workbench.errors import ValueRefused
from workbench.graph.values import RESULT_LIMIT
from workbench.store.pg_text import Converter, string, verbatim
from workbench.store.pg_types import CATALOG_QUERY, TypeCatalog

__all__ = ["CATALOG_QUERY", "ResultReader", "TypeCatalog"]

_BYTEA: Final = 17


class ResultReader:
    """Reads one statement's result: called with each chunk, then `finish`.

    Parameters
    ----------
    limit:
        Bytes that the result's JSON may have; the design's 16 MiB by default.

    Attributes
    ----------
    oversize: bool
        The rows exceed the limit: nothing more is kept, and the statement may as well be cancelled.
    row_count: int
        Rows received so far.
    command_tag: str
        After `finish`, what the server says it did, as in `INSERT 0 812`.
    """

    def __init__(self, limit: int = RESULT_LIMIT) -> None:
        self.oversize = False
        self.row_count = 0
        self.command_tag = ""
        self._limit = limit
        self._size = 0  # what the JSON has at least
        self._keys = 0  # what keys and punctuation add to it for each row
        self._types: list[int] = []
        self._columns: list[list[bytes | None]] = []

    def __call__(self, chunk: pq.abc.PGresult) -> None:
        """Keep the rows of a chunk, unless the limit is passed."""
        count = chunk.ntuples
        if self.oversize or not count:
            return
        if not self._columns:
            self._types = _types(chunk)
            self._columns = [[] for _ in self._types]
            self._keys = sum(len(chunk.fname(n) or b"") + 4 for n in range(chunk.nfields)) + 2
        self.row_count += count
        self._size += self._keys * count
        get = chunk.get_value
        rows = range(count)
        for number, column in enumerate(self._columns):
            cells = [get(row, number) for row in rows]
            column += cells
            size = sum(map(len, filter(None, cells)))
            # Two characters a byte in hex, four for three bytes in base64.
            self._size += size * 2 // 3 if self._types[number] == _BYTEA else size
        if self._size > self._limit:
            self.oversize = True
            self._columns.clear()

    def unknown_types(self, catalog: TypeCatalog, final: pq.abc.PGresult | None = None) -> set[int]:
        """Return the OIDs that `catalog` must learn before `finish`, by CATALOG_QUERY.

        `final`, the statement's last result, names the types also when no row came.
        """
        return catalog.unknown(self._types if final is None else _types(final))

    def finish(
        self, final: pq.abc.PGresult, catalog: TypeCatalog
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Convert what was collected.

        Parameters
        ----------
        final:
            The statement's last result; rows that it holds itself are read too.
        catalog:
            Knows the types; one that it does not know becomes its text.

        Returns
        -------
        tuple
            The JSON text, and name and type (as `format_type` gives it) of each column in
            select-list order. Of columns with one name, one is left, with the last one's values.

        Raises
        ------
        ValueRefused
            The result is too large, or is not Unicode text.
        """
        self(final)
        self.command_tag = (final.command_status or b"").decode()
        last = {_name(final, number): number for number in range(final.nfields)}
        if self.oversize:
            raise _too_large("more than ", self._limit, self._limit)
        kept = {name: (number, final.ftype(number)) for name, number in last.items()}
        objects = self._objects(kept, catalog) if self.row_count else ()
        text = f'{{"rows":[{",".join(objects)}],"row_count":{self.row_count}}}'
        size = len(text) if text.isascii() else len(text.encode())
        if size > self._limit:
            raise _too_large("", size, self._limit)
        return text, tuple((name, catalog.name(oid)) for name, (_, oid) in kept.items())

    def _objects(self, kept: dict[str, tuple[int, int]], catalog: TypeCatalog) -> Iterator[str]:
        if not kept:
            return iter(["{}"] * self.row_count)
        keys = [string(name).replace("%", "%%") for name in kept]
        columns = [
            _cells(self._columns[number], catalog.converter(oid), name)
            for name, (number, oid) in kept.items()
        ]
        template = f"{{{','.join([f'{key}:%s' for key in keys])}}}"
        return map(template.__mod__, zip(*columns, strict=True))


def _types(result: pq.abc.PGresult) -> list[int]:
    return [result.ftype(number) for number in range(result.nfields)]


def _name(result: pq.abc.PGresult, number: int) -> str:
    return (result.fname(number) or b"").decode(errors="replace")


def _cells(raw: list[bytes | None], convert: Converter, name: str) -> list[str]:
    try:
        if convert is verbatim:
            return ["null" if cell is None else cell.decode() for cell in raw]
        return ["null" if cell is None else convert(cell.decode()) for cell in raw]
    except UnicodeDecodeError as error:
        raise ValueRefused(
            f'column "{name}" of the result is not UTF-8 text: nothing was stored; convert it '
            "in the query, for example with convert_from(…) or encode(…, 'base64')"
        ) from error


def _too_large(more_than: str, size: int, limit: int) -> ValueRefused:
    return ValueRefused(
        f"the result is {more_than}{_amount(size)} of JSON, the limit is {_amount(limit)}; "
        "keep the rows in a table (CREATE TABLE … AS, INSERT … SELECT) and return its key"
    )


def _amount(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size:,} bytes"
