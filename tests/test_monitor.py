"""Reading runs: what the monitoring queries say about runs in every state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from workbench.errors import NotFound, UsageError
from workbench.store import monitor

GRAPH = json.dumps(
    {
        "node_type": "THEN",
        "left_node": {"node_type": "SQL", "query": "SELECT 1 AS id", "result_name": "ids"},
        "right_node": {"node_type": "PYTHON", "query": '{"handler":"crm:clean","input":null}'},
    }
)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def start(conn: psycopg.Connection, graph: str = GRAPH, label: str | None = None) -> str:
    row = conn.execute("SELECT df.start(%s, %s, max_attempts => 3)", (graph, label)).fetchone()
    assert row is not None
    return str(row[0])


def finish(conn: psycopg.Connection, run: str, result: str, columns: str | None = None) -> None:
    """Complete the first step as an engine would."""
    conn.execute(
        """UPDATE df.nodes SET status = 'completed', result = %s, columns = %s, attempt = 1,
               started_at = df.now(), finished_at = df.now()
           WHERE instance_id = %s AND node_id = 1""",
        (result, columns, run),
    )


def test_a_run_is_read_with_its_policy(conn: psycopg.Connection) -> None:
    run = monitor.run_row(conn, start(conn, label="nightly"))
    assert (run.label, run.status, run.max_attempts, run.max_backoff, run.on_failure) == (
        "nightly",
        "pending",
        3,
        16.0,
        "fail",
    )
    assert run.submitted_by == "postgres"
    assert run.created_at.tzinfo is not None
    assert run.live_engines == 0


def test_a_missing_run_is_not_found(conn: psycopg.Connection) -> None:
    with pytest.raises(NotFound, match=r"no run '00000000'.*bench.runs\(\)"):
        monitor.run_row(conn, "00000000")
    assert monitor.run_nodes(conn, "00000000") == []


def test_nodes_come_in_pre_order_with_what_the_graph_says(conn: psycopg.Connection) -> None:
    nodes = monitor.run_nodes(conn, start(conn))
    assert [(n.node_id, n.parent_id, n.ord, n.depth, n.node_type) for n in nodes] == [
        (0, None, None, 0, "THEN"),
        (1, 0, 1, 1, "SQL"),
        (2, 0, 2, 1, "PYTHON"),
    ]
    assert (nodes[1].query, nodes[1].result_name) == ("SELECT 1 AS id", "ids")
    assert nodes[2].handler == "crm:clean"
    assert [n.exactly_once for n in nodes] == [False, True, False]


def test_a_small_result_is_previewed_whole(conn: psycopg.Connection) -> None:
    run = start(conn)
    finish(conn, run, '{"rows": [{"id": 1}], "row_count": 1}', '[["id", "integer"]]')
    node = monitor.run_nodes(conn, run)[1]
    assert json.loads(node.result_preview or "") == {"rows": [{"id": 1}], "row_count": 1}
    assert (node.row_count, node.result_bytes, node.columns) == (1, 37, [["id", "integer"]])


def test_a_large_row_set_is_previewed_by_its_first_rows(conn: psycopg.Connection) -> None:
    run = start(conn)
    rows = [{"id": i, "text": "x" * 300} for i in range(1000)]
    finish(conn, run, json.dumps({"rows": rows, "row_count": 1000}))
    node = monitor.run_nodes(conn, run)[1]
    assert json.loads(node.result_preview or "") == {"rows": rows[:6]}
    assert node.row_count == 1000
    assert (node.result_bytes or 0) > 300_000


@pytest.mark.parametrize(
    ("result", "count"),
    [
        (json.dumps(["x" * 3000]), 1),
        (json.dumps({"rows": [{"a": "x" * 3000}], "row_count": 1}), 1),
        (json.dumps("x" * 3000), None),
    ],
)
def test_any_other_large_result_is_cut(
    conn: psycopg.Connection, result: str, count: int | None
) -> None:
    run = start(conn)
    finish(conn, run, result)
    node = monitor.run_nodes(conn, run)[1]
    assert len(node.result_preview or "") == 2048
    assert node.row_count == count


def test_a_null_result_differs_from_none(conn: psycopg.Connection) -> None:
    run = start(conn)
    assert monitor.node_result(conn, run, 1).json is None
    finish(conn, run, "null")
    assert monitor.node_result(conn, run, 1).json == "null"
    assert monitor.run_nodes(conn, run)[1].result_preview == "null"


def test_a_composite_has_the_result_of_the_node_that_decided_it(conn: psycopg.Connection) -> None:
    run = start(conn)
    finish(conn, run, '{"rows": [], "row_count": 0}', '[["id", "integer"]]')
    conn.execute(
        "UPDATE df.nodes SET result_node = 1 WHERE instance_id = %s AND node_id = 0", (run,)
    )
    result = monitor.node_result(conn, run, 0)
    assert json.loads(result.json or "") == {"rows": [], "row_count": 0}
    assert result.columns == (("id", "integer"),)


def test_a_missing_node_is_not_found(conn: psycopg.Connection) -> None:
    with pytest.raises(NotFound, match="has no node #7"):
        monitor.node_result(conn, start(conn), 7)


def test_attempts_come_in_the_order_of_their_ends(conn: psycopg.Connection) -> None:
    run = start(conn)
    conn.execute(
        """INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome,
               token, engine_id, finished_at, error, delay, delay_source, exactly_once)
           SELECT %(run)s, 1, rev, df._me(), attempt, outcome, gen_random_uuid(), 'gone', df.now(),
                  error::jsonb, delay::interval, delay_source, true
           FROM (VALUES (3, 2, 'completed', NULL, NULL, NULL),
                        (2, 1, 'failed', '{"message": "no"}', '2 seconds', 'backoff'))
                AS a (rev, attempt, outcome, error, delay, delay_source)""",
        {"run": run},
    )
    first, second = monitor.run_attempts(conn, run)
    assert (first.attempt, first.outcome, first.delay, first.delay_source, first.error) == (
        1,
        "failed",
        2.0,
        "backoff",
        {"message": "no"},
    )
    assert (second.outcome, second.delay, second.host) == ("completed", None, None)


def test_runs_are_listed_newest_first_and_filtered(conn: psycopg.Connection) -> None:
    conn.execute("""SELECT df.set_setting('clock', '{"at": "2026-11-30 08:00+00"}')""")
    old = start(conn, label="a")
    conn.execute("""SELECT df.set_setting('clock', '{"at": "2026-11-30 09:00+00"}')""")
    new = start(conn, label="b")
    conn.execute("SELECT df.cancel(%s)", (old,))

    def ids(**filters: object) -> list[str]:
        return [row.run_id for row in monitor.list_runs(conn, **filters)]  # type: ignore[arg-type]

    assert ids() == [new, old]
    assert ids(limit=1) == [new]
    assert ids(status="cancelled") == [old]
    assert ids(label="b") == [new]
    assert ids(since=datetime(2026, 11, 30, 8, 30, tzinfo=UTC)) == [new]
    assert ids(since=timedelta(minutes=30)) == [new]
    assert ids(since=timedelta(hours=2)) == [new, old]


def test_a_list_counts_leaves_and_sees_retries(conn: psycopg.Connection) -> None:
    run = start(conn)
    finish(conn, run, "1")
    conn.execute("UPDATE df.instances SET status = 'running' WHERE id = %s", (run,))
    conn.execute(
        """UPDATE df.nodes SET status = 'ready', attempt = 1, ready_at = df.now()
           WHERE instance_id = %s AND node_id = 2""",
        (run,),
    )
    (row,) = monitor.list_runs(conn)
    assert (row.steps, row.steps_done, row.retrying) == (2, 1, True)


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"status": "done"}, "no run has the status 'done'"),
        ({"limit": 0}, "limit must be a whole number of at least 1, not 0"),
        ({"since": datetime(2026, 11, 30)}, "has no time zone"),  # noqa: DTZ001 - what is refused
    ],
)
def test_impossible_filters_are_refused(
    conn: psycopg.Connection, filters: dict[str, object], text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        monitor.list_runs(conn, **filters)  # type: ignore[arg-type]


def test_a_beginning_of_an_id_finds_its_run(conn: psycopg.Connection) -> None:
    run = start(conn)
    assert monitor.resolve_prefix(conn, run) == run
    assert monitor.resolve_prefix(conn, f" {run[:3].upper()} ") == run


def test_an_ambiguous_beginning_lists_the_matches(conn: psycopg.Connection) -> None:
    runs = [start(conn, label=f"run {i}") for i in range(2)]
    for i, run in enumerate(runs):
        conn.execute("DELETE FROM df.nodes WHERE instance_id = %s", (run,))
        conn.execute(
            "ALTER TABLE df.definitions DROP CONSTRAINT IF EXISTS definitions_instance_id_fkey"
        )
        conn.execute(
            "UPDATE df.definitions SET instance_id = %s WHERE instance_id = %s",
            (f"abc0000{i}", run),
        )
        conn.execute("UPDATE df.instances SET id = %s WHERE id = %s", (f"abc0000{i}", run))
    with pytest.raises(NotFound, match="'abc' begins the ids of several runs") as caught:
        monitor.resolve_prefix(conn, "abc")
    assert "abc00000  pending" in str(caught.value)
    assert "run 1" in str(caught.value)
    assert monitor.resolve_prefix(conn, "abc00001") == "abc00001"


@pytest.mark.parametrize("text", ["", "xyz", "0123456789", "%", "____"])
def test_what_cannot_be_an_id_is_not_found(conn: psycopg.Connection, text: str) -> None:
    with pytest.raises(NotFound, match="8 hex digits"):
        monitor.resolve_prefix(conn, text)


def test_unfinished_counts_live_runs_and_live_engines(dsn: str, conn: psycopg.Connection) -> None:
    start(conn)
    conn.execute("SELECT df.cancel(%s)", (start(conn),))
    assert monitor.unfinished(conn) == (1, 0)
    with psycopg.connect(dsn, autocommit=True) as engine:
        engine.execute("SELECT df._enter('e1', 'host', 1, '0', 1, 2, 2)")
        assert monitor.unfinished(conn) == (1, 1)
        conn.execute("UPDATE df.engines SET last_seen_at = clock_timestamp() - interval '1 minute'")
        assert monitor.unfinished(conn) == (1, 0)
        conn.execute("UPDATE df.engines SET last_seen_at = clock_timestamp()")
        engine.execute("SELECT pg_advisory_unlock_all()")
        assert monitor.unfinished(conn) == (1, 0)


def test_another_roles_runs_are_not_seen(conn: psycopg.Connection) -> None:
    run = start(conn)
    conn.execute("CREATE ROLE monitor_reader LOGIN")
    try:
        conn.execute("GRANT USAGE ON SCHEMA df TO monitor_reader")
        conn.execute("GRANT SELECT ON ALL TABLES IN SCHEMA df TO monitor_reader")
        conn.execute("SET ROLE monitor_reader")
        assert monitor.list_runs(conn) == []
        assert monitor.run_nodes(conn, run) == []
        assert monitor.unfinished(conn) == (0, 0)
        with pytest.raises(NotFound):
            monitor.run_row(conn, run)
        with pytest.raises(NotFound):
            monitor.resolve_prefix(conn, run)
    finally:
        conn.execute("RESET ROLE")
        conn.execute("DROP OWNED BY monitor_reader")
        conn.execute("DROP ROLE monitor_reader")
