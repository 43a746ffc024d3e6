"""The view of one run: its structure, its words, its frame, and that no value becomes markup."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.view_samples import at, attempt, node, run, sequence, view_of
from workbench.views.run_data import RunData
from workbench.views.run_view import RunView, run_frame
from workbench.views.status import STATUSES, of_node, of_run

DONE: dict[str, Any] = {
    "status": "completed",
    "attempt": 1,
    "started_at": at(1),
    "finished_at": at(2.5),
}
ORDERS = node(
    0,
    None,
    None,
    "SQL",
    query="SELECT id\nFROM orders",
    result_name="orders",
    result_preview='{"rows": [{"id": 1}], "row_count": 812}',
    row_count=812,
    result_bytes=9000,
    columns=[["id", "integer"]],
    **DONE,
)
CLEAN = node(
    0,
    None,
    None,
    "PYTHON",
    handler="crm:clean",
    query='{"handler":"crm:clean","input":{"n":3}}',
)


class _Outline(HTMLParser):
    """The tags, and the nesting of lists and their items' titles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self._style = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._style = tag == "style"
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href") or k.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.text += data


def text_of(view: RunView) -> str:
    return _Outline(view.html()).text


def test_a_sequence_is_one_flat_list() -> None:
    view = view_of(run(), sequence(ORDERS, CLEAN, ORDERS))
    html = str(view.html())
    assert html.count('<ol class="wb-steps">') == 1
    assert re.findall('<li data-key="(#[0-9])">', html) == ["#1", "#3", "#4"]


def test_branches_are_nested_under_their_join_in_order() -> None:
    nodes = [
        node(0, None, None, "JOIN"),
        replace(ORDERS, node_id=1, parent_id=0, ord=1),
        replace(CLEAN, node_id=2, parent_id=0, ord=2),
        node(3, 0, 4, "SLEEP", query="5"),
    ]
    text = text_of(view_of(run(), nodes))
    places = [
        text.index(word) for word in ("3 branches", "branch 1", "orders", "branch 2", "clean")
    ]
    assert places == sorted(places)
    assert text.index("branch 3") < text.index("SLEEP5 s")


def test_a_condition_comes_before_its_branches_and_a_while_after_its_body() -> None:
    nodes = [
        node(0, None, None, "IF"),
        node(1, 0, 1, "SQL", query="SELECT 'yes'"),
        node(2, 0, 2, "SQL", query="SELECT 'no'"),
        node(3, 0, 3, "SQL", query="SELECT true"),
    ]
    text = text_of(view_of(run(), nodes))
    assert text.index("condition") < text.index("then") < text.index("else")


def test_a_graph_of_256_levels_is_drawn() -> None:
    nodes = [node(i, i - 1 if i else None, 1, "LOOP") for i in range(256)]
    nodes.append(node(256, 255, 1, "SQL", query="SELECT 'deepest'"))
    assert "deepest" in text_of(view_of(run(), nodes))


def test_long_rows_of_settled_steps_are_folded_and_failures_are_not() -> None:
    steps = [replace(ORDERS, query=f"SELECT {i}") for i in range(200)]
    steps[120] = replace(steps[120], status="failed", error={"message": "no"})
    view = view_of(run(), sequence(*steps))
    text = text_of(view)
    assert "114 more steps" in text
    assert "SELECT 120" in text
    assert "SELECT 50" not in text
    assert len(view.df) == 200
    assert len(str(view).splitlines()) < 40
    assert "more steps in .df" in str(view)


def test_a_failed_run_says_what_where_and_what_next() -> None:
    error = {"type": "UniqueViolation", "message": "duplicate key", "sqlstate": "23505"}
    steps = sequence(ORDERS, replace(CLEAN, status="failed", attempt=2, error=error))
    text = text_of(view_of(run(status="failed", finished_at=at(9), error=error), steps))
    assert "duplicate key (23505)" in text
    assert "in step #2 · PYTHON clean · attempt 2 of 3" in text
    assert "run.retry() runs it once more, run.resume() from here" in text


def test_a_run_that_nobody_advances_says_so() -> None:
    view = view_of(run(status="pending", started_at=None, live_engines=0), [ORDERS])
    assert "No engine is alive to advance it: bench.work() starts one here." in text_of(view)
    assert "bench.work() starts one here" in str(view)


def test_a_parked_run_says_why() -> None:
    view = view_of(run(parked={"type": "KeyError", "message": "7"}), [ORDERS])
    assert "Engines leave this run alone: 7" in text_of(view)


def test_a_step_between_attempts_is_retrying() -> None:
    step = replace(
        CLEAN, status="ready", attempt=1, ready_at=at(64), error={"message": "try again"}
    )
    view = view_of(run(), [step])
    text = text_of(view)
    assert of_node(step) == "retrying"
    assert of_run(view.data.run, view.data.nodes) == "retrying"
    assert "attempt 2 of 3 in 4.0 s" in text
    assert "try again" in text


def test_a_run_whose_only_live_leaf_is_retrying_is_retrying() -> None:
    resting = replace(CLEAN, status="ready", attempt=1)
    nodes = sequence(replace(ORDERS, status="completed"), resting)
    nodes[0] = replace(nodes[0], status="running")
    assert of_run(run(), nodes) == "retrying"


def test_attempts_tell_their_delay_and_its_source() -> None:
    attempts = [
        attempt(0, 1, "failed", delay=2.0, delay_source="backoff", error={"message": "boom"}),
        attempt(0, 2, "worker_lost", delay=0.0, delay_source="worker_lost"),
        attempt(0, 3, "completed"),
    ]
    text = text_of(view_of(run(), [replace(ORDERS, attempt=2, losses=1)], attempts))
    assert "again after 2.0 s (backoff) · boom" in text
    assert "worker lost" in text


