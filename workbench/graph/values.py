"""The values that steps exchange, as JSON text: `encode`, `decode`, `rows`.

None, bool, int, finite float, str, list or tuple, dict with str keys; everything else is refused
with the path to it and the way to convert it. Conversion of SQL results by type is the store's.
`encode` is on the hottest path: json's C encoder writes the text, one cheap scan proves that it
wrote exactly what was meant, and only the rest goes through the slow writer, which knows paths.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from workbench.errors import ValueRefused

if TYPE_CHECKING:
    import pandas

Json: TypeAlias = Any
"""None, bool, int, float, str, list and dict of these; `Any` because callers index freely."""

RESULT_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of UTF-8 that one encoded value may have (16 MiB)."""

MAX_DEPTH: Final = 256
"""Levels of lists and dicts around a value; deeper ones exhaust the stacks of JSON readers."""

MAX_DIGITS: Final = 4300
"""Digits of an int: what Python itself reads back by default."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_encode_in_c = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(value: Json, what: str = "result") -> str:
    """Return the compact JSON text of a value.

    Floats are written in positional notation with a decimal point, so that jsonb gives back the
    same floats; tuples become lists.

    Parameters:
        what: the name of the value in error texts, as in `result["rows"][3]["when"]`.

    Raises:
        ValueRefused: JSON or Postgres cannot hold the value, or its text exceeds 16 MiB.
    """
    try:
        text = _encode_in_c(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        text = _write_slowly(value, what)
    else:
        if "\\u0000" in text or not _written_as_meant(value):
            text = _write_slowly(value, what)
    _check_text(value, text, what)
    return text


def decode(text: str | bytes) -> Json:
    """Return the value of a JSON text written by `encode` or by jsonb."""
    return json.loads(text)


def rows(frame: pandas.DataFrame) -> list[dict[str, Json]]:
    """Return a DataFrame as a list of dicts, a row each: the form in which steps exchange rows.

    NaN, NaT and NA become None; times, dates and durations become ISO 8601 text; Decimals and
    UUIDs become text; numpy values become Python values. The index is not kept: call
    `reset_index()` first when it matters. Column names become str.

    Raises:
        ValueRefused: two columns have one name.
    """
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueRefused(f"two columns are named {twice!r}; rename one before rows(frame)")
    columns = [[_cell(item) for item in frame.iloc[:, i].tolist()] for i in range(len(names))]
    if not columns:
        return [{} for _ in range(len(frame))]
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _written_as_meant(value: Json) -> bool:
    """Tell whether the C encoder's text is right: exact types, str keys, positional floats."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Json] = []
        for item in level:
            kind = type(item)
            if kind is str or kind is int or kind is bool or item is None:
                continue
            if kind is dict:
                for key in item:
                    if type(key) is not str:
                        return False
                below.extend(item.values())
            elif kind is list or kind is tuple:
                below.extend(item)
            elif kind is not float or not (1e-4 <= abs(item) < 1e16 or item == 0):
                return False
        if not below:
            return True
        level = below
    return False


def _check_text(value: Json, text: str, what: str) -> None:
    size = len(text)
    if not text.isascii():
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            _write_slowly(value, what)
            raise
    if size > RESULT_LIMIT:
        raise ValueRefused(
            f"{what} is {size / 2**20:.1f} MiB of JSON, the limit is {RESULT_LIMIT // 2**20} MiB; "
            "store it in a table or a file and return its key"
        )


def _write_slowly(value: Json, what: str) -> str:
    """Write a value piece by piece, or refuse it with the path to what cannot be written."""
    try:
        return _write(value, what, 0)
    except RecursionError:
        # Within the limit, but the caller's own stack left too little room.
        raise _too_deep(what) from None


def _too_deep(path: str) -> ValueRefused:
    return ValueRefused(
        f"{_shorten(path)} is nested more than {MAX_DEPTH} levels deep or contains itself; "
        "flatten it or keep keys instead of objects"
    )


