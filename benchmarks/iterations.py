"""Loops whose body and condition are one step each, and chains of the same steps: graphs, and the
check that every body had its effect. `min_interval` is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import workbench as wb
from benchmarks.effects import python_step, sql_step
from benchmarks.site import Site
from workbench.engine.context import Context

__all__ = ["PYTHON", "SEQUENCE", "SQL", "Kind"]

SEQUENCE = "CREATE SEQUENCE rounds"
_RESTART = "ALTER SEQUENCE rounds RESTART"


def another(iterations: int, ctx: Context) -> bool:
    """The condition of a Python loop: whether there are iterations left. In a chain it is a step as
    any other.
    """
    return ctx.iterations < (iterations,)


@dataclass(frozen=True)
class Kind:
    """Steps of one kind, `SQL` or `Python`."""

    name: str
    body: wb.Node

    def loop(self, iterations: int) -> wb.Node:
        return wb.loop(self.body, while_=self._condition(iterations), min_interval=0)

    def chain(self, iterations: int) -> wb.Node:
        """Body and condition in turn, as many as the loop executes."""
        return wb.seq(*[self.body, self._condition(iterations)] * iterations)

    def _condition(self, iterations: int) -> wb.Node:
        if self.name == "SQL":
            return wb.sql(f"SELECT nextval('rounds') % {iterations} <> 0")
        return wb.py(another, iterations=iterations)

    @contextmanager
    def expecting(self, site: Site, iterations: int) -> Iterator[None]:
        """Refuse the measurement unless the body has so many effects meanwhile."""
        site.conn.execute(_RESTART)
        expecting = site.expecting_inserts if self.name == "SQL" else site.expecting_notes
        with expecting(iterations):
            yield


PYTHON = Kind("Python", python_step())
SQL = Kind("SQL", sql_step())
