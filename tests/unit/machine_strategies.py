"""Hypothesis strategies for the decider: graphs it can run, policies, budgets, outcomes; no tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from workbench.engine.machine import Limits
from workbench.engine.policy import Policy
from workbench.engine.simulate import Crashes, Fails, Outcome, Succeeds
from workbench.graph import (
    Node,
    break_,
    if_,
    if_rows,
    join,
    loop,
    race,
    seq,
    sleep,
    sql,
    wait_for_schedule,
    wait_for_signal,
)

# Few names, so that later nodes take the names of earlier ones.
_NAMES = st.none() | st.sampled_from(["a", "b", "c"])
_SECONDS = st.sampled_from([0.0, 0.25, 1.0, 90.0])

_SQL = st.builds(
    lambda name, options: Node("SQL", query="SELECT 1", result_name=name, options=options),
    _NAMES,
    st.none() | st.just({"transaction": False}),
)
_PYTHON = st.builds(
    lambda name: Node("PYTHON", query='{"handler":"m:f","input":{}}', result_name=name), _NAMES
)


def _sequences(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.builds(
        lambda left, right, name: Node("THEN", left=left, right=right, result_name=name),
        inner,
        inner,
        _NAMES,
    )


RUNNABLE: st.SearchStrategy[Node] = st.recursive(_SQL | _PYTHON, _sequences, max_leaves=8)

POLICIES = st.builds(
    Policy,
    max_attempts=st.sampled_from([3, 1, 2, 4, 5]),
    max_backoff=st.sampled_from([0.5, 4.0, 16.0, 1e6]),
    base_delay=st.sampled_from([0.0, 0.25, 1.0, 3.0]),
)
LIMITS = st.builds(Limits, lost=st.sampled_from([3, 1, 2, 4]), faults=st.sampled_from([2, 0, 1, 3]))

PERMANENT = [
    {"type": "StepError", "message": "never", "permanent": True},
    {"type": "UndefinedTable", "message": "no such table", "sqlstate": "42P01"},
]
TRANSIENT = [
    {"type": "ValueError", "message": "no"},
    {"type": "DivisionByZero", "message": "", "sqlstate": "22012"},
]
ERRORS = st.sampled_from(TRANSIENT * 4 + PERMANENT)
DELAYS = st.none() | st.sampled_from([0.0, 30.0, 86_400.0])

OUTCOMES: st.SearchStrategy[Outcome] = (
    st.builds(Succeeds, st.integers().map(json.dumps), _SECONDS)
    | st.builds(Fails, ERRORS, _SECONDS, DELAYS)
    | st.builds(Crashes, seconds=_SECONDS)
)

# The whole language. Loops end: the leaves `more N` and `done N` say when the N-th iteration of the
# innermost loop is the last one, and outcomes are to be kind to iterations beyond that.

_MICROSECONDS = st.integers(1, 3_000_000).map(lambda n: n / 1e6)
_TIMES = st.integers(1, 3)

_ANY_LEAF = st.one_of(
    st.builds(sql, st.sampled_from(["step", "look"])),
    st.builds(sql, st.sampled_from(["step", "look"])),
    _PYTHON,
    st.builds(sleep, _MICROSECONDS),
    st.builds(wait_for_signal, st.just("signal"), st.integers(1, 3)),
    st.builds(wait_for_schedule, st.just("* * * * *")),
    st.builds(break_, st.sampled_from([None, "done", "7", "$a"])),
)


def _named(node: Node, name: str | None) -> Node:
    return node if name is None else node.named(name)


def _any_composite(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(seq, inner, inner),
        st.builds(if_, inner, inner, inner),
        st.builds(if_rows, st.sampled_from(["a", "b"]), inner, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda steps: join(*steps)),
        st.lists(inner, min_size=2, max_size=3).map(lambda steps: join(*steps)),
        st.builds(race, inner, inner),
        st.builds(lambda left, right: left | right, inner, inner),
        _loops(inner),
        _loops(inner),
    )


def _loops(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    intervals = st.sampled_from([1, 0, 0.5, 2.5])
    more, done = _TIMES.map(lambda n: sql(f"more {n}")), _TIMES.map(lambda n: sql(f"done {n}"))
    return st.one_of(
        st.builds(lambda body, c, i: loop(body, while_=c, min_interval=i), inner, more, intervals),
        st.builds(lambda body, c, i: loop(body, until=c, min_interval=i), inner, done, intervals),
        st.builds(
            lambda body, x, c, i: loop(body, while_=seq(x, c), min_interval=i),
            inner, inner, more, intervals,
        ),
        st.builds(
            lambda body, c, i: loop(if_(c, break_("enough"), body), min_interval=i),
            inner, done, intervals,
        ),
        st.builds(
            lambda x, body, c, i: loop(seq(x, if_(c, break_("enough"), body)), min_interval=i),
            inner, inner, done, intervals,
        ),
    )  # fmt: skip


def _graphs(leaves: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.recursive(
        st.builds(_named, leaves, _NAMES),
        lambda inner: st.builds(_named, _any_composite(inner), _NAMES),
        min_leaves=5,
        max_leaves=16,
    )


#: Graphs of all node types. Every wait for a signal has a name of its own, after its number.
LANGUAGE = _graphs(_ANY_LEAF).map(
    lambda graph: _signals(graph, 0, lambda n: {"signal_name": f"signal-{n}"})
)

#: The same with more waits, of one name, some of which have no end.
SHARED_SIGNALS = _graphs(st.one_of(_ANY_LEAF, st.just(wait_for_signal("go")))).map(
    lambda graph: _signals(
        graph,
        0,
        lambda n: {"signal_name": "go", "timeout_seconds": n % 3 or None},
    )
)


def _signals(node: Node, number: int, config: Callable[[int], dict[str, Any]]) -> Node:
    following, children = number + 1, []
    for child in node.children():
        children.append(_signals(child, following, config))
        following += child.count
    if node.node_type == "SIGNAL":
        return replace(node, query=json.dumps(json.loads(node.query or "") | config(number)))
    rest = iter(children)
    slots: dict[str, Any] = {
        slot: next(rest)
        for slot in ("left", "right", "condition")
        if getattr(node, slot) is not None
    }
    return replace(node, **slots, extra=tuple(rest))
