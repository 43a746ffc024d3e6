"""Containment of JSON values, as Postgres' `jsonb @>` has it."""

from __future__ import annotations

from decimal import Decimal

from workbench.graph.values import Json

__all__ = ["contains"]


def contains(value: Json, pattern: Json, *, top: bool = True) -> bool:
    """Tell whether a value contains a pattern: further keys and elements do not count, nor do the
    order and number of elements; 1 is 1.0, and true is not 1.

    Parameters:
        top: whether both are whole documents. Only there an array contains a bare scalar.
    """
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            key in value and contains(value[key], part, top=False) for key, part in pattern.items()
        )
    if isinstance(value, list):
        if isinstance(pattern, list):
            return all(any(_matches(item, part) for item in value) for part in pattern)
        return top and any(_is_same(item, pattern) for item in value)
    return not isinstance(pattern, list) and _is_same(value, pattern)


def _matches(item: Json, part: Json) -> bool:
    return contains(item, part, top=False)


def _is_same(one: Json, other: Json) -> bool:
    """Whether two scalars are equal. Python would take True for 1, and 1e23 for another number than
    10**23: Postgres compares what is written.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int) and isinstance(other, float):
        return Decimal(repr(other)) == one
    if isinstance(one, float) and isinstance(other, int):
        return Decimal(repr(one)) == other
    return not isinstance(one, dict | list) and one == other
