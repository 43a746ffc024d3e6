"""What is written when: versions, revisions, one attempt row, named values, and whose names resolve."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine import step_handlers as handlers
from tests.engine.conftest import Role, StartEngine
from tests.engine.support import Database, wait_until
from workbench.engine.worker import Engine
from workbench.errors import HandlerError
from workbench.graph.build import py, ref, seq, sql


@pytest.fixture
def moves(db: Database) -> None:
    """A log of every status that a node took."""
    db.execute("CREATE TABLE moves (n serial, node int, status text)")
    db.execute(
        """CREATE FUNCTION log_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO public.moves (node, status) VALUES (NEW.node_id, NEW.status); RETURN NULL; END $$"""
    )
    db.execute(
        "CREATE TRIGGER log AFTER UPDATE ON df.nodes FOR EACH ROW EXECUTE FUNCTION log_move()"
    )


def statuses(db: Database, node: int) -> list[str]:
    return db.values("SELECT status FROM moves WHERE node = %s ORDER BY n", node)


@pytest.mark.usefixtures("moves")
def test_a_leaf_that_is_claimed_by_the_commit_that_makes_it_runnable_is_never_ready(
    db: Database, engine: Engine
) -> None:
    run = db.start(seq(sql("SELECT 1"), py(handlers.echo, value=1), sql("SELECT 2")))
    db.wait(run)
    assert [statuses(db, leaf) for leaf in (2, 3, 4)] == [["running", "completed"]] * 3
    # START, three completions: nothing else moved the run on.
    assert db.value("SELECT version FROM df.instances WHERE id = %s", run) == 4


def test_an_attempt_is_one_insert_and_a_definition_is_never_changed(
    db: Database, engine: Engine
) -> None:
    for table in ("attempts", "definitions"):
        db.execute(
            f"CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON df.{table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        )  # which raises when it is called so
    run = db.start(
        sql("SELECT 1 / (nextval('calls') - 1)") >> py(handlers.echo, value=1),
        max_attempts=2,
        max_backoff="10 milliseconds",
    )
    db.wait(run)
    assert db.outcomes(run) == [(1, "failed"), (1, "completed"), (2, "completed")]


def test_claims_do_not_bump_the_version_and_a_cancel_does(
    db: Database, start_engine: StartEngine
) -> None:
    version = "SELECT version FROM df.instances WHERE id = %s"
    engine = start_engine()
    run = db.start(sql("SELECT 1 / 0"), max_attempts=2)
    wait_until(lambda: db.outcomes(run) == [(0, "failed")])
    engine.stop()
    before = db.value(version, run)
    db.execute(
        "UPDATE df.nodes SET ready_at = df.now(), status = 'ready' WHERE instance_id = %s", run
    )
    db.execute("INSERT INTO df.engines SELECT 'manual', 9999, df._me(), '', 0, '', 1, 0")
    claim = "SELECT count(*) FROM df._claim('manual', ARRAY[gen_random_uuid()], '{}', true, '-infinity')"
    assert db.value(claim) == 1
    assert db.value(version, run) == before
    db.execute("SELECT df.cancel(%s)", run)
    assert db.value(version, run) == before + 1


def test_a_stale_copy_is_given_only_the_nodes_that_changed_since(
    db: Database, engine: Engine
) -> None:
    with db.gate(1):
        run = db.start(
            seq(sql("SELECT 1"), sql("SELECT pg_advisory_xact_lock_shared(1)"), sql("SELECT 3"))
        )
        db.wait_at_gate(1)
        changed = "SELECT df._lock_one(%s, %s) ->> 3"  # id, status, version, nodes, clock
        assert [row[0] for row in json.loads(db.value(changed, run, 1))] == [2, 3]
        assert db.value(changed, run, 2) is None
    db.wait(run)


def test_named_values_are_written_once_at_completion(db: Database, engine: Engine) -> None:
    with db.gate(1):
        run = db.start(
            seq(
                sql("SELECT 7 AS n").named("seven"),
                sql("SELECT 8 AS n"),
                sql("SELECT pg_advisory_xact_lock_shared(1)").named("last"),
            )
        )
        db.wait_at_gate(1)
        kept = "SELECT name, node_id FROM df.values WHERE instance_id = %s ORDER BY node_id"
        assert db.execute(kept, run).fetchall() == [("seven", 2)]
    db.wait(run)
    assert db.execute(kept, run).fetchall() == [("seven", 2), ("last", 4)]


def test_names_in_the_roles_own_path_do_not_reach_the_engines_statements(
    db: Database, start_engine: StartEngine, roles: tuple[Role, Role]
) -> None:
    role, _ = roles
    db.execute("CREATE SCHEMA traps")
    db.execute(f"GRANT USAGE ON SCHEMA traps TO {role.name}")
    for name in ("clock_timestamp", "pg_backend_pid"):
        db.execute(
            f"CREATE FUNCTION traps.{name}() RETURNS timestamptz LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE 'trapped'; END $$"
        )
    own = db.conn.info.dbname
    db.execute(f"ALTER ROLE {role.name} IN DATABASE {own} SET search_path = traps, pg_catalog")
    db.execute(f"SET ROLE {role.name}")
    run = db.start(
        sql("SELECT current_setting('search_path') AS path") >> py(handlers.echo, value=1)
    )
    path = db.start(sql("SELECT current_setting('search_path') AS path"))
    db.execute("RESET ROLE")
    start_engine(role.dsn)
    db.wait(run)
    db.wait(path)
    assert db.rows(path) == [{"path": "traps, pg_catalog"}]  # the step's own statement has it


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        # One key is a reference by rule.
        | st.dictionaries(
            st.text(st.characters(codec="ascii", exclude_characters="$\0")), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(values=st.lists(JSON, min_size=1, max_size=10))
def test_any_json_value_arrives_equal_in_the_next_step(
    db: Database, engine: Engine, values: list[object]
) -> None:
    # Wrapped: a bare list of objects is a row set, which is a list of dicts all the same.
    run = db.start(
        py(handlers.echo, value={"values": values}).named("given")
        >> py(handlers.represent, value=ref("given"))
    )
    db.wait(run)
    assert db.result(run) == repr(handlers.in_order({"values": values}))


def helper_inside() -> object:
    def inner() -> int:
        return 1

    return inner


def test_an_unstorable_handler_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(HandlerError, match="cannot be a handler"):
        py(lambda: 1)
    with pytest.raises(HandlerError, match="cannot be a handler"):
        py(helper_inside())  # type: ignore[arg-type]


def test_a_value_stays_a_value_whatever_the_database_takes_for_a_string(
    db: Database, start_engine: StartEngine
) -> None:
    name = db.value("SELECT quote_ident(current_database())")
    db.execute(f"ALTER DATABASE {name} SET standard_conforming_strings = off")
    start_engine()
    hostile = "\\' || current_user || '"
    text = f"SELECT $text${hostile}$text$ AS value"
    run = db.start(sql(text).named("given") >> sql("SELECT $given AS value"))
    db.wait(run)
    assert db.rows(run) == [{"value": hostile}]
