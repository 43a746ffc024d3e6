"""Pipelines: which statement an error belongs to."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.engine.support import Database
from workbench.store import verbs
from workbench.store.wire import Session, Statement

ONE = Statement(b"SELECT 1")
ABSENT = Statement(b"SELECT * FROM not_yet", prepared=True)


def test_a_statement_that_cannot_be_prepared_fails_its_pipeline_and_works_later(
    db: Database,
) -> None:
    async def check() -> None:
        session = await Session.connect(db.dsn, application_name="test")
        try:
            for before in ([], [verbs.BEGIN], [verbs.BEGIN, ONE, verbs.COMMIT, verbs.BEGIN]):
                with pytest.raises(psycopg.errors.UndefinedTable, match="not_yet"):
                    await session.run(*before, ABSENT, ONE)
                await session.run(verbs.ROLLBACK)
            db.execute("CREATE TABLE not_yet AS SELECT 42 AS n")
            found, one = await session.run(ABSENT, ONE)
            assert (found.get_value(0, 0), one.get_value(0, 0)) == (b"42", b"1")
        finally:
            await session.close()

    asyncio.run(check())
