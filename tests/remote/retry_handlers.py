"""Handlers whose behaviour a test mends between two runs."""

from __future__ import annotations

from typing import Any

import pandas

__all__ = ["broken", "calls", "doubled", "later", "typed"]

calls: list[Any] = []
mended = False


def doubled(rows: list[dict[str, Any]], factor: int = 2) -> list[dict[str, Any]]:
    calls.append(rows)
    if not mended:
        raise LookupError(f"no price for {rows[0]['n']}")
    return [{"n": factor * row["n"]} for row in rows]


def typed(frame: pandas.DataFrame) -> str:
    calls.append({name: str(dtype) for name, dtype in frame.dtypes.items()})
    raise LookupError("typed")


async def later(value: int) -> int:
    calls.append(value)
    if not mended:
        raise LookupError("later")
    return value + 1


def broken(value: Any) -> None:
    raise LookupError(f"broken by {str(value)[:20]}")
