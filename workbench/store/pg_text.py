"""PostgreSQL's text output of a value → the JSON text of that value, type by type.

Functions from str to str, without a catalog or a connection: `pg_types` chooses one for each
column, `results` applies them. They expect DateStyle ISO, any TimeZone, any `bytea_output` and any
`extra_float_digits`. What JSON has no form for keeps PostgreSQL's own text, as a string.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from workbench.errors import ValueRefused
from workbench.graph.values import MAX_DEPTH, decode, encode

__all__ = [
    "Converter",
    "array_of",
    "boolean",
    "bytea",
    "composite_of",
    "float4",
    "float8",
    "json_value",
    "quoted",
    "string",
    "timestamp",
    "timestamptz",
    "verbatim",
    "void",
]

Converter: TypeAlias = Callable[[str], str]

_BRACKET: Final = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*"')
_NO_NUMBER: Final = frozenset({"NaN", "Infinity", "-Infinity"})

string: Final[Converter] = encode_basestring


def verbatim(text: str) -> str:
    """Integers: the same digits."""
    return text


def quoted(text: str) -> str:
    """numeric, uuid, date: a string of characters that need no escape."""
    return f'"{text}"'


def boolean(text: str) -> str:
    return "true" if text == "t" else "false"


def void(text: str) -> str:
    return "null"


def float8(text: str) -> str:
    """Positional notation with a decimal point; NaN and infinities become null."""
    if text in _NO_NUMBER:
        return "null"
    if "e" in text:
        return encode(float(text))
    return text if "." in text else f"{text}.0"


def float4(text: str) -> str:
    """As `float8`, widened bit by bit: 3.14 becomes 3.140000104904175."""
    if text in _NO_NUMBER:
        return "null"
    widened: float = struct.unpack("f", struct.pack("f", float(text)))[0]
    return encode(widened)


def json_value(text: str) -> str:
    """json and jsonb: the text itself, once it is sure that jsonb can hold it.

    Raises
    ------
    ValueRefused
        The escapes of a `json` value stand for NUL or for half a character, or it is nested too
        deeply for those who will read it.
    """
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(text)
    if "\\u" in text:
        encode(decode(text), "a json value of the result")
    return text


def _check_depth(text: str) -> None:
    depth = 0
    for mark in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth > MAX_DEPTH:
            raise ValueRefused(
                f"a json value of the result is nested more than {MAX_DEPTH} levels deep; flatten it "
                "in the query, or keep it in a table and return its key"
            )


def bytea(text: str) -> str:
    """`base64:` and the bytes; from either `bytea_output`."""
    is_hex = text.startswith("\\x")
    data = bytes.fromhex(text[2:]) if is_hex else _OCTAL.sub(_byte, text).encode("latin-1")
    return f'"base64:{b64encode(data).decode()}"'


_OCTAL: Final = re.compile(r"\\(?:\\|([0-7]{3}))")


def _byte(match: re.Match[str]) -> str:
    return chr(int(match[1], 8)) if match[1] else "\\"


def timestamp(text: str) -> str:
    """`2026-11-30T09:12:00.250`; infinity, BC and years after 9999 stay as they are."""
    if not _is_plain(text):
        return string(text)
    return f'"{text[:10]}T{text[11:19]}{_fraction(text[19:])}"'


def timestamptz(text: str) -> str:
    """RFC 3339 in UTC with `+00:00`; infinity, BC and years after 9999 stay as they are."""
    if not _is_plain(text):
        return string(text)
    if text.endswith("+00"):
        return f'"{text[:10]}T{text[11:19]}{_fraction(text[19:-3])}+00:00"'
    split = max(text.rfind("+"), text.rfind("-"))
    local = f"{text[:19]}{_fraction(text[19:split])}{text[split:]}"
    try:
        utc = datetime.fromisoformat(local).astimezone(UTC)
    except OverflowError:  # the year 0 or 10000 in UTC
        return string(text)
    whole = "milliseconds" if utc.microsecond % 1000 == 0 else "microseconds"
    return f'"{utc.isoformat(timespec=whole if utc.microsecond else "seconds")}"'


def _is_plain(text: str) -> bool:
    return text[10:11] == " " and text[4] == "-" and not text.endswith("BC")


def _fraction(text: str) -> str:
    """Pad `.5` to three digits and `.1234` to six."""
    if not text:
        return ""
    return text.ljust(4 if len(text) <= 4 else 7, "0")


def array_of(element: Converter, delimiter: str = ",") -> Converter:
    """Return the converter of an array whose elements have this one: lists, as deep as the array.

    Lower bounds (`[0:2]={…}`) are dropped.
    """
    stop = re.escape(delimiter)
    token = re.compile(rf'"((?:[^"\\]++|\\.)*+)"|([^{{}}"\\{stop}]+)|([{{}}{stop}])', re.DOTALL)
    punctuation = {"{": "[", "}": "]", delimiter: ","}

    def item(match: re.Match[str]) -> str:
        if (mark := match[3]) is not None:
            return punctuation[mark]
        if (bare := match[2]) is not None:
            return "null" if bare == "NULL" else element(bare)
        return element(_BACKSLASHED.sub(r"\1", match[1]))

    def convert(text: str) -> str:
        if text.startswith("["):
            text = text[text.index("=") + 1 :]
        return token.sub(item, text)

    return convert


_BACKSLASHED: Final = re.compile(r"\\(.)", re.DOTALL)


def composite_of(fields: Sequence[tuple[str, Converter]]) -> Converter:
    """Return the converter of a composite type with these fields: an object."""
    keys = [f"{string(name)}:" for name, _ in fields]
    converters = [convert for _, convert in fields]

    def convert(text: str) -> str:
        values = _fields(text) if keys else []
        if len(values) != len(keys):  # the type was altered since the catalog was read
            return string(text)
        items = [
            key + ("null" if value is None else converter(value))
            for key, converter, value in zip(keys, converters, values, strict=True)
        ]
        return f"{{{','.join(items)}}}"

    return convert


_FIELD: Final = re.compile(r'(?:"((?:[^"\\]++|""|\\.)*+)"|([^",()\\]*+))[,)]', re.DOTALL)
_FIELD_ESCAPE: Final = re.compile(r'"(")|\\(.)', re.DOTALL)


def _fields(text: str) -> list[str | None]:
    """Split `(1,"a b",)` into its values; an empty one without quotes is NULL."""
    values: list[str | None] = []
    for match in _FIELD.finditer(text, 1):
        if match[1] is not None:
            values.append(_FIELD_ESCAPE.sub(lambda escape: escape[1] or escape[2], match[1]))
        else:
            values.append(match[2] or None)
    return values
