"""Short names for the tests of lineages: ending runs without an engine, retrying, comparing rows."""

from __future__ import annotations

from typing import Any

from tests.engine.support import Database

__all__ = ["end", "failed", "retry", "rows_of", "wide_tree"]

# Every row of a run, as text: nothing of it may change.
_ROWS = """
    SELECT to_jsonb(i)::text FROM df.instances i WHERE id = %(run)s
    UNION ALL SELECT d::text FROM df.definitions d WHERE instance_id = %(run)s
    UNION ALL SELECT n::text FROM df.nodes n WHERE instance_id = %(run)s
    UNION ALL SELECT a::text FROM df.attempts a WHERE instance_id = %(run)s
    UNION ALL SELECT v::text FROM df.values v WHERE instance_id = %(run)s
    UNION ALL SELECT s::text FROM df.signals s WHERE instance_id = %(run)s
    UNION ALL SELECT p::text FROM df.iterations p WHERE instance_id = %(run)s
    ORDER BY 1
"""

_END = """
    UPDATE df.instances
    SET status = %(status)s, wake_at = NULL, started_at = df.now(), finished_at = df.now(), version = 2,
        error = CASE WHEN %(status)s <> 'completed' THEN '{"type": "ValueError", "message": "no"}'::jsonb END
    WHERE id = %(run)s
"""


def end(db: Database, run: str, status: str = "failed") -> str:
    """End a run as an engine would; its id."""
    db.conn.execute(_END, {"run": run, "status": status})
    return run


def failed(db: Database, graph: str = "SELECT 1", **options: Any) -> str:
    """A new run that has failed."""
    return end(db, db.start(graph, **options))


def retry(db: Database, run: str) -> str:
    return str(db.value("SELECT id FROM df.retry_run(%s)", run))


def rows_of(db: Database, run: str) -> list[str]:
    """All that is stored about a run."""
    return [row[0] for row in db.conn.execute(_ROWS, {"run": run})]


def wide_tree(db: Database, members: int, source: str) -> None:
    """Store failed runs, `r00000000` and so on; `source` is SQL for the number of run n's source."""
    db.execute(f"""
        INSERT INTO df.instances (id, status, submitted_by, restart_of_run_id,
                                  created_at, started_at, finished_at, updated_at)
        SELECT 'r' || lpad(n::text, 8, '0'), 'failed', df._me(),
               CASE WHEN n > 0 THEN 'r' || lpad(({source})::text, 8, '0') END, at, at, at, at
        FROM generate_series(0, {members - 1}) n,
             LATERAL (SELECT now() - interval '1 day' + n * interval '1 ms') t (at)""")
    db.execute(
        "INSERT INTO df.definitions (instance_id, submitted_by, created_at, graph)"
        """ SELECT id, submitted_by, created_at, '{"node_type":"SQL","query":"SELECT 1"}' FROM df.instances"""
    )
    db.execute("ANALYZE df.instances, df.definitions")
