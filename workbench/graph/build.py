"""The first builders: `sql`, `py`, `seq`, `ref`, `named`, and what is taken for a step.

Each returns a `Node` and does no I/O. Whatever takes a step takes text too: graph JSON as built
by `df.*`, else SQL. Steps that direct others are built in `control`, those that wait in `waiting`,
requests in `http`.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import json
import uuid
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, Never, Protocol, TypeAlias, runtime_checkable

from workbench.errors import GraphError, HandlerError
from workbench.graph.codec import loads
from workbench.graph.configs import external_fault
from workbench.graph.handlers import Handler, handler_name, is_at_hand
from workbench.graph.lexer import Reference, find_references
from workbench.graph.literals import literal, quote
from workbench.graph.node import Node
from workbench.graph.secret import Secret
from workbench.graph.shapes import NODE_TYPES, did_you_mean, is_identifier
from workbench.graph.substitute import REF_KEY
from workbench.graph.values import MAX_DEPTH, Json, encode


@runtime_checkable
class AsNode(Protocol):
    """What stands for a node wherever a step may be, such as a `Flow`."""

    def __workbench_node__(self) -> Node: ...


Step: TypeAlias = Node | AsNode | str
"""What is taken for a step."""


def sql(query: str, /, *, transaction: bool = True, **values: Any) -> Node:
    """A SQL step.

    Parameters:
        query: one statement; `$name` refers to an earlier step's result.
        transaction: False runs the statement outside a transaction block (VACUUM, a CALL that
            commits), at least once instead of exactly once.
        values: put into `$name` now, as quoted literals: JSON values, dates and times, Decimal,
            UUID. None becomes NULL.

    Raises:
        GraphError: a value that the query does not use, or that is used as `$name.column`.
        ValueRefused: a value that cannot be written as a literal.
    """
    if not isinstance(query, str):
        raise GraphError(f"sql() takes the statement as text, not {type(query).__name__}")
    if values:
        query = _bind(query, values)
    return Node("SQL", query=query, options=None if transaction else {"transaction": False})


def py(fn: Handler | str, /, *unnamed: Never, **arguments: Any) -> Node:
    """A Python step.

    Parameters:
        fn: a top-level function, or a handler's stored name such as `"crm.clean"`.
        unnamed: refused; arguments are stored by their names.
        arguments: its keyword arguments: JSON values, with `ref("x")` anywhere inside.

    Raises:
        HandlerError: the function cannot be found again by name.
        GraphError: the arguments do not fit the function's parameters, or have no names.
        ValueRefused: an argument that JSON cannot hold.
    """
    if isinstance(fn, str):
        name = _stored_name(fn)
        _refuse_unnamed(name, unnamed, None)
    else:
        name = handler_name(fn)
        if not is_at_hand(fn):
            raise HandlerError(
                f"py({name}): the notebook or script has no function {fn.__qualname__!r}, so no engine "
                "would find it; define it at the top level"
            )
        _refuse_unnamed(name, unnamed, _signature(fn))
        _check_arguments(fn, name, arguments)
    return Node("PYTHON", query=_call(name, arguments))


def external(handler: str, /, **input: Any) -> Node:  # noqa: A002 - what workers call it
    """A step that workers execute which are no engines: any program that can speak SQL.

    They ask for it with `df.claim_tasks` and report with `df.complete_task` or `df.fail_task`.

    Parameters:
        handler: what workers ask for, 1 to 200 characters.
        input: what they are given: JSON values, with `ref("x")` anywhere inside.

    Raises:
        GraphError: the name was refused.
        ValueRefused: an input that JSON cannot hold.
    """
    if fault := external_fault({"handler": handler}):
        raise GraphError(f"external(): {fault}")
    return Node("EXTERNAL", query=_call(handler, input))


def seq(*steps: Step) -> Node:
    """Steps one after the other; the value is the last one's.

    The steps are nested evenly, so that thousands of them stay within the depth limit.
    `seq(a, b, c)` is `a >> b >> c`.

    Raises:
        GraphError: no step, or something that is not a step.
    """
    if not steps:
        raise GraphError("seq() needs at least one step: seq(a, b, …), or seq(*steps) for a list")
    level = [as_node(step) for step in steps]
    return _balanced(level, 0, len(level))


def named(step: Step, name: str) -> Node:
    """Name a step's result, as `df."as"` does; `.named(name)` is the same."""
    return as_node(step).named(name)


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to an earlier result, made by `ref`; `ref("x")["c"]` is `$x.c` in SQL."""

    name: str
    path: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Ref:
        if not _is_text(key) or not key or "." in key:
            raise GraphError(
                f"{self!r}[{key!r}]: a reference goes on by column or field names without dots; "
                "pick anything else inside the function, or name the column in SQL with AS"
            )
        return Ref(self.name, (*self.path, key))

    def __repr__(self) -> str:
        return f"ref({self.name!r})" + "".join(f"[{key!r}]" for key in self.path)

    def to_json(self) -> dict[str, str]:
        """Return the stored form, `{"$ref": "x.c"}`."""
        return {REF_KEY: ".".join([self.name, *self.path])}


def ref(name: str) -> Ref:
    """Refer to the result that an earlier step named; `input` is the run's input.

    As an argument of `py`, a row set arrives as a list of dicts, or as a DataFrame where the
    parameter is annotated so.

    Raises:
        GraphError: the name is not an identifier.
    """
    if not is_identifier(name):
        raise GraphError(
            f"ref({name!r}): not a result name; use the name given with .named(), and "
            'ref("x")["c"] for a column'
        )
    return Ref(name)


def as_node(step: object) -> Node:
    """Take a step as a node: a Node as it is, graph JSON read, other text as SQL.

    Raises:
        GraphError: something else, or broken graph JSON.
    """
    if isinstance(step, Node):
        return step
    if isinstance(step, str):
        return _from_text(step)
    if isinstance(step, AsNode):
        return step.__workbench_node__()
    hint = ""
    if isinstance(step, FunctionType):
        hint = f"; for a Python function write py({step.__name__})"
    elif isinstance(step, list | tuple):
        hint = "; write seq(*steps) for a list"
    raise GraphError(f"a step is a Node or SQL text, not {type(step).__name__}{hint}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _from_text(text: str) -> Node:
    if not text.lstrip().startswith("{"):
        return Node("SQL", query=text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return Node("SQL", query=text)
    # As in SQL: an object with an unknown node_type is a text like any other.
    if not isinstance(data, dict) or data.get("node_type") not in NODE_TYPES:
        return Node("SQL", query=text)
    try:
        return loads(text)
    except GraphError as error:
        raise GraphError(
            f"Invalid Durofut JSON: failed to deserialize workflow step: {error}"
        ) from None


def _balanced(steps: list[Node], start: int, end: int) -> Node:
    if end - start == 1:
        return steps[start]
    middle = start + (end - start + 1) // 2
    return Node("THEN", left=_balanced(steps, start, middle), right=_balanced(steps, middle, end))


def _bind(query: str, values: dict[str, Any]) -> str:
    parts: list[str] = []
    done, used = 0, set()
    for reference in find_references(query):
        if reference.name in values:
            _check_plain(reference)
            text = _literal(values[reference.name], reference.name)
            parts += [query[done : reference.start], text]
            done = reference.end
            used.add(reference.name)
    for name in values:
        if name not in used:
            raise GraphError(
                f"sql() got the value {name!r}, but the query has no ${name} outside strings and "
                f"comments.{did_you_mean(name, {r.name for r in find_references(query)})}"
            )
    return "".join([*parts, query[done:]])


def _check_plain(reference: Reference) -> None:
    if reference.path or reference.star:
        raise GraphError(
            f"${reference.name} is a value given to sql(), which has no columns; pass the column "
            "as a value of its own"
        )


#: Values whose literals say their type, so that `$day + 1` is a date; the first match counts.
_TYPED: Final = (
    (datetime.datetime, "TIMESTAMP"),
    (datetime.date, "DATE"),
    (datetime.time, "TIME"),
    (uuid.UUID, "UUID"),
)


def _literal(value: Any, name: str) -> str:
    _refuse_secret(value)
    for kind, type_name in _TYPED:
        if isinstance(value, kind):
            zoned = "" if getattr(value, "tzinfo", None) is None else "TZ"
            return f"{type_name}{zoned} {quote(str(value))}"
    if isinstance(value, decimal.Decimal) and value.is_finite():
        text = format(value, "f")
        return f"({text})" if text.startswith("-") else text
    encode(value, name)
    return literal(value)


def _stored_name(name: str) -> str:
    module, colon, qualname = name.partition(":")
    if not module or (colon and not qualname) or any(char.isspace() for char in name):
        raise HandlerError(
            f"{name!r} is no handler's name; write 'module:function', or the name given to "
            "@handler(…)"
        )
    return name


def _signature(fn: Handler) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def _refuse_unnamed(name: str, unnamed: Sized, signature: inspect.Signature | None) -> None:
    """Say how arguments are given; Python's own error would count ours and the function's."""
    if unnamed:
        known = f" The function takes {signature}" if signature else ""
        raise GraphError(f"py({name}): give every argument by its name: py(fn, name=value).{known}")


def _check_arguments(fn: Handler, name: str, arguments: dict[str, Any]) -> None:
    """Find a missing or misspelt argument now, not in the run."""
    if (signature := _signature(fn)) is None:
        return
    # `ctx` is given by the engine.
    given = {"ctx": None, **arguments} if "ctx" in signature.parameters else arguments
    try:
        signature.bind(**given)
    except TypeError as error:
        wrong = next((key for key in arguments if key not in signature.parameters), "")
        raise GraphError(
            f"py({name}): {error}.{did_you_mean(wrong, signature.parameters)} The function is "
            f"{fn.__name__}{signature}"
        ) from None


def _call(handler: str, arguments: Mapping[str, Any]) -> str:
    """What is called, and with which input."""
    plain = {key: _without_refs(value, 0) for key, value in arguments.items()}
    parts = ",".join(f"{encode(key)}:{encode(value, key)}" for key, value in plain.items())
    return f'{{"handler":{encode(handler)},"input":{{{parts}}}}}'


def _without_refs(value: Any, depth: int) -> Json:
    """Replace each Ref by its JSON form; what is too deep or cyclic is left for `encode`."""
    if isinstance(value, Ref):
        return value.to_json()
    _refuse_secret(value)
    if depth <= MAX_DEPTH:
        if type(value) is dict:
            return {key: _without_refs(item, depth + 1) for key, item in value.items()}
        if type(value) in (list, tuple):
            return [_without_refs(item, depth + 1) for item in value]
    return value


def _refuse_secret(value: object) -> None:
    if isinstance(value, Secret):
        raise GraphError(
            f"{value!r} is put in place in HTTP steps only; a Python step reads os.environ itself"
        )
