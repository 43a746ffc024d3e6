"""The schema `df`: numbered migrations for tables, replaceable files for functions.

Each migration runs in its own transaction under one advisory lock, so that any number of processes
may migrate at once, and while engines work: a change that needs a table for itself gives way to
whoever holds it and tries again, and indexes can be built beside the work (`index_builds`).
Functions are replaced together when their files differ from what is installed. A schema that is
newer than this package, or that belongs to another product, is refused and left untouched.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources

import psycopg
from psycopg import sql

from workbench.errors import SchemaError
from workbench.store import index_builds
from workbench.store._migrate_refusals import held_up, missing_rights

__all__ = [
    "SCHEMA_VERSION",
    "Migration",
    "apply_all",
    "check",
    "installed_version",
    "migrate",
    "migrations",
]

log = logging.getLogger("workbench")

MIGRATION_LOCK = 0x6466_7363_6865_6D61  # 'dfschema'
OLDEST_SERVER = 140000
PATIENCE = 120.0  # seconds until a migration gives up on a table that others hold
_LOCK_TIMEOUT = "1s"  # as long may a waiting migration hold up everybody who comes after it
_PAUSE = 0.5  # seconds in which they go on, before it tries again
_LOOK = 0.05  # seconds between two tries to become the one who migrates

#: Functions whose name begins with an underscore are ours alone: they are made anew, so that their
#: arguments and results may change and none is left over. Public ones are only replaced; changing
#: how they are called takes a migration.
_DROP_PRIVATE = r"""
DO $$
DECLARE
    private regprocedure;
BEGIN
    FOR private IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'df'::regnamespace AND p.proname LIKE '\_%' LOOP
        EXECUTE format('DROP FUNCTION %s', private);
    END LOOP;
END $$
"""


#: One row for a schema `df` that nothing is in, nobody has commented on and no extension has made.
_EMPTY_SCHEMA = """
SELECT pg_has_role(n.nspowner, 'USAGE'), quote_ident(pg_get_userbyid(n.nspowner)), quote_ident(current_user)
FROM pg_namespace n
WHERE n.nspname = 'df' AND obj_description(n.oid, 'pg_namespace') IS NULL
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
                  AND d.classid <> 'pg_default_acl'::regclass)
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_namespace'::regclass AND d.objid = n.oid)
"""


@dataclass(frozen=True)
class Migration:
    """One numbered file: `0001_core.sql` is version 1, named `core`."""

    version: int
    name: str
    sql: str


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations that this package brings, in order."""
    found = [
        Migration(int(match[1]), match[2], entry.read_text("utf-8"))
        for entry in resources.files(__package__).joinpath("migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", entry.name))
    ]
    return tuple(sorted(found, key=lambda m: m.version))


@cache
def functions() -> str:
    """The text of all function files, in the order of their names."""
    folder = resources.files(__package__).joinpath("functions")
    files = sorted((e for e in folder.iterdir() if e.name.endswith(".sql")), key=lambda e: e.name)
    return "\n".join(entry.read_text("utf-8") for entry in files)


SCHEMA_VERSION = migrations()[-1].version


def migrate(dsn: str) -> int:
    """Create schema `df` in the database, or bring it up to this package's version.

    Parameters
    ----------
    dsn:
        A libpq connection string or URL. The role needs CREATE on the database the first time, and
        afterwards to own the schema.

    Returns
    -------
    int
        The schema version now installed.

    Raises
    ------
    SchemaError
        The server is older than 14, the schema is newer than this package, `df` belongs to another
        product, or rights are missing; then the text has the SQL that an administrator has to run.
    psycopg.Error
        The server refused; nothing of the failed migration remains.
    """
    apply_all(dsn, migrations())
    return SCHEMA_VERSION


def apply_all(dsn: str, known: Sequence[Migration], *, patience: float = PATIENCE) -> None:
    """Apply those of the known migrations that the database lacks, then install the functions.

    Raises as `migrate` does; `patience` is how long it tries to get a table that others hold, in
    seconds.
    """
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as conn:
        conn.add_notice_handler(_log_notice)
        _require_server(conn)
        give_up = time.monotonic() + patience
        more = True
        try:
            while more:
                try:
                    more = _migrate_once(conn, known)
                except psycopg.errors.LockNotAvailable as held:
                    if time.monotonic() > give_up:
                        raise held_up(conn, patience) from held
                    time.sleep(_PAUSE)
        except psycopg.errors.InsufficientPrivilege as refused:
            raise missing_rights(conn, refused) from refused


def _log_notice(notice: psycopg.errors.Diagnostic) -> None:
    hint = f". {notice.message_hint}" if notice.message_hint else ""
    log.warning("%s%s", notice.message_primary, hint)


def _migrate_once(conn: psycopg.Connection, known: Sequence[Migration]) -> bool:
    """Apply the next migration, or at the end the functions; whether there may be more to do."""
    with _alone(conn):
        version = installed_version(conn) or 0
        _refuse_newer(version, known[-1].version)
        for migration in known:
            if migration.version == version + 1:
                _apply(conn, migration)
                return True
        _install_functions(conn)
        return False


@contextmanager
def _alone(conn: psycopg.Connection) -> Iterator[None]:
    """A transaction in which nobody else migrates.

    The lock is the transaction's, so that it works through a pooler and ends with a lost
    connection. It is tried for, not waited for: an index that is built concurrently waits for all
    statements that had begun before, a waiting one among them.
    """
    while True:
        with conn.transaction():
            row = conn.execute("SELECT pg_try_advisory_xact_lock(%s)", (MIGRATION_LOCK,)).fetchone()
            if row and row[0]:
                conn.execute("SET LOCAL client_min_messages = warning")
                conn.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                yield
                return
        time.sleep(_LOOK)


