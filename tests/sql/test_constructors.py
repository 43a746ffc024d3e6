"""Constructors and auto-wrap: the bytes they give, what they take for a step and what they refuse."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.engine.support import Database
from workbench.graph.shapes import NODE_TYPES

ONE = '{"node_type":"SQL","query":"SELECT 1"}'
TWO = '{"node_type":"SQL","query":"SELECT 2"}'


def refused(db: Database, query: str, *params: object) -> str:
    """The primary message of the error that a query raises."""
    with pytest.raises(psycopg.Error) as error:
        db.execute(query, *params)
    return str(error.value.diag.message_primary)


def test_sql_is_a_leaf_whatever_its_text_says(db: Database) -> None:
    assert db.value("SELECT df.sql('SELECT 1')") == ONE
    assert json.loads(db.value("SELECT df.sql(%s)", ONE)) == {"node_type": "SQL", "query": ONE}


def test_seq_and_as_nest_what_they_are_given(db: Database) -> None:
    assert (
        db.value("""SELECT df.seq(df."as"('SELECT 1', 'x'), df.sql('SELECT 2'))""")
        == '{"node_type":"THEN","left_node":{"node_type":"SQL","query":"SELECT 1","result_name":"x"},'
        f'"right_node":{TWO}}}'
    )


def test_a_second_name_replaces_the_first(db: Database) -> None:
    assert db.value("""SELECT df."as"(df."as"('SELECT 1', 'x'), 'y')""") == (
        '{"node_type":"SQL","query":"SELECT 1","result_name":"y"}'
    )


def test_a_name_stands_before_retry_and_options(db: Database) -> None:
    node = (
        '{"node_type":"SQL","query":"q","retry":{"max_attempts":2},"options":{"transaction":false}}'
    )
    assert db.value("""SELECT df."as"(%s, 'x')""", node) == (
        '{"node_type":"SQL","query":"q","result_name":"x","retry":{"max_attempts":2},'
        '"options":{"transaction":false}}'
    )


@pytest.mark.parametrize(
    "call",
    [
        "df.sql(NULL)",
        "df.seq(NULL, 'x')",
        "df.seq('x', NULL)",
        "df.\"as\"(NULL, 'x')",
        "df.\"as\"('SELECT 1', NULL)",
        "df.as_op(NULL, 'x')",
        "NULL ~> 'x'",
        "'x' |=> NULL",
        "df.setvar('a', NULL)",
        "df.setvar(NULL, 'a')",
        "df.getvar(NULL)",
        "df.unsetvar(NULL)",
    ],
)
def test_a_null_argument_gives_null(db: Database, call: str) -> None:
    assert db.value(f"SELECT {call}") is None
    assert db.value("SELECT count(*) FROM df.vars") == 0


def test_the_types_that_constructors_know_are_those_of_python(db: Database) -> None:
    assert tuple(db.value("SELECT df._node_types()")) == NODE_TYPES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "SELECT 1",
        "[1, 2]",
        '"text"',
        "7",
        "null",
        "{}",
        '{"a": 1}',
        '{"node_type": 7}',
        '{"node_type": null}',
        '{"node_type": "NOPE", "query": "x"}',
        '{"node_type":"sql","query":"x"}',
        '[{"node_type":"SQL","query":"x"}]',
        '{"node_type":"SQL","query":"cut off',
        '{"a": "\\u0000"}',
        "{1,2}",
    ],
)
def test_text_that_is_no_graph_becomes_sql(db: Database, text: str) -> None:
    built = json.loads(db.value("SELECT df.seq(%s, 'SELECT 1')", text))
    assert built["left_node"] == {"node_type": "SQL", "query": text}


@pytest.mark.parametrize("node_type", NODE_TYPES)
def test_a_node_of_any_type_of_the_language_is_taken_as_it_is(db: Database, node_type: str) -> None:
    node = f'{{"node_type":"{node_type}","query":"{{}}"}}'
    assert db.value("SELECT df.seq(%s, 'SELECT 1')", node) == (
        f'{{"node_type":"THEN","left_node":{node},"right_node":{ONE}}}'
    )


def test_graphs_from_other_printers_of_json_become_compact_and_ordered(db: Database) -> None:
    foreign = """
    { "options" : {"b": [1, {"c": "\\u0041\\/"}], "a": {}}, "query": null, "extra_nodes": [],
      "right_node": {"query": "\\u00e9 \\"", "node_type": "SQL", "result_name": null},
      "left_node": {"node_type": "SQL", "query": "SELECT 1"}, "node_type": "THEN" }"""
    assert db.value("""SELECT df."as"(%s, 'x')""", foreign) == (
        f'{{"node_type":"THEN","left_node":{ONE},"right_node":{{"node_type":"SQL","query":"é \\""}},'
        '"result_name":"x","options":{"b":[1,{"c":"A/"}],"a":{}}}'
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"node_type":"SQL","query":7}', "root: query must be text, not number"),
        ('{"node_type": "SQL", "query": []}', "root: query must be text, not array"),
        (
            '{"node_type":"SQL","query":"x","result_name":{}}',
            "root: result_name must be text, not object",
        ),
        (
            '{"node_type":"SQL","query":"x","retry":3}',
            "root: retry must be a JSON object, not number",
        ),
        ('{"node_type":"SQL","sql":"x"}', "root: unknown key 'sql'; a node has only node_type, "),
        (
            '{"node_type":"THEN","left_node":"x"}',
            "root: failed to deserialize Durofut child: left_node must be a JSON object",
        ),
        (
            '{"node_type":"THEN","left_node":{"query":"x"}}',
            "root.left: failed to deserialize Durofut child: a node is a JSON object with a node_type",
        ),
        (
            f'{{"node_type":"THEN","left_node":{ONE},"right_node":{{"node_type":"SQL","query":5}}}}',
            "root.right: query must be text, not number",
        ),
        (
            '{"node_type":"IF","condition_node":7}',
            "root: condition_node must be a Durofut JSON object",
        ),
        (
            '{"node_type":"JOIN","extra_nodes":{}}',
            "root: extra_nodes entries must be Durofut JSON objects",
        ),
        (
            '{"node_type":"JOIN","extra_nodes":[7]}',
            "root: extra_nodes entries must be Durofut JSON objects",
        ),
        ('{"node_type":"SQL","query":"\\u0000"}', "text contains NUL"),
    ],
)
def test_a_broken_node_is_refused_by_constructors(db: Database, text: str, fault: str) -> None:
    message = refused(db, "SELECT df.seq(%s, 'SELECT 1')", text)
    assert message.startswith(f"Invalid Durofut JSON: failed to deserialize workflow step: {fault}")


def test_nesting_that_jsonb_cannot_read_is_refused_as_too_deep(db: Database) -> None:
    text = '{"node_type":"THEN","left_node":' * 40_000 + "1" + "}" * 40_000
    assert "exceeds maximum nesting depth of 256" in refused(db, "SELECT df.seq(%s, 'x')", text)
    assert "exceeds maximum nesting depth of 256" in refused(db, "SELECT df.start(%s)", text)


@pytest.mark.parametrize("call", ['df."as"(%s, %s)', "%s |=> %s", "df.as_op(%s, %s)"])
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "result name cannot be empty"),
        ("9x", "'9x' is not a valid identifier; use letters, digits and underscores"),
        ("a b", "'a b' is not a valid identifier"),
        ("a.b", "'a.b' is not a valid identifier"),
        ("ä", "'ä' is not a valid identifier"),
        ("a\n", "'a\n' is not a valid identifier"),
        ("a'; DROP TABLE x; --", "'a'; DROP TABLE x; --' is not a valid identifier"),
        ("input", "'input' is reserved for the run's input"),
    ],
)
def test_a_name_must_be_an_identifier(db: Database, call: str, name: str, fault: str) -> None:
    assert refused(db, f"SELECT {call}", "SELECT 1", name).startswith(f"df.as: {fault}")


def test_names_have_no_length_limit(db: Database) -> None:
    assert (
        json.loads(db.value("SELECT 'SELECT 1' |=> repeat('x', 100000)"))["result_name"]
        == "x" * 100_000
    )


def test_version_names_the_release(db: Database) -> None:
    import re

    import workbench

    assert re.fullmatch(
        re.escape(workbench.__version__) + r" \(built \d{8}-\d+\)", db.value("SELECT df.version()")
    )


def test_the_target_database_is_the_one_that_holds_the_schema(db: Database) -> None:
    assert db.value("SELECT df.target_database() = current_database()")


def test_what_shows_that_a_helper_was_called_ends_with_the_statement(db: Database) -> None:
    db.execute("BEGIN")
    db.execute("SELECT df.setvar('a', 'b')")
    assert db.value("SELECT df.seq('SELECT 1', 'SELECT 2')") is not None
    db.execute("ROLLBACK")


HELPERS = [
    ("df.setvar('a', 'b')", "df.setvar"),
    ("df.unsetvar('a')", "df.unsetvar"),
    ("df.clearvars()", "df.clearvars"),
]


@pytest.mark.parametrize(("call", "name"), HELPERS)
@pytest.mark.parametrize(
    "outer",
    [
        "df.seq({}, 'SELECT 1')",
        "df.seq('SELECT 1', {})",
        "{} ~> df.sql('SELECT 1')",
        "{} |=> 'x'",
        "df.start({})",
        "df.start({}, 'label')",
    ],
)
def test_a_helper_is_not_a_step(db: Database, outer: str, call: str, name: str) -> None:
    assert refused(db, f"SELECT {outer.format(call)}") == (
        f"{name} cannot be used as a workflow step. Call {name} before df.start()."
    )
    assert db.value("SELECT count(*) FROM df.instances") == 0


def test_await_instance_is_not_a_step(db: Database) -> None:
    run = db.start("SELECT 1")
    db.execute("SELECT df.cancel(%s)", run)
    assert refused(db, "SELECT df.await_instance(%s) ~> 'SELECT 1'", run) == (
        "df.await_instance cannot be used as a workflow step. Call df.await_instance before df.start()."
    )


def test_a_do_block_is_one_statement(db: Database) -> None:
    text = "DO $$ BEGIN PERFORM df.setvar('a', 'b'); PERFORM df.start({}); END $$"
    assert "df.setvar cannot be used" in refused(db, text.format("'SELECT 1'"))
    db.execute(text.format("df.sql('SELECT 1')"))
    assert db.value("SELECT count(*) FROM df.instances") == 1


def test_getvar_may_be_a_step(db: Database) -> None:
    db.execute("SELECT df.setvar('query', 'SELECT 7')")
    assert json.loads(db.value("SELECT df.getvar('query') |=> 'x'"))["query"] == "SELECT 7"
