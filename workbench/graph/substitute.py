"""Putting values into a step's text when it runs: `{var}`, `$name` in SQL, `$ref` in inputs.

First every `{identifier}` that is a variable is replaced, raw, wherever it stands. Then the
`$name` references that the lexer finds in code become literals. Names that are not known stay as
they are. Which names a node sees is the engine's decision; HTTP texts (`http_text`) use the same
lookups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from workbench.errors import SubstitutionError
from workbench.graph.lexer import Reference, find_references
from workbench.graph.literals import literal, row_set
from workbench.graph.shapes import did_you_mean
from workbench.graph.values import Json

REF_KEY: Final = "$ref"
"""The one key of a JSON object that stands for a result: `{"$ref": "x.c"}`."""

_BRACES: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Column:
    """A result column: its name and its type as `format_type` writes it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Named:
    """A named result: its JSON value and, for SQL results, the columns in select-list order."""

    value: Json
    columns: tuple[Column, ...] | None = None


SKIPPED: Final = Named(None)
"""What the name of a flow's step that was skipped stands for, in steps that go on without it."""


def substitute_sql(
    sql: str,
    names: Mapping[str, Named],
    variables: Mapping[str, str],
    system: Mapping[str, str] | None = None,
) -> str:
    """Return the SQL text that a node executes.

    Parameters:
        names: the results this node sees, by name.
        variables: the run's captured variables.
        system: `sys_instance_id` and `sys_label` (empty when the run has no label); they win
            over variables of the same name.

    Raises:
        SubstitutionError: a known name has no usable value: no rows, NULL, no such field.
    """
    sql = expand_variables(sql, variables, system)
    parts: list[str] = []
    done = 0
    for reference in find_references(sql):
        if reference.name in names:
            text = _sql_text(reference, names[reference.name])
            parts += [sql[done : reference.start], _spaced(sql, reference, text)]
            done = reference.end
    return "".join([*parts, sql[done:]])


def expand_variables(
    text: str, variables: Mapping[str, str], system: Mapping[str, str] | None = None
) -> str:
    """Replace each `{identifier}` that is a variable; inserted values are not looked at again."""
    if "{" not in text:
        return text
    known = {**variables, **(system or {})}
    return _BRACES.sub(lambda match: known.get(match[1], match[0]), text)


def references(sql: str) -> set[str]:
    """Return the names that a text may refer to, so that only their values need loading.

    Expand variables first: a variable's value may contain references.
    """
    return {reference.name for reference in find_references(sql)}


