"""df.list_instances, instance_info, instance_executions, metrics: pg_durable's columns over our tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from tests.engine.support import Database
from tests.sql.conftest import MakeRole

OpenSession = Callable[[str], Database]

SIGNATURES = """
    SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', pg_get_function_result(p.oid)
    FROM pg_proc p WHERE p.pronamespace = 'df'::regnamespace AND p.proname = %s ORDER BY 1"""

LISTED = "instance_id text, label text, function_name text, status text, execution_count bigint, output text"
NODES = (
    "node_id text, node_type text, query text, result_name text, left_node text, right_node text,"
    " status text, result text"
)


@pytest.mark.parametrize(
    ("name", "signatures"),
    [
        (
            "list_instances",
            {
                "status_filter text, limit_count integer": LISTED,
                "status_filter text, limit_count integer, label_filter text, after_cursor text": f"{LISTED},"
                " created_at timestamp with time zone, completed_at timestamp with time zone, next_cursor text",
            },
        ),
        (
            "instance_info",
            {
                "instance_id text": "instance_id text, label text, function_name text, function_version text,"
                " current_execution_id bigint, status text, output text"
            },
        ),
        (
            "instance_executions",
            {
                "instance_id text, limit_count integer": "execution_id bigint, status text, event_count bigint,"
                " duration_ms bigint, output text"
            },
        ),
        (
            "instance_nodes",
            {
                "instance_id_param text": f"{NODES}, status_details text, inferred_status text,"
                " inferred_status_from_ancestor_id text, updated_at timestamp with time zone",
                "instance_id_param text, _last_n_executions integer": f"execution_id bigint, {NODES},"
                " updated_at timestamp with time zone",
            },
        ),
        (
            "metrics",
            {
                "": "total_instances bigint, running_instances bigint, completed_instances bigint,"
                " failed_instances bigint, total_executions bigint, total_events bigint"
            },
        ),
    ],
)
def test_the_columns_are_those_that_scripts_expect(
    db: Database, name: str, signatures: dict[str, str]
) -> None:
    assert dict(db.execute(SIGNATURES, name).fetchall()) == {
        f"{name}({arguments})": f"TABLE({columns})" for arguments, columns in signatures.items()
    }


def rows(db: Database, query: str, *params: Any) -> list[dict[str, Any]]:
    with db.conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, params or None).fetchall()


def at(db: Database, second: int) -> None:
    """Set the clock."""
    moment = json.dumps({"at": f"2026-11-30T12:00:{second:02}.000001Z"})
    db.execute("SELECT df.set_setting('clock', %s::jsonb)", moment)


def start_five(db: Database) -> list[str]:
    """Newest first; the clock stands still for two pairs of them, which then go by their ids."""
    found = []
    for second in (1, 2, 2, 3, 3):
        at(db, second)
        found.append((-second, db.start("SELECT 1", label=f"at {second}")))
    return [run for _, run in sorted(found)]


def complete(db: Database, run: str, value: str = '{"rows": [{"n": 1}], "row_count": 1}') -> None:
    """As an engine leaves a run of one step."""
    db.execute(
        "UPDATE df.nodes SET status = 'completed', result = %s::jsonb WHERE instance_id = %s",
        value,
        run,
    )
    db.execute(
        "UPDATE df.instances SET status = 'completed', finished_at = df.now() WHERE id = %s", run
    )


def fail(db: Database, run: str, message: str = "boom") -> None:
    db.execute("UPDATE df.nodes SET status = 'failed' WHERE instance_id = %s", run)
    db.execute(
        "UPDATE df.instances SET status = 'failed', finished_at = df.now(), error = %s::jsonb WHERE id = %s",
        json.dumps({"type": "E", "message": message}),
        run,
    )


# Lists


def test_a_list_is_newest_first_then_by_id(db: Database) -> None:
    runs = start_five(db)
    assert db.values("SELECT instance_id FROM df.list_instances()") == runs
    assert db.values("SELECT instance_id FROM df.list_instances(NULL, 3)") == runs[:3]


def test_a_list_shows_each_run_as_df_status_and_df_result_do(db: Database) -> None:
    for label in ("new", "done", "broken", "stopped"):
        run = db.start("SELECT 1", label=label)
        if label == "done":
            complete(db, run)
        elif label == "broken":
            fail(db, run)
        elif label == "stopped":
            db.value("SELECT df.cancel(%s, 'enough')", run)
    listed = rows(db, "SELECT * FROM df.list_instances()")
    assert {row["label"]: (row["status"], row["output"]) for row in listed} == {
        "new": ("pending", None),
        "done": ("completed", '{"rows": [{"n": 1}], "row_count": 1}'),
        "broken": ("failed", "boom"),
        "stopped": ("cancelled", "enough"),
    }
    assert {(row["function_name"], row["execution_count"]) for row in listed} == {("workbench", 1)}


def test_the_output_is_the_value_by_pointer(db: Database) -> None:
    run = db.start(db.value("SELECT df.seq('a', 'b')"))
    complete(db, run)
    db.execute("UPDATE df.nodes SET result = NULL, result_node = 2 WHERE node_id = 0")
    db.execute("UPDATE df.nodes SET result = '7' WHERE node_id = 2")
    assert db.value("SELECT output FROM df.list_instances()") == "7"
    assert db.value("SELECT output FROM df.instance_info(%s)", run) == "7"


@pytest.mark.parametrize("status", ["pending", "running", "completed", "failed", "cancelled"])
def test_the_status_filter_is_exact(db: Database, status: str) -> None:
    for each in ("pending", "running", "completed", "failed", "cancelled"):
        db.execute(
            "UPDATE df.instances SET status = %s WHERE id = %s", each, db.start("a", label=each)
        )
    assert db.values("SELECT label FROM df.list_instances(%s)", status) == [status]
    assert db.values("SELECT label FROM df.list_instances(%s)", status.upper()) == []


def test_filters_hold_together(db: Database) -> None:
    start_five(db)
    complete(db, db.value("SELECT instance_id FROM df.list_instances(NULL, 1, 'at 2')"))
    count = "SELECT count(*) FROM df.list_instances(%s, 100, %s)"
    assert db.value(count, None, "at 2") == 2
    assert db.value(count, "completed", "at 2") == 1
    assert db.value(count, "completed", "at 3") == 0
    assert db.value(count, None, "AT 2") == 0


@pytest.mark.parametrize("limit", ["0", "-1", "NULL"])
@pytest.mark.parametrize("rest", ["", ", NULL"])
def test_a_list_of_nothing_is_refused(db: Database, limit: str, rest: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        db.execute(f"SELECT * FROM df.list_instances(NULL, {limit}{rest})")
    assert refused.value.diag.message_primary == "limit_count must be at least 1"


@pytest.mark.parametrize("rest", ["", ", NULL"])
def test_more_than_the_setting_allows_is_refused_and_the_setting_named(
    db: Database, rest: str
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        db.execute(f"SELECT * FROM df.list_instances(NULL, 1001{rest})")
    assert refused.value.diag.message_primary == (
        "limit_count 1001 exceeds list_instances_max_limit = 1000 of df.settings"
    )
    assert "set_setting('list_instances_max_limit'" in str(refused.value.diag.message_hint)
    db.set(list_instances_max_limit=1001)
    db.execute(f"SELECT * FROM df.list_instances(NULL, 1001{rest})")


# Pages


def pages(db: Database, limit: int, label: str | None = None) -> list[list[str]]:
    found: list[list[str]] = []
    cursor = None
    while cursor is not None or not found:
        page = rows(
            db,
            "SELECT instance_id, next_cursor FROM df.list_instances(NULL, %s, %s, %s)",
            limit,
            label,
            cursor,
        )
        (cursor,) = {row["next_cursor"] for row in page}  # the same on every row
        found.append([row["instance_id"] for row in page])
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_give_every_run_once_and_in_order(db: Database, limit: int) -> None:
    runs = start_five(db)
    found = pages(db, limit)
    assert [run for page in found for run in page] == runs
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)


def test_a_full_last_page_says_that_it_is_the_last(db: Database) -> None:
    runs = start_five(db)
    assert pages(db, 5) == [runs]
    assert [len(page) for page in pages(db, 1, "at 2")] == [1, 1]


def test_a_page_stays_what_it_was_while_runs_are_started(db: Database) -> None:
    runs = start_five(db)
    cursor = db.value("SELECT next_cursor FROM df.list_instances(NULL, 2, NULL) LIMIT 1")
    at(db, 9)
    db.start("SELECT 1")
    query = "SELECT instance_id FROM df.list_instances(NULL, 2, NULL, %s)"
    assert db.values(query, cursor) == runs[2:4]


def test_an_empty_list_has_no_cursor(db: Database) -> None:
    assert rows(db, "SELECT * FROM df.list_instances(NULL, 1, NULL)") == []


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_the_cursor_is_the_same_in_every_time_zone(db: Database, zone: str) -> None:
    runs = start_five(db)
    db.execute("SELECT set_config('TimeZone', %s, false)", zone)
    cursor = db.value("SELECT next_cursor FROM df.list_instances(NULL, 1, NULL)")
    assert bytes.fromhex(cursor).decode() == f"v1|2026-11-30T12:00:03.000001+00|{runs[0]}"
    assert (
        db.values("SELECT instance_id FROM df.list_instances(NULL, 9, NULL, %s)", cursor)
        == (runs[1:])
    )


@pytest.mark.parametrize(
    "token",
    [
        "",
        "zz",
        "76317c3",
        b"v1|2026-11-30T12:00:03.000001+00|deadbee".hex(),
        b"v1|2026-11-30T12:00:03.000001+00|deadbeef|".hex(),
        b"v1|2026-11-30T12:00:03.000001+00|deadbeef".hex().upper(),
        b"v2|2026-11-30T12:00:03.000001+00|deadbeef".hex(),
        b"v1|2026-11-31T12:00:03.000001+00|deadbeef".hex(),
        b"v1|2026-11-30T12:00:03.000001+99|deadbeef".hex(),
        b"v1|2026-11-30 12:00:03+00|deadbeef".hex(),
        b"v1|now|deadbeef".hex(),
        b"v1\xff\0".hex(),
        "00" * 257,
    ],
)
def test_a_cursor_that_no_page_gave_is_refused(db: Database, token: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        db.execute("SELECT * FROM df.list_instances(NULL, 1, NULL, %s)", token)
    assert refused.value.diag.message_primary == "df.list_instances: invalid after_cursor"


def test_a_page_has_the_times_of_its_runs(db: Database) -> None:
    at(db, 1)
    done, broken = db.start("SELECT 1"), db.start("SELECT 1")
    at(db, 5)
    complete(db, done)
    fail(db, broken)
    listed = rows(db, "SELECT * FROM df.list_instances(NULL, 9, NULL)")
    assert {row["created_at"].second for row in listed} == {1}
    ended = {row["instance_id"]: row["completed_at"] for row in listed}
    assert ended[broken] is None  # only completed runs have it
    assert ended[done].second == 5


# One run


def test_info_is_one_row_and_agrees_with_the_list(db: Database) -> None:
    run = db.start("SELECT 1", label="a")
    complete(db, run)
    (info,) = rows(db, "SELECT * FROM df.instance_info(%s)", run)
    assert info == {
        "instance_id": run,
        "label": "a",
        "function_name": "workbench",
        "function_version": "0.1.0",
        "current_execution_id": 1,
        "status": "completed",
        "output": '{"rows": [{"n": 1}], "row_count": 1}',
    }


@pytest.mark.parametrize("call", ["instance_info", "instance_nodes", "instance_executions"])
def test_an_unknown_run_gives_no_row(db: Database, call: str) -> None:
    assert rows(db, f"SELECT * FROM df.{call}('deadbeef')") == []
    assert rows(db, f"SELECT * FROM df.{call}(NULL)") == []


def test_a_role_sees_its_own_runs_only(
    db: Database, make_role: MakeRole, session: OpenSession
) -> None:
    run = db.start("SELECT 1")
    stranger = session(make_role())
    own = stranger.start("SELECT 1")
    assert stranger.values("SELECT instance_id FROM df.list_instances()") == [own]
    assert stranger.values("SELECT instance_id FROM df.list_instances(NULL, 9, NULL)") == [own]
    for call in ("instance_info", "instance_nodes", "instance_executions"):
        assert rows(stranger, f"SELECT * FROM df.{call}(%s)", run) == []
        assert len(rows(stranger, f"SELECT * FROM df.{call}(%s)", own)) == 1


# Iterations


def loop(db: Database, iterations: int) -> str:
    """A root loop in this iteration, each of which took 1.5 s and four transitions."""
    run = db.start(db.value("SELECT df.loop('SELECT 1')"))
    for n in range(max(1, iterations - 100), iterations):
        db.execute(
            "INSERT INTO df.iterations VALUES (%s, 0, %s, df._me(), %s, %s, %s, now(), now() + '1.5 s', NULL)",
            run,
            n % 100,
            n,
            n * 4 - 4,
            n * 4,
        )
    db.execute(
        "UPDATE df.nodes SET status = 'running', iteration = %s, started_at = now()"
        " WHERE instance_id = %s AND node_id = 0",
        iterations,
        run,
    )
    db.execute(
        "UPDATE df.instances SET status = 'running', version = %s, started_at = now() - interval '1 day' WHERE id = %s",
        iterations * 4 - 3,
        run,
    )
    return run


def test_the_iterations_of_a_root_loop_are_its_executions(db: Database) -> None:
    run = loop(db, 3)
    assert db.execute("SELECT * FROM df.instance_executions(%s)", run).fetchall() == [
        (3, "Running", 1, 0, None),
        (2, "ContinuedAsNew", 4, 1500, None),
        (1, "ContinuedAsNew", 4, 1500, None),
    ]
    assert db.value("SELECT execution_count FROM df.list_instances()") == 3
    assert db.value("SELECT current_execution_id FROM df.instance_info(%s)", run) == 3


@pytest.mark.parametrize(
    ("status", "word"),
    [("completed", "Completed"), ("failed", "Failed"), ("cancelled", "Failed")],
)
def test_the_last_execution_ends_as_the_run_does(db: Database, status: str, word: str) -> None:
    run = loop(db, 2)
    db.execute(
        "UPDATE df.instances SET status = %s, finished_at = (SELECT started_at + '0.25 s' FROM df.nodes"
        ' WHERE node_id = 0), error = \'{"message": "m"}\'',
        status,
    )
    db.execute("UPDATE df.nodes SET result = '7' WHERE node_id = 0")
    assert db.execute("SELECT * FROM df.instance_executions(%s, 1)", run).fetchall() == [
        (2, word, 1, 250, "7" if status == "completed" else "m")
    ]


def test_an_iteration_that_was_given_up_says_why(db: Database) -> None:
    run = loop(db, 3)
    db.execute('UPDATE df.iterations SET error = \'{"message": "boom"}\' WHERE iteration = 1')
    query = "SELECT status, output FROM df.instance_executions(%s) WHERE execution_id < 3"
    assert db.execute(query, run).fetchall() == [
        ("ContinuedAsNew", None),
        ("ContinuedAsNew", "boom"),
    ]


def test_five_executions_are_shown_unless_more_are_asked_for(db: Database) -> None:
    run = loop(db, 300)
    count = "SELECT count(*), max(execution_id), min(execution_id) FROM df.instance_executions"
    assert db.execute(f"{count}(%s)", run).fetchone() == (5, 300, 296)
    assert db.execute(f"{count}(%s, 20000)", run).fetchone() == (101, 300, 200)  # a ring of 100
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="limit_count must be at least"):
        db.execute(f"{count}(%s, 0)", run)


def test_a_run_without_a_loop_is_one_execution(db: Database) -> None:
    run = db.start("SELECT 1")
    assert db.execute("SELECT * FROM df.instance_executions(%s)", run).fetchall() == [
        (1, "Running", 0, 0, None)
    ]


# Counts


def test_metrics_count_the_runs_of_all_roles(
    db: Database, make_role: MakeRole, session: OpenSession, admin: psycopg.Connection
) -> None:
    name = make_role()
    db.execute(
        sql.SQL("GRANT EXECUTE ON FUNCTION df.metrics() TO {}")
        .format(sql.Identifier(name))
        .as_string()
    )
    complete(db, db.start("SELECT 1"))
    fail(db, db.start("SELECT 1"))
    db.value("SELECT df.cancel(%s)", db.start("SELECT 1"))
    loop(db, 3)
    stranger = session(name)
    stranger.start("SELECT 1")
    expected = {
        "total_instances": 5,
        "running_instances": 2,
        "completed_instances": 1,
        "failed_instances": 1,
        "total_executions": 7,
        "total_events": db.value("SELECT sum(version) FROM df.instances"),
    }
    assert rows(stranger, "SELECT * FROM df.metrics()") == [expected]
    assert rows(db, "SELECT * FROM df.metrics()") == [expected]


def test_metrics_of_an_empty_schema_are_noughts(db: Database) -> None:
    assert db.execute("SELECT * FROM df.metrics()").fetchone() == (0, 0, 0, 0, 0, 0)


# Speed

FILL = """
    INSERT INTO df.instances (id, status, submitted_by, created_at, started_at, finished_at, updated_at)
    SELECT lpad(to_hex(g), 8, '0'), 'completed', df._me(), now() - g * interval '1 second', now(), now(), now()
    FROM generate_series(1, 60000) g;
    INSERT INTO df.definitions (instance_id, submitted_by, created_at, graph)
    SELECT id, submitted_by, created_at, df.sql('SELECT 1')::json FROM df.instances;
    INSERT INTO df.nodes (instance_id, node_id, submitted_by, node_type, status, result)
    SELECT id, 0, submitted_by, 'SQL', 'completed', '1' FROM df.instances;
    ANALYZE df.instances, df.definitions, df.nodes"""


READ = """
    SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer FROM pg_stat_xact_user_tables
    WHERE schemaname = 'df' AND relname IN ('instances', 'definitions', 'nodes')"""


@pytest.mark.parametrize(
    ("arguments", "found", "most"),
    [
        ("", 100, 800),
        ("'completed', 100, NULL, '{deep}'", 100, 800),
        ("'pending'", 1, 100),
        ("'running'", 0, 100),
    ],
)
def test_a_page_of_a_long_list_reads_little_more_than_its_rows(
    db: Database, arguments: str, found: int, most: int
) -> None:
    db.execute(FILL)
    db.start("SELECT 1")
    deep = db.value("SELECT df._cursor(created_at, id) FROM df.instances WHERE id = '0000c350'")
    with db.conn.transaction():
        query = f"SELECT * FROM df.list_instances({arguments.format(deep=deep)})"
        assert len(db.execute(query).fetchall()) == found
        assert db.value(READ) <= most
