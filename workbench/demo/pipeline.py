"""The demo's pipeline: four steps from raw rows to published ones, and the tables they fill.

An importable module, because each engine process looks its handler up by name. No table has a
constraint that would keep a second effect out: what is counted at the end is what was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from workbench.graph.build import py, ref, seq, sql
from workbench.graph.node import Node
from workbench.graph.values import Json, rows

if TYPE_CHECKING:
    import pandas

    from workbench.engine.context import Context

__all__ = ["PAUSE", "ROWS", "TABLES", "clean", "graph"]

ROWS: Final = 60
"""Rows that `publish` inserts: 5 continents in 12 years."""

PAUSE: Final = 0.04
"""Seconds that `publish` rests after each row, so that there is time to kill it."""

# A sequence is not rolled back: it counts the rows that were ever inserted, the table those that
# were committed.
TABLES: Final = """
CREATE TABLE staged (
    country text, iso text, continent text, year int, life_expectancy float8, population bigint
);
CREATE TABLE averages (continent text, year int, countries int, life_expectancy float8);
CREATE SEQUENCE draws;
CREATE TABLE published (
    draw bigint DEFAULT nextval('draws'), continent text, year int, life_expectancy float8
);
"""

_STAGE = """
INSERT INTO staged
SELECT country, iso_alpha, continent, year, "lifeExp", pop FROM gapminder
RETURNING *
"""

_AGGREGATE = """
INSERT INTO averages
SELECT continent, year, count(*),
       round((sum(life_expectancy * population) / sum(population))::numeric, 1)
FROM $cleaned.*
GROUP BY continent, year ORDER BY continent, year
RETURNING *
"""

_PUBLISH = f"""
INSERT INTO published (continent, year, life_expectancy)
SELECT continent, year, life_expectancy FROM averages
WHERE pg_sleep({PAUSE}) IS NOT NULL
RETURNING draw, continent, year, life_expectancy
"""


def clean(rows_: pandas.DataFrame, ctx: Context) -> list[dict[str, Json]]:
    """Correct the country codes: the data set has North Korea under South Korea's.

    Raises
    ------
    ConnectionError
        At the first attempt, always: the demo's made-up failure.
    """
    if ctx.attempt == 1:
        raise ConnectionError("the country register does not answer (made up)")
    rows_.loc[rows_["country"] == "Korea, Dem. Rep.", "iso"] = "PRK"
    return rows(rows_)


def graph() -> Node:
    """Return the pipeline: stage, clean, aggregate, publish."""
    return seq(
        sql(_STAGE.strip()).named("staged"),
        py(clean, rows_=ref("staged")).named("cleaned"),
        sql(_AGGREGATE.strip()).named("averages"),
        sql(_PUBLISH.strip()).named("published"),
    )