def resolve_input(value: Json, names: Mapping[str, Named]) -> Json:
    """Replace each `{"$ref": …}` inside a PYTHON node's input by the result it names.

    The whole of a row set becomes a list of dicts; `x.c` is the first row's column or an object's
    field, None when that is NULL.

    Raises:
        SubstitutionError: the name is not known, has no rows, or has no such field.
    """
    if isinstance(value, list):
        return [resolve_input(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    if is_reference(value):
        return _input_value(value[REF_KEY], names)
    return {
        key: resolve_input(item, names)
        for key, item in value.items()
        if not is_skipped(item, names)
    }


def input_references(value: Json) -> set[str]:
    """Return the names that a PYTHON node's input refers to."""
    found: set[str] = set()
    pending = [value]
    while pending:
        item = pending.pop()
        if is_reference(item):
            found.add(item[REF_KEY].partition(".")[0])
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return found


def is_skipped(value: Json, names: Mapping[str, Named]) -> bool:
    """Tell whether a JSON value is a reference to a step that was skipped."""
    return is_reference(value) and names.get(value[REF_KEY].partition(".")[0]) is SKIPPED


def is_reference(value: Json) -> bool:
    """Tell whether a JSON value is `{"$ref": "…"}`."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(REF_KEY), str)


def _input_value(text: str, names: Mapping[str, Named]) -> Json:
    name, *path = text.split(".")
    if name not in names:
        raise SubstitutionError(
            f"${name} is not known here: no step that ran before this one has that name."
            f"{did_you_mean(name, names)}"
        )
    named = names[name]
    if path:
        return _field(Reference(0, 0, name, tuple(path), False, False), named)
    rows = _rows(named)
    return named.value if rows is None else rows


def elements_of(value: Json) -> list[Json] | None:
    """Return what a MAP over a result goes over: rows, or the elements of a list; else None."""
    if _is_row_result(value):
        return list(value["rows"])
    return value if isinstance(value, list) else None


def value_of(reference: Reference, named: Named) -> Json:
    """Return what `$name`, `$name.path` and their `?` forms stand for.

    Raises:
        SubstitutionError: no rows or NULL (and the reference has no `?`), or no such field.
    """
    value = _field(reference, named) if reference.path else _bare(reference, named)
    if value is None and not reference.optional:
        raise SubstitutionError(_null_text(reference, named))
    return value


def lacks_field(reference: Reference, named: Named) -> bool:
    """Tell whether a result has fields, but not the one that the path begins with."""
    rows = _rows(named, limit=1)
    value = named.value if rows is None else next(iter(rows), None)
    return bool(reference.path) and isinstance(value, dict) and reference.path[0] not in value


def rows_of(reference: Reference, named: Named) -> list[dict[str, Json]]:
    """Return what `$name.*` stands for: all rows.

    Raises:
        SubstitutionError: the result is no row set.
    """
    rows = _rows(named)
    if rows is None:
        raise SubstitutionError(
            f"${reference.name}.*: invalid result format: the result is {_kind(named.value)}, "
            "not a row set; return a list of objects"
        )
    return rows


def _sql_text(reference: Reference, named: Named) -> str:
    if named is SKIPPED:
        return row_set(reference.name, [], None) if reference.star else literal(None)
    if reference.star:
        return row_set(reference.name, rows_of(reference, named), _types(named))
    return literal(value_of(reference, named))


def _spaced(sql: str, reference: Reference, text: str) -> str:
    """Keep a literal apart from what touches it: `'a'$x` must not become one string."""
    before = sql[reference.start - 1 : reference.start]
    after = sql[reference.end : reference.end + 1]
    left = " " if before == "'" or before.isalnum() else ""
    right = " " if after in ("'", ".") or after.isalnum() else ""
    return f"{left}{text}{right}"


def _null_text(reference: Reference, named: Named) -> str:
    shown = _shown(reference)
    way_out = f"; write {shown}? to get NULL"
    if reference.path:
        return f"{shown} is NULL{way_out}"
    if _is_row_result(named.value):
        return f"{shown} is NULL — first column of first row is NULL{way_out}"
    return f"{shown} is NULL — the result is null{way_out}"


def _bare(reference: Reference, named: Named) -> Json:
    """First column of the first row; any other result as it is."""
    if not _is_row_result(named.value):
        return named.value
    rows = _rows(named, limit=1) or []
    if not rows:
        return _no_rows(reference)
    return next(iter(rows[0].values()), None)


def _field(reference: Reference, named: Named) -> Json:
    """Follow the path from the first row, or from an object; NULL ends it."""
    rows = _rows(named, limit=1)
    if rows is not None and not rows:
        return _no_rows(reference)
    value = named.value if rows is None else rows[0]
    for position, key in enumerate(reference.path):
        if value is None and position:
            return None
        if not isinstance(value, dict):
            raise SubstitutionError(
                f"{_shown(reference)}: result is neither a row set nor a JSON object"
                if position == 0
                else f"{_shown(reference)}: {reference.path[position - 1]!r} is {_kind(value)}, "
                f"which has no field {key!r}"
            )
        if key not in value:
            # A missing column is a mistake; a missing field inside JSON is data.
            if position and reference.optional:
                return None
            raise _no_field(reference, key, value)
        value = value[key]
    return value


def _no_rows(reference: Reference) -> None:
    if not reference.optional:
        raise SubstitutionError(
            f"{_shown(reference)} has no rows — query returned zero results; write "
            f"{_shown(reference)}? to get NULL"
        )


def _no_field(reference: Reference, key: str, available: Iterable[str]) -> SubstitutionError:
    listed = ", ".join(available)
    hint = did_you_mean(key, available)
    return SubstitutionError(
        f"{_shown(reference)}: result has no field {key!r} (available: {listed})"
        f"{'.' if hint else ''}{hint}"
    )


def _shown(reference: Reference) -> str:
    return "$" + ".".join([reference.name, *reference.path])


def _rows(named: Named, limit: int | None = None) -> list[dict[str, Json]] | None:
    """Return a result's (first) rows in column order, or None when it is not a row set."""
    value = named.value
    found: list[dict[str, Json]]
    if _is_row_result(value):
        found = value["rows"]
    elif isinstance(value, list) and all(isinstance(row, dict) for row in value):
        found = value
    else:
        return None
    if named.columns is None:
        return found
    # jsonb forgets the order of columns; the node row remembers it.
    order = [column.name for column in named.columns]
    return [{name: row.get(name) for name in order} for row in found[:limit]]


def _is_row_result(value: Json) -> bool:
    """Tell whether a value has the form of a SQL result (`rows`, `row_count`)."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("rows"), list)
        and value.keys() <= {"rows", "row_count"}
        and all(isinstance(row, dict) for row in value["rows"])
    )


def _types(named: Named) -> dict[str, str] | None:
    if named.columns is None:
        return None
    return {column.name: column.type for column in named.columns}


def _kind(value: Json) -> str:
    names = {dict: "an object", list: "an array", str: "text", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
