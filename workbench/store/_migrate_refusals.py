"""What `migrate` says when it cannot go on: who has to run what, or who is in its way."""

from __future__ import annotations

import psycopg

from workbench.errors import SchemaError

__all__ = ["held_up", "missing_rights"]

#: Sessions whose open transactions hold tables of the schema, the oldest first.
_HOLDERS = """
SELECT DISTINCT a.pid, a.application_name, to_char(a.xact_start, 'HH24:MI:SS')
FROM pg_locks l JOIN pg_stat_activity a USING (pid) JOIN pg_class c ON c.oid = l.relation
WHERE l.granted AND c.relnamespace = 'df'::regnamespace AND l.pid <> pg_backend_pid() ORDER BY 3
"""


def held_up(conn: psycopg.Connection, patience: float) -> SchemaError:
    """Who holds what a migration needs."""
    rows = conn.execute(_HOLDERS).fetchall()
    who = "; ".join(f"pid {pid} ({name or 'no name'}), since {since}" for pid, name, since in rows)
    return SchemaError(
        f"a table of schema df was held by others for {patience:g} seconds, and nothing of this migration was "
        f"changed. Open transactions that use it: {who or 'none any more'}. End them, or migrate again later."
    )


def missing_rights(
    conn: psycopg.Connection, refused: psycopg.errors.InsufficientPrivilege
) -> SchemaError:
    """What an administrator has to run, once."""
    row = conn.execute(
        "SELECT quote_ident(current_user), quote_ident(current_database()),"
        " (SELECT quote_ident(pg_get_userbyid(n.nspowner)) FROM pg_namespace n WHERE nspname = 'df')"
    ).fetchone()
    assert row is not None
    role, database, owner = row
    reason = str(refused.diag.message_primary)
    if owner is None:
        return SchemaError(
            f"{reason}: role {role} may not create schema df here, and nothing was changed. "
            f"An administrator of database {database} has to run, connected to it:\n\n"
            f"    CREATE SCHEMA df AUTHORIZATION {role};\n\nThen migrate again."
        )
    return SchemaError(
        f"{reason}: schema df belongs to {owner}, and nothing was changed. Migrate as that role, or let an "
        f"administrator run:\n\n    GRANT {owner} TO {role};\n\nThen migrate again."
    )
