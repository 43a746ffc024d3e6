"""Flows that are defined and started in SQL: their versions, the same graphs as in Python, refusals."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.engine.support import Database
from workbench.engine.worker import Engine
from workbench.flow import Flow
from workbench.graph.build import external, ref, sql

VERSIONS = "SELECT version, started_at IS NOT NULL FROM df.flows WHERE slug = %s ORDER BY version"


def versions(db: Database, slug: str = "shop") -> list[Any]:
    return db.execute(VERSIONS, slug).fetchall()


def graph(db: Database, slug: str = "shop") -> Any:
    return db.value(
        "SELECT graph FROM df.flows WHERE slug = %s ORDER BY version DESC LIMIT 1", slug
    )


def define(db: Database, *steps: str) -> None:
    db.execute("SELECT df.create_flow('shop')")
    for step in steps:
        db.execute(f"SELECT df.add_step('shop', {step})")


def test_the_graph_is_the_one_that_python_builds(db: Database) -> None:
    flow = Flow("shop", max_attempts=4, base_delay=2, max_backoff=60)
    flow.add("pages", "SELECT n FROM generate_series(1, 3) n", timeout=5, start_delay=1)
    flow.add("price", sql("SELECT $item.n * 2 AS p"), after=["pages"], max_attempts=2)
    flow.add(
        "sent",
        external("send", rows=ref("price")),
        after=["pages", "price"],
        if_={"pages": [{"n": 1}]},
        if_not={"price": None},
        if_skipped="price",
        when_unmet="skip-cascade",
        when_exhausted="skip",
    )
    db.execute(
        """
        SELECT df.create_flow('shop', max_attempts => 4, base_delay => '2 s', max_backoff => '1 minute');
        SELECT df.add_step('shop', 'pages', '{}', 'SELECT n FROM generate_series(1, 3) n',
                           timeout => '5 s', start_delay => '1 s');
        SELECT df.add_step('shop', 'price', '{pages}', 'SELECT $item.n * 2 AS p', max_attempts => 2);
        SELECT df.add_step('shop', 'sent', '{pages,price}', df.external('send', '{"rows": {"$ref": "price"}}'),
                           if_ => '{"pages": [{"n": 1}]}', if_not => '{"price": null}', if_skipped => 'price',
                           when_unmet => 'skip-cascade', when_exhausted => 'skip');
        """
    )
    assert graph(db) == json.loads(flow.graph().to_json())
    run = db.value("SELECT id FROM df.start_flow('shop')")
    assert db.start(flow.graph()) != run
    assert versions(db) == [(1, True)]


def test_a_flow_runs_with_maps_and_conditions(db: Database, engine: Engine) -> None:
    define(
        db,
        "'pages', '{}', 'SELECT n FROM generate_series(1, 3) n'",
        "'price', '{pages}', 'SELECT 12 / ($item.n - 2) AS p', over => 'pages', "
        "return_exceptions => true, max_attempts => 1",
        "'none', '{pages}', 'SELECT 1', if_ => '{\"pages\": [{\"n\": 9}]}'",
        "'many', '{price}', 'SELECT jsonb_array_length($price) AS n'",
    )
    run = db.value("SELECT id FROM df.start_flow('shop', '{}')")
    db.wait(run)
    assert db.result(run)["many"]["rows"] == [{"n": 3}]


def test_steps_are_replaced_in_place_and_taken_out(db: Database) -> None:
    define(db, "'a', '{}', 'SELECT 1'", "'b', '{a}', 'SELECT 2'")
    db.execute("SELECT df.add_step('shop', 'a', '{}', 'SELECT 3')")
    assert [child["query"] for child in graph(db)["extra_nodes"]] == ["SELECT 3", "SELECT 2"]
    with pytest.raises(psycopg.Error, match="step 'b': it depends on \"a\", which is no step"):
        db.execute("SELECT df.drop_step('shop', 'a')")
    db.execute("SELECT df.drop_step('shop', 'b')")
    db.execute("SELECT df.drop_step('shop', 'a')")
    assert graph(db) == json.loads(Flow("shop").graph().to_json())
    with pytest.raises(psycopg.Error, match='no step "b"; it has: none'):
        db.execute("SELECT df.drop_step('shop', 'b')")


def test_a_started_version_never_changes_and_changing_nothing_makes_none(db: Database) -> None:
    define(db, "'a', '{}', 'SELECT 1'")
    first = db.value("SELECT id FROM df.start_flow('shop')")
    define(db, "'a', '{}', 'SELECT 1'")
    assert versions(db) == [(1, True)]
    define(db, "'a', '{}', 'SELECT 2'", "'b', '{a}', 'SELECT 3'")
    assert versions(db) == [(1, True), (2, False)]
    second = db.value("SELECT id FROM df.start_flow('shop')")
    assert versions(db) == [(1, True), (2, True)]
    query = "SELECT flow_version, graph::text FROM df.definitions WHERE instance_id = %s"
    assert [db.execute(query, run).fetchone() for run in (first, second)] == db.execute(
        "SELECT version, graph::text FROM df.flows ORDER BY version"
    ).fetchall()


def test_flows_started_in_python_are_versions_too(db: Database) -> None:
    old, new = Flow("shop"), Flow("shop")
    old.add("a", "SELECT 1")
    new.add("a", "SELECT 2")
    for flow in (old, new, old, new):
        db.start(flow.graph())
    assert versions(db) == [(1, True), (2, True)]
    query = "SELECT flow, flow_version FROM df.definitions ORDER BY created_at"
    assert db.execute(query).fetchall() == [("shop", n) for n in (1, 2, 1, 2)]


def test_a_run_may_have_an_id_of_the_callers(db: Database) -> None:
    define(db, "'a', '{}', 'SELECT 1'")
    assert db.value("SELECT id FROM df.start_flow('shop', run_id => 'abcd1234')") == "abcd1234"
    with pytest.raises(psycopg.errors.UniqueViolation, match="run abcd1234 exists already"):
        db.execute("SELECT df.start_flow('shop', run_id => 'abcd1234')")
    for bad in ("ABCD1234", "abcd123", "abcd12345", "", "abcd123g"):
        with pytest.raises(psycopg.Error, match="invalid run_id"):
            db.execute("SELECT df.start_flow('shop', run_id => %s)", bad)


def test_a_restart_is_checked_as_a_retry_is(db: Database, engine: Engine) -> None:
    define(db, "'a', '{}', 'SELECT 1 / $input', max_attempts => 1")
    failed = db.value("SELECT id FROM df.start_flow('shop', '0')")
    db.wait(failed, "failed")
    again = db.value("SELECT id FROM df.start_flow('shop', '1', restart_of_run_id => %s)", failed)
    db.wait(again)
    lineage = "SELECT run_id, restart_of_run_id, kind FROM df.lineage(%s) ORDER BY position"
    assert db.execute(lineage, failed).fetchall() == [
        (failed, None, "start"),
        (again, failed, "retry"),
    ]
    with pytest.raises(psycopg.Error, match="only a failed run can be retried"):
        db.execute("SELECT df.start_flow('shop', '1', restart_of_run_id => %s)", again)
    with pytest.raises(psycopg.Error, match="Instance not found or access denied: 00000000"):
        db.execute("SELECT df.start_flow('shop', '1', restart_of_run_id => '00000000')")
    other = db.start("SELECT 1 / 0")
    db.wait(other, "failed")
    with pytest.raises(psycopg.Error, match=f'run {other} is no run of flow "shop": nothing was'):
        db.execute("SELECT df.start_flow('shop', '1', restart_of_run_id => %s)", other)
    retried = db.value("SELECT id FROM df.retry_run(%s)", failed)
    query = "SELECT flow, flow_version FROM df.definitions WHERE instance_id = %s"
    assert db.execute(query, retried).fetchone() == ("shop", 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("create_flow(NULL)", "flow: null cannot be a slug"),
        ("create_flow('9')", 'flow: "9" cannot be a slug'),
        ("create_flow('shop', 0)", "invalid max_attempts 0"),
        ("add_step('nope', 'a', '{}', 'SELECT 1')", 'there is no flow "nope"'),
        ("add_step(NULL, 'a', '{}', 'SELECT 1')", 'there is no flow "NULL"'),
        ("add_step('shop', 'run', '{}', 'SELECT 1')", "it is reserved"),
        ("add_step('shop', NULL, '{}', 'SELECT 1')", "null cannot be a slug"),
        ("add_step('shop', 'a', '{}', NULL)", 'step "a" of flow "shop" has no node'),
        ("add_step('shop', 'a', '{b}', 'SELECT 1')", 'it depends on "b", which is no step'),
        ("add_step('shop', 'a', '{a}', 'SELECT 1')", "it depends on itself"),
        ("add_step('shop', 'a', '{}', 'SELECT 1', if_ => '[1]')", "if must be a JSON object"),
        ("add_step('shop', 'a', '{}', 'SELECT 1', when_unmet => 'x')", "when_unmet must be skip"),
        ("add_step('shop', 'a', '{}', 'SELECT 1', over => 'b')", "none of the steps"),
        ("add_step('shop', 'a', '{}', 'SELECT 1', timeout => '0 s')", "option 'timeout' must be"),
        ("add_step('shop', 'a', '{}', df.sleep(1), timeout => '1 s')", "'timeout' is not valid"),
        ("add_step('shop', 'a', '{}', df.seq('x', 'y'))", "a single leaf or a map of one"),
        ("drop_step('shop', 'a')", 'flow "shop" has no step "a"; it has: none'),
        ("start_flow('nope')", 'there is no flow "nope"'),
    ],
)
def test_what_is_no_flow_is_refused(db: Database, call: str, message: str) -> None:
    db.execute("SELECT df.create_flow('shop')")
    with pytest.raises(psycopg.Error, match=message):
        db.execute(f"SELECT df.{call}")
    assert versions(db) == [(1, False)]
    assert graph(db) == json.loads(Flow("shop").graph().to_json())


def test_a_map_over_an_input_that_is_no_list_starts_nothing(db: Database) -> None:
    define(db, "'a', '{}', 'SELECT $item', over => 'input'")
    with pytest.raises(psycopg.Error, match="which must be a list, not a value of type number"):
        db.execute("SELECT df.start_flow('shop', '3')")
    assert versions(db) == [(1, False)]
    assert db.value("SELECT count(*) FROM df.instances") == 0
