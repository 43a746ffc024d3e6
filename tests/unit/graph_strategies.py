"""Hypothesis strategies for graphs and values; no tests."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from workbench.graph import Node

IDENTIFIERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name != "input"
)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)

_NAMES = st.none() | IDENTIFIERS
_RETRY = st.none() | st.fixed_dictionaries({"max_attempts": st.integers(1, 9)})
_SQL = st.builds(
    lambda query, name, retry, plain: Node(
        "SQL",
        query=query,
        result_name=name,
        retry=retry,
        options=None if plain else {"transaction": False},
    ),
    TEXTS,
    _NAMES,
    _RETRY,
    st.booleans(),
)
_PYTHON = st.builds(
    lambda value: Node("PYTHON", query=json.dumps({"handler": "m:f", "input": {"v": [value]}})),
    st.integers() | TEXTS,
)


def _composites(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    then = st.builds(
        lambda a, b, n: Node("THEN", left=a, right=b, result_name=n), inner, inner, _NAMES
    )
    if_ = st.builds(lambda c, t, e: Node("IF", left=t, right=e, condition=c), inner, inner, inner)
    join = st.builds(
        lambda a, b, more: Node("JOIN", left=a, right=b, extra=tuple(more)),
        inner,
        inner,
        st.lists(inner, max_size=2),
    )
    loop = st.builds(
        lambda body, condition: Node("LOOP", left=body, condition=condition),
        inner,
        st.none() | inner,
    )
    return then | if_ | join | loop


GRAPHS: st.SearchStrategy[Node] = st.recursive(_SQL | _PYTHON, _composites, max_leaves=12)
