"""HTML by construction: what is not marked as markup is escaped.

`tag` is the only way from values to HTML, so that no value of a run can become markup by oversight.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape as _escape

__all__ = ["EMPTY", "Child", "Safe", "escape", "join", "tag"]


class Safe(str):
    """Text that is HTML already: made here, or a constant of the package; never a value."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


Child = str | int | float | Iterable["Child"] | None

EMPTY = Safe()
_VOID = frozenset({"br", "col", "hr", "img", "input", "meta"})


def escape(value: object) -> Safe:
    """Return a value's text as HTML that shows exactly this text; Safe stays as it is."""
    return value if isinstance(value, Safe) else Safe(_escape(str(value)))


def join(*children: Child) -> Safe:
    """Return children one after the other; None is left out."""
    return Safe("".join(_flat(children)))


def tag(name: str, *children: Child, **attributes: str | int | float | bool | None) -> Safe:
    """Return an element.

    An attribute's trailing underscore is dropped and inner ones become dashes (`class_`,
    `aria_label`); None and False leave it out, True gives it no value.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        parts.append(f" {attribute}" if value is True else f' {attribute}="{escape(value)}"')
    parts.append(">")
    if name not in _VOID:
        parts += _flat(children)
        parts.append(f"</{name}>")
    return Safe("".join(parts))


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str | int | float):
            yield escape(child)
        else:
            yield from _flat(child)
