"""Lineages, attempts and failures as pictures, without a database."""

from __future__ import annotations

from typing import Any

from tests.unit.view_samples import at, attempt, node
from workbench.store.lineage_records import DiffRow, FailureRow, LineageRow
from workbench.views.attempt_view import AttemptView, with_caret
from workbench.views.diff_view import DiffView
from workbench.views.failures_view import FailuresView
from workbench.views.lineage_data import LineageData
from workbench.views.lineage_view import LineageView
from workbench.views.unresolved_view import UnresolvedView


def restart(number: int, source: int | None, depth: int, **given: Any) -> LineageRow:
    values: dict[str, Any] = {
        "run_id": f"{number:08x}",
        "restart_of_run_id": None if source is None else f"{source:08x}",
        "position": number + 1,
        "depth": depth,
        "kind": "start" if source is None else "retry",
        "status": "failed",
        "label": "nightly",
        "created_at": at(number),
        "started_at": at(number),
        "finished_at": at(number + 0.5),
        "error": "ValueError: <b>no</b>",
        "is_latest": False,
    }
    return LineageRow(**(values | given))


def view(*rows: LineageRow, current: int = 0, **diffs: list[DiffRow]) -> LineageView:
    return LineageView(LineageData(rows, diffs, f"{current:08x}", at(100)))


def chain(length: int, **last: Any) -> list[LineageRow]:
    rows = [restart(n, n - 1 if n else None, n) for n in range(length - 1)]
    return [*rows, restart(length - 1, length - 2, length - 1, **last)]


def test_long_chains_fold_but_keep_what_is_looked_for() -> None:
    found = view(*chain(30, status="completed", error=None), current=15)
    groups = [len(group) for group in found.data.chains()]
    assert groups == [1, 1, 1, 12, 1, 11, 1, 1, 1]
    assert "… 12 more failed runs, each with ValueError: <b>no</b>" in str(found)
    assert len(found.df) == 30


def test_short_chains_are_drawn_whole() -> None:
    assert [len(group) for group in view(*chain(12)).data.chains()] == [1] * 12


def test_values_of_runs_are_escaped() -> None:
    html = view(restart(0, None, 0, label="<i>")).html()
    assert "&lt;b&gt;no&lt;/b&gt;" in html
    assert "<i>" not in html


def test_only_failed_leaves_can_be_retried() -> None:
    from workbench.views.lineage_html import lineage_html

    data = view(*chain(3)).data
    assert str(lineage_html(data, live=True)).count("wb-acts") == 1
    assert 'wb-acts"' not in str(lineage_html(data))
    done = view(*chain(3, status="completed")).data
    assert 'wb-acts"' not in str(lineage_html(done, live=True))


def test_what_differed_is_said_below_a_run() -> None:
    diffs = {
        "00000001": [
            DiffRow("handler", "crm:clean", "aa", "bb"),
            DiffRow("setting", "x", None, "5"),
        ]
    }
    found = view(*chain(2), current=1, **diffs)
    assert "differs: code of clean, setting x: not set → 5" in str(found)
    assert found.df.loc["00000001", "differs"] == "code of clean, setting x: not set → 5"


def test_a_caret_stands_below_its_place() -> None:
    assert list(with_caret("SELECT a,\n\tb", 12)) == [
        ("SELECT a,", False),
        ("\tb", False),
        ("\t^", True),
    ]
    assert list(with_caret("x", None)) == [("x", False)]
    assert list(with_caret("x", 99)) == [("x", False)]
    assert list(with_caret("SELECT", 7))[-1] == ("      ^", True)


def test_an_attempt_says_who_and_what_and_when_again() -> None:
    row = attempt(
        3, 1, "failed", delay=2.0, delay_source="backoff", fingerprint="abc",
        error={"type": "UndefinedColumn", "message": "no <x>", "sqlstate": "42703", "position": 8},
    )  # fmt: skip
    step = node(3, None, None, "SQL", query="SELECT $x", result_name="fetch")
    found = AttemptView("3f9a12bc", step, row, "SELECT x", 3)
    text = str(found)
    assert "attempt 1 of 3 of fetch (#3), run 3f9a12bc: failed" in text
    assert "then again after 2.0 s (backoff)" in text
    assert "engine e1 on lab, pid 1" in text
    assert "SELECT x\n       ^" in text
    assert "no &lt;x&gt; (42703)" in found.html()
    assert found.df.iloc[0].tolist() == ["what was executed", "SELECT x"]


def test_empty_views_say_so_and_have_typed_frames() -> None:
    failures, open_ = FailuresView([], at(0)), UnresolvedView([], at(0))
    assert "No attempt has failed" in failures.html()
    assert "Nothing is broken" in open_.html()
    assert str(failures.df["attempts"].dtype) == "int64"
    assert str(open_.df["finished_at"].dtype) == "datetime64[us, UTC]"
    assert "was started and made from no other" in DiffView([], None, "a").html()


def test_failures_are_shown_with_their_counts_and_an_example() -> None:
    error = {"type": "ValueError", "message": "<1>", "traceback": "Traceback"}
    row = FailureRow("abcdef123456", "nightly", "fetch", "ValueError", "<?>", 1200, 7, at(0), at(9),
                     "3f9a12bc", 2, 5, error)  # fmt: skip
    html = FailuresView([row], at(10)).html()
    assert "1,200×" in html
    assert "step fetch of nightly · 7 runs" in html
    assert "ValueError: &lt;1&gt;" in html
    assert "<?>" not in html
