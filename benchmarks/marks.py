"""Effects that name their run, for steps of other processes: what each run did can be counted
wherever it was executed.

Workers import this module for its handler.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

import workbench as wb
from workbench.engine.context import Context

__all__ = ["TABLE", "in_file", "in_table", "mark", "python_step", "sql_step"]

TABLE = "CREATE TABLE marks (run text)"


def sql_step() -> wb.Node:
    """A step that marks its run in the table."""
    return wb.sql("INSERT INTO marks VALUES ('{sys_instance_id}')")


def in_table(conn: psycopg.Connection) -> list[str]:
    """Runs marked by SQL steps, one entry a mark."""
    return [str(run) for (run,) in conn.execute("SELECT run FROM marks")]


def mark(path: str, ctx: Context) -> None:
    """The handler of Python steps. A short line appended by one write stays whole, whoever else
    writes; a file rather than a table, so that the figure is the engine's and not a driver's.
    """
    with open(path, "ab", buffering=0) as file:
        file.write(f"{ctx.run_id}\n".encode())


def python_step(path: Path) -> wb.Node:
    """A step that marks its run in the file."""
    return wb.py(mark, path=str(path))


def in_file(path: Path) -> list[str]:
    """Runs marked by Python steps, one entry a mark."""
    return path.read_text("utf-8").splitlines()
