"""An engine's copies of runs never go back in time."""

from __future__ import annotations

from workbench.engine.copies import Copies
from workbench.graph.build import sql
from workbench.store.verbs import LockedRow, RunRow

RUN = "1234abcd"


def row(version: int) -> RunRow:
    graph = sql("SELECT 1").to_json()
    return RunRow(RUN, "running", version, graph, None, "null", "{}", None, 1, 16.0, "fail", None)


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
    assert copies.refresh(LockedRow(RUN, "deleted", -1, None)) is None
    assert RUN not in copies
