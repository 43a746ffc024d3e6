"""Conversion of SQL results: random values sent to a real server come back as what they mean."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import pq
from psycopg.types.json import Json

from workbench.store.results import CATALOG_QUERY, ResultReader, TypeCatalog

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
AWKWARD = st.text(st.sampled_from("\"\\{},()  NULLnull\n'é€"), max_size=8)
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
ZONES = st.builds(timezone, st.timedeltas(timedelta(hours=-12), timedelta(hours=12)).map(
    lambda delta: timedelta(seconds=int(delta.total_seconds()))
))  # fmt: skip
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31))  # noqa: DTZ001 - naive on purpose


@pytest.fixture(scope="module")
def connection(server: str) -> Iterator[psycopg.Connection]:
    """A session with a composite type, rolled back in the end."""
    with (
        psycopg.connect(server, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        connection.execute("CREATE TYPE pg_temp.pair AS (n bigint, label text, tags text[])")
        yield connection


def read(connection: psycopg.Connection, expression: str, *values: Any) -> Any:
    """The JSON value of an SQL expression, through the reader."""
    cursor = psycopg.ClientCursor(connection)
    result = connection.pgconn.exec_params(
        cursor.mogrify(f"SELECT {expression} AS x", values).encode(), []
    )
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
    reader, catalog = ResultReader(), TypeCatalog()
    if oids := reader.unknown_types(catalog, result):
        sql = CATALOG_QUERY.replace("$1", "%s")
        rows = connection.execute(sql, (sorted(oids),)).fetchall()
        catalog.learn(
            [[v if v is None or isinstance(v, str) else _text(v) for v in row] for row in rows]
        )
    text, _ = reader.finish(result, catalog)
    return json.loads(text)["rows"][0]["x"]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@given(value=st.one_of(TEXT, AWKWARD))
def test_text_is_the_same_text(connection: psycopg.Connection, value: str) -> None:
    assert read(connection, "%s::text", value) == value


@given(value=FLOATS)
def test_a_float_is_the_same_float(connection: psycopg.Connection, value: float) -> None:
    assert read(connection, "%s::float8", value) == finite(value)


@given(value=st.floats(width=32))
def test_a_real_is_widened_exactly(connection: psycopg.Connection, value: float) -> None:
    assert read(connection, "%s::float4", value) == finite(value)


@given(value=st.decimals(allow_nan=False, allow_infinity=False, places=5))
def test_a_numeric_is_postgres_own_text(connection: psycopg.Connection, value: Decimal) -> None:
    got = read(connection, "%s::numeric", value)
    assert isinstance(got, str)
    assert Decimal(got) == value


@given(value=st.dates())
def test_a_date_is_iso(connection: psycopg.Connection, value: date) -> None:
    assert read(connection, "%s::date", value) == value.isoformat()


@given(value=MOMENTS)
def test_a_timestamp_has_a_fraction_of_0_3_or_6_digits(
    connection: psycopg.Connection, value: datetime
) -> None:
    got = read(connection, "%s::timestamp", value)
    assert datetime.fromisoformat(got) == value
    assert len(got) == len("2026-11-30T09:12:00") + _fraction(value)


@given(
    value=MOMENTS, zone=ZONES, session=st.sampled_from(["UTC", "Asia/Kolkata", "America/St_Johns"])
)
def test_a_timestamptz_is_utc_whatever_the_zone(
    connection: psycopg.Connection, value: datetime, zone: timezone, session: str
) -> None:
    connection.execute("SELECT set_config('TimeZone', %s, true)", (session,))
    moment = value.replace(tzinfo=zone)
    got = read(connection, "%s::timestamptz", moment)
    assert got.endswith("+00:00")
    assert datetime.fromisoformat(got) == moment.astimezone(UTC)
    assert len(got) == len("2026-11-30T09:12:00+00:00") + _fraction(value)


def _fraction(value: datetime) -> int:
    if not value.microsecond:
        return 0
    return 7 if value.microsecond % 1000 else 4


@given(value=st.binary(max_size=40), form=st.sampled_from(["hex", "escape"]))
def test_bytes_are_the_same_in_either_output_form(
    connection: psycopg.Connection, value: bytes, form: str
) -> None:
    connection.execute("SELECT set_config('bytea_output', %s, true)", (form,))
    assert read(connection, "%s::bytea", value) == "base64:" + b64encode(value).decode()
    assert read(connection, "ARRAY[%s::bytea]", value) == ["base64:" + b64encode(value).decode()]


JSONS = st.recursive(
    st.none() | st.booleans() | INTEGERS | AWKWARD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(AWKWARD, inner, max_size=3),
    max_leaves=8,
)


@given(value=JSONS)
def test_json_is_embedded_as_it_is(connection: psycopg.Connection, value: Any) -> None:
    assert read(connection, "%s::jsonb", Json(value)) == value
    assert read(connection, "%s::json", Json(value)) == value
    assert read(connection, "ARRAY[%s::jsonb]", Json(value)) == [value]


@given(value=st.lists(st.none() | TEXT | AWKWARD, max_size=5))
def test_an_array_of_text_keeps_every_element(
    connection: psycopg.Connection, value: list[str | None]
) -> None:
    assert read(connection, "%s::text[]", value) == value


@given(
    rows=st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(INTEGERS | st.none(), min_size=width, max_size=width), min_size=1, max_size=3
        )
    )
)
def test_a_matrix_keeps_its_shape(
    connection: psycopg.Connection, rows: list[list[int | None]]
) -> None:
    assert read(connection, "%s::bigint[]", rows) == rows


PAIRS = st.tuples(INTEGERS | st.none(), AWKWARD | st.none(), st.lists(AWKWARD | st.none()))


@given(pairs=st.lists(PAIRS, min_size=1, max_size=3))
@settings(max_examples=60)
def test_nested_quoting_of_arrays_of_composites_of_arrays_is_undone(
    connection: psycopg.Connection, pairs: list[tuple[int | None, str | None, list[str | None]]]
) -> None:
    rows = ", ".join(["ROW(%s, %s, %s::text[])::pg_temp.pair"] * len(pairs))
    values = [part for pair in pairs for part in pair]
    assert read(connection, f"ARRAY[{rows}]", *values) == [
        {"n": n, "label": label, "tags": tags} for n, label, tags in pairs
    ]
