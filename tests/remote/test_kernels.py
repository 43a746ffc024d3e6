"""Benches in real Jupyter kernels: two on one database, cells that wait, loops that already run."""

from __future__ import annotations

import pytest

from tests.engine.support import Database, wait_until
from tests.remote.conftest import StartKernel

pytestmark = [
    pytest.mark.notebook,
    # Jupyter's own: its paths are about to change, and it makes event loops in the old way.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_core"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq"),
]


def test_runs_of_a_held_kernel_are_executed_by_the_other(
    db: Database, start_kernel: StartKernel
) -> None:
    one, two = start_kernel(), start_kernel()
    assert (
        one.run("bench.hold(); run = bench.start('SELECT 41 + 1 AS x'); run.status") == "'pending'"
    )
    two.run("bench.work()")
    assert one.run("run.result(30)['rows']") == "[{'x': 42}]"
    # A handler of one notebook waits for the kernel that has it.
    two.run("bench.hold()\ndef double(x): return 2 * x\nrun = bench.start(wb.py(double, x=4))")
    one.run("bench.work()")
    assert one.run("bench.get(run.id[:8]).status") == "'completed'"
    two.run("bench.work()")
    assert two.run("run.result(30)") == "8"
    engines = db.values("SELECT engine_id FROM df.attempts ORDER BY finished_at")
    assert len(set(engines)) == 2


def test_cells_work_in_a_kernel_as_in_a_script(db: Database, start_kernel: StartKernel) -> None:
    kernel = start_kernel()
    assert kernel.run("bench.start('SELECT 1 AS x').result(30)['rows']") == "[{'x': 1}]"
    assert kernel.run("(await bench.start('SELECT 2 AS x'))['rows']") == "[{'x': 2}]"
    assert (
        kernel.run(
            "import asyncio\nvalues = await asyncio.gather(*[bench.start(f'SELECT {n} AS x') for n in range(3)])\n"
            "[v['rows'][0]['x'] for v in values]"
        )
        == "[0, 1, 2]"
    )
    raised = kernel.run(
        "never = asyncio.sleep(0)\ntry:\n    asyncio.run(never)\nfinally:\n    never.close()"
    )
    assert raised == "RuntimeError: asyncio.run() cannot be called from a running event loop"
    assert (
        kernel.run("async def double(x): return 2 * x\nbench.start(wb.py(double, x=4)).result(30)")
        == "8"
    )
    assert (
        kernel.run(
            "def triple(x): return 3 * x\nrun = bench.start(wb.py(triple, x=4)); run.result(30)"
        )
        == "12"
    )
    assert (
        kernel.run("run.definition == wb.py(triple, x=4), run.nodes[0].handler")
        == "(True, 'nb:triple')"
    )
    assert kernel.run("bench.start('SELECT 1/0').result(30)").startswith("RunFailed: run ")


def test_the_stop_button_stops_the_waiting_only(db: Database, start_kernel: StartKernel) -> None:
    kernel = start_kernel()
    with db.gate(1):
        kernel.begin(
            "run = bench.start('SELECT pg_advisory_xact_lock_shared(1)::text AS x')\nrun.result()"
        )
        db.wait_at_gate(1)
        kernel.interrupt()
        assert kernel.finish().startswith("KeyboardInterrupt")
        assert kernel.run("run.status") == "'running'"
        assert kernel.run("bench.status().engine is not None") == "True"
    assert kernel.run("run.result(30)['rows']") == "[{'x': ''}]"
    assert kernel.run("len(run.attempts)") == "1"


def test_a_killed_kernels_successor_is_told_what_waits_and_goes_on(
    db: Database, start_kernel: StartKernel
) -> None:
    first = start_kernel()
    alive = "SELECT engines FROM df._unfinished()"
    with db.gate(1):
        run = db.start("SELECT pg_advisory_xact_lock_shared(1)::text AS x")
        first.run("bench.work()")
        db.wait_at_gate(1)
        first.kill()
        wait_until(lambda: db.value(alive) == 0, what="the server has noticed")
        second = start_kernel(said="1 run unfinished, no engine alive: bench.work()\n")
        second.run("bench.work()")
        wait_until(lambda: db.outcomes(run) == [(0, "worker_lost")], timeout=30)
    db.wait(run)
    assert db.outcomes(run) == [(0, "worker_lost"), (0, "completed")]
