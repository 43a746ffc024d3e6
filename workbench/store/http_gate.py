"""What the database says about an HTTP request: may this role make it, and where may it go."""

from __future__ import annotations

import json
from typing import NamedTuple

from psycopg import pq

from workbench.store.wire import Statement, rows

__all__ = ["Gate", "ask_gate", "read_gate"]


class Gate(NamedTuple):
    """The answer of one moment: `function` is what the privilege is on; `allow` and `deny` are the
    settings `http_allow` and `http_deny`.
    """

    allowed: bool
    role: str
    function: str
    allow: tuple[str, ...]
    deny: tuple[str, ...]


def ask_gate(kind: str) -> Statement:
    """The question; `kind` is `http` or `http_multipart`."""
    sql = b"SELECT allowed, role, function, allow, deny FROM df._http_gate($1)"
    return Statement(sql, (kind.encode(),), prepared=True)


def read_gate(result: pq.abc.PGresult) -> Gate:
    """The answer."""
    ((allowed, role, function, allow, deny),) = rows(result)
    assert role is not None
    assert function is not None
    lists = (tuple(json.loads(each or "[]")) for each in (allow, deny))
    return Gate(allowed == "t", role, function, *lists)
