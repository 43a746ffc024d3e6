"""Graphs: immutable trees of nodes, the same JSON from Python and SQL; no I/O.

`node`, `build`, `control`, `waiting` and `http` make them, `codec` reads and writes them,
`validate` checks them, `tree` draws them. `lexer`, `literals` and `substitute` put values into SQL;
`values` is the JSON that steps exchange; `handlers` names Python functions.
"""

from __future__ import annotations

from workbench.graph.build import Ref, external, named, py, ref, seq, sql
from workbench.graph.codec import dumps, loads
from workbench.graph.control import break_, if_, if_rows, join, loop, race
from workbench.graph.handlers import handler
from workbench.graph.http import http, http_multipart
from workbench.graph.node import Node
from workbench.graph.policies import with_policy, with_retry
from workbench.graph.secret import secret
from workbench.graph.tree import tree
from workbench.graph.validate import validate
from workbench.graph.values import rows
from workbench.graph.waiting import sleep, wait_for_schedule, wait_for_signal
from workbench.graph.walk import Visit, walk

__all__ = [
    "Node",
    "Ref",
    "Visit",
    "break_",
    "dumps",
    "external",
    "handler",
    "http",
    "http_multipart",
    "if_",
    "if_rows",
    "join",
    "loads",
    "loop",
    "named",
    "py",
    "race",
    "ref",
    "rows",
    "secret",
    "seq",
    "sleep",
    "sql",
    "tree",
    "validate",
    "wait_for_schedule",
    "wait_for_signal",
    "walk",
    "with_policy",
    "with_retry",
]
