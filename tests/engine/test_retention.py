"""Retention: ended lineages go when all of them is old, whole, and nobody waits for that."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import psycopg
import pytest

from tests.engine.conftest import Role, StartEngine
from tests.engine.support import Database, wait_until
from tests.sql.lineages import end, failed, retry
from workbench.graph import seq, sleep, sql

TABLES = (
    "instances",
    "definitions",
    "nodes",
    "attempts",
    "values",
    "signals",
    "iterations",
    "scopes",
)

FILL = """
    WITH runs AS (
        INSERT INTO df.instances (id, status, submitted_by, created_at, started_at, finished_at, updated_at, version)
        SELECT lpad(to_hex(n), 8, '0'), 'completed', df._me(), at, at, at, at, 3
        FROM generate_series(1, %(runs)s) n, LATERAL (SELECT now() - interval '40 days' + n * interval '1 s') t (at)
        RETURNING id, submitted_by, created_at
    ), definitions AS (
        INSERT INTO df.definitions (instance_id, submitted_by, created_at, graph)
        SELECT id, submitted_by, created_at, '{"node_type":"SQL","query":"SELECT 1"}' FROM runs
    ), nodes AS (
        INSERT INTO df.nodes (instance_id, node_id, submitted_by, node_type, status, result)
        SELECT id, 0, submitted_by, 'SQL', 'completed', to_jsonb(repeat('x', 500)) FROM runs
    ), "values" AS (
        INSERT INTO df.values (instance_id, name, submitted_by, node_id, value)
        SELECT id, 'x', submitted_by, 0, '1' FROM runs
    )
    INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, finished_at,
                             exactly_once)
    SELECT id, 0, 1, submitted_by, 1, 'completed', gen_random_uuid(), created_at, true FROM runs
"""


def prune(db: Database, most: int = 200) -> int:
    return int(db.value("SELECT df._prune(%s)", most))


def age(db: Database, *runs: str, days: int = 40) -> None:
    """Let runs have ended so many days ago."""
    db.execute(
        "UPDATE df.instances SET finished_at = now() - make_interval(days => %s) WHERE id = ANY (%s)",
        days,
        list(runs),
    )


def runs(db: Database) -> set[str]:
    return set(db.values("SELECT id FROM df.instances"))


def counts(db: Database) -> list[int]:
    return [db.value(f"SELECT count(*) FROM df.{table}") for table in TABLES]


def fill(db: Database, many: int) -> None:
    # Without row-level checks of foreign keys, which take most of the time.
    with db.conn.transaction():
        db.execute("SET LOCAL session_replication_role = replica")
        db.conn.execute(FILL, {"runs": many})


def test_case_13(db: Database, start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 old finished runs and 10 live ones: batches, whole lineages, no delay, less space."""
    monkeypatch.setattr("workbench.engine.liveness.RETENTION", math.inf)  # the batches are counted
    fill(db, 5000)
    live = [db.start(seq(sql("SELECT 1"), sleep(1), "SELECT 2 AS n")) for _ in range(10)]
    start_engine()
    size = (
        "SELECT sum(pg_total_relation_size(c))"
        " FROM unnest('{df.instances,df.nodes,df.attempts,df.values}'::regclass[]) c"
    )
    before = db.value(size)
    batches = []
    while batch := prune(db):
        batches.append(batch)
    assert batches == [200] * 25
    for run in live:
        db.wait(run)
        assert db.rows(run) == [{"n": 2}]
    assert runs(db) == set(live)
    left = "SELECT count(*) FROM df.{} WHERE instance_id <> ALL (%s)"
    for table in TABLES[1:]:
        assert db.value(left.format(table), live) == 0
    db.execute("VACUUM (FULL) df.instances, df.nodes, df.attempts, df.values")
    assert db.value(size) < before / 5


