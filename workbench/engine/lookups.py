"""Nodes that are decided by what a name means: `if_rows`, and a BREAK whose value refers to names.

They are claimed like leaves, since the decider has no values, and end with the next report.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.engine.control import break_value as _break_value
from workbench.engine.model import Run
from workbench.errors import StepError
from workbench.graph import http_text
from workbench.graph.substitute import Named, elements_of

__all__ = ["break_value", "has_rows", "references", "size", "system"]


def system(run: Run) -> dict[str, str]:
    """The variables that every run has; an empty label when it has none."""
    return {"sys_instance_id": run.id, "sys_label": run.label or ""}


def has_rows(name: str, names: Mapping[str, Named]) -> bool:
    """Whether the SQL result of this name has rows.

    Raises
    ------
    StepError
        No result of that name is known here, or it is none of SQL.
    """
    if name not in names:
        raise StepError(
            f"df.if_rows: result '{name}' not found: no step that ran before has that name"
        )
    value = names[name].value
    count = value.get("row_count") if isinstance(value, dict) else None
    if isinstance(count, int) and isinstance(value, dict) and isinstance(value.get("rows"), list):
        return count > 0
    raise StepError(
        f"df.if_rows: result '{name}' is not that of a SQL step; use a condition, such as "
        f"SELECT … FROM ${name}"
    )


def size(name: str, names: Mapping[str, Named]) -> int:
    """How many elements a MAP over this name has.

    Raises
    ------
    StepError
        No result of that name is known here, or it is neither rows nor a list.
    """
    if name not in names:
        raise StepError(f"each({name!r}): no step that ran before has that name")
    elements = elements_of(names[name].value)
    if elements is None:
        raise StepError(
            f"each({name!r}): the result is neither rows of a SQL step nor a list; return a list"
        )
    return len(elements)


def references(run: Run, text: str) -> set[str]:
    """The names that a break's value refers to."""
    return http_text.references({"body": text}, run.variables, system(run))


def break_value(run: Run, text: str, names: Mapping[str, Named]) -> str:
    """A break's value as JSON text: variables and names put in, then read as JSON if it is JSON."""
    known = http_text.Known(names, run.variables, system(run))
    return _break_value(http_text.shown(http_text.substitute(text, known, "body")))
