"""Letting roles use the workbench, and look at one's runs: `df.grant_usage` and its family, with their
refusals as the workbench's own errors. What they grant is in `functions/70_roles.sql`.
"""

from __future__ import annotations

import psycopg

from workbench.errors import DatabaseError, UsageError

__all__ = ["grant_read", "grant_usage", "revoke_read", "revoke_usage"]


def grant_usage(conn: psycopg.Connection, role: str, *, http: bool = False) -> None:
    """Let a role submit runs and execute its own, with HTTP steps or without.

    Raises
    ------
    UsageError
        There is no such role.
    DatabaseError
        This role may not let others in.
    """
    _call(conn, "SELECT df.grant_usage(%s, include_http => %s)", role, http)


def revoke_usage(conn: psycopg.Connection, role: str) -> None:
    """End whatever a role may do; its runs stay. Errors as `grant_usage`."""
    _call(conn, "SELECT df.revoke_usage(%s)", role)


def grant_read(conn: psycopg.Connection, role: str) -> None:
    """Let a role look at the caller's runs, those to come as well.

    Raises
    ------
    UsageError
        There is no such role.
    DatabaseError
        It may not use the workbench itself.
    """
    _call(conn, "SELECT df.grant_read(%s)", role)


def revoke_read(conn: psycopg.Connection, role: str) -> None:
    """Undo `grant_read`; nothing happens when there is nothing to undo."""
    _call(conn, "SELECT df.revoke_read(%s)", role)


def _call(conn: psycopg.Connection, query: str, role: object, *arguments: object) -> None:
    if not isinstance(role, str) or "\x00" in role:
        raise UsageError(f"a role is named by text, not {role!r:.80}: nothing was changed")
    try:
        conn.execute(query, (role, *arguments))
    except psycopg.errors.UndefinedObject as unknown:
        raise UsageError(f"{unknown.diag.message_primary}. Make it with CREATE ROLE.") from None
    except psycopg.errors.InsufficientPrivilege as refused:
        hint = (
            refused.diag.message_hint or f"The schema's owner can: SELECT df.grant_usage('{role}')."
        )
        raise DatabaseError(f"{refused.diag.message_primary}. {hint}") from refused
