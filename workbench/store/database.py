"""An ordinary connection to the workbench's database for everything people do; the engine has
sessions of its own.

One psycopg connection, made when first needed and again when it was lost; usable from any thread.
Which database a DSN means is decided here too, and passwords are kept out of sight here.
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from workbench.errors import DatabaseError, UsageError
from workbench.store.migrate import check

__all__ = ["Database", "conninfo", "shown"]


def conninfo(dsn: str) -> str:
    """A libpq connection string from whatever names a database: a libpq string, a URL, or
    SQLAlchemy's kind of URL. Equal fields give equal text.

    Raises
    ------
    UsageError
        It is neither.
    """
    if not isinstance(dsn, str):
        raise UsageError(
            f"a DSN is text, not {type(dsn).__name__}: postgresql://user@host:5432/name"
        )
    if not dsn.strip():
        raise UsageError(
            "an empty DSN names no database (an unset variable?); connect() without one opens the "
            "embedded database"
        )
    scheme, separator, rest = dsn.partition("://")
    if separator and scheme.startswith(("postgresql+", "postgres+")):
        dsn = f"postgresql://{rest}"
    try:
        fields = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as wrong:
        # The rest of libpq's text quotes the DSN, and perhaps its password.
        unknown = re.match(r'invalid (connection option|URI query parameter:) "\w+"', str(wrong))
        raise UsageError(
            f"cannot read the DSN{f': {unknown[0]}' if unknown else ''}. Pass a URL like "
            "postgresql://user@host:5432/name, or 'host=… dbname=…'."
        ) from None
    return make_conninfo("", **dict(sorted(fields.items())))  # the same text for the same target


def shown(dsn: str) -> str:
    """Where a DSN leads, without its password."""
    fields = conninfo_to_dict(dsn)
    host = str(fields.get("host") or "")
    name = fields.get("dbname") or fields.get("user") or "postgres"
    if not host or host.startswith("/"):
        return f"{name} on this machine"
    return f"{name} on {host}" + (f":{fields['port']}" if fields.get("port") else "")


class Database:
    """The database of one bench."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<Database {shown(self.dsn)}>"

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection, for one thread at a time, in autocommit.

        Raises
        ------
        DatabaseError
            The server cannot be reached.
        SchemaError
            It holds no schema `df`, or not the one that this package knows.
        """
        with self._lock:
            try:
                yield self._live()
            except psycopg.OperationalError as lost:
                if self._connection is not None and not self._connection.broken:
                    raise
                if self._connection is None:
                    raise DatabaseError(
                        f"cannot reach the database ({shown(self.dsn)}): "
                        f"{str(lost).strip().rstrip('?.')}. Check host, port and role of the DSN."
                    ) from lost
                raise DatabaseError(
                    f"the database ({shown(self.dsn)}) is away: {str(lost).strip().rstrip('?.')}. "
                    "Nothing is lost; call again when it is back."
                ) from lost

    def _live(self) -> psycopg.Connection[Any]:
        if self._connection is not None and _has_news(self._connection):
            # A restarted server shows itself here, and not in the caller's statement.
            try:
                self._connection.execute("SELECT")
            except psycopg.OperationalError:
                self._connection.close()
        if self._connection is None or self._connection.closed:
            self._connection = self._checked()
        return self._connection

    def _checked(self) -> psycopg.Connection[Any]:
        """A new connection to a database that can be used."""
        connection = psycopg.connect(
            self.dsn,
            autocommit=True,
            prepare_threshold=None,  # looking works through a transaction pooler
            application_name=f"workbench {os.getpid()}",
            connect_timeout=30,
        )
        try:
            _speak_iso(connection)
            check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _has_news(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server has said something since the last answer: goodbye, most likely."""
    if connection.closed:
        return False
    try:
        return bool(select.select([connection.fileno()], [], [], 0)[0])
    except (OSError, ValueError):  # more files open than select can look at
        return True


def _speak_iso(connection: psycopg.Connection[Any]) -> None:
    """psycopg reads times in no other DateStyle, which a role or a database may have as its default."""
    if not (connection.info.parameter_status("DateStyle") or "").startswith("ISO"):
        connection.execute("SET datestyle = ISO")