def _apply(conn: psycopg.Connection, migration: Migration) -> None:
    if migration.version == 1:
        if not _prepared_schema(conn):
            conn.execute("CREATE SCHEMA df")
        conn.execute("COMMENT ON SCHEMA df IS 'durable-workbench'")
        conn.execute(
            "CREATE TABLE df.schema_migrations (version integer PRIMARY KEY, name text NOT NULL,"
            " applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
        )
        conn.execute("CREATE TABLE df.schema_functions (digest text PRIMARY KEY)")
    if builds := index_builds.statements(migration.sql):
        _build_beside(conn, builds)
    else:
        conn.execute(migration.sql)
    conn.execute(
        "INSERT INTO df.schema_migrations (version, name) VALUES (%s, %s)",
        (migration.version, migration.name),
    )


def _build_beside(conn: psycopg.Connection, builds: dict[str, str]) -> None:
    """Build indexes in a session of its own, while this one's transaction keeps others from
    migrating.
    """
    with psycopg.connect(
        conn.info.dsn, password=conn.info.password, autocommit=True, prepare_threshold=None
    ) as builder:
        for name, statement in builds.items():
            index_builds.build(builder, name, statement)


def _install_functions(conn: psycopg.Connection) -> None:
    digest = hashlib.sha256(functions().encode()).hexdigest()
    row = conn.execute("SELECT digest FROM df.schema_functions").fetchone()
    if row and row[0] == digest:
        return
    # The files refer to one another; bodies are checked by the tests, not at each installation.
    conn.execute("SET LOCAL check_function_bodies = off")
    conn.execute(_DROP_PRIVATE)
    conn.execute("SET LOCAL client_min_messages = notice")
    conn.execute(functions())
    conn.execute("DELETE FROM df.schema_functions")
    conn.execute("INSERT INTO df.schema_functions VALUES (%s)", (digest,))


def _prepared_schema(conn: psycopg.Connection) -> bool:
    """Whether an administrator made an empty schema `df` for this role, as `missing_rights` asks
    for.

    SchemaError when it is empty and belongs to a role that this one is not.
    """
    row = conn.execute(_EMPTY_SCHEMA).fetchone()
    if row is None:
        return False
    owned, owner, role = row
    if not owned:
        raise SchemaError(
            f"the empty schema df of database {conn.info.dbname!r} belongs to {owner}, and nothing was changed. "
            f"If it is meant for the workbench, an administrator has to run, connected to that database:\n\n"
            f"    ALTER SCHEMA df OWNER TO {role};\n\nThen migrate again."
        )
    return True


def check(conn: psycopg.Connection) -> None:
    """Raise SchemaError unless this database holds exactly the schema that this package knows, and
    this role may use it.
    """
    _require_server(conn)
    try:
        version = installed_version(conn)
    except psycopg.errors.InsufficientPrivilege as refused:
        raise SchemaError(
            f"role {conn.info.user!r} may not use the workbench of database {conn.info.dbname!r} "
            f"({refused.diag.message_primary}). Its owner lets it in with: "
            f"SELECT df.grant_usage({sql.Literal(conn.info.user).as_string(conn)})"
        ) from refused
    if version is None:
        raise SchemaError(
            f"database {conn.info.dbname!r} has no workbench schema: nothing can be started or looked at here. "
            "Make it with wb.migrate(dsn) or `workbench migrate --dsn …`, as a role that may create schemas in "
            "this database."
        )
    _refuse_newer(version, SCHEMA_VERSION)
    if version < SCHEMA_VERSION:
        raise SchemaError(
            f"schema df is at version {version} and this package needs {SCHEMA_VERSION}: "
            "bring it up to date with wb.migrate(dsn) or `workbench migrate --dsn …`, as its owner; engines "
            "of the older version finish what they execute, and are to be restarted."
        )


def installed_version(conn: psycopg.Connection) -> int | None:
    """The version of the installed schema, None when there is no schema `df`; SchemaError when it
    is somebody else's.
    """
    row = conn.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'df'"
    ).fetchone()
    if row is None or (row[0] is None and _prepared_schema(conn)):
        return None
    if row[0] != "durable-workbench":
        raise SchemaError(
            f"schema df of database {conn.info.dbname!r} belongs to another product "
            f"({_owner_of_df(conn)}): it was left untouched. "
            "Use another database for the workbench."
        )
    newest = conn.execute("SELECT max(version) FROM df.schema_migrations").fetchone()
    return int(newest[0]) if newest else None


def _owner_of_df(conn: psycopg.Connection) -> str:
    row = conn.execute(
        "SELECT 'extension ' || e.extname FROM pg_extension e LEFT JOIN pg_namespace n ON n.oid = e.extnamespace"
        " WHERE n.nspname = 'df' OR e.extname = 'pg_durable' LIMIT 1"
    ).fetchone()
    return str(row[0]) if row else "it was not made by durable-workbench"


def _require_server(conn: psycopg.Connection) -> None:
    if conn.info.server_version < OLDEST_SERVER:
        raise SchemaError(
            f"this server is PostgreSQL {conn.info.server_version // 10000}; the workbench needs 14 or newer. "
            "Use a newer server, or the embedded one: workbench.connect() without a DSN."
        )


def _refuse_newer(version: int, newest: int) -> None:
    if version > newest:
        raise SchemaError(
            f"schema df is at version {version}, newer than this package knows "
            f"({newest}): nothing was changed. "
            "Upgrade durable-workbench in this environment and restart."
        )
