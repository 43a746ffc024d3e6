"""Monitoring of runs that a real engine executes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.support import Database, wait_until

pytestmark = pytest.mark.usefixtures("engine")

NODE = "SELECT node_id, node_type, inferred_status, inferred_status_from_ancestor_id FROM df.instance_nodes(%s)"


def tree(db: Database, run: str) -> list[str]:
    """The lines of df.explain below its header."""
    text = db.value("SELECT df.explain(%s)", run).split("\n\n", 1)[1]
    return [line.rstrip() for line in text.split("\n")]


def start(db: Database, expression: str) -> str:
    return str(db.value(f"SELECT df.start({expression})"))


def test_a_completed_run_is_marked_throughout(db: Database) -> None:
    run = start(db, "'SELECT 1 AS a' |=> 'x' ~> 'SELECT $x + 1 AS b'")
    db.wait(run)
    assert tree(db, run) == ["SQL: SELECT 1 AS a |=> 'x' ✓", "→ SQL: SELECT $x + 1 AS b ✓"]
    result = db.value("SELECT df.result(%s)", run)
    assert result == '{"rows": [{"b": 2}], "row_count": 1}'
    assert db.values("SELECT output FROM df.list_instances()") == [result]
    assert db.values("SELECT result FROM df.instance_nodes(%s)", run) == [
        result, '{"rows": [{"a": 1}], "row_count": 1}', result,
    ]  # fmt: skip
    ((word, events, duration, output),) = db.execute(
        "SELECT status, event_count, duration_ms, output FROM df.instance_executions(%s)", run
    )
    assert (word, output) == ("Completed", result)
    assert events == db.value("SELECT version FROM df.instances")
    assert 0 <= duration < 60_000


def test_an_untaken_branch_is_skipped_because_of_its_if(db: Database) -> None:
    run = start(db, "df.if('SELECT true', 'SELECT 1', 'SELECT 2' ~> 'SELECT 3')")
    db.wait(run)
    assert tree(db, run) == [
        "IF ✓",
        "    ? condition:",
        "      └─SQL: SELECT true ✓",
        "    ✓ then:",
        "      └─SQL: SELECT 1 ✓",
        "    ✗ else:",
        "      └─SQL: SELECT 2 ⊘",
        "      → SQL: SELECT 3 ⊘",
    ]
    assert db.execute(NODE, run).fetchall() == [
        ("0", "IF", "completed", None),
        ("1", "SQL", "completed", None),
        ("2", "THEN", "skipped", "0"),
        ("3", "SQL", "skipped", "0"),
        ("4", "SQL", "skipped", "0"),
        ("5", "SQL", "completed", None),
    ]


def test_the_loser_of_a_race_is_skipped(db: Database) -> None:
    run = start(db, "df.race('SELECT 1 AS winner', df.sleep(600))")
    db.wait(run)
    assert tree(db, run)[-1] == "      └─SLEEP 600s ⊘"
    assert db.execute(NODE, run).fetchall()[2] == ("2", "SLEEP", "skipped", "0")
    assert db.value("SELECT output FROM df.instance_info(%s)", run) == (
        '{"rows": [{"winner": 1}], "row_count": 1}'
    )


def test_a_failed_run_says_what_and_where(db: Database) -> None:
    run = start(db, "'SELECT 1' ~> 'SELECT 1/0' ~> 'SELECT 2'")
    db.wait(run, "failed")
    assert tree(db, run) == ["SQL: SELECT 1 ✓", "→ SQL: SELECT 1/0 ✗", "→ SQL: SELECT 2 ⊘"]
    output = db.value("SELECT output FROM df.instance_info(%s)", run)
    assert "division by zero" in output
    assert output == db.value("SELECT df.error(%s) ->> 'message'", run)
    query = "SELECT status, output FROM df.instance_executions(%s)"
    assert db.execute(query, run).fetchall() == [("Failed", output)]


def test_waiting_reads_as_running(db: Database) -> None:
    run = start(db, "'SELECT 1' ~> df.wait_for_signal('go')")
    wait_until(lambda: "waiting" in db.statuses(run), what="the wait begins")
    assert tree(db, run) == ["SQL: SELECT 1 ✓", "→ SIGNAL 'go' ⏳"]
    query = "SELECT status, inferred_status FROM df.instance_nodes(%s)"
    assert db.execute(query, run).fetchall()[2] == ("waiting", "running")


def test_a_root_loop_is_an_execution_per_iteration(db: Database) -> None:
    db.execute("CREATE SEQUENCE turns")
    body, condition = "SELECT nextval(''turns'') AS turn", "SELECT last_value < 3 FROM turns"
    run = start(db, f"df.loop('{body}', '{condition}', min_interval => '0')")
    db.wait(run)
    rows: list[Any] = db.execute("SELECT * FROM df.instance_executions(%s)", run).fetchall()
    assert [(number, word) for number, word, *_ in rows] == [
        (3, "Completed"), (2, "ContinuedAsNew"), (1, "ContinuedAsNew"),
    ]  # fmt: skip
    assert rows[0][4] == '{"rows": [{"turn": 3}], "row_count": 1}'
    assert sum(events for _, _, events, *_ in rows) == db.value("SELECT version FROM df.instances")
    assert db.value("SELECT execution_count FROM df.list_instances()") == 3
    assert db.value("SELECT total_executions FROM df.metrics()") == 3
    stamps = db.values("SELECT status_details::jsonb ->> 'execution_id' FROM df.instance_nodes(%s)", run)  # fmt: skip
    assert stamps == [f"{run}::3"] * 3


def test_a_list_is_paged_while_an_engine_works(db: Database) -> None:
    db.execute("SELECT df.start('SELECT ' || n, 'many') FROM generate_series(1, 30) n")
    seen: list[str] = []
    cursor = None
    while True:
        page = db.execute(
            "SELECT instance_id, next_cursor FROM df.list_instances(NULL, 7, 'many', %s)", cursor
        ).fetchall()
        seen += [run for run, _ in page]
        cursor = page[0][1]
        if cursor is None:
            break
    db.wait_all()
    assert len(seen) == len(set(seen)) == 30
    assert seen == db.values("SELECT instance_id FROM df.list_instances('completed')")
