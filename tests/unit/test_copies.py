"""An engine's copies of runs never go back in time."""

from __future__ import annotations

import pytest

from workbench.engine.copies import Copies
from workbench.graph.build import sql
from workbench.store.verbs import LockedRow, RunRow

RUN = "1234abcd"


def row(version: int) -> RunRow:
    graph = sql("SELECT 1").to_json()
    return RunRow(
        RUN,
        "running",
        version,
        graph,
        None,
        "null",
        "{}",
        None,
        1,
        16.0,
        "fail",
        None,
        False,
        False,
    )


def test_rows_read_before_a_transition_do_not_replace_the_copy_after_it() -> None:
    copies = Copies()
    copies.take(row(2))
    assert copies.take(row(1)).version == 2
    assert copies.version(RUN) == 2


def test_newer_rows_replace_the_copy() -> None:
    copies = Copies()
    copies.take(row(1))
    copies.take(row(2))
    assert copies.version(RUN) == 2


def test_of_a_deleted_run_there_is_no_copy() -> None:
    copies = Copies()
    copies.take(row(1))
    assert copies.refresh(LockedRow(RUN, "deleted", -1, None), -1) is None
    assert RUN not in copies


def test_a_copy_that_is_put_aside_stays_while_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.engine.copies.ASIDE_NODES", 2)
    copies = Copies()
    for run in "abc":
        copies.take(row(1)._replace(id=run))
        copies.put_aside(run)
    assert [run in copies for run in "abc"] == [False, True, True]


def test_a_copy_in_use_is_not_dropped_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.engine.copies.ASIDE_NODES", 1)
    copies = Copies()
    for run in "ab":
        copies.take(row(1)._replace(id=run))
        copies.put_aside(run)
        copies.hold(run)
    assert [run in copies for run in "ab"] == [True, True]


def test_no_copy_of_a_finished_run_is_kept() -> None:
    copies = Copies()
    copies.take(row(1)._replace(status="completed"))
    copies.put_aside(RUN)
    assert RUN not in copies


def test_a_distrusted_copy_has_all_rows_read_again() -> None:
    copies = Copies()
    copies.take(row(3))
    copies.distrust(RUN)
    assert copies.version(RUN) == -1
