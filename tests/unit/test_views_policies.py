"""HTTP policies in pictures: frames with limit, id and use; holders and places of who waits."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.test_views_explain import shown
from tests.unit.view_samples import at, node, run
from workbench.graph import http, join, sql
from workbench.graph.policies import with_policy
from workbench.store.explain_records import HeldRow, ScopeRow
from workbench.views.clock import told
from workbench.views.explain_view import ExplainView, node_html
from workbench.views.limits import held_pieces
from workbench.views.run_data import RunData

SCOPE = "3f9a12bc/0"
HOLDER = {"run": "3f9a12bc", "node": 1, "engine": "lab:7", "since": at(3).isoformat()}
HELD = HeldRow(2, SCOPE, 0, 1, 1, 4, [HOLDER])
CEILING = HeldRow(2, "http ceiling", None, 2, 2, None, [HOLDER | {"run": "aa"}, {"others": 1}])


def words(html: str) -> str:
    return " ".join(shown(html).split())


def said(held: HeldRow) -> str:
    return told(held_pieces(held, "3f9a12bc"), at(60))


def test_a_graph_frames_what_shares_a_limit() -> None:
    inner = with_policy(
        http("https://example.com/a") >> sql("SELECT 1"), http={"max_concurrency": 2}
    )
    graph = with_policy(join(inner, http("https://example.com/b")), http={"max_concurrency": 5})
    html = node_html(graph)
    assert html.count('class="wb-scope"') == 2
    assert words(html).index("HTTP ≤ 5") < words(html).index("JOIN 2 branches")
    assert (
        words(html).index("JOIN 2 branches")
        < words(html).index("HTTP ≤ 2")
        < words(html).index("SELECT 1")
    )


def test_a_graph_without_policies_has_no_frames() -> None:
    assert 'class="wb-scope"' not in node_html(join("SELECT 1", "SELECT 2"))


def test_a_waiting_step_says_its_place_and_who_is_in() -> None:
    assert said(HELD).startswith(f"4th in line for {SCOPE}, held by #1 since ")
    assert said(HELD).endswith(" on lab:7")


def test_at_a_ceiling_runs_and_strangers_are_told() -> None:
    assert said(CEILING).startswith("HTTP ceiling 2 of 2 (setting max_http_concurrency): #1 of aa")
    assert said(CEILING).endswith(", another role's run")


def test_many_holders_are_counted() -> None:
    assert said(replace(HELD, holders=[HOLDER] * 5)).endswith(" and 2 more")


def test_a_runs_frame_says_how_full_it_is_until_the_run_ends() -> None:
    nodes = [
        node(0, None, None, "JOIN", status="running", started_at=at(0)),
        node(1, 0, 1, "HTTP", query='{"url":"u"}', status="running", started_at=at(3)),
        node(2, 0, 2, "HTTP", query='{"url":"u"}', status="ready", ready_at=at(0)),
    ]
    scopes = [ScopeRow(SCOPE, 0, 1, 1, 1)]
    live = ExplainView("", run=RunData(run(), nodes), scopes=scopes, held=[HELD])
    assert f"HTTP ≤ 1 {SCOPE} 1 in use · 1 waiting" in words(live.html())
    assert "4th in line" in words(live.html())
    ended = run(status="completed", finished_at=at(9))
    over = ExplainView("", run=RunData(ended, nodes), scopes=[ScopeRow(SCOPE, 0, 1, 0, 0)])
    assert f"HTTP ≤ 1 {SCOPE}" in words(over.html())
    assert "in use" not in words(over.html())
