"""Backoff, and which errors trying again cannot help."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.policy import Policy, backoff, is_permanent

POSITIVE = st.floats(1e-3, 1e12)


def test_a_run_has_one_attempt_unless_told_otherwise() -> None:
    assert Policy() == Policy(max_attempts=1, max_backoff=16, on_failure="fail", base_delay=1)


def test_the_delay_doubles_up_to_sixteen_seconds() -> None:
    assert [backoff(n, Policy()) for n in range(1, 8)] == [1, 2, 4, 8, 16, 16, 16]


def test_the_first_delay_is_capped_too() -> None:
    assert backoff(1, Policy(max_backoff=0.5)) == 0.5


@pytest.mark.parametrize("failures", [1025, 10**6, 10**400])
def test_no_number_of_failures_overflows(failures: int) -> None:
    assert backoff(failures, Policy(max_backoff=3600)) == 3600
    assert backoff(failures, Policy(base_delay=1e300, max_backoff=3600)) == 3600
    assert backoff(failures, Policy(base_delay=0)) == 0


@given(failures=st.integers(1, 3000), base=st.just(0.0) | POSITIVE, most=POSITIVE)
def test_the_delay_is_the_stated_formula(failures: int, base: float, most: float) -> None:
    exact = min(Fraction(base) * 2 ** (failures - 1), Fraction(most))
    assert backoff(failures, Policy(base_delay=base, max_backoff=most)) == float(exact)


@pytest.mark.parametrize(
    "sqlstate", ["42601", "42P01", "42501", "23505", "28000", "3D000", "3F000"]
)
def test_the_statements_own_faults_are_permanent(sqlstate: str) -> None:
    assert is_permanent({"sqlstate": sqlstate})


@pytest.mark.parametrize(
    "sqlstate", ["22012", "22P02", "40001", "08006", "53300", "57014", "XX000"]
)
def test_what_may_pass_is_not_permanent(sqlstate: str) -> None:
    assert not is_permanent({"sqlstate": sqlstate})


@pytest.mark.parametrize("error", [{}, {"sqlstate": None}, {"sqlstate": ""}, {"permanent": False}])
def test_an_error_without_a_sqlstate_is_not_permanent(error: dict[str, object]) -> None:
    assert not is_permanent(error)


def test_an_error_may_say_itself_that_it_is_permanent() -> None:
    assert is_permanent({"permanent": True, "sqlstate": "40001"})
