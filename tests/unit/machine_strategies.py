"""Hypothesis strategies for the decider: graphs it can run, policies, budgets, outcomes; no tests."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from workbench.engine.machine import Limits
from workbench.engine.policy import Policy
from workbench.engine.simulate import Crashes, Fails, Outcome, Succeeds
from workbench.graph import Node

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
