"""The picture of a flow: layers, lines, folding, maps under way; pure functions of nodes."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.view_samples import START, run
from workbench.flow import Flow
from workbench.graph.node import Node
from workbench.store.records import NodeRow
from workbench.views.dag_layout import lay_out
from workbench.views.picture import graph_picture, look_of, run_picture
from workbench.views.run_data import RunData
from workbench.views.sketch import sketch


@st.composite
def dags(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    size = draw(st.integers(1, 14))
    edges = [
        (upper, lower)
        for lower in range(size)
        for upper in draw(st.sets(st.integers(0, max(lower - 1, 0)), max_size=min(lower, 3)))
    ]
    return size, edges


@given(dags(), st.data())
def test_every_line_leads_downwards_and_no_cards_overlap(
    dag: tuple[int, list[tuple[int, int]]], data: st.DataObject
) -> None:
    size, edges = dag
    heights = data.draw(st.lists(st.integers(40, 160), min_size=size, max_size=size))
    layout = lay_out([(200, height) for height in heights], edges)
    assert sorted((line.source, line.target) for line in layout.lines) == sorted(edges)
    for line in layout.lines:
        upper, lower = layout.boxes[line.source], layout.boxes[line.target]
        assert line.points[0][1] == upper.bottom
        assert line.points[-1][1] == lower.top
        assert all(above[1] <= below[1] for above, below in pairwise(line.points))
    for number, box in enumerate(layout.boxes):
        assert box.left >= 0
        assert box.left + box.width <= layout.width
        assert box.bottom <= layout.height
        for other in layout.boxes[number + 1 :]:
            apart_across = box.left + box.width <= other.left or other.left + 200 <= box.left
            assert apart_across or box.bottom <= other.top or other.bottom <= box.top


def test_the_same_graph_is_always_drawn_the_same() -> None:
    edges = [(n // 3, n) for n in range(1, 30)] + [(n // 5, n) for n in range(6, 30)]
    first = lay_out([(200, 60)] * 30, edges)
    assert all(lay_out([(200, 60)] * 30, edges) == first for _ in range(5))


def shop() -> Node:
    flow = Flow("shop")
    flow.add("pages", "SELECT 1 AS n")
    flow.add("price", "SELECT $pages.n", after=["pages"], if_={"pages": [{"n": 1}]})
    flow.add("total", "SELECT 2", after=["pages", "price"], if_skipped="price")
    return flow.graph()


def test_steps_say_what_they_come_after_and_what_they_ask() -> None:
    html = graph_picture(sketch(shop()))
    assert html.count('<li class="wb-step') == 4  # the flow, and its steps
    assert ", after pages, price" in html
    assert "if {&quot;pages&quot;: [{&quot;n&quot;: 1}]}" in html
    assert "if price was skipped" in html
    assert html.count("<path") == 3


def test_of_a_large_flow_those_that_people_look_for_are_drawn_and_the_rest_counted() -> None:
    flow = Flow("long")
    flow.add("s0", "SELECT 0")
    for number in range(1, 300):
        flow.add(f"s{number}", "SELECT 1", after=[f"s{number - 1}"])
    nodes = [
        replace(node, status="failed" if node.result_name == "s250" else "completed")
        for node in sketch(flow.graph())
    ]
    data = RunData(run(status="failed"), nodes)
    html = graph_picture(nodes, look_of(data))
    drawn = re.findall(r'<b title="(s\d+)">', html)
    assert len(drawn) == 60
    assert drawn[-1] == "s250"
    assert "… 240 more steps: 240 completed" in html
    assert "wb-through" in html  # what leads to it is left out


def test_a_map_shows_how_far_it_is_and_which_elements_fail() -> None:
    nodes = mapped(["completed"] * 7 + ["failed"] * 6 + ["ready"] * 2)
    data = RunData(run(status="running"), nodes)
    html = graph_picture(nodes, look_of(data))
    assert "7/15" in html
    assert 'aria-label="7 of 15 elements done"' in html
    assert "<b>[7] </b>" in html
    assert "… 1 more failing element" in html
    assert html.count('<li class="wb-step') == 3  # a map is one card, however many its elements


def test_a_flow_with_thousands_of_elements_has_its_picture_in_the_run_view() -> None:
    nodes = mapped(["completed"] * 2000)
    assert "2,000/2,000" not in run_picture(RunData(run(status="completed"), nodes))
    assert "2,000 elements" in run_picture(RunData(run(status="completed"), nodes))


def mapped(elements: list[str]) -> list[NodeRow]:
    """The nodes of a flow with a map of elements in these statuses."""
    flow = Flow("f")
    flow.add("rows", "SELECT 1 AS n")
    body = Node("MAP", left=Node("SQL", query="SELECT $item"), query='{"over":"rows","as":"item"}')
    flow.add("each", body, after=["rows"])
    *above, pattern = sketch(flow.graph())
    done = all(status == "completed" for status in elements)
    above[-1] = replace(
        above[-1], status="completed" if done else "running", size=len(elements), started_at=START
    )
    return above + [
        replace(
            pattern,
            node_id=10 + index,
            ord=index + 1,
            element=[index],
            status=status,
            error={"type": "ValueError", "message": f"no {index}"} if status == "failed" else None,
        )
        for index, status in enumerate(elements)
    ]
