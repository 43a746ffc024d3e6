"""A hundred engines killed at random moments: what a step did and that it is completed never part."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from tests.engine.support import Database, Nursery, wait_until
from workbench.graph.build import seq, sql

KILLS = 100
RUNS = 400
STEPS = 4

# One row a completed step, in any snapshot; both counts are read in one.
BALANCE = """
    SELECT (SELECT count(*) FROM effects),
           (SELECT count(*) FROM df.nodes WHERE node_type = 'SQL' AND status = 'completed'),
           (SELECT count(*) FROM df.attempts WHERE outcome = 'completed')"""


@pytest.fixture
def nursery(db: Database) -> Iterator[Nursery]:
    with contextlib.closing(Nursery(db.dsn, 8)) as nursery:
        yield nursery


@pytest.mark.slow
def test_rows_inserted_equal_steps_completed_however_often_engines_are_killed(
    db: Database, nursery: Nursery
) -> None:
    db.set(max_lost=KILLS)
    db.execute("CREATE TABLE effects (run text, pause float)")
    moments = random.Random(16)
    insert = (
        "INSERT INTO effects SELECT current_setting('df.run'), 0 FROM (SELECT pg_sleep(0.02)) s"
    )
    engines = [nursery.bear() for _ in range(3)]
    graph = seq(*[sql(insert)] * STEPS).to_json()
    for kill in range(KILLS):
        for _ in range(RUNS // KILLS):
            db.start(graph)
        victim = engines.pop(0)
        _until(db, moments.uniform(0, 0.1))
        os.kill(victim, signal.SIGKILL)
        rows, completed, attempts = db.execute(BALANCE).fetchone() or (0, -1, -1)
        assert rows == completed == attempts, f"after {kill + 1} kills"
        engines.append(nursery.bear())
    db.wait_all(timeout=60)
    assert db.execute(BALANCE).fetchone() == (RUNS * STEPS,) * 3
    assert db.values("SELECT DISTINCT count(*) FROM effects GROUP BY run") == [STEPS]
    assert db.value("SELECT count(*) FROM df.attempts WHERE outcome = 'worker_lost'") > KILLS / 4
    assert db.value("SELECT count(*) FROM df.attempts WHERE outcome = 'failed'") == 0


def _until(db: Database, seconds: float) -> None:
    """Let a random while pass: the moment of the kill is what the test is about."""
    moment = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= moment)
