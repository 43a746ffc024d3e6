"""df.explain: the tree of a graph, of an expression, of a run; Python draws the same lines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import reduce

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.support import Database
from tests.sql.conftest import MakeRole
from tests.unit.graph_strategies import GRAPHS, IDENTIFIERS, TEXTS
from workbench.graph import Node, loads, seq, sql
from workbench.graph.tree import tree
from workbench.store.explain import explain, graph_rows, run_rows

NOTHING = (
    "Cannot explain input: not a valid Durofut JSON, instance ID, SQL statement, or DSL expression."
)
HINT = "\nHint: DSL expressions use df.*() functions and operators like ~>, |=>, &, |."

SAME = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


def config(node_type: str, **values: object) -> Node:
    return Node(node_type, query=json.dumps(values))


@pytest.fixture
def stranger(make_role: MakeRole, session: Callable[[str], Database]) -> Database:
    """A session of another role, which is no superuser."""
    return session(make_role())


def drawn(db: Database, node: Node) -> str:
    """The picture without the check whether the graph can be started."""
    text = db.value("SELECT df._explain_text(%s::jsonb, NULL)", node.to_json())
    assert isinstance(text, str)
    return text


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")]


LEAVES = st.one_of(
    st.builds(lambda s: Node("SLEEP", query=str(s)), st.integers(0, 10**6)),
    st.builds(lambda t: config("BREAK", break_value=t), st.none() | TEXTS),
    st.builds(
        lambda name, n: config("SIGNAL", signal_name=name, timeout_seconds=n),
        TEXTS,
        st.none() | st.integers(1, 10**6),
    ),
    st.builds(
        lambda kind, url, method: config(kind, url=url, method=method, parts=[]),
        st.sampled_from(["HTTP", "HTTP_MULTIPART"]),
        TEXTS,
        st.sampled_from(["GET", "POST"]),
    ),
    st.builds(
        lambda cron, zone: config("WAIT_SCHEDULE", cron_expr=cron, **zone),
        st.just("*/5 * * * *"),
        st.sampled_from([{}, {"timezone": "Europe/Berlin"}]),
    ),
    GRAPHS,
)


def composites(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    names = st.none() | IDENTIFIERS
    many = st.lists(inner, max_size=3).map(tuple)
    if_rows = '{"condition_type":"result_has_rows","result_name":"r"}'
    return st.one_of(
        st.builds(
            lambda kind, a, b, name: Node(kind, left=a, right=b, result_name=name),
            st.sampled_from(["THEN", "RACE", "JOIN"]),
            inner,
            inner,
            names,
        ),
        st.builds(lambda a, b: Node("IF", left=a, right=b, query=if_rows), inner, inner),
        st.builds(
            lambda a, b, name: Node(
                "LOOP", left=a, condition=b, options={"until": True}, result_name=name
            ),
            inner,
            inner,
            names,
        ),
        st.builds(lambda steps: Node("FLOW", extra=steps, query="{}"), many),
        st.builds(lambda step: Node("MAP", left=step), inner),
        st.builds(lambda a, b, more: Node("JOIN", left=a, right=b, extra=more), inner, inner, many),
    )


@SAME
@given(node=st.recursive(LEAVES, composites, max_leaves=8))
def test_sql_and_python_draw_the_same_lines(db: Database, node: Node) -> None:
    assert drawn(db, node) == str(node)


def test_a_sequence_is_flat_and_its_name_is_not_shown(db: Database) -> None:
    call = "'SELECT 1' |=> 'a' ~> 'SELECT 22' ~> ('SELECT 3' ~> 'SELECT 4') |=> 'whole'"
    assert db.value("SELECT df.explain(%s)", call) == (
        "SQL: SELECT 1 |=> 'a'    \n"
        "→ SQL: SELECT 22         \n"
        "→ SQL: SELECT 3          \n"
        "→ SQL: SELECT 4          "
    )


def test_children_stand_below_their_heading_in_the_order_in_which_they_run(db: Database) -> None:
    asked = Node("IF", condition=sql("ask"), left=sql("yes") >> sql("more"), right=sql("no"))
    join = Node("JOIN", left=asked, right=sql("b"), extra=(sql("c"),), result_name="all")
    loop = Node("LOOP", left=join, condition=sql("again"))
    assert lines(drawn(db, sql("first") >> loop)) == [
        "SQL: first",
        "→ LOOP (while)",
        "    ↻ body:",
        "      └─JOIN (3) |=> 'all'",
        "          ║ branch 1:",
        "            ├─IF",
        "            │   ? condition:",
        "            │     └─SQL: ask",
        "            │   ✓ then:",
        "            │     └─SQL: yes",
        "            │     → SQL: more",
        "            │   ✗ else:",
        "            │     └─SQL: no",
        "          ║ branch 2:",
        "            ├─SQL: b",
        "          ║ branch 3:",
        "            └─SQL: c",
        "    ? while:",
        "      └─SQL: again",
    ]


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (sql("x" * 50), "SQL: " + "x" * 50),
        (sql("x" * 51), "SQL: " + "x" * 47 + "..."),
        (sql("é" * 26), "SQL: " + "é" * 23 + "..."),  # 52 bytes; the 24th would end at 48
        (sql("SELECT 1\nFROM t"), "SQL: SELECT 1\nFROM t"),
        (Node("SLEEP", query="90", result_name="nap"), "SLEEP 90s |=> 'nap'"),
        (config("WAIT_SCHEDULE", cron_expr="0 9 * * *"), "WAIT '0 9 * * *'"),
        (config("SIGNAL", signal_name="go", timeout_seconds=None), "SIGNAL 'go'"),
        (config("SIGNAL", signal_name="go", timeout_seconds=30), "SIGNAL 'go' (30s)"),
        (config("BREAK", break_value=None), "BREAK"),
        (config("BREAK", break_value="v" * 20), f"BREAK '{'v' * 20}'"),
        (config("BREAK", break_value="v" * 21), f"BREAK '{'v' * 17}...'"),
        (config("HTTP", method="GET", url="u" * 41), "HTTP GET " + "u" * 37 + "..."),
        (config("HTTP_MULTIPART", method="PUT", url="u" * 40), "HTTP_MULTIPART PUT " + "u" * 40),
        (config("PYTHON", handler="crm:clean"), "PYTHON crm:clean"),
    ],
)
def test_a_step_is_one_label(db: Database, node: Node, line: str) -> None:
    assert db.value("SELECT df._label(%s::jsonb)", node.to_json()) == line


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("what", NOTHING + HINT),
        ("{}", NOTHING + HINT),
        ("'a' & 'b'", NOTHING + HINT),
        ("upper('a') || 'df.'", "Cannot explain input: the expression gives no graph but 'Adf.'." + HINT),
        ("NULL::text || 'df.'", "Expression returned NULL"),
        ("deadbeef", "Instance 'deadbeef' not found"),
        ("  DEADBEEF\n", "Instance 'DEADBEEF' not found"),
        ('{"node_type":"SQL"}', "Invalid durable function graph: root: query is missing; SQL nodes need it"),
        (
            '{"node_type":"THEN","left_node":{"node_type":"SQL","query":"a"},"right_node":{"node_type":"SQL"}}',
            "Invalid durable function graph: root.right: query is missing; SQL nodes need it",
        ),
        ("  select\n1  ", "SQL: select    \n1              "),
        ("WITH x AS (SELECT 1) SELECT", "SQL: WITH x AS (SELECT 1) SELECT    "),
        ("'SELECT 1' ~> 'SELECT 2'", "SQL: SELECT 1      \n→ SQL: SELECT 2    "),
        ("df.sql('SELECT 1')", "SQL: SELECT 1    "),
    ],
)  # fmt: skip
def test_what_an_input_is_taken_for(db: Database, given: str, said: str) -> None:
    assert db.value("SELECT df.explain(%s)", given) == said


def test_an_unknown_node_type_is_answered_with_those_there_are(db: Database) -> None:
    said = db.value("SELECT df.explain(%s)", '{"node_type":"NOT_A_NODE"}')
    assert said.startswith(
        "Invalid durable function graph: root: Unknown node_type 'NOT_A_NODE'. Valid types: SQL, THEN"
    )


def test_an_expression_that_raises_propagates_its_error(db: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedFunction, match="nosuch"):
        db.value("SELECT df.explain('df.nosuch(1)')")


def test_an_expression_has_the_callers_rights(db: Database, stranger: Database) -> None:
    db.execute("CREATE TABLE secrets AS SELECT df.sql('SELECT 1') AS graph")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="secrets"):
        stranger.value("SELECT df.explain('(SELECT graph || $$$$ FROM secrets) -- df.')")


def test_explaining_a_graph_stores_nothing(db: Database) -> None:
    db.value("SELECT df.explain($$'SELECT 1' ~> 'SELECT 2'$$)")
    assert db.value("SELECT count(*) FROM df.instances") == 0


@pytest.mark.parametrize(("levels", "fault"), [(256, False), (257, True)])
def test_256_levels_are_explained_and_257_refused(db: Database, levels: int, fault: bool) -> None:
    node = reduce(lambda below, _: sql("a") >> below, range(levels), sql("deep"))
    text = db.value("SELECT df.explain(%s)", node.to_json())
    refused = "Invalid durable function graph: root: Graph exceeds maximum nesting depth of 256."
    assert text.startswith(refused) is fault
    assert fault or len(text.split("\n")) == levels + 1


def test_more_than_10000_nodes_are_refused(db: Database) -> None:
    half = seq(*[sql("SELECT 1")] * 2501).to_json()
    graph = db.value("SELECT df.seq(%s, %s)", half, half)
    assert db.value("SELECT df.explain(%s)", graph) == (
        "Invalid durable function graph: root: Workflow exceeds maximum node count of 10000. It has 10003."
    )


def test_a_large_graph_and_its_run_are_explained_within_a_second(db: Database) -> None:
    graph = seq(*[sql(f"SELECT {n}") for n in range(5000)]).to_json()  # 9,999 nodes
    run = db.start(graph)
    for text in (graph, run):
        began = time.monotonic()
        picture = db.value("SELECT df.explain(%s)", text)
        assert time.monotonic() - began < 1
        assert "→ SQL: SELECT 4999" in picture


def test_a_run_shows_its_header_and_the_state_of_each_step(db: Database) -> None:
    run = db.start(seq(sql("a"), sql("b"), sql("c"), sql("d")), label="nightly")
    states = {2: "completed", 3: "failed", 5: "ready", 6: "skipped"}
    for number, status in states.items():
        db.execute("UPDATE df.nodes SET status = %s WHERE node_id = %s", status, number)
    db.execute("UPDATE df.instances SET status = 'running'")
    assert lines(db.value("SELECT df.explain(%s)", f" {run} ")) == [
        f"Instance: {run} (nightly)",
        "Status:   ⏳ Running",
        "",
        "SQL: a ✓",
        "→ SQL: b ✗",
        "→ SQL: c ○",
        "→ SQL: d ⊘",
    ]


@pytest.mark.parametrize(
    ("status", "mark"),
    [("pending", "○"), ("ready", "○"), ("running", "⏳"), ("waiting", "⏳"), ("completed", "✓"),
     ("failed", "✗"), ("cancelled", "⊘"), ("skipped", "⊘")],
)  # fmt: skip
def test_each_status_has_a_mark(db: Database, status: str, mark: str) -> None:
    run = db.start("SELECT 1")
    db.execute("UPDATE df.nodes SET status = %s", status)
    assert lines(db.value("SELECT df.explain(%s)", run))[-1] == f"SQL: SELECT 1 {mark}"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 57 + "..."),
        ("é" * 31, "é" * 28 + "..."),
        ("one\n  two", "one two"),
    ],
)
def test_the_output_of_a_run_is_one_line(db: Database, message: str, shown: str) -> None:
    run = db.start("SELECT 1")
    error = json.dumps({"message": message})
    db.execute("UPDATE df.instances SET status = 'failed', error = %s::jsonb", error)
    assert lines(db.value("SELECT df.explain(%s)", run))[:4] == [
        f"Instance: {run}",
        "Status:   ✗ Failed",
        f"Output:   {shown}",
        "",
    ]


def test_a_cancelled_run_is_marked_as_failed_ones_are(db: Database) -> None:
    run = db.start("SELECT 1")
    db.value("SELECT df.cancel(%s, 'enough')", run)
    assert lines(db.value("SELECT df.explain(%s)", run))[1:3] == [
        "Status:   ✗ Cancelled",
        "Output:   enough",
    ]


def test_other_roles_runs_are_not_found(db: Database, stranger: Database) -> None:
    run = db.start("SELECT 1")
    assert stranger.value("SELECT df.explain(%s)", run) == f"Instance '{run}' not found"


def test_null_is_null(db: Database) -> None:
    assert db.value("SELECT df.explain(NULL)") is None


def test_the_rows_have_all_that_the_text_shows(db: Database) -> None:
    node = sql("a") >> Node("IF", condition=sql("ask"), left=sql("yes"), right=sql("no"))
    rows = graph_rows(db.conn, node.to_json())
    assert [(row.node_id, row.parent_id, row.depth, row.line) for row in rows] == [
        (0, None, 0, None), (1, 0, 1, 1), (2, 0, 1, 2), (3, 2, 2, 4), (4, 2, 2, 5), (5, 2, 2, 3),
    ]  # fmt: skip
    assert [(row.connector, row.heading, row.label) for row in rows[2:]] == [
        ("→ ", None, "IF"),
        ("└─", "✓ then:", "SQL: yes"),
        ("└─", "✗ else:", "SQL: no"),
        ("└─", "? condition:", "SQL: ask"),
    ]


def test_the_rows_of_a_run_know_its_states(db: Database) -> None:
    node = sql("a") >> sql("b")
    run = db.start(node)
    db.execute("UPDATE df.nodes SET status = 'completed' WHERE node_id = 1")
    rows = run_rows(db.conn, run)
    assert [(row.status, row.mark) for row in rows] == [
        ("pending", "○"), ("completed", "✓"), ("pending", "○"),
    ]  # fmt: skip
    marks = {row.node_id: row.mark for row in rows if row.mark}
    assert explain(db.conn, run).endswith("\n\n" + tree(loads(node.to_json()), marks))
    assert run_rows(db.conn, "deadbeef") == []
