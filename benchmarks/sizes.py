"""How much each benchmark does: the sizes whose figures count, and tiny ones to try the harness."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "QUICK", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    """Numbers of runs, steps and starts of one measurement.

    Attributes
    ----------
    raw_seconds:
        Length of one measurement of the server's raw speed.
    warm_up:
        Runs executed before anything is measured: enough of them at once to open every session.
    chain_steps:
        Steps of the chain that runs alone.
    chains, steps_of_each:
        Chains that run at once, and their length.
    sql_runs, python_runs:
        One-step runs that wait for the engine.
    starts:
        Runs started one after another on an idle engine.
    distant_starts:
        The same by another connection; an engine that only polls takes its time for each.
    bare_starts:
        Starts that nobody executes.
    finished_nodes:
        Rows of `df.nodes` that count as many.
    branches, shared_branches:
        Branches of a JOIN, and of one that several engines share.
    iterations, long_iterations:
        Iterations of loops whose cost is measured, and of those that should not slow down.
    flow_runs:
        Runs of a flow that wait for the engine.
    small_run, large_run:
        Steps of runs that are compared: half as many as nodes.
    sleepers, waking:
        Runs that sleep, and those of them that wake at once.
    idle_seconds:
        How long an idle engine is watched.
    in_flight:
        Steps that a worker executes when it is killed.
    signalled_runs:
        Runs of which each waits for its own signal.
    requests, line:
        HTTP steps of a run under a limit, and of one with as many as a graph may have.
    listed_runs:
        Runs in a list.
    watched_seconds:
        How long the updates of a live view are counted.
    repetitions:
        Measurements, of which the median counts.
    """

    raw_seconds: float = 0.5
    warm_up: int = 100
    chain_steps: int = 500
    chains: int = 50
    steps_of_each: int = 40
    sql_runs: int = 1_000
    python_runs: int = 2_000
    starts: int = 200
    distant_starts: int = 100
    bare_starts: int = 1_000
    finished_nodes: int = 1_000_000
    branches: int = 1_000
    shared_branches: int = 4_000
    iterations: int = 500
    long_iterations: int = 200_000
    flow_runs: int = 200
    small_run: int = 500
    large_run: int = 5_000
    sleepers: int = 100_000
    waking: int = 10_000
    idle_seconds: float = 20
    in_flight: int = 100
    signalled_runs: int = 1_000
    requests: int = 1_000
    line: int = 9_999
    listed_runs: int = 10_000
    watched_seconds: float = 10
    repetitions: int = 3


FULL = Sizes()
QUICK = Sizes(
    raw_seconds=0.05,
    warm_up=4,
    chain_steps=5,
    chains=3,
    steps_of_each=4,
    sql_runs=10,
    python_runs=20,
    starts=5,
    distant_starts=5,
    bare_starts=20,
    finished_nodes=1_000,
    branches=10,
    shared_branches=12,
    iterations=5,
    long_iterations=2_000,
    flow_runs=5,
    small_run=4,
    large_run=12,
    sleepers=20,
    waking=10,
    idle_seconds=0.2,
    in_flight=5,
    signalled_runs=10,
    requests=10,
    line=24,
    listed_runs=20,
    watched_seconds=0.6,
    repetitions=1,
)
