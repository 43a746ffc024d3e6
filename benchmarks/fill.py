"""Filling a database with finished runs, as a year of work would leave it."""

from __future__ import annotations

import psycopg

from benchmarks.effects import chain
from workbench.graph.walk import walk

__all__ = ["fill"]

_STEPS = 3  # a chain of three leaves has five nodes

# Scattered ids, as random ones are in an index; an odd factor modulo 2^32 repeats none. Within the
# last 20 days, so that retention leaves them alone.
_RUNS = """
    CREATE TEMPORARY TABLE filled AS
    SELECT lpad(to_hex(n * 2654435761 %% 4294967296), 8, '0') AS id,
           clock_timestamp() - n * (interval '20 days' / %(runs)s) AS at
    FROM generate_series(1, %(runs)s::bigint) n
"""
_INSTANCES = """
    INSERT INTO df.instances (id, status, submitted_by, version, created_at, started_at, finished_at, updated_at)
    SELECT id, 'completed', df._me(), %(leaves)s + 1, at, at, at, at FROM filled
"""
_DEFINITIONS = """
    INSERT INTO df.definitions (instance_id, submitted_by, created_at, label, graph)
    SELECT id, df._me(), at, 'finished', %(graph)s::json FROM filled
"""
_NODES = """
    INSERT INTO df.nodes (instance_id, node_id, submitted_by, node_type, status, rev, attempt, engine_id,
                          ready_at, started_at, finished_at, result, result_node)
    SELECT id, number, df._me(), type, 'completed', 1, (type = 'SQL')::integer, 'finished', at, at, at,
           CASE type WHEN 'SQL' THEN '{"rows": [], "row_count": 1}'::jsonb END,
           CASE type WHEN 'THEN' THEN %(last)s END
    FROM filled, unnest(%(numbers)s::integer[], %(types)s::text[]) AS node (number, type)
"""
_ATTEMPTS = """
    INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, engine_id,
                             started_at, finished_at, exactly_once)
    SELECT id, number, 1, df._me(), 1, 'completed', gen_random_uuid(), 'finished', at, at, true
    FROM filled, unnest(%(numbers)s::integer[], %(types)s::text[]) AS node (number, type) WHERE type = 'SQL'
"""


def fill(conn: psycopg.Connection, nodes: int) -> None:
    """Store finished runs with nodes, definitions and attempts, and bring statistics up to date.

    Parameters
    ----------
    conn:
        A superuser's autocommit connection: foreign keys are not checked row by row.
    nodes:
        Rows in `df.nodes` to add, a multiple of five.
    """
    steps = list(walk(chain(_STEPS)))
    parameters = {
        "runs": nodes // len(steps),
        "leaves": _STEPS,
        "graph": chain(_STEPS).to_json(),
        "numbers": [step.number for step in steps],
        "types": [step.node.node_type for step in steps],
        "last": steps[-1].number,
    }
    with conn.transaction():
        conn.execute("SET LOCAL session_replication_role = replica")
        for statement in (_RUNS, _INSTANCES, _DEFINITIONS, _NODES, _ATTEMPTS):
            conn.execute(statement, parameters)
    # VACUUM and CHECKPOINT too: else both would begin by themselves in the middle of a measurement.
    conn.execute("VACUUM (ANALYZE)")
    conn.execute("CHECKPOINT")
