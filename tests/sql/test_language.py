"""The constructors of control flow, waiting and HTTP: the bytes they give and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.engine.support import Database

A, B, C = (f'{{"node_type":"SQL","query":"{text}"}}' for text in "abc")


def config(db: Database, call: str, *params: object) -> Any:
    """The config of the node that a call builds."""
    return json.loads(json.loads(db.value(f"SELECT {call}", *params))["query"])


def refused(db: Database, query: str, *params: object) -> str:
    with pytest.raises(psycopg.Error) as error:
        db.execute(query, *params)
    return str(error.value.diag.message_primary)


@pytest.mark.parametrize(
    ("call", "node"),
    [
        ("df.\"join\"('a', 'b')", f'{{"node_type":"JOIN","left_node":{A},"right_node":{B}}}'),
        (
            "df.join3('a', 'b', 'c')",
            f'{{"node_type":"JOIN","left_node":{A},"right_node":{B},"extra_nodes":[{C}]}}',
        ),
        ("df.race('a', 'b')", f'{{"node_type":"RACE","left_node":{A},"right_node":{B}}}'),
        (
            "df.\"if\"('a', 'b', 'c')",
            f'{{"node_type":"IF","left_node":{B},"right_node":{C},"condition_node":{A}}}',
        ),
        (
            "df.if_rows('r', 'a', 'b')",
            f'{{"node_type":"IF","left_node":{A},"right_node":{B},"query":'
            '"{\\"condition_type\\":\\"result_has_rows\\",\\"result_name\\":\\"r\\"}"}',
        ),
        ("df.loop('a')", f'{{"node_type":"LOOP","left_node":{A}}}'),
        ("df.loop('a', NULL)", f'{{"node_type":"LOOP","left_node":{A}}}'),
        ("df.loop('a', 'b')", f'{{"node_type":"LOOP","left_node":{A},"condition_node":{B}}}'),
        (
            "df.loop('a', 'b', '1 second')",
            f'{{"node_type":"LOOP","left_node":{A},"condition_node":{B}}}',
        ),
        (
            "df.loop('a', min_interval => interval '0.50 seconds')",
            f'{{"node_type":"LOOP","left_node":{A},"options":{{"min_interval":0.5}}}}',
        ),
        (
            "df.loop('a', 'b', interval '2 minutes')",
            f'{{"node_type":"LOOP","left_node":{A},"condition_node":{B},'
            '"options":{"min_interval":120}}',
        ),
        (
            "df.loop('a', min_interval => '0')",
            f'{{"node_type":"LOOP","left_node":{A},"options":{{"min_interval":0}}}}',
        ),
        (
            "df.loop('a', min_interval => '1 microsecond')",
            f'{{"node_type":"LOOP","left_node":{A},"options":{{"min_interval":0.000001}}}}',
        ),
        ("df.break()", '{"node_type":"BREAK","query":"{\\"break_value\\":null}"}'),
        ("df.break(NULL)", '{"node_type":"BREAK","query":"{\\"break_value\\":null}"}'),
        ("df.break('done')", '{"node_type":"BREAK","query":"{\\"break_value\\":\\"done\\"}"}'),
        ("df.break('')", '{"node_type":"BREAK","query":"{\\"break_value\\":\\"\\"}"}'),
        ("df.sleep(5)", '{"node_type":"SLEEP","query":"5"}'),
        ("df.sleep(0)", '{"node_type":"SLEEP","query":"0"}'),
        (
            "df.wait_for_schedule('0 9 * * 1')",
            '{"node_type":"WAIT_SCHEDULE","query":"{\\"cron_expr\\":\\"0 9 * * 1\\"}"}',
        ),
        (
            "df.wait_for_schedule('0 9 * * 1', 'UTC')",
            '{"node_type":"WAIT_SCHEDULE","query":"{\\"cron_expr\\":\\"0 9 * * 1\\"}"}',
        ),
        (
            "df.wait_for_schedule('0 9 * * 1', timezone => 'Europe/Berlin')",
            '{"node_type":"WAIT_SCHEDULE","query":"{\\"cron_expr\\":\\"0 9 * * 1\\",'
            '\\"timezone\\":\\"Europe/Berlin\\"}"}',
        ),
        (
            "df.wait_for_signal('ok')",
            '{"node_type":"SIGNAL","query":"{\\"signal_name\\":\\"ok\\",\\"timeout_seconds\\":null}"}',
        ),
        (
            "df.wait_for_signal('ok', 60)",
            '{"node_type":"SIGNAL","query":"{\\"signal_name\\":\\"ok\\",\\"timeout_seconds\\":60}"}',
        ),
    ],
)
def test_each_constructor_gives_its_bytes(db: Database, call: str, node: str) -> None:
    assert db.value(f"SELECT {call}") == node


def test_a_request_is_stored_with_all_keys_in_one_order(db: Database) -> None:
    assert db.value("SELECT df.http('https://host/')") == (
        '{"node_type":"HTTP","query":"{\\"url\\":\\"https://host/\\",\\"method\\":\\"POST\\",'
        '\\"body\\":null,\\"headers\\":null,\\"timeout_seconds\\":30}"}'
    )
    assert db.value(
        """SELECT df.http('https://host/', 'put', 'x "y"', '{"Bb": "1", "A": "2"}', 5)"""
    ) == (
        '{"node_type":"HTTP","query":"{\\"url\\":\\"https://host/\\",\\"method\\":\\"PUT\\",'
        '\\"body\\":\\"x \\\\\\"y\\\\\\"\\",\\"headers\\":{\\"A\\":\\"2\\",\\"Bb\\":\\"1\\"},'
        '\\"timeout_seconds\\":5}"}'
    )


def test_an_upload_is_stored_with_all_keys_in_one_order(db: Database) -> None:
    parts = """[{"name": "f", "data_b64": "eA==", "filename": "x"}]"""
    assert db.value("SELECT df.http_multipart('https://host/', parts => %s)", parts) == (
        '{"node_type":"HTTP_MULTIPART","query":"{\\"url\\":\\"https://host/\\",\\"method\\":\\"POST\\",'
        '\\"parts\\":[{\\"name\\":\\"f\\",\\"data_b64\\":\\"eA==\\",\\"filename\\":\\"x\\"}],'
        '\\"headers\\":null,\\"timeout_seconds\\":30}"}'
    )


@pytest.mark.parametrize("method", ["get", "POST", "Put", "delete", "PATCH"])
def test_methods_are_stored_in_upper_case(db: Database, method: str) -> None:
    assert config(db, "df.http('https://h', %s)", method)["method"] == method.upper()


@pytest.mark.parametrize("url", ["{base}/x", "{secret:HOST}/x", "ftp://{host}", "HTTPS://h?q#f"])
def test_a_scheme_that_a_variable_may_hold_is_not_judged(db: Database, url: str) -> None:
    assert config(db, "df.http(%s)", url)["url"] == url


def test_options_of_a_request_are_merged_and_ordered(db: Database) -> None:
    options = """'{"raise_for_status": true, "retry_statuses": [429, 408]}'"""
    built = db.value(f"SELECT df.with_http(df.http('https://h') |=> 'r', {options})")
    assert built.endswith(
        '"result_name":"r","options":{"retry_statuses":[429,408],"raise_for_status":true}}'
    )
    again = """'{"raise_for_status": false, "retry_statuses": [500]}'"""
    assert db.value("SELECT df.with_http(%s, " + again + ")", built).endswith(
        '"result_name":"r","options":{"retry_statuses":[500]}}'
    )
    nothing = """'{"raise_for_status": false, "retry_statuses": []}'"""
    assert db.value("SELECT df.with_http(%s, " + nothing + ")", built).endswith(
        '"result_name":"r"}'
    )


def test_a_later_sink_replaces_an_earlier_one(db: Database) -> None:
    built = db.value("""SELECT df.with_http(df.http('https://h'), '{"sink": "a.b(c)"}')""")
    again = """'{"sink": "a.b(d)", "retry_statuses": [429]}'"""
    assert db.value(f"SELECT df.with_http(%s, {again})", built).endswith(
        '"options":{"sink":"a.b(d)","retry_statuses":[429]}}'
    )


def test_options_of_an_upload_are_taken(db: Database) -> None:
    upload = """df.http_multipart('https://h', parts => '[{"name": "a", "data_b64": ""}]')"""
    built = db.value(f"""SELECT df.with_http({upload}, '{{"retry_statuses": [503]}}')""")
    assert json.loads(built)["options"] == {"retry_statuses": [503]}


def test_a_name_may_be_given_to_every_node(db: Database) -> None:
    for step in (
        "df.sleep(1)",
        "df.break('x')",
        "df.wait_for_schedule('* * * * *')",
        "df.loop('a')",
        "df.race('a', 'b')",
        "df.http('https://h')",
    ):
        assert json.loads(db.value(f"SELECT {step} |=> 'x'"))["result_name"] == "x"


@pytest.mark.parametrize(
    "call",
    [
        "df.\"join\"('a', NULL)",
        "df.join3('a', 'b', NULL)",
        "df.race(NULL, 'a')",
        "df.\"if\"('a', NULL, 'c')",
        "df.if_rows(NULL, 'a', 'b')",
        "df.sleep(NULL)",
        "df.wait_for_schedule(NULL)",
        "df.wait_for_schedule('* * * * *', NULL)",
        "df.with_http(NULL, '{}')",
        "df.with_http(df.http('https://h'), NULL)",
        "df.if_then_op('a', NULL)",
        "df.if_else_op(NULL, 'a')",
        "df.loop_prefix_op(NULL)",
        "NULL & 'x'",
        "'x'::text | NULL",
        "'x' ?> 'y' !> NULL",
        "@> NULL::text",
    ],
)
def test_a_null_argument_gives_null(db: Database, call: str) -> None:
    assert db.value(f"SELECT {call}") is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("df.sleep(-1)", "Sleep duration must be non-negative"),
        ("df.wait_for_schedule('* * * *')", "Invalid cron expression '* * * *': expected 5 fields"),
        ("df.wait_for_schedule('61 * * * *')", "Invalid cron expression '61 * * * *': minute '61'"),
        ("df.wait_for_schedule('* * * * *', 'Mars')", "Unknown time zone 'Mars': "),
        ("df.wait_for_signal('')", "Signal name cannot be empty"),
        ("df.wait_for_signal(NULL)", "Signal name cannot be empty"),
        ("df.wait_for_signal('s', 0)", "Timeout must be positive"),
        ("df.wait_for_signal('s', -1)", "Timeout must be positive"),
        ("df.loop(NULL)", "df.loop: body is required and cannot be NULL"),
        (
            "df.loop('a', min_interval => '-1 second')",
            "df.loop: min_interval must be at least 0 and at most 1,000 years, not -00:00:01",
        ),
        (
            "df.loop('a', 'b', NULL)",
            "df.loop: min_interval must be at least 0 and at most 1,000 years, not NULL",
        ),
        ("df.if_rows('', 'a', 'b')", "df.if_rows: result name cannot be empty"),
        ("df.if_rows('a b', 'a', 'b')", "df.if_rows: 'a b' is not a valid identifier"),
        (
            "df.http('https://h', 'FETCH')",
            "Invalid HTTP method: FETCH. Must be GET, POST, PUT, DELETE, or PATCH",
        ),
        ("df.http('https://h', NULL)", "Invalid HTTP method: NULL. Must be "),
        ("df.http(NULL)", "url is required and cannot be NULL"),
        ("df.http('https://h', timeout_seconds => 0)", "Timeout must be positive"),
        ("df.http('https://h', timeout_seconds => NULL)", "Timeout must be positive"),
        (
            "df.http('ftp://h')",
            "Blocked: unsupported URL scheme 'ftp'. Only http and https are allowed.",
        ),
        ("df.http('$base/x')", "Blocked: unsupported URL scheme ''. Only http and https"),
        ("df.http('https:')", "Invalid URL 'https:': it names no host; write https://host/path"),
        (
            """df.http('https://h', headers => '{"X": 3}')""",
            "header 'X' must be text, not number; write it in quotes",
        ),
        ("df.http('https://h', headers => '[]')", "headers must be a JSON object"),
        (
            "df.http_multipart('https://h', 'GET')",
            "Invalid HTTP method for multipart: GET. Must be POST, PUT, or PATCH",
        ),
        ("df.http_multipart('https://h')", "parts is required and cannot be NULL"),
        ("df.http_multipart('https://h', parts => '{}')", "parts must be a JSON array of part"),
        ("df.http_multipart('https://h', parts => '[]')", "parts must contain at least one part"),
        ("df.http_multipart('x://h', parts => '[1]')", "Blocked: unsupported URL scheme 'x'."),
        (
            "df.with_http('SELECT 1', '{}')",
            "df.with_http: only HTTP and HTTP_MULTIPART nodes have these options, not SQL",
        ),
        ("df.with_http(df.http('https://h'), '[]')", "df.with_http: options must be a JSON object"),
        (
            """df.with_http(df.http('https://h'), '{"sink": "pages(body)"}')""",
            "df.with_http: option 'sink' must read schema.table(column), not \"pages(body)\"",
        ),
        (
            """df.with_http(df.http('https://h'), '{"retry_statuses": [99]}')""",
            "df.with_http: option 'retry_statuses' must be a list of HTTP statuses from 100 to 599",
        ),
    ],
)
def test_a_wrong_argument_is_refused(db: Database, call: str, message: str) -> None:
    assert refused(db, f"SELECT {call}").startswith(message)


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize(
    "call", ['df."if"({})', "df.join3({})", "df.if_rows('r', {})", "df.race({})", "df.loop({})"]
)
def test_every_step_of_a_composite_is_wrapped_alike(db: Database, call: str, position: int) -> None:
    """Graphs stay, other JSON is SQL, and what is meant as a graph and is none is refused."""
    width = {"df.race({})": 2, "df.loop({})": 2, "df.if_rows('r', {})": 2}.get(call, 3)
    steps = ["'x'"] * width
    at = min(position, width - 1)
    for given, query in [("{1,2}", "{1,2}"), ('{"node_type":"NOPE"}', '{"node_type":"NOPE"}')]:
        steps[at] = "%s"
        built = db.value(f"SELECT {call.format(', '.join(steps))}", given)
        wrapped = json.dumps({"node_type": "SQL", "query": query}, separators=(",", ":"))
        assert wrapped in built
    message = refused(
        db, f"SELECT {call.format(', '.join(steps))}", '{"node_type":"SQL","query":7}'
    )
    assert message.startswith("Invalid Durofut JSON: failed to deserialize workflow step: ")
    steps[at] = "df.setvar('a', 'b')"
    assert refused(db, f"SELECT {call.format(', '.join(steps))}").startswith(
        "df.setvar cannot be used as a workflow step"
    )


def test_names_signals_and_break_values_are_no_steps(db: Database) -> None:
    graph = '{"node_type":"SQL","query":7}'
    assert config(db, "df.break(%s)", graph) == {"break_value": graph}
    assert config(db, "df.wait_for_signal(%s)", graph)["signal_name"] == graph


def test_signatures_that_rights_are_granted_on_stay(db: Database) -> None:
    for signature in (
        "df.http(text,text,text,jsonb,integer)",
        "df.http_multipart(text,text,jsonb,jsonb,integer)",
        "df.sql(text)",
    ):
        assert db.value("SELECT to_regprocedure(%s) IS NOT NULL", signature)


def test_arguments_have_the_names_of_the_reference(db: Database) -> None:
    query = """SELECT proname || '(' || pg_get_function_arguments(oid) || ')' FROM pg_proc
               WHERE pronamespace = 'df'::regnamespace AND proname = ANY (%s) ORDER BY 1"""
    names = [
        *("sleep", "wait_for_schedule", "loop", "break", "if", "if_rows", "join", "join3", "race"),
        *("http", "http_multipart", "wait_for_signal", "with_http"),
    ]
    assert db.values(query, names) == [
        "break(value text DEFAULT NULL::text)",
        "http(url text, method text DEFAULT 'POST'::text, body text DEFAULT NULL::text, "
        "headers jsonb DEFAULT NULL::jsonb, timeout_seconds integer DEFAULT 30)",
        "http_multipart(url text, method text DEFAULT 'POST'::text, parts jsonb DEFAULT NULL::jsonb, "
        "headers jsonb DEFAULT NULL::jsonb, timeout_seconds integer DEFAULT 30)",
        "if(condition text, then_branch text, else_branch text)",
        "if_rows(result_name text, then_branch text, else_branch text)",
        "join(a text, b text)",
        "join3(a text, b text, c text)",
        "loop(body text, condition text DEFAULT NULL::text, "
        "min_interval interval DEFAULT '00:00:01'::interval)",
        "race(a text, b text)",
        "sleep(seconds bigint)",
        "wait_for_schedule(cron_expr text, timezone text DEFAULT 'UTC'::text)",
        "wait_for_signal(name text, timeout_seconds integer DEFAULT NULL::integer)",
        "with_http(fut text, options jsonb)",
    ]
