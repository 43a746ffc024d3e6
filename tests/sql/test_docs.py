"""The examples of docs/sql.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from tests.engine.support import Database

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
STATEMENT = re.compile(
    r"(?P<query>.+?);\n(?:-- (?P<kind>→|error:) (?P<said>[^\n]+)\n)?\s*", re.DOTALL
)


def examples() -> list[tuple[str, str | None, str | None]]:
    """Each statement of the page with what is said of it."""
    blocks = re.findall(r"^```sql\n(.+?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    found = [STATEMENT.finditer(block) for block in blocks]
    return [(m["query"], m["kind"], m["said"]) for block in found for m in block]


def outcome(db: Database, query: str) -> str:
    """The first value as psql shows it, or the text of the error."""
    try:
        cursor = db.execute(query)
    except psycopg.Error as refused:
        return str(refused.diag.message_primary)
    if cursor.description is None:
        return ""
    (row,) = cursor.fetchall()
    return str({True: "t", False: "f", None: "NULL"}.get(row[0], row[0]))


@pytest.mark.usefixtures("engine")
def test_every_example_does_what_the_page_says(db: Database) -> None:
    said_of = examples()
    assert len(said_of) > 20
    for query, kind, said in said_of:
        seen = outcome(db, query)
        if kind == "→":
            assert seen == said, query
        elif kind == "error:":
            assert said is not None
            assert seen.startswith(said), query
