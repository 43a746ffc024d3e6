"""docs/activity.md lists the columns of df.instance_activity and of the view's frame, and its SQL works."""

from __future__ import annotations

import re
from pathlib import Path

from tests.engine.support import Database
from workbench.views.activity_view import activity_frame

PAGE = (Path(__file__).parents[2] / "docs" / "activity.md").read_text("utf-8")


def test_the_page_names_every_column(db: Database) -> None:
    table = PAGE.partition("## Columns")[2].partition("The filter costs")[0]
    named = re.findall(
        r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if "|" in line)
    )
    cursor = db.execute("SELECT * FROM df.instance_activity()")
    assert cursor.description is not None
    columns = {column.name for column in cursor.description}
    assert set(named) - {"instance_activity"} == columns
    frame = PAGE.partition("`bench.activity().df` has")[2].partition("## In a notebook")[0]
    assert set(re.findall(r"`(\w+)`", frame)) - {"run_id"} == set(activity_frame([]).columns)


def test_the_example_works(db: Database) -> None:
    (example,) = re.findall(r"^```sql\n(.+?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert db.execute(example).fetchall() == []
