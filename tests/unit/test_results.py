"""Conversion of SQL results: the JSON that a statement's rows become, type by type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import pq

from workbench.errors import ValueRefused
from workbench.store.pg_types import BASIC_TYPES, CATALOG_QUERY, TypeCatalog
from workbench.store.results import ResultReader

Read = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture
def pgconn(server: str) -> Iterator[pq.abc.PGconn]:
    """A session whose transaction is rolled back after the test."""
    with (
        psycopg.connect(server, autocommit=True) as connection,
        connection.transaction(force_rollback=True),
    ):
        connection.execute("CREATE SCHEMA shop")
        connection.execute("SET LOCAL search_path = shop")
        yield connection.pgconn


def run(pgconn: pq.abc.PGconn, sql: str, *params: str) -> pq.abc.PGresult:
    result = pgconn.exec_params(sql.encode(), [param.encode() for param in params])
    assert result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK), result
    return result


def read(
    pgconn: pq.abc.PGconn, sql: str, reader: ResultReader | None = None, catalog: Any = None
) -> Read:
    reader, catalog = reader or ResultReader(), catalog or TypeCatalog()
    result = run(pgconn, sql)
    if oids := reader.unknown_types(catalog, result):
        learn(pgconn, catalog, oids)
    return reader.finish(result, catalog)


def learn(pgconn: pq.abc.PGconn, catalog: TypeCatalog, oids: set[int]) -> None:
    found = run(pgconn, CATALOG_QUERY, f"{{{','.join(map(str, oids))}}}")
    catalog.learn(
        [
            [None if (v := found.get_value(r, c)) is None else v.decode() for c in range(6)]
            for r in range(found.ntuples)
        ]
    )


def value(pgconn: pq.abc.PGconn, expression: str) -> Any:
    """The JSON text of one expression's value."""
    text, _ = read(pgconn, f"SELECT {expression} AS x")
    head, tail = '{"rows":[{"x":', '}],"row_count":1}'
    assert text.startswith(head)
    assert text.endswith(tail)
    return text[len(head) : -len(tail)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", "true"),
        ("false", "false"),
        ("NULL::int", "null"),
        ("(-32768)::smallint", "-32768"),
        ("9223372036854775807", "9223372036854775807"),
        ("1.50::numeric", '"1.50"'),
        ("'NaN'::numeric", '"NaN"'),
        ("0.000000000000000000001", '"0.000000000000000000001"'),
        ("3.14::float4", "3.140000104904175"),
        ("'1e-7'::float4", "0.00000010000000116860974"),
        ("0.1::float8", "0.1"),
        ("1::float8", "1.0"),
        ("'-0'::float8", "-0.0"),
        ("'1e22'::float8", "10000000000000000000000.0"),
        ("'1.5e-7'::float8", "0.00000015"),
        ("'NaN'::float8", "null"),
        ("'-Infinity'::float4", "null"),
        ("'a \"b\" \\ é'::text", '"a \\"b\\" \\\\ é"'),
        ("E'line\\nbreak\\x01'", '"line\\nbreak\\u0001"'),
        ("'ab'::char(4)", '"ab  "'),
        ("'7d444840-9dc0-11d1-b245-5ffdce74fad2'::uuid", '"7d444840-9dc0-11d1-b245-5ffdce74fad2"'),
        ("'2026-11-30'::date", '"2026-11-30"'),
        ("'infinity'::date", '"infinity"'),
        ("'0044-03-15 BC'::date", '"0044-03-15 BC"'),
        ("'2026-11-30 09:12'::timestamp", '"2026-11-30T09:12:00"'),
        ("'2026-11-30 09:12:00.25'::timestamp", '"2026-11-30T09:12:00.250"'),
        ("'2026-11-30 09:12:00.1234'::timestamp", '"2026-11-30T09:12:00.123400"'),
        ("'10000-01-01'::timestamp", '"10000-01-01 00:00:00"'),
        ("'-infinity'::timestamp", '"-infinity"'),
        ("'2026-11-30 09:12+00'::timestamptz", '"2026-11-30T09:12:00+00:00"'),
        ("'2026-11-30 09:12:00.5+05:30'::timestamptz", '"2026-11-30T03:42:00.500+00:00"'),
        ("'infinity'::timestamptz", '"infinity"'),
        ("'0044-03-15 BC'::timestamptz", '"0044-03-15 00:00:00+00 BC"'),
        ("""'{"b": [1, 2.50], "a": null}'::json""", '{"b": [1, 2.50], "a": null}'),
        ("""'{"b": [1, 2.50]}'::jsonb""", '{"b": [1, 2.50]}'),
        (r"""'"\u00e9 \\u0000"'::json""", r'"\u00e9 \\u0000"'),
        ("pg_sleep(0)", "null"),
        (r"'\xdeadbeef'::bytea", '"base64:3q2+7w=="'),
        ("''::bytea", '"base64:"'),
        ("interval '1 day 2 hours'", '"1 day 02:00:00"'),
        ("'10:30+02'::timetz", '"10:30:00+02"'),
        ("int4range(1, 5)", '"[1,5)"'),
        ("'192.168.0.1/24'::inet", '"192.168.0.1/24"'),
        ("'pg_class'::regclass", '"pg_class"'),
        ("17::oid", '"17"'),
        ("ROW(1, 'a')", '"(1,a)"'),
        ("'1 2'::int2vector", '"1 2"'),
    ],
)
def test_a_value_has_the_json_of_its_type(
    pgconn: pq.abc.PGconn, expression: str, expected: str
) -> None:
    run(pgconn, "SET LOCAL TimeZone = 'UTC'")
    assert value(pgconn, expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'{}'::int[]", "[]"),
        ("ARRAY[1, NULL, 3]", "[1,null,3]"),
        ("'[0:1]={7,8}'::int[]", "[7,8]"),
        ("'[2:3][-1:0]={{1,2},{3,4}}'::int[]", "[[1,2],[3,4]]"),
        ("ARRAY[[[1],[2]],[[3],[4]]]", "[[[1],[2]],[[3],[4]]]"),
        (
            "ARRAY['a,b', '{}', 'NULL', NULL, '', 'null', ' x ']",
            '["a,b","{}","NULL",null,"","null"," x "]',
        ),
        (r"""ARRAY['a"b', 'a\b', E'a\nb', '\"']""", r'["a\"b","a\\b","a\nb","\\\""]'),
        ("ARRAY[true, false]", "[true,false]"),
        ("ARRAY[1.50, 'NaN']::numeric[]", '["1.50","NaN"]'),
        ("ARRAY['NaN', 1]::float8[]", "[null,1.0]"),
        (r"""ARRAY['{"a": "\"x\""}'::jsonb, '[1]', 'null']""", r'[{"a": "\"x\""},[1],null]'),
        (r"ARRAY['\x00ff'::bytea, '']", '["base64:AP8=","base64:"]'),
        ("ARRAY['2026-11-30'::timestamp]", '["2026-11-30T00:00:00"]'),
        ("ARRAY[box '(1,1),(0,0)', box '(3,3),(2,2)']", '["(1,1),(0,0)","(3,3),(2,2)"]'),
        ("ARRAY[int4range(1, 5), 'empty']", '["[1,5)","empty"]'),
    ],
)
def test_an_array_is_a_list_as_deep_as_the_array(
    pgconn: pq.abc.PGconn, expression: str, expected: str
) -> None:
    assert value(pgconn, expression) == expected


