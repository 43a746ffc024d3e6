"""Removing the workbench from a database: what would go, and `DROP SCHEMA df`.

Both work on a schema of any version, so they read only what every version has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from workbench.errors import SchemaError, StateError
from workbench.store.migrate import MIGRATION_LOCK, installed_version

__all__ = ["Contents", "contents", "drop", "refuse_while_engines_work"]

Connection = psycopg.Connection[Any]

_OWNER = """
SELECT pg_get_userbyid(nspowner), pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'df'
"""
_RUNS = "SELECT status, count(*) FROM df.instances GROUP BY status"
#: An engine is alive while its session holds its lock (df._lock_held, which older schemas may lack).
_ENGINES = """
SELECT e.id || ' on ' || e.host || ', pid ' || e.pid FROM df.engines e
JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.pid = e.backend_pid
    AND l.classid = 25702 AND l.objid = e.lock_key::oid
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
WHERE e.stopped_at IS NULL AND e.died_at IS NULL ORDER BY e.id
"""
_TABLES = """
SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c
WHERE c.relnamespace = 'df'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY c.relname
"""
_ROLES = """
SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END
FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = 'df' AND a.grantee <> n.nspowner ORDER BY 1
"""
#: What DROP … CASCADE takes along from other schemas: views, foreign keys, our operators.
_OUTSIDE = """
WITH ours AS (
    SELECT 'pg_class'::regclass AS class, c.oid FROM pg_class c WHERE c.relnamespace = 'df'::regnamespace
    UNION ALL SELECT 'pg_proc'::regclass, p.oid FROM pg_proc p WHERE p.pronamespace = 'df'::regnamespace)
SELECT pg_describe_object('pg_class'::regclass, v.oid, 0)
FROM ours JOIN pg_depend d ON d.refclassid = ours.class AND d.refobjid = ours.oid AND d.classid = 'pg_rewrite'::regclass
JOIN pg_rewrite r ON r.oid = d.objid
JOIN pg_class v ON v.oid = r.ev_class AND v.relnamespace <> 'df'::regnamespace
UNION SELECT pg_describe_object('pg_constraint'::regclass, k.oid, 0)
FROM ours JOIN pg_constraint k ON k.confrelid = ours.oid AND ours.class = 'pg_class'::regclass
JOIN pg_class c ON c.oid = k.conrelid AND c.relnamespace <> 'df'::regnamespace
UNION SELECT pg_describe_object('pg_operator'::regclass, o.oid, 0)
FROM ours JOIN pg_operator o ON o.oprcode = ours.oid AND ours.class = 'pg_proc'::regclass
WHERE o.oprnamespace <> 'df'::regnamespace
ORDER BY 1 DESC
"""


@dataclass(frozen=True)
class Contents:
    """What schema `df` of a database holds.

    Attributes
    ----------
    version:
        Of the schema.
    runs:
        How many runs there are, by status.
    tables:
        How many rows each table holds.
    size:
        Of all tables with their indexes, in bytes.
    roles:
        Those that were let in, beside the owner.
    outside:
        Objects of other schemas that need it, and go with it.
    engines:
        Those that are alive, in words.
    """

    version: int
    runs: dict[str, int]
    tables: dict[str, int]
    size: int
    roles: list[str]
    outside: list[str]
    engines: list[str]


def contents(conn: Connection) -> Contents | None:
    """What schema `df` holds; None when there is none.

    Raises
    ------
    SchemaError
        It belongs to another product, or to a role that this one is not: it would see its own runs
        only.
    """
    _refuse_others(conn)
    version = installed_version(conn)
    if version is None:
        return None
    with conn.cursor(row_factory=tuple_row) as cursor:
        runs: dict[str, int] = dict(cursor.execute(_RUNS).fetchall())
        sizes: dict[str, int] = dict(cursor.execute(_TABLES).fetchall())
        rows = {name: _count(conn, name) for name in sizes}
        roles, outside, engines = (
            [str(row[0]) for row in cursor.execute(query).fetchall()]
            for query in (_ROLES, _OUTSIDE, _ENGINES)
        )
    return Contents(version, runs, rows, sum(sizes.values()), roles, outside, engines)


def refuse_while_engines_work(found: Contents) -> None:
    """Raise StateError when an engine is alive: it would go on with what is not there any more."""
    if found.engines:
        raise StateError(
            f"engines are at work here, and nothing was changed: {'; '.join(found.engines)}. End them first "
            "(bench.hold() in a notebook, SIGTERM to a worker), then call again."
        )


def drop(conn: Connection) -> None:
    """Drop schema `df` and everything in it, in one transaction.

    Raises
    ------
    StateError
        An engine is alive, or somebody migrates.
    SchemaError
        The schema belongs to another role or another product, or there is none.
    """
    with conn.transaction():
        _refuse_beside_a_migration(conn)
        conn.execute("SET LOCAL client_min_messages = warning")  # not a line for each object
        found = contents(conn)
        if found is None:
            raise SchemaError("there is no schema df here any more: nothing was removed")
        refuse_while_engines_work(found)
        conn.execute("DROP SCHEMA df CASCADE")


def _refuse_beside_a_migration(conn: Connection) -> None:
    """Keep migrations away until the transaction ends; never wait for one (see `migrate`)."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", (MIGRATION_LOCK,)).fetchone()
    if not (row and row[0]):
        raise StateError("somebody migrates this schema just now: nothing was removed, try again")


def _refuse_others(conn: Connection) -> None:
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_OWNER).fetchone()
    if row is not None and not row[1]:
        raise SchemaError(
            f"schema df of database {conn.info.dbname!r} belongs to {row[0]}: only its owner may remove it, and "
            "nothing was changed"
        )


def _count(conn: Connection, table: str) -> int:
    query = sql.SQL("SELECT count(*) FROM df.{}").format(sql.Identifier(table))
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query).fetchone()
    return int(row[0]) if row else 0
