"""The statements of docs/retrying.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.engine.support import Database
from tests.sql.lineages import end, failed, retry

PAGE = (Path(__file__).parents[2] / "docs" / "retrying.md").read_text("utf-8")


def statements() -> list[str]:
    blocks = re.findall(r"^```sql\n(.+?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [s for block in blocks for s in re.findall(r"[^;]+;", re.sub("--.*", "", block))]


def test_every_statement_of_the_page_works(db: Database) -> None:
    run = failed(db)
    found = [statement.replace("3f2a90bc", run) for statement in statements()]
    assert len(found) == 7
    for statement in found:
        db.execute(statement)


def test_the_tree_of_the_page(db: Database) -> None:
    a = failed(db)
    b = end(db, retry(db, a))
    c = end(db, retry(db, b), "completed")
    d = retry(db, a)
    (query,) = [s for s in statements() if "repeat(" in s]
    seen = db.execute(query.replace("3f2a90bc", d)).fetchall()
    assert [(row[0], *row[1:3], row[4]) for row in seen] == [
        (a, "start", "failed", False),
        (f"  {b}", "retry", "failed", False),
        (f"    {c}", "retry", "completed", False),
        (f"  {d}", "retry", "pending", True),
    ]
