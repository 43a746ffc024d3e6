"""df.instance_nodes: the stored form of a graph, with the state of each node in the words scripts know."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from psycopg.rows import dict_row

from tests.engine.support import Database
from workbench.graph import Node, seq, sql


def nodes(db: Database, run: str, call: str = "df.instance_nodes(%s)") -> list[dict[str, Any]]:
    with db.conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT * FROM {call}", (run,)).fetchall()


def column(db: Database, run: str, name: str) -> list[Any]:
    return [row[name] for row in nodes(db, run)]


def set_statuses(db: Database, run: str, **statuses: str) -> None:
    """`n3="failed"` sets that of node 3."""
    for number, status in statuses.items():
        db.execute(
            "UPDATE df.nodes SET status = %s WHERE instance_id = %s AND node_id = %s",
            status,
            run,
            int(number[1:]),
        )


def set_iterations(db: Database, run: str, **iterations: int) -> None:
    for number, iteration in iterations.items():
        db.execute(
            "UPDATE df.nodes SET iteration = %s WHERE instance_id = %s AND node_id = %s",
            iteration,
            run,
            int(number[1:]),
        )


def test_nodes_come_in_pre_order_with_their_children_as_ids(db: Database) -> None:
    run = db.start(seq(sql("SELECT 1").named("x"), sql("SELECT 2"), sql("SELECT 3")))
    shape = ("node_id", "node_type", "query", "result_name", "left_node", "right_node")
    assert [tuple(row[name] for name in shape) for row in nodes(db, run)] == [
        ("0", "THEN", None, None, "1", "4"),
        ("1", "THEN", None, None, "2", "3"),
        ("2", "SQL", "SELECT 1", "x", None, None),
        ("3", "SQL", "SELECT 2", None, None, None),
        ("4", "SQL", "SELECT 3", None, None, None),
    ]


def test_conditions_and_extra_branches_are_ids_in_the_config(db: Database) -> None:
    asked = Node("IF", condition=sql("ask"), left=sql("yes"), right=sql("no"))
    join = Node("JOIN", left=asked, right=sql("b"), extra=(sql("c"), sql("d")))
    run = db.start(Node("LOOP", left=join, condition=sql("again")))
    assert [(row["node_id"], row["node_type"], row["query"]) for row in nodes(db, run)] == [
        ("0", "LOOP", '{"condition_node":"9"}'),
        ("1", "JOIN", '{"extra_nodes":["7","8"]}'),
        ("2", "IF", '{"condition_node":"5"}'),
        ("3", "SQL", "yes"),
        ("4", "SQL", "no"),
        ("5", "SQL", "ask"),
        ("6", "SQL", "b"),
        ("7", "SQL", "c"),
        ("8", "SQL", "d"),
        ("9", "SQL", "again"),
    ]


def test_a_config_that_is_there_stays(db: Database) -> None:
    config = '{"condition_type":"result_has_rows","result_name":"a"}'
    graph = sql("SELECT 1").named("a") >> Node("IF", left=sql("b"), right=sql("c"), query=config)
    assert column(db, db.start(graph), "query")[2] == config


@pytest.mark.parametrize(
    ("status", "word"),
    [("pending", "pending"), ("ready", "pending"), ("running", "running"), ("waiting", "running"),
     ("completed", "completed"), ("failed", "failed"), ("cancelled", "skipped"), ("skipped", "skipped")],
)  # fmt: skip
def test_the_inferred_status_is_the_stored_one_in_the_old_words(
    db: Database, status: str, word: str
) -> None:
    run = db.start("SELECT 1")
    set_statuses(db, run, n0=status)
    assert (column(db, run, "status"), column(db, run, "inferred_status")) == ([status], [word])


def test_a_skipped_node_names_the_nearest_ancestor_that_has_ended(db: Database) -> None:
    asked = Node("IF", condition=sql("ask"), left=sql("yes"), right=sql("no") >> sql("never"))
    run = db.start(asked >> sql("after"))
    set_statuses(
        db, run, n0="running", n1="completed", n2="completed", n3="skipped", n4="skipped",
        n5="skipped", n6="completed", n7="skipped",
    )  # fmt: skip
    above = "inferred_status_from_ancestor_id"
    assert column(db, run, above) == [None, None, None, "1", "1", "1", None, None]
    set_statuses(db, run, n0="failed", n1="failed")
    assert column(db, run, above) == [None, None, None, "1", "1", "1", None, "0"]


def test_the_result_is_the_value_by_pointer_once_the_node_is_completed(db: Database) -> None:
    run = db.start(sql("a") >> sql("b"))
    set_statuses(db, run, n0="running", n1="completed", n2="completed")
    db.execute("UPDATE df.nodes SET result = to_jsonb(node_id) WHERE node_id > 0")
    db.execute("UPDATE df.nodes SET result_node = 2 WHERE node_id = 0")
    assert column(db, run, "result") == [None, "1", "2"]
    set_statuses(db, run, n0="completed")
    assert column(db, run, "result") == ["2", "1", "2"]


def test_a_failed_node_has_no_result(db: Database) -> None:
    run = db.start("SELECT 1")
    set_statuses(db, run, n0="failed")
    db.execute('UPDATE df.nodes SET error = \'{"message": "boom"}\'')
    assert column(db, run, "result") == [None]


def test_a_branch_and_an_inner_loop_are_scopes_of_their_own(db: Database) -> None:
    inner = Node("LOOP", left=sql("again"))  # 4, 5
    race = Node("RACE", left=Node("LOOP", left=sql("a")), right=sql("b") >> sql("c"))  # 6 … 11
    run = db.start(Node("LOOP", left=(sql("first") >> inner) >> race))
    set_iterations(db, run, n0=7, n4=3, n7=2)
    db.execute("UPDATE df.nodes SET status = 'running'")
    stamps = [json.loads(details)["execution_id"] for details in column(db, run, "status_details")]
    assert stamps == [
        f"{run}::7",  # LOOP, the root of the whole
        f"{run}::7",
        f"{run}::7",
        f"{run}::7",
        f"{run}::7::4::3",  # LOOP inside
        f"{run}::7::4::3",
        f"{run}::7",  # RACE
        f"{run}::7::7::2",  # its left branch, a LOOP
        f"{run}::7::7::2",
        f"{run}::7::9::1",  # its right branch
        f"{run}::7::9::1",
        f"{run}::7::9::1",
    ]


def test_a_node_that_never_began_has_no_stamp(db: Database) -> None:
    run = db.start(sql("a") >> sql("b"))
    set_statuses(db, run, n0="running", n1="completed", n2="skipped")
    stamp = f'{{"execution_id":"{run}::1"}}'
    assert column(db, run, "status_details") == [stamp, stamp, None]


def test_updated_at_is_the_last_that_happened_to_the_node(db: Database) -> None:
    run = db.start("SELECT 1")
    created = db.value("SELECT created_at FROM df.instances")
    assert column(db, run, "updated_at") == [created]
    db.execute("UPDATE df.nodes SET started_at = '2026-11-30 12:00Z'")
    assert column(db, run, "updated_at") == [db.value("SELECT started_at FROM df.nodes")]
    db.execute("UPDATE df.nodes SET finished_at = '2026-11-30 12:01Z'")
    assert column(db, run, "updated_at") == [db.value("SELECT finished_at FROM df.nodes")]


def test_the_older_form_has_the_same_rows(db: Database) -> None:
    run = db.start(sql("a") >> sql("b").named("x"))
    old = nodes(db, run, "df.instance_nodes(%s, 5)")
    assert [row.pop("execution_id") for row in old] == [1, 1, 1]
    assert old == [{name: row[name] for name in old[0]} for row in nodes(db, run)]


def test_ten_thousand_nodes_are_shown_within_a_second(db: Database) -> None:
    run = db.start(seq(*[sql("SELECT 1")] * 5000))
    began = time.monotonic()
    assert len(nodes(db, run)) == 9999
    assert time.monotonic() - began < 1
