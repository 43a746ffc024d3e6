"""Reading everything that a run's view shows."""

from __future__ import annotations

from typing import Any

import psycopg

from workbench.store import monitor
from workbench.views.run_data import ATTEMPTS, ITERATIONS, RunData

__all__ = ["read_run"]


def read_run(
    conn: psycopg.Connection[Any],
    run_id: str,
    iterations: int = ITERATIONS,
    attempts: int = ATTEMPTS,
) -> RunData:
    """Read a run; of each loop the last `iterations` ended ones, and the last `attempts` of all.

    Raises
    ------
    NotFound
        There is no such run, or it is another role's.
    """
    return RunData(
        monitor.run_row(conn, run_id),  # first: a run that has ended changes no more
        monitor.run_nodes(conn, run_id),
        monitor.run_attempts(conn, run_id, attempts),
        monitor.run_iterations(conn, run_id, iterations),
        monitor.unread_signals(conn, run_id),
    )
