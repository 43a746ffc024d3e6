"""Which leaves of a repaired graph are those of the original."""

from __future__ import annotations

import pytest

from workbench.graph import Node, if_, join, loop, seq, sleep, sql
from workbench.graph.resume import unchanged

A, B, C, D = (sql(f"SELECT '{name}'") for name in "abcd")


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        (A >> B, A >> B, {1: 1, 2: 2}),
        (seq(A, B, C), seq(A, D, C), {2: 2}),
        (seq(A, B, C), seq(A, B, D, C), {2: 2, 3: 3}),
        (seq(A, B), seq(D, B), {}),
        (A >> B, A, {0: 1}),
        (A, A >> B, {1: 0}),
        (join(A, B, C), join(A, D, C), {1: 1, 3: 3}),
        (join(A, B) >> C, join(A, D) >> C, {2: 2}),
        (if_(A, B, C), if_(A, B, D), {3: 3, 1: 1}),
        (if_(A, B, C), if_(D, B, C), {}),
        (loop(A >> B, while_=C), loop(A >> D, while_=C), {2: 2, 4: 4}),
        (A.named("x"), A.named("y"), {}),
        (sleep(5), sleep(6), {}),
        (seq(A, B, C), (A >> B) >> (C >> D), {2: 2, 3: 3, 5: 4}),
    ],
)
def test_what_is_the_same_up_to_the_first_difference_is_paired(
    before: Node, after: Node, pairs: dict[int, int]
) -> None:
    assert unchanged(before, after) == pairs
