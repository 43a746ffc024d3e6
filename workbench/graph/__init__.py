"""Graphs: immutable trees of nodes, the same JSON from Python and SQL; no I/O.

`node` and `build` make them, `codec` reads and writes them, `validate` checks them, `tree` draws
them. `lexer`, `literals` and `substitute` put values into SQL; `values` is the JSON that steps
exchange; `handlers` names Python functions.
"""

from __future__ import annotations

from workbench.graph.build import Ref, named, py, ref, seq, sql
from workbench.graph.codec import dumps, loads
from workbench.graph.handlers import handler
from workbench.graph.node import Node
from workbench.graph.tree import tree
from workbench.graph.validate import validate
from workbench.graph.values import rows
from workbench.graph.walk import Visit, walk

__all__ = [
    "Node",
    "Ref",
    "Visit",
    "dumps",
    "handler",
    "loads",
    "named",
    "py",
    "ref",
    "rows",
    "seq",
    "sql",
    "tree",
    "validate",
    "walk",
]
