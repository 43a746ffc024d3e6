"""Which of many steps are drawn: the ends, those that people look for, and how many are left out."""

from __future__ import annotations

import random

from workbench.views.folding import stretches, tally


def test_few_steps_are_all_drawn() -> None:
    statuses = ["completed"] * 10
    assert [list(each) for each in stretches(statuses, 60)] == [[n] for n in range(10)]


def test_the_middle_of_equal_quiet_ones_is_left_out() -> None:
    statuses = ["completed"] * 20 + ["running"] + ["pending"] * 11
    folded = [each for each in stretches(statuses, 60) if len(each) > 1]
    assert folded == [range(3, 17), range(24, 29)]


def test_steps_that_are_alive_are_drawn_while_they_are_few() -> None:
    assert all(len(each) == 1 for each in stretches(["running", "retrying"] * 30, 60))


def test_of_many_that_are_alive_failures_come_before_what_runs() -> None:
    statuses = ["running"] * 500
    statuses[100] = statuses[300] = "failed"
    statuses[200] = "retrying"
    drawn = [each[0] for each in stretches(statuses, 20) if len(each) == 1]
    assert {100, 200, 300} <= set(drawn)
    assert drawn[:3] == [0, 1, 2]
    assert drawn[-3:] == [497, 498, 499]
    assert len(drawn) <= 20


def test_every_place_is_there_once_and_in_order() -> None:
    chosen = random.Random(3)
    words = ["completed", "running", "failed", "ready", "retrying", "skipped"]
    for length in (0, 1, 7, 50, 400):
        statuses = chosen.choices(words, k=length)
        found = [place for each in stretches(statuses, 20) for place in each]
        assert found == list(range(length))


def test_a_tally_says_statuses_in_their_order() -> None:
    assert tally({"failed": 12, "completed": 1480}) == "1,480 completed, 12 failed"
