"""SQL as people type it: a connection, throw-away roles, an engine."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.engine.support import Database

if TYPE_CHECKING:
    from workbench.engine.worker import Engine

_numbers = itertools.count(1)

MakeRole = Callable[..., str]


@pytest.fixture
def db(dsn: str) -> Iterator[Database]:
    """A superuser's session on a database of the test's own."""
    with contextlib.closing(Database(dsn)) as database:
        yield database


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    """An engine for that superuser."""
    # Imported here: most of these tests need none.
    from workbench.engine.worker import Engine

    engine = Engine(dsn, ceiling=4)
    engine.start()
    yield engine
    engine.stop()


@pytest.fixture
def make_role(db: Database, admin: psycopg.Connection) -> Iterator[MakeRole]:
    """Make a role that may use the schema: `make_role("LOGIN", name='od"d')` returns its full name."""
    made: list[sql.Identifier] = []

    def make(options: str = "LOGIN", name: str = "role") -> str:
        # Roles belong to the server, which other tests use at the same time.
        full = f"{name} {os.getpid()} {next(_numbers)}"
        role = sql.Identifier(full)
        admin.execute(sql.SQL("CREATE ROLE {} {}").format(role, sql.SQL(options)))
        made.append(role)
        db.execute("SELECT df.grant_usage(%s)", full)
        return full

    yield make
    for role in made:
        db.conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
        admin.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.fixture
def session(dsn: str) -> Iterator[Callable[[str], Database]]:
    """Open a session as a role: `session(name)`."""
    with contextlib.ExitStack() as opened:

        def open_session(user: str) -> Database:
            return opened.enter_context(contextlib.closing(Database(make_conninfo(dsn, user=user))))

        yield open_session
