"""Migrations that build indexes while engines work: `CREATE INDEX CONCURRENTLY`, outside of a transaction.

A migration file that has the word CONCURRENTLY holds such statements and nothing else, each naming
its index. An interrupted build leaves an invalid index behind, which is dropped and built again.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import sql

__all__ = ["build", "statements"]

_STATEMENT = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON df\.\w+\b[^;]*;")
_COMMENT = re.compile(r"--[^\n]*")
_VALID = """
SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'df'::regnamespace AND c.relname = %s
"""


def statements(text: str) -> dict[str, str]:
    """The builds of a migration file, by the name of the index; none when it is an ordinary one.

    Raises
    ------
    ValueError
        It has the word CONCURRENTLY and holds something else as well.
    """
    code = _COMMENT.sub("", text)
    if "CONCURRENTLY" not in code:
        return {}
    if left := _STATEMENT.sub("", code).strip():
        raise ValueError(f"a migration that builds indexes concurrently does nothing else: {left}")
    return {found[1]: found[0] for found in _STATEMENT.finditer(code)}


def build(conn: psycopg.Connection[Any], name: str, statement: str) -> None:
    """Build one index, unless it is there and valid.

    `conn` is in autocommit. The build waits for transactions that are older, so nobody may wait for
    the caller in a transaction meanwhile.
    """
    row = conn.execute(_VALID, (name,)).fetchone()
    if row is not None and row[0]:
        return
    if row is not None:
        conn.execute(sql.SQL("DROP INDEX CONCURRENTLY df.{}").format(sql.Identifier(name)))
    conn.execute(statement)
