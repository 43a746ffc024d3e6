"""What the steps of the benchmarks do, and how often they did it."""

from __future__ import annotations

import psycopg

import workbench as wb

__all__ = ["INSERT", "chain", "inserted", "note", "noted", "python_step", "sql_step"]

TABLE = "CREATE TABLE effects (number integer)"
INSERT = "INSERT INTO effects VALUES (1)"

_notes: list[None] = []


def sql_step() -> wb.Node:
    return wb.sql(INSERT)


def chain(steps: int) -> wb.Node:
    """So many SQL steps, one after another."""
    return wb.seq(*[sql_step()] * steps)


def inserted(conn: psycopg.Connection) -> int:
    """Effects of SQL steps in this database so far."""
    row = conn.execute("SELECT count(*) FROM effects").fetchone()
    assert row is not None
    return int(row[0])


def note() -> None:
    """The handler of Python steps. Its effect is in this process, so that the figure is the
    engine's and not a driver's.
    """
    _notes.append(None)


def noted() -> int:
    """Effects of Python steps in this process so far."""
    return len(_notes)


def python_step() -> wb.Node:
    return wb.py(note)
