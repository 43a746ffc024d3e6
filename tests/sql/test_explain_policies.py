"""What df.explain, df._held_back and df.instance_activity say of HTTP policies and of who waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.support import Database
from tests.sql.test_explain import LEAVES, SAME, composites, drawn, lines
from workbench.graph import Node, http, join, seq, sql
from workbench.graph.policies import with_policy
from workbench.store.explain import graph_rows

URL = "https://example.com/"


def limited(node: Node, limit: int) -> Node:
    return with_policy(node, http={"max_concurrency": limit})


def policed(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return composites(inner) | st.builds(limited, inner, st.integers(1, 40))


@SAME
@given(node=st.recursive(LEAVES, policed, max_leaves=8))
def test_sql_and_python_draw_the_same_limits(db: Database, node: Node) -> None:
    assert drawn(db, node) == str(node)


def test_a_limit_stands_on_its_nodes_line_and_that_of_a_sequence_on_its_first_step(
    db: Database,
) -> None:
    inner = limited(seq(http(URL), sql("b"), limited(http(URL), 1)), 2)
    graph = limited(seq(inner, sql("d")), 5) >> limited(join(http(URL), "e"), 3)
    assert lines(drawn(db, graph)) == [
        f"HTTP GET {URL} [3 steps: http ≤ 2] [4 steps: http ≤ 5]",
        "→ SQL: b",
        f"→ HTTP GET {URL} [http ≤ 1]",
        "→ SQL: d",
        "→ JOIN (2) [http ≤ 3]",
        "    ║ branch 1:",
        f"      ├─HTTP GET {URL}",
        "    ║ branch 2:",
        "      └─SQL: e",
    ]


def test_the_rows_have_the_limits(db: Database) -> None:
    rows = graph_rows(db.conn, limited(http(URL) >> sql("b"), 2).to_json())
    assert [row.policy for row in rows] == [None, "[2 steps: http ≤ 2]", None]
    assert [row.waits_for for row in rows] == [None, None, None]
