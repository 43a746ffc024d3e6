"""The decider and one leaf: retries, delays, lost engines, faulted checkpoints, released claims."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from workbench.engine.machine import Limits
from workbench.engine.model import (
    Completed,
    Failed,
    Faulted,
    Lost,
    NodeState,
    Released,
    Start,
    Value,
)
from workbench.engine.policy import Policy
from workbench.engine.simulate import EPOCH, Crashes, Fails, Outcome, Simulation, Succeeds, Try
from workbench.graph import py, sql

BROKEN = {"type": "ValueError", "message": "broken"}
STEP = sql("SELECT 1")


def ready(policy: Policy = Policy(), limits: Limits = Limits()) -> Simulation:  # noqa: B008 - immutable
    simulation = Simulation.of(STEP, policy, limits)
    simulation.report(Start())
    return simulation


def scripted(*outcomes: Outcome) -> Any:
    """One outcome after the other; success when they are used up."""
    rest = iter(outcomes)
    return lambda _: next(rest, Succeeds())


def delays(simulation: Simulation) -> list[float | None]:
    return [attempt.delay for attempt in simulation.attempts]


# Retries.


def test_one_attempt_is_all_there_is_by_default() -> None:
    simulation = ready()
    assert simulation.run_to_end(scripted(Fails(BROKEN))) == "failed"
    assert delays(simulation) == [None]


def test_delays_double_from_one_second_to_the_cap() -> None:
    simulation = ready(Policy(max_attempts=8))
    assert simulation.run_to_end(scripted(*[Fails(BROKEN)] * 8)) == "failed"
    assert delays(simulation) == [1, 2, 4, 8, 16, 16, 16, None]
    assert simulation.now == EPOCH + timedelta(seconds=63)


def test_delays_start_from_the_policys_base() -> None:
    simulation = ready(Policy(max_attempts=5, max_backoff=1.5, base_delay=0.25))
    simulation.run_to_end(scripted(*[Fails(BROKEN)] * 5))
    assert delays(simulation) == [0.25, 0.5, 1, 1.5, None]


def test_a_failed_attempt_waits_as_a_row_with_its_error() -> None:
    simulation = ready(Policy(max_attempts=2))
    simulation.report(Failed(0, simulation.claim(0).token, BROKEN))
    error = {**BROKEN, "node": 0, "attempt": 1}
    assert simulation.run.nodes[0] == NodeState(
        "ready", 2, 1, ready_at=EPOCH + timedelta(seconds=1), started_at=EPOCH, error=error
    )


def test_a_retry_that_succeeds_leaves_no_error_behind() -> None:
    simulation = ready(Policy(max_attempts=2))
    assert simulation.run_to_end(scripted(Fails(BROKEN), Succeeds("7"))) == "completed"
    assert (simulation.value, simulation.error) == (Value("7"), None)
    assert simulation.run.nodes[0].error is None


def test_the_last_attempt_may_succeed() -> None:
    simulation = ready(Policy(max_attempts=3))
    assert simulation.run_to_end(scripted(Fails(BROKEN), Fails(BROKEN))) == "completed"
    assert [(a.number, a.outcome) for a in simulation.attempts] == [
        (1, "failed"),
        (2, "failed"),
        (3, "completed"),
    ]


def test_a_run_fails_with_the_error_of_its_last_attempt() -> None:
    simulation = ready(Policy(max_attempts=2))
    simulation.run_to_end(scripted(Fails(BROKEN), Fails({"type": "KeyError", "message": "'x'"})))
    assert simulation.error == {"type": "KeyError", "message": "'x'", "node": 0, "attempt": 2}


def test_a_delay_that_the_step_chose_is_exact_and_not_capped_and_for_once() -> None:
    simulation = ready(Policy(max_attempts=4, max_backoff=2))
    chosen = Fails(BROKEN, delay=3600.5, delay_source="retry_after")
    at_once = Fails(BROKEN, delay=0.0, delay_source="http_retry_after")
    simulation.run_to_end(scripted(chosen, at_once, Fails(BROKEN)))
    assert [(a.delay, a.source) for a in simulation.attempts] == [
        (3600.5, "retry_after"),
        (0.0, "http_retry_after"),
        (2, "backoff"),
        (None, None),
    ]


def test_a_delay_is_of_no_use_when_attempts_are_spent() -> None:
    simulation = ready()
    simulation.run_to_end(scripted(Fails(BROKEN, delay=30, delay_source="retry_after")))
    assert [(a.delay, a.source) for a in simulation.attempts] == [(None, None)]


@pytest.mark.parametrize("sqlstate", ["42601", "42501", "23505", "28000", "3D000", "3F000"])
def test_permanent_classes_are_never_retried(sqlstate: str) -> None:
    simulation = ready(Policy(max_attempts=9))
    simulation.run_to_end(scripted(Fails({**BROKEN, "sqlstate": sqlstate}, delay=1)))
    assert (simulation.status, delays(simulation)) == ("failed", [None])


def test_an_error_that_says_it_is_permanent_is_never_retried() -> None:
    simulation = ready(Policy(max_attempts=9))
    simulation.run_to_end(scripted(Fails({**BROKEN, "permanent": True})))
    assert (simulation.status, delays(simulation)) == ("failed", [None])


@pytest.mark.parametrize("sqlstate", ["22012", "40001", "40P01", "08006", "57014", None])
def test_other_classes_are_retried(sqlstate: str | None) -> None:
    simulation = ready(Policy(max_attempts=2))
    assert simulation.run_to_end(scripted(Fails({**BROKEN, "sqlstate": sqlstate}))) == "completed"


def test_a_wait_longer_than_clocks_go_is_no_overflow() -> None:
    simulation = ready(Policy(max_attempts=80, max_backoff=1e300))
    assert simulation.run_to_end(lambda _: Fails(BROKEN)) == "failed"
    assert simulation.now.year == 9000


# Lost.


def test_a_lost_attempt_is_ready_again_at_once_and_uses_up_no_attempt() -> None:
    simulation = ready()
    simulation.report(Lost(0, simulation.claim(0).token, "its engine is gone"))
    error = {"type": "WorkerLost", "message": "its engine is gone", "node": 0}
    assert simulation.run.nodes[0] == NodeState(
        "ready", 2, losses=1, ready_at=EPOCH, started_at=EPOCH, error=error
    )
    [row] = simulation.attempts
    assert (row.number, row.outcome, row.delay, row.source) == (1, "worker_lost", 0, "worker_lost")


def test_losses_do_not_count_against_max_attempts() -> None:
    simulation = ready(Policy(max_attempts=2))
    outcomes = scripted(Crashes(), Fails(BROKEN), Crashes(), Fails(BROKEN))
    assert simulation.run_to_end(outcomes) == "failed"
    assert [(a.number, a.outcome) for a in simulation.attempts] == [
        (1, "worker_lost"),
        (1, "failed"),
        (2, "worker_lost"),
        (2, "failed"),
    ]


def test_losses_do_not_lengthen_the_backoff() -> None:
    simulation = ready(Policy(max_attempts=3))
    simulation.run_to_end(scripted(Crashes(), Fails(BROKEN), Crashes(), Fails(BROKEN)))
    assert delays(simulation) == [0, 1, 0, 2, None]


def test_a_step_that_kills_its_worker_each_time_fails_at_the_third() -> None:
    simulation = ready(Policy(max_attempts=99))
    assert simulation.run_to_end(lambda _: Crashes("killed")) == "failed"
    assert delays(simulation) == [0, 0, None]
    assert simulation.error is not None
    assert simulation.error["type"] == "WorkerLost"
    assert simulation.error["message"].startswith("killed (lost 3 times")


def test_the_budget_for_losses_is_a_setting() -> None:
    simulation = ready(limits=Limits(lost=1))
    assert simulation.run_to_end(lambda _: Crashes()) == "failed"
    assert len(simulation.attempts) == 1


# Faulted checkpoints.


def test_a_faulted_checkpoint_uses_up_no_attempt_and_writes_no_row() -> None:
    simulation = ready()
    simulation.report(Faulted(0, simulation.claim(0).token, BROKEN))
    assert simulation.attempts == []
    assert simulation.run.nodes[0] == NodeState(
        "ready", 2, faults=1, ready_at=EPOCH, started_at=EPOCH, error=BROKEN
    )


def test_a_step_whose_checkpoint_faults_for_the_sixth_time_fails() -> None:
    simulation = ready(Policy(max_attempts=99))
    for _ in range(5):
        simulation.report(Faulted(0, simulation.claim(0).token, BROKEN))
    assert simulation.status == "running"
    simulation.report(Faulted(0, simulation.claim(0).token, BROKEN))
    assert simulation.status == "failed"
    assert simulation.error == {"type": "CheckpointFailed", "message": "broken", "node": 0}
    assert [(a.number, a.outcome) for a in simulation.attempts] == [(1, "failed")]


# Released claims.


def test_a_released_claim_counts_nothing_and_writes_no_row() -> None:
    simulation = ready()
    simulation.report(Released(0, simulation.claim(0).token))
    assert simulation.attempts == []
    assert simulation.run.nodes[0] == NodeState("ready", 2, ready_at=EPOCH, started_at=EPOCH)


def test_a_released_claims_token_is_worth_nothing() -> None:
    simulation = ready()
    first = simulation.claim(0)
    simulation.report(Released(0, first.token))
    simulation.claim(0)
    assert simulation.report(Completed(0, first.token, Value("1"))).refused


# What the rows say.


@pytest.mark.parametrize(
    ("step", "exactly_once"),
    [(sql("SELECT 1"), True), (sql("VACUUM", transaction=False), False), (py("m:f"), False)],
)
def test_only_sql_in_a_transaction_is_exactly_once(step: Any, exactly_once: bool) -> None:
    simulation = Simulation.of(step)
    simulation.report(Start())
    decision = simulation.report(Completed(0, simulation.claim(0).token, Value("1")))
    assert [row.exactly_once for row in decision.attempts] == [exactly_once]


def test_a_statement_that_fell_back_to_autocommit_is_not_exactly_once() -> None:
    simulation = ready()
    claimed: Try = simulation.claim(0)
    simulation.run.nodes[0].autocommit = True
    decision = simulation.report(Lost(0, claimed.token, "gone"))
    assert [row.exactly_once for row in decision.attempts] == [False]
    assert simulation.run.nodes[0].autocommit
