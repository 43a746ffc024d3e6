"""The yardstick: one-row transactions that this server commits in a second on one connection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import psycopg

from benchmarks.figures import Raw

__all__ = ["RawSpeed", "raw_speed"]

TABLE = "CREATE TABLE raw_commits (number integer)"
_INSERT = "INSERT INTO raw_commits VALUES (1)"
_SAMPLES = 3


class RawSpeed:
    """Measured before the block at once; `reading` is whole when the block has ended."""

    def __init__(self, samples: tuple[float, ...]) -> None:
        self.samples = samples
        self.after = 0.0

    @property
    def reading(self) -> Raw:
        return Raw(self.samples, median(self.samples), self.after)


@contextmanager
def raw_speed(conn: psycopg.Connection, seconds: float) -> Iterator[RawSpeed]:
    """Measure three times before the block and once after it, so that a machine that drifts shows.

    Parameters
    ----------
    conn:
        An autocommit connection to a database with the table `raw_commits`.
    seconds:
        Length of one measurement.
    """
    speed = RawSpeed(tuple(_commits_per_second(conn, seconds) for _ in range(_SAMPLES)))
    yield speed
    speed.after = _commits_per_second(conn, seconds)


def _commits_per_second(conn: psycopg.Connection, seconds: float) -> float:
    count = 0
    began = now = time.perf_counter()
    while now - began < seconds:
        conn.execute(_INSERT)
        count += 1
        now = time.perf_counter()
    return count / (now - began)
