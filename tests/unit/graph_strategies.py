"""Hypothesis strategies for graphs and values; no tests."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from workbench.graph import (
    Node,
    break_,
    external,
    http,
    http_multipart,
    if_,
    if_rows,
    join,
    loop,
    race,
    sleep,
    wait_for_schedule,
    wait_for_signal,
)

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
_RETRY_KEYS = ("max_attempts", "max_backoff", "base_delay")
_DELAYS = st.integers(1, 10**6).map(lambda n: n / 1000)
_RETRY = st.none() | st.builds(
    lambda *values: {key: value for key, value in zip(_RETRY_KEYS, values, strict=True) if value},
    st.integers(1, 9),
    st.none() | _DELAYS,
    st.none() | _DELAYS,
)
_SQL = st.builds(
    lambda query, name, retry, plain: Node(
        "SQL",
        query=query,
        result_name=name,
        retry=retry,
        options=None if plain else {"transaction": False},
    ),
    TEXTS.filter(lambda text: text.strip(" ")),
    _NAMES,
    _RETRY,
    st.booleans(),
)
_PYTHON = st.builds(
    lambda value: Node("PYTHON", query=json.dumps({"handler": "m:f", "input": {"v": [value]}})),
    st.integers() | TEXTS,
)
_EXTERNAL = st.builds(
    lambda handler, given: external(handler, **given),
    TEXTS.filter(lambda text: len(text.strip()) > 0 and len(text) <= 200),
    st.dictionaries(st.sampled_from(["a", "é"]), JSON_VALUES, max_size=2),
)

SECONDS = st.integers(0, 10**9) | st.integers(0, 10**9).map(lambda n: n / 1000)
CRONS = st.sampled_from(["* * * * *", "0 9 * * MON-FRI", "*/5 0 1,15 jan *"])
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"])
HEADERS = st.none() | st.dictionaries(
    st.from_regex(r"[A-Za-z0-9-]{1,9}", fullmatch=True),
    TEXTS.filter(lambda text: "\n" not in text and "\r" not in text),
    max_size=4,
)
URLS = st.builds("https://host/{}".format, TEXTS) | st.sampled_from(["{base}/x", "HTTP://h?$q"])
SINKS = st.none() | st.sampled_from(
    ["public.pages(body)", 'Crawl."My ""Pages"".x"(é$1)', '"a(b)"."c"("d.e")']
)
STATUSES = st.none() | st.lists(st.integers(100, 599), max_size=3)
PARTS = st.lists(
    st.fixed_dictionaries(
        {"name": TEXTS, "data_b64": TEXTS}, optional={"filename": TEXTS, "content_type": TEXTS}
    ),
    min_size=1,
    max_size=3,
)

_HTTP = st.builds(
    lambda url, method, body, headers, timeout, statuses, strict, sink: http(
        url,
        method=method,
        body=body,
        headers=headers,
        timeout=timeout,
        retry_statuses=statuses,
        raise_for_status=strict,
        sink=sink,
    ),
    URLS,
    st.sampled_from([None, "put", "GET", "DELETE"]),
    st.none() | TEXTS,
    HEADERS,
    st.integers(1, 99) | st.just(0.5),
    STATUSES,
    st.booleans(),
    SINKS,
)
_LEAVES = (
    _SQL
    | _PYTHON
    | _EXTERNAL
    | st.builds(sleep, SECONDS)
    | st.builds(wait_for_schedule, CRONS, ZONES)
    | st.builds(wait_for_signal, TEXTS.filter(bool), st.none() | st.integers(1, 10**9))
    | st.builds(break_, TEXTS | JSON_VALUES)
    | _HTTP
    | st.builds(http_multipart, URLS, PARTS, headers=HEADERS)
)


def _composites(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    then = st.builds(
        lambda a, b, n: Node("THEN", left=a, right=b, result_name=n), inner, inner, _NAMES
    )
    choice = st.builds(if_, inner, inner, inner) | st.builds(
        if_rows, st.just("input"), inner, inner
    )
    joined = st.lists(inner, min_size=2, max_size=4).map(lambda steps: join(*steps))
    raced = st.lists(inner, min_size=2, max_size=3).map(lambda steps: race(*steps))
    looped = st.builds(loop, inner, st.none() | inner, min_interval=SECONDS) | st.builds(
        lambda body, until: loop(body, until=until), inner, inner
    )
    return then | choice | joined | raced | looped | st.builds(_named, inner, IDENTIFIERS)


def _named(node: Node, name: str) -> Node:
    return node.named(name)


GRAPHS: st.SearchStrategy[Node] = st.recursive(_LEAVES, _composites, max_leaves=12)