def _write(value: Json, path: str, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise _too_deep(path)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Enum) or _is_foreign(value):
        raise _refusal(value, path)
    if isinstance(value, str):
        return _string(value, path)
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, float):
        return _float(value, path)
    if isinstance(value, dict):
        return _dict(value, path, depth)
    if isinstance(value, list | tuple):
        items = [_write(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        return f"[{','.join(items)}]"
    raise _refusal(value, path)


def _dict(value: dict[Any, Json], path: str, depth: int) -> str:
    items = []
    for key, item in value.items():
        if not isinstance(key, str) or isinstance(key, Enum):
            raise ValueRefused(
                f"{_shorten(path)} has the key {_brief(key)}, which is {_type_name(key)}; JSON "
                "keys are text: use str keys"
            )
        inner = f"{path}[{json.dumps(key, ensure_ascii=False)}]"
        items.append(f"{_string(key, f'a key of {path}')}:{_write(item, inner, depth + 1)}")
    return f"{{{','.join(items)}}}"


def _string(value: str, path: str) -> str:
    if "\0" in value:
        raise ValueRefused(
            f"{_shorten(path)} contains a NUL character, which Postgres cannot hold; remove it "
            'with .replace("\\0", "") or encode binary data as base64'
        )
    if _SURROGATE.search(value):
        raise ValueRefused(
            f"{_shorten(path)} contains a lone surrogate, which is not Unicode text; decode the "
            'bytes anew, for example with errors="replace"'
        )
    return encode_basestring(value)


def _integer(value: int, path: str) -> str:
    # Compared as numbers: the interpreter's own digit limit may have been lifted.
    if abs(value) >= 10**MAX_DIGITS:
        raise ValueRefused(
            f"{_shorten(path)} is an int of more than {MAX_DIGITS} digits; store it as hex text"
        )
    return int.__repr__(value)


def _float(value: float, path: str) -> str:
    if not math.isfinite(value):
        raise ValueRefused(
            f"{_shorten(path)} is {value!r}, which JSON cannot hold; use None, or wb.rows(frame) "
            "for a DataFrame's missing values"
        )
    text = float.__repr__(value)
    if "e" in text:
        text = format(Decimal(text), "f")
    return text if "." in text else f"{text}.0"


_CONVERSIONS: Final[dict[str, str]] = {
    "pandas.DataFrame": "wb.rows(frame) gives a list of dicts",
    "pandas.Series": "use .tolist(), or wb.rows(series.to_frame())",
    "pandas.Timestamp": "use .isoformat()",
    "pandas.Timedelta": "use .total_seconds()",
    "numpy.ndarray": "use .tolist()",
    "datetime.datetime": "use .isoformat()",
    "datetime.date": "use .isoformat()",
    "datetime.time": "use .isoformat()",
    "datetime.timedelta": "use .total_seconds()",
    "decimal.Decimal": "use str(value), or float(value) when its precision is enough",
    "uuid.UUID": "use str(value)",
    "builtins.bytes": "use base64.b64encode(value).decode()",
    "builtins.bytearray": "use base64.b64encode(value).decode()",
    "builtins.set": "use sorted(value)",
    "builtins.frozenset": "use sorted(value)",
    "builtins.complex": "use [value.real, value.imag]",
    "builtins.generator": "use list(value)",
    "builtins.coroutine": "await it first",
}


def _refusal(value: object, path: str) -> ValueRefused:
    return ValueRefused(
        f"{_shorten(path)} is {_type_name(value)}, which JSON cannot hold; {_conversion(value)}"
    )


def _conversion(value: object) -> str:
    for kind in type(value).__mro__:
        module = kind.__module__.partition(".")[0]
        if hint := _CONVERSIONS.get(f"{module}.{kind.__qualname__}"):
            return hint
    if isinstance(value, Enum):
        return "use .value"
    if _is_foreign(value):
        return "use .item()"
    if hasattr(value, "__dataclass_fields__"):
        return "use dataclasses.asdict(value)"
    if hasattr(value, "__fspath__"):
        return "use str(value)"
    return "convert it to None, bool, int, float, str, list or dict"


def _is_foreign(value: object) -> bool:
    """Tell whether a value is numpy's: `float64` is a float, and would pass unseen."""
    return type(value).__module__.partition(".")[0] == "numpy"


def _type_name(value: object) -> str:
    kind = type(value)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _shorten(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:100]} … {path[-80:]}"


def _cell(value: Any) -> Json:
    """Turn one DataFrame cell into a JSON value; unknown types are left for `encode` to refuse."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, int):
        return value
    if isinstance(value, list | tuple):
        return [_cell(item) for item in value]
    if isinstance(value, dict):
        return {key: _cell(item) for key, item in value.items()}
    return _foreign_cell(value)


def _foreign_cell(value: Any) -> Json:
    name = _type_name(value)
    if name.rpartition(".")[2] in ("NAType", "NaTType"):
        return None
    if name.startswith("numpy."):
        return _cell(value.tolist())
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if name in ("decimal.Decimal", "uuid.UUID"):
        return None if name == "decimal.Decimal" and value.is_nan() else str(value)
    if name in ("pandas.Period", "pandas.Interval") or name.startswith("pandas._libs"):
        return str(value)
    if name == "datetime.timedelta":
        return _foreign_cell(_pandas_timedelta(value))
    return value


def _pandas_timedelta(value: Any) -> Any:
    import pandas

    return pandas.Timedelta(value)
