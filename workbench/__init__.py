"""Durable workflows on Postgres, from a notebook.

    import workbench as wb

    bench = wb.connect()
    run = bench.start(wb.sql("SELECT 41 AS n").named("x") >> wb.sql("SELECT $x + 1 AS answer"))
    run.result()

`connect` opens a database of runs (an embedded Postgres by default); `sql`, `py`, `http`, `seq`,
`join`, `loop` and their like build graphs; `bench.start` gives a `Run`, which shows itself, waits,
cancels, and keeps every attempt.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

logging.getLogger("workbench").addHandler(logging.NullHandler())  # silent until somebody listens

__version__ = "0.1.0"

__all__ = [
    "Bench",
    "Crashes",
    "Fails",
    "Flow",
    "Node",
    "RetryAfter",
    "Run",
    "Succeeds",
    "break_",
    "connect",
    "each",
    "errors",
    "external",
    "handler",
    "http",
    "http_multipart",
    "if_",
    "if_rows",
    "join",
    "loop",
    "migrate",
    "named",
    "py",
    "race",
    "ref",
    "rows",
    "secret",
    "seq",
    "sleep",
    "sql",
    "wait_for_schedule",
    "wait_for_signal",
    "with_policy",
    "with_retry",
]

if TYPE_CHECKING:
    from workbench import errors
    from workbench.bench import Bench
    from workbench.connecting import connect
    from workbench.errors import RetryAfter
    from workbench.flow import Flow
    from workbench.graph.build import external, named, py, ref, seq, sql
    from workbench.graph.control import break_, each, if_, if_rows, join, loop, race
    from workbench.graph.handlers import handler
    from workbench.graph.http import http, http_multipart
    from workbench.graph.node import Node
    from workbench.graph.policies import with_policy, with_retry
    from workbench.graph.secret import secret
    from workbench.graph.values import rows
    from workbench.graph.waiting import sleep, wait_for_schedule, wait_for_signal
    from workbench.run import Run
    from workbench.simulated import Crashes, Fails, Succeeds
    from workbench.store.migrate import migrate

_HOMES = {
    "Bench": "workbench.bench",
    "connect": "workbench.connecting",
    "Node": "workbench.graph.node",
    "RetryAfter": "workbench.errors",
    "Run": "workbench.run",
    "Crashes": "workbench.simulated",
    "Fails": "workbench.simulated",
    "Flow": "workbench.flow",
    "Succeeds": "workbench.simulated",
    "handler": "workbench.graph.handlers",
    "migrate": "workbench.store.migrate",
    "external": "workbench.graph.build",
    "named": "workbench.graph.build",
    "py": "workbench.graph.build",
    "ref": "workbench.graph.build",
    "rows": "workbench.graph.values",
    "seq": "workbench.graph.build",
    "sql": "workbench.graph.build",
    "break_": "workbench.graph.control",
    "each": "workbench.graph.control",
    "if_": "workbench.graph.control",
    "if_rows": "workbench.graph.control",
    "join": "workbench.graph.control",
    "loop": "workbench.graph.control",
    "race": "workbench.graph.control",
    "http": "workbench.graph.http",
    "http_multipart": "workbench.graph.http",
    "secret": "workbench.graph.secret",
    "sleep": "workbench.graph.waiting",
    "wait_for_schedule": "workbench.graph.waiting",
    "wait_for_signal": "workbench.graph.waiting",
    "with_policy": "workbench.graph.policies",
    "with_retry": "workbench.graph.policies",
    "errors": "workbench.errors",
}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used: `workbench.__version__` needs no database
    driver.
    """
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(
            f"module 'workbench' has no attribute {name!r}; it has: {', '.join(__all__)}"
        )
    home = import_module(_HOMES[name])
    value = home if name == "errors" else getattr(home, name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext workbench` gives a notebook the magic `%%df`."""
    from importlib import import_module

    shell.register_magics(import_module("workbench.magic").DfMagics)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