@pytest.mark.parametrize(
    ("preview", "shown"),
    [
        ("null", "null"),
        ('"text"', '"text"'),
        ('{"a": [1, 2]}', '{"a": [1, 2]}'),
        ('[{"x": 1, "y": null}]', "null"),
        ('{"rows": [{"id": 1}', '{"rows": [{"id": 1}…'),
        ('{"rows": [], "row_count": 0}', "no rows"),
    ],
)
def test_any_result_is_previewed(preview: str, shown: str) -> None:
    step = replace(ORDERS, result_preview=preview, row_count=None)
    assert shown in text_of(view_of(run(), [step]))


def test_rows_are_a_table_in_the_order_of_the_columns() -> None:
    step = replace(
        ORDERS,
        result_preview='{"rows": [{"a": 1, "z": "last"}]}',
        columns=[["z", "text"], ["a", "integer"]],
    )
    html = str(view_of(run(), [step]).html())
    assert re.search(r"<td>last</td><td class=\"wb-num\">1</td>", html)
    assert "and 811 more rows" in html


def test_the_value_of_a_completed_run_is_that_of_the_deciding_node() -> None:
    nodes = sequence(ORDERS, replace(ORDERS, result_preview='"the value"', row_count=None))
    nodes[0] = replace(nodes[0], status="completed", result_node=2)
    html = str(view_of(run(status="completed", finished_at=at(3)), nodes).html())
    assert "&quot;the value&quot;" in html[html.index("wb-part") :]


def test_the_frame_has_its_columns_and_dtypes_with_and_without_steps() -> None:
    text = str(pd.Series(["text"]).dtype)
    expected = {
        "type": text,
        "title": text,
        "name": text,
        "status": text,
        "attempt": "int64",
        "losses": "int64",
        "iteration": "int64",
        "rows": "Int64",
        "started_at": "datetime64[us, UTC]",
        "finished_at": "datetime64[us, UTC]",
        "due_at": "datetime64[us, UTC]",
        "seconds": "float64",
        "waits_for": text,
        "error": text,
    }
    full = view_of(run(), sequence(ORDERS, CLEAN)).df
    empty = run_frame(RunData(run(), []))
    for df in (full, empty):
        assert {str(k): str(v) for k, v in df.dtypes.items()} == expected
        assert df.index.name == "node_id"
    assert full.index.tolist() == [1, 2]
    assert full.loc[1, "title"] == "SELECT id FROM orders"
    assert full.loc[1, "seconds"] == 1.5
    assert full.loc[1, "rows"] == 812


def test_the_bundle_has_html_and_text_with_the_moment() -> None:
    bundle = view_of(run(), [ORDERS])._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert re.search(r"as of 2026-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d", bundle["text/plain"])
    assert "as of 2026-" in bundle["text/html"]


def test_the_html_refers_to_nothing_outside() -> None:
    html = str(view_of(run(), sequence(ORDERS, CLEAN)).html())
    assert _Outline(html).addresses == []
    assert html.count("<style>") == 1
    assert "@import" not in html
    assert set(re.findall(r"url\(\"(.{5})", html)) == {"data:"}


def test_each_status_is_icon_word_and_colour() -> None:
    for word in STATUSES:
        html = str(view_of(run(), [replace(ORDERS, status=word, attempt=0)]).html())
        assert f">{STATUSES[word].icon}</span>" in html
        assert f'<span class="wb-word">{word}</span>' in html
        assert f".wb-is-{word}{{" in html


PIECES = st.sampled_from(["<script>", "</style>", "<img src=x>", '"', "'", "<", "&", "]]>", "a"])
EVIL = st.lists(PIECES, max_size=5).map("".join)


@given(evil=EVIL, name=EVIL)
def test_no_value_of_a_run_becomes_markup(evil: str, name: str) -> None:
    def tags(text: str, other: str) -> list[str]:
        error = {"type": text, "message": other, "sqlstate": text, "detail": text, "hint": text}
        error["traceback"] = text or "x"
        rows = json.dumps({"rows": [{other: text}, {other: {text: 1}}]})
        step = replace(
            ORDERS,
            query=text,
            result_name=other,
            result_preview=rows,
            columns=[[other, text or "x"]],
            error=error,
        )
        handler = replace(CLEAN, handler=text, query=json.dumps({"handler": text, "input": text}))
        whole = run(
            label=text or "x",
            status="failed",
            error=error,
            database=text or "x",
            input_preview=text or "x",
            restart_of_run_id=text or "x",
        )
        attempts = [
            attempt(1, 1, "failed", error=error, host=text, engine_id=text, delay=1.0),
            attempt(1, 2, text, delay_source=text, delay=1.0),
        ]
        view = view_of(whole, sequence(step, handler, step), attempts)
        return _Outline(view.html()).tags

    harmless = tags("x" * max(len(evil), 1), "y" * max(len(name), 1))
    assert "script" not in tags(evil, name)
    assert set(tags(evil, name)) <= set(harmless) | {"details", "summary", "code", "pre", "p"}


def test_views_import_neither_the_database_nor_the_engine_nor_pandas() -> None:
    code = """
import sys, workbench.views.run_view, workbench.views.runs_view
unwanted = ("psycopg", "pandas", "ipywidgets", "workbench.engine", "workbench.bench")
sys.exit(any(name in sys.modules for name in unwanted))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
