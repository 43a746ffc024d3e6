"""Builders that direct other steps: `join`, `race`, `if_`, `if_rows`, `loop`, `break_`.

Each returns a `Node` with the JSON that the function of the same name builds in SQL. Steps are
Nodes or text, as in `build`.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from workbench.errors import GraphError
from workbench.graph.build import AsNode, Ref, Step, as_node
from workbench.graph.configs import if_rows_fault
from workbench.graph.dag import map_fault
from workbench.graph.durations import seconds
from workbench.graph.node import Node
from workbench.graph.values import Json, encode


def join(*steps: Step) -> Node:
    """Steps side by side; the value is the list of theirs, in this order.

    All of them end before the JOIN does, also when one has failed. `a & b` joins two, so that
    `a & b & c` is `join(join(a, b), c)` and its value `[[A, B], C]`.

    Raises:
        GraphError: fewer than two steps, or something that is not a step.
    """
    left, right, *extra = _two_or_more(steps, "join")
    return Node("JOIN", left=left, right=right, extra=tuple(extra))


def race(*steps: Step) -> Node:
    """Steps side by side; the first to end decides, also when it ends by failing.

    The others are cancelled. More than two nest to the left, as `a | b | c` does:
    `race(a, b, c)` is `race(race(a, b), c)`.

    Raises:
        GraphError: fewer than two steps, or something that is not a step.
    """
    first, *others = _two_or_more(steps, "race")
    return reduce(lambda left, right: Node("RACE", left=left, right=right), others, first)


def if_(condition: Step, then: Step, else_: Step) -> Node:
    """Run `condition`; run `then` when its value is true, else `else_`; the value is that step's.

    A text is SQL here, too: `"SELECT $batch.done"`. Of rows the first column of the first one
    counts; no rows are false.

    Raises:
        GraphError: something that is not a step.
    """
    return Node("IF", left=as_node(then), right=as_node(else_), condition=as_node(condition))


def if_rows(name: str, then: Step, else_: Step) -> Node:
    """Run `then` when the SQL result of this name has rows, else `else_`.

    Raises:
        GraphError: the name is not an identifier, or something is not a step.
    """
    if fault := if_rows_fault({"condition_type": "result_has_rows", "result_name": name}):
        raise GraphError(fault)
    return Node("IF", left=as_node(then), right=as_node(else_), query=if_rows_query(name))


def each(over: str, body: Step, as_: str = "item", *, return_exceptions: bool = False) -> Node:
    """Run `body` once for each row or element of a named result; the value is the list of theirs.

    The bodies run side by side and end in any order; the list has the order of the elements. Each
    sees its own element by the name `as_`. The first to fail ends the others and decides.

    Parameters:
        over: the name of a SQL result or of a list; `input` is the run's.
        return_exceptions: in place of the value of a body that failed the list has its error.

    Raises:
        GraphError: a name is not an identifier, or the body is not a step.
    """
    config: dict[str, Any] = {"over": over, "as": as_}
    if return_exceptions:
        config["return_exceptions"] = True
    if fault := map_fault(config):
        raise GraphError(f"each(): {fault}")
    return Node("MAP", left=as_node(body), query=encode(config))


def loop(
    body: Step,
    while_: Step | None = None,
    until: Step | None = None,
    min_interval: object = 1,
) -> Node:
    """Run `body`, ask afterwards, and go on while `while_` is true or `until` is not.

    The value is the last body's, or that of `break_`. With neither condition only `break_` ends
    the loop.

    Parameters:
        min_interval: from the start of one iteration to the start of the next, at least: seconds,
            a timedelta, or text such as "10 minutes".

    Raises:
        GraphError: both conditions, no length of time, or something that is not a step.
    """
    if while_ is not None and until is not None:
        raise GraphError(
            "loop() takes while_ or until, not both; write one condition with AND or OR"
        )
    options: dict[str, Any] = {}
    if (pace := seconds(min_interval, "loop(min_interval=…)")) != 1:
        options["min_interval"] = pace
    if until is not None:
        options["until"] = True
    asked = while_ if until is None else until
    return Node(
        "LOOP",
        left=as_node(body),
        condition=None if asked is None else as_node(asked),
        options=options or None,
    )


def break_(value: Json = None) -> Node:
    """End the innermost loop around this step; the loop's value is `value`.

    Parameters:
        value: text as in SQL (`$name` and `{var}` in it are replaced; it is read as JSON if it
            is JSON), a `ref("x")`, or any other JSON value.

    Raises:
        ValueRefused: a value that JSON cannot hold.
    """
    if isinstance(value, Ref):
        value = "$" + ".".join([value.name, *value.path])
    text = value if value is None or isinstance(value, str) else encode(value, "break_()")
    return Node("BREAK", query=break_query(text))


def if_rows_query(name: str) -> str:
    """Return the config of an IF that asks whether a result has rows."""
    return f'{{"condition_type":"result_has_rows","result_name":{encode(name)}}}'


def break_query(value: str | None) -> str:
    """Return the config of a BREAK."""
    return f'{{"break_value":{encode(value, "break_()")}}}'


def _two_or_more(steps: tuple[Step, ...], what: str) -> list[Node]:
    if len(steps) < 2:
        hint = f"; write {what}(*steps) for a list" if steps and not _is_step(steps[0]) else ""
        raise GraphError(f"{what}() needs at least two steps: {what}(a, b, …){hint}")
    return [as_node(step) for step in steps]


def _is_step(value: object) -> bool:
    return isinstance(value, Node | str | AsNode)