def test_live_work_does_not_wait_for_a_batch_that_stands(
    db: Database, start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.engine.liveness.RETENTION", math.inf)  # none of its own
    fill(db, 300)
    start_engine()
    with db.transaction() as conn:
        conn.execute("SELECT df._prune(200)")
        run = db.start(seq("SELECT 1", "SELECT 2 AS n"))
        db.wait(run, timeout=5)
        assert prune(db) == 0  # nor does another engine's sweep
        conn.commit()
    assert prune(db) == 100
    assert runs(db) == {run}


def test_a_lineage_goes_only_when_all_of_it_is_old(db: Database) -> None:
    a = failed(db)
    b = end(db, retry(db, a))
    c = end(db, retry(db, b), "completed")
    d = end(db, retry(db, a))
    age(db, a, b, d)
    age(db, c, days=29)
    assert prune(db) == 0
    age(db, c, days=31)
    assert prune(db) == 4
    assert counts(db) == [0] * len(TABLES)


def test_a_lineage_with_a_live_member_stays(db: Database) -> None:
    a = failed(db)
    b = retry(db, a)
    age(db, a)
    assert prune(db) == 0
    assert runs(db) == {a, b}


def test_a_lineage_larger_than_a_batch_goes_whole(db: Database) -> None:
    a = failed(db)
    for _ in range(5):
        age(db, a, end(db, retry(db, a)))
    alone = failed(db)
    age(db, alone, days=35)
    assert prune(db, 3) == 6
    assert runs(db) == {alone}
    assert (prune(db, 3), prune(db, 3)) == (1, 0)


def test_the_oldest_go_first(db: Database) -> None:
    old, older, oldest = (failed(db) for _ in range(3))
    for days, run in enumerate((old, older, oldest), 31):
        age(db, run, days=days)
    assert prune(db, 2) == 2
    assert runs(db) == {old}


def test_large_runs_make_small_batches(db: Database) -> None:
    graph = seq(*["SELECT 1"] * 60).to_json()  # 119 nodes; 4 runs may have 200
    for _ in range(5):
        age(db, failed(db, graph))
    assert [prune(db, 4), prune(db, 4), prune(db, 4), prune(db, 4)] == [2, 2, 1, 0]


def test_everything_that_belongs_to_a_run_goes(db: Database) -> None:
    run = failed(db)
    for statement in (
        "INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, finished_at,"
        " exactly_once)"
        " SELECT id, 0, 1, submitted_by, 1, 'failed', gen_random_uuid(), now(), true FROM df.instances",
        "INSERT INTO df.values (instance_id, name, submitted_by, node_id, value)"
        " SELECT id, 'x', submitted_by, 0, '1' FROM df.instances",
        "INSERT INTO df.signals (instance_id, name, submitted_by, sent_by, sent_at, data)"
        " SELECT id, 'x', submitted_by, submitted_by, now(), '1' FROM df.instances",
        "INSERT INTO df.iterations (instance_id, node_id, slot, submitted_by, iteration, first_rev, last_rev,"
        " started_at, finished_at)"
        " SELECT id, 0, 1, submitted_by, 1, 1, 2, now(), now() FROM df.instances",
        "INSERT INTO df.scopes (instance_id, node_id, last_node, submitted_by, max_concurrency)"
        " SELECT id, 0, 0, submitted_by, 1 FROM df.instances",
    ):
        db.execute(statement)
    assert counts(db) == [1] * len(TABLES)
    age(db, run)
    assert prune(db) == 1
    assert counts(db) == [0] * len(TABLES)


def test_ended_engines_go_live_ones_and_their_last_stay(db: Database) -> None:
    for name, stopped, died in (
        ("stopped", 40, None),
        ("died", None, 40),
        ("lately", 20, None),
        ("alive", None, None),
        ("needed", None, 40),
    ):
        db.execute(
            "INSERT INTO df.engines (id, role, host, pid, version, schema_version, backend_pid, stopped_at, died_at)"
            " VALUES (%s, df._me(), 'lab', 1, '1', 1, 1, now() - make_interval(days => %s),"
            " now() - make_interval(days => %s))",
            name,
            stopped,
            died,
        )
    run = db.start("SELECT 1")
    db.execute(
        "UPDATE df.nodes SET status = 'running', token = gen_random_uuid(), engine_id = 'needed'"
    )
    assert prune(db) == 0
    assert set(db.values("SELECT id FROM df.engines")) == {"lately", "alive", "needed"}
    assert runs(db) == {run}


def test_the_clock_of_runs_decides(db: Database) -> None:
    failed(db)
    db.execute("""SELECT df.set_setting('clock', '{"offset": 2500000}')""")  # 28.9 days
    assert prune(db) == 0
    db.execute("""SELECT df.set_setting('clock', '{"offset": 2600000}')""")  # 30.1 days
    assert prune(db) == 1


@pytest.mark.parametrize(
    ("value", "days"),
    [("7", 7), ("0.5", 0.5), ('"12 hours"', 0.5), ('"2 weeks"', 14), ('"P3D"', 3)],
)
def test_the_setting_says_how_old(db: Database, value: str, days: float) -> None:
    db.execute("SELECT df.set_setting('retention', %s::jsonb)", value)
    young, old = failed(db), failed(db)
    past = "UPDATE df.instances SET finished_at = now() - make_interval(secs => %s) WHERE id = %s"
    db.execute(past, days * 86400 - 60, young)
    db.execute(past, days * 86400 + 60, old)
    assert prune(db) == 1
    assert runs(db) == {young}


def test_forever_keeps_all(db: Database) -> None:
    db.execute("""SELECT df.set_setting('retention', '"forever"')""")
    run = failed(db)
    age(db, run, days=100_000)
    assert prune(db) == 0
    db.execute("SELECT df.set_setting('retention', NULL)")
    assert prune(db) == 1


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "-1",
        '"0 days"',
        '"-3 days"',
        '"soon"',
        '""',
        "true",
        "null",
        "[]",
        '{"days": 3}',
        "1e300",
        '"1000000 years"',
    ],
)
def test_no_other_retention_is_accepted(db: Database, value: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as error:
        db.execute("SELECT df.set_setting('retention', %s::jsonb)", value)
    assert str(error.value.diag.message_primary).startswith(
        'setting "retention" takes a number of days, a length of time such as "30 days", or "forever", and not '
    )
    assert db.value("SELECT df._retention()::text") == "30 days"


def as_role(role: Role) -> Any:
    return contextlib.closing(Database(role.dsn))


def test_a_role_prunes_its_own_runs(db: Database, roles: tuple[Role, Role]) -> None:
    with as_role(roles[0]) as mine, as_role(roles[1]) as theirs:
        theirs.execute("SELECT df.grant_read(%s)", roles[0].name)
        own, foreign, superusers = mine.start("SELECT 1"), theirs.start("SELECT 1"), failed(db)
        for run in (own, foreign):
            end(db, run)
        age(db, own, foreign, superusers)
        assert prune(mine) == 1
        assert runs(db) == {foreign, superusers}
        assert prune(db) == 1
        assert runs(db) == {foreign}


def test_runs_of_dropped_roles_are_the_owners_to_prune(
    db: Database, roles: tuple[Role, Role]
) -> None:
    # A role that exists nowhere: numbers that high are not given out.
    own, gone, live = failed(db), failed(db), db.start("SELECT 1")
    for table, key in (
        ("instances", "id"),
        ("definitions", "instance_id"),
        ("nodes", "instance_id"),
    ):
        db.execute(
            f"UPDATE df.{table} SET submitted_by = 4000000000::oid WHERE {key} = ANY (%s)",
            [gone, live],
        )
    age(db, gone)
    with as_role(roles[0]) as other:
        assert prune(other) == 0
    assert prune(db) == 1
    assert runs(db) == {own, live}


def test_what_is_finished_is_not_read_through_each_time(db: Database) -> None:
    fill(db, 3000)
    db.execute("UPDATE df.instances SET finished_at = now()")
    db.execute("VACUUM ANALYZE df.instances")
    db.execute("SELECT df._prune(200)")
    read = (
        "SELECT sum(pg_stat_get_xact_tuples_returned(r)) FROM unnest(ARRAY['df.instances'::regclass] ||"
        " ARRAY(SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'df.instances'::regclass)) r"
    )
    with db.conn.transaction():
        before = db.value(read)
        assert prune(db) == 0
        assert db.value(read) - before < 50


def test_engines_prune_by_themselves_until_nothing_is_left(
    db: Database, start_engine: StartEngine
) -> None:
    db.conn.execute(FILL, {"runs": 500})
    start_engine()
    wait_until(lambda: db.value("SELECT count(*) FROM df.instances") == 0, what="all are pruned")
