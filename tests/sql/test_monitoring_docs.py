"""The examples of docs/monitoring.md work, and its picture is what df.explain draws."""

from __future__ import annotations

import re
from pathlib import Path

from tests.engine.support import Database

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text("utf-8")


def test_the_examples_work_and_the_picture_is_the_one_drawn(db: Database) -> None:
    drawing, *others = re.findall(r"^```sql\n(.+?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (picture,) = re.findall(r"^```text\n(.+?)\n```", PAGE, re.DOTALL | re.MULTILINE)
    seen = db.value(drawing.strip())
    assert [line.rstrip() for line in seen.split("\n")] == picture.split("\n")
    for block in others:
        db.conn.execute(block)
