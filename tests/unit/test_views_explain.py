"""The picture of a graph: of what has not started, of a run, of anything however large."""

from __future__ import annotations

import re

import pytest

from tests.unit.view_samples import at, node, run
from workbench.graph import (
    break_,
    http,
    if_,
    if_rows,
    join,
    loop,
    py,
    race,
    seq,
    sleep,
    sql,
    wait_for_schedule,
    wait_for_signal,
)
from workbench.graph.node import Node
from workbench.graph.tree import tree
from workbench.views.explain_view import ExplainView, node_bundle, node_html
from workbench.views.run_data import RunData
from workbench.views.sketch import sketch

EVERYTHING = seq(
    sql("SELECT 1").named("one"),
    join(http("https://example.com/a"), py("crm:clean"), sleep(5)),
    if_("SELECT true", wait_for_signal("approval"), wait_for_schedule("0 6 * * *")),
    if_rows("one", "SELECT 2", "SELECT 3"),
    loop(race(break_("done"), sleep(1)), until="SELECT false"),
)


def shown(html: str) -> str:
    return re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL)


def test_every_construct_is_drawn() -> None:
    words = shown(node_html(EVERYTHING))
    for word in ("SQL", "JOIN", "HTTP", "PYTHON", "SLEEP", "IF", "SIGNAL", "WAIT", "LOOP", "RACE",
                 "BREAK", "branch 3", "condition", "then", "else", "body", "until",
                 "one has rows"):  # fmt: skip
        assert word in words


def test_a_graph_shows_itself_in_a_cell_with_its_tree_for_terminals() -> None:
    bundle = EVERYTHING._repr_mimebundle_()
    assert bundle["text/plain"] == str(EVERYTHING)
    assert bundle["text/html"].startswith("<section")
    assert "as of" not in bundle["text/html"]
    assert "wb-status" not in shown(bundle["text/html"])  # nothing has a status yet


def test_a_sketch_has_the_numbers_and_orders_of_the_run_that_it_will_be() -> None:
    graph = if_("SELECT 1", join("SELECT 2", "SELECT 3", "SELECT 4"), "SELECT 5")
    assert [(n.node_id, n.parent_id, n.ord, n.depth) for n in sketch(graph)] == [
        (0, None, None, 0),
        (1, 0, 1, 1),
        (2, 1, 1, 2),
        (3, 1, 2, 2),
        (4, 1, 4, 2),
        (5, 0, 2, 1),
        (6, 0, 3, 1),
    ]


@pytest.mark.parametrize(
    "graph",
    [
        seq(*[f"SELECT {n}" for n in range(2000)]),
        join(*[f"SELECT {n}" for n in range(2000)]),
    ],
    ids=["long", "wide"],
)
def test_a_large_graph_is_a_small_picture(graph: Node) -> None:
    html = node_html(graph)
    assert len(shown(html)) < 5000
    assert "SELECT 0 " in shown(html)
    assert "SELECT 1999 " in shown(html)
    assert re.search(r"… 1,99\d more", shown(html))


def test_a_deep_graph_is_counted_where_it_gets_too_deep() -> None:
    graph: Node = sql("SELECT 'deepest'")
    for _ in range(256):
        graph = loop(graph)
    assert "… 244 steps deeper inside" in shown(node_html(graph))


def test_a_graph_that_is_too_large_to_draw_is_named() -> None:
    graph = sql("SELECT 1")
    for _ in range(14):
        graph = graph & graph
    assert node_bundle(graph) == {"text/plain": repr(graph)}


def test_the_text_is_what_it_was_given_and_the_picture_is_the_graphs() -> None:
    view = ExplainView(tree(EVERYTHING), graph=EVERYTHING)
    assert str(view) == tree(EVERYTHING)
    assert view.html() == node_html(EVERYTHING)


def test_what_is_no_graph_is_told_in_the_picture() -> None:
    assert "Cannot explain &lt;this&gt;" in str(ExplainView("Cannot explain <this>").html())


def test_a_runs_picture_says_how_each_step_stands() -> None:
    nodes = [
        node(0, None, None, "JOIN", status="running", started_at=at(0)),
        node(
            1,
            0,
            1,
            "SQL",
            query="SELECT 1",
            status="completed",
            started_at=at(0),
            finished_at=at(2),
        ),
        node(2, 0, 2, "SLEEP", query="300", status="waiting", started_at=at(0), ready_at=at(300)),
    ]
    words = " ".join(shown(ExplainView("", run=RunData(run(), nodes)).html()).split())
    assert "SELECT 1 ✓ completed 2.0 s" in words
    assert "⏾ waiting 1 min wakes at" in words
    assert "as of 2026-11-30" in words