def test_composites_are_objects_and_nest(pgconn: pq.abc.PGconn) -> None:
    run(pgconn, "CREATE TYPE point3 AS (x int, label text, tags text[])")
    run(pgconn, "CREATE TYPE segment AS (a point3, b point3[])")
    expression = """ROW(ROW(1, 'a "q", \\ (b)', ARRAY['x,y', NULL, '"']),
        ARRAY[ROW(NULL, '', '{}')::point3, NULL])::segment"""
    assert json.loads(value(pgconn, expression)) == {
        "a": {"x": 1, "label": 'a "q", \\ (b)', "tags": ["x,y", None, '"']},
        "b": [{"x": None, "label": "", "tags": []}, None],
    }


def test_domains_count_as_their_base_type_and_enums_are_text(pgconn: pq.abc.PGconn) -> None:
    run(pgconn, "CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    run(pgconn, "CREATE DOMAIN many AS positive[]")
    run(pgconn, "CREATE TYPE mood AS ENUM ('so, so', 'fine')")
    text, columns = read(
        pgconn,
        """SELECT 3::positive AS a, '{4,5}'::positive[] AS b, '{6}'::many AS c,
                  'fine'::mood AS d, ARRAY['so, so']::mood[] AS e""",
    )
    assert text == ('{"rows":[{"a":3,"b":[4,5],"c":[6],"d":"fine","e":["so, so"]}],"row_count":1}')
    # The server itself reports a domain's base type for a column.
    assert columns == (
        ("a", "integer"),
        ("b", "positive[]"),
        ("c", "positive[]"),
        ("d", "mood"),
        ("e", "mood[]"),
    )


def test_an_altered_composite_is_read_with_its_new_fields(pgconn: pq.abc.PGconn) -> None:
    catalog = TypeCatalog()
    run(pgconn, "CREATE TABLE item (id int)")
    run(pgconn, "INSERT INTO item VALUES (1)")
    read(pgconn, "SELECT item AS x, ARRAY[item] AS y FROM item", catalog=catalog)
    run(pgconn, "ALTER TABLE item ADD COLUMN name text DEFAULT 'new'")
    text, _ = read(pgconn, "SELECT item AS x, ARRAY[item] AS y FROM item", catalog=catalog)
    assert json.loads(text)["rows"] == [
        {"x": {"id": 1, "name": "new"}, "y": [{"id": 1, "name": "new"}]}
    ]


def test_the_octal_form_of_bytea_gives_the_same(pgconn: pq.abc.PGconn) -> None:
    run(pgconn, "SET LOCAL bytea_output = 'escape'")
    assert value(pgconn, r"'\x5c78006100ff27'::bytea") == '"base64:XHgAYQD/Jw=="'


def test_an_offset_with_seconds_is_understood(pgconn: pq.abc.PGconn) -> None:
    run(pgconn, "SET LOCAL TimeZone = 'Europe/Amsterdam'")
    assert value(pgconn, "'1900-01-01 00:00:00+00'::timestamptz") == '"1900-01-01T00:00:00+00:00"'


def test_the_columns_keep_their_order_and_types(pgconn: pq.abc.PGconn) -> None:
    text, columns = read(
        pgconn, "SELECT 1 AS z, 'x'::varchar(3) AS a, now()::timestamptz(0) AS t WHERE false"
    )
    assert text == '{"rows":[],"row_count":0}'
    assert columns == (
        ("z", "integer"),
        ("a", "character varying"),
        ("t", "timestamp with time zone"),
    )


def test_of_two_columns_with_one_name_the_last_wins(pgconn: pq.abc.PGconn) -> None:
    text, columns = read(pgconn, "SELECT 1 AS a, 2 AS b, 'last' AS a")
    assert text == '{"rows":[{"a":"last","b":2}],"row_count":1}'
    assert columns == (("a", "text"), ("b", "integer"))


def test_column_names_may_hold_anything(pgconn: pq.abc.PGconn) -> None:
    text, columns = read(pgconn, r"""SELECT 5 AS "100% ""é"" \ %s" """)
    assert json.loads(text)["rows"] == [{'100% "é" \\ %s': 5}]
    assert columns == (('100% "é" \\ %s', "integer"),)


def test_rows_without_columns_are_counted(pgconn: pq.abc.PGconn) -> None:
    text, columns = read(pgconn, "SELECT FROM generate_series(1, 3)")
    assert (text, columns) == ('{"rows":[{},{},{}],"row_count":3}', ())


def test_a_command_returns_no_rows_and_a_tag(pgconn: pq.abc.PGconn) -> None:
    run(pgconn, "CREATE TABLE t (a int)")
    reader = ResultReader()
    text, columns = read(pgconn, "INSERT INTO t SELECT generate_series(1, 812)", reader)
    assert (text, columns) == ('{"rows":[],"row_count":0}', ())
    assert reader.command_tag == "INSERT 0 812"


def test_chunks_add_up(pgconn: pq.abc.PGconn) -> None:
    reader = ResultReader()
    pgconn.send_query_params(b"SELECT i, 'n' || i AS n FROM generate_series(1, 3) i", None)
    pgconn.set_single_row_mode()
    final = None
    while (result := pgconn.get_result()) is not None:
        if result.status == pq.ExecStatus.SINGLE_TUPLE:
            reader(result)
        else:
            final = result
    assert final is not None
    text, _ = reader.finish(final, TypeCatalog())
    assert text == ('{"rows":[{"i":1,"n":"n1"},{"i":2,"n":"n2"},{"i":3,"n":"n3"}],"row_count":3}')
    assert reader.command_tag == "SELECT 3"


def test_a_result_beyond_the_limit_is_refused_and_not_kept(pgconn: pq.abc.PGconn) -> None:
    reader = ResultReader(limit=1000)
    chunk = run(pgconn, "SELECT repeat('x', 400) AS x FROM generate_series(1, 2)")
    reader(chunk)
    assert not reader.oversize
    reader(chunk)
    assert reader.oversize
    with pytest.raises(
        ValueRefused, match=r"more than 1,000 bytes of JSON.*keep the rows in a tab"
    ):
        reader.finish(run(pgconn, "SELECT '' AS x WHERE false"), TypeCatalog())


def test_the_limit_holds_for_the_json_too(pgconn: pq.abc.PGconn) -> None:
    with pytest.raises(ValueRefused, match="the limit is 1,000 bytes"):
        read(pgconn, "SELECT repeat(E'\\x01', 400) AS x", ResultReader(limit=1000))


@pytest.mark.parametrize("text", [r'"\u0000"', r'"\ud800"'])
def test_json_that_jsonb_cannot_hold_is_refused(pgconn: pq.abc.PGconn, text: str) -> None:
    with pytest.raises(ValueRefused, match="json value of the result contains a"):
        value(pgconn, f"'{text}'::json")


def test_text_that_is_not_utf8_is_refused(pgconn: pq.abc.PGconn) -> None:
    run(pgconn, "SET LOCAL client_encoding = 'LATIN1'")
    with pytest.raises(ValueRefused, match='column "x" of the result is not UTF-8'):
        read(pgconn, "SELECT chr(233) AS x")


def test_the_built_in_types_are_those_of_the_server(pgconn: pq.abc.PGconn) -> None:
    found = run(
        pgconn,
        """SELECT oid, format_type(oid, NULL), typarray FROM pg_type
           WHERE oid = ANY ($1::oid[]) ORDER BY oid""",
        f"{{{','.join(map(str, BASIC_TYPES))}}}",
    )
    server = {
        int(found.get_value(r, 0) or 0): (
            (found.get_value(r, 1) or b"").decode(),
            int(found.get_value(r, 2) or 0),
        )
        for r in range(found.ntuples)
    }
    assert server == {oid: (name, array) for oid, (name, _, array) in BASIC_TYPES.items()}


def test_an_unknown_type_is_its_text(pgconn: pq.abc.PGconn) -> None:
    text, columns = ResultReader().finish(run(pgconn, "SELECT '(1,2)'::point AS x"), TypeCatalog())
    assert (text, columns) == ('{"rows":[{"x":"(1,2)"}],"row_count":1}', (("x", "???"),))
