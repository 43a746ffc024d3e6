"""Random graphs of the whole language on a real engine: each ends, with the value it was made for.

Graph and value grow together, so that no interpreter is needed; that of the decider's own tests is
in tests/unit. Every graph also goes through SQL: what `to_sql` writes is what runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.engine.support import Database
from workbench.engine.worker import Engine
from workbench.graph import Node, break_, if_, join, loop, race, seq, sleep, sql

Made = tuple[Node, Any]

MANY = 200


def leaf(chance: random.Random, depth: int) -> Made:
    number = chance.randrange(100)
    return sql(f"SELECT {number} AS n"), {"rows": [{"n": number}], "row_count": 1}


def nap(chance: random.Random, depth: int) -> Made:
    return sleep(0), {"slept": True, "seconds": 0}


def sequence(chance: random.Random, depth: int) -> Made:
    steps = [graph(chance, depth - 1) for _ in range(chance.randint(2, 4))]
    return seq(*[node for node, _ in steps]), steps[-1][1]


def branches(chance: random.Random, depth: int) -> Made:
    steps = [graph(chance, depth - 1) for _ in range(chance.randint(2, 4))]
    return join(*[node for node, _ in steps]), [value for _, value in steps]


def winner(chance: random.Random, depth: int) -> Made:
    node, value = graph(chance, depth - 1)
    sides = [node, sleep(3600)]
    chance.shuffle(sides)
    return race(*sides), value


def condition(chance: random.Random, depth: int) -> Made:
    (then, yes), (other, no) = graph(chance, depth - 1), graph(chance, depth - 1)
    truth = chance.random() < 0.5
    return if_(f"SELECT {truth}", then, other), yes if truth else no


def once(chance: random.Random, depth: int) -> Made:
    node, value = graph(chance, depth - 1)
    return loop(node, while_="SELECT false"), value


def until_third(chance: random.Random, depth: int) -> Made:
    """Three iterations each time, counted outside."""
    node, value = graph(chance, depth - 1)
    name = f"s{chance.getrandbits(60)}"
    count = sql(f"SELECT count_up('{name}') AS n").named(name)
    return loop(count >> node, until=f"SELECT ${name} % 3 = 0", min_interval=0), value


def left(chance: random.Random, depth: int) -> Made:
    node, _ = graph(chance, depth - 1)
    value = chance.choice([None, "done", 7, {"a": [1]}])
    way_out = chance.choice([break_(value), join(break_(value), node), race(break_(value), node)])
    return loop(seq(node, way_out, "SELECT 1 / 0")), value


KINDS: list[Callable[[random.Random, int], Made]] = [
    *[leaf, nap],
    *[sequence, branches, winner, condition, once, until_third, left],
]


def graph(chance: random.Random, depth: int = 4) -> Made:
    kind = leaf if depth == 0 else chance.choice(KINDS)
    return kind(chance, depth)


def test_every_graph_ends_with_its_value(db: Database, engine: Engine) -> None:
    db.execute("CREATE TABLE counters (name text PRIMARY KEY, n int)")
    db.execute(
        "CREATE FUNCTION count_up(name text) RETURNS int LANGUAGE sql AS"
        " $$ INSERT INTO counters AS c VALUES (name, 1)"
        " ON CONFLICT ON CONSTRAINT counters_pkey DO UPDATE SET n = c.n + 1 RETURNING n $$"
    )
    made = [graph(random.Random(seed)) for seed in range(MANY)]
    # An expression of df.* calls, evaluated by the server.
    runs = [str(db.value(f"SELECT df.start({node.to_sql()})")) for node, _ in made]
    for run, (node, value) in zip(runs, made, strict=True):
        db.wait(run, timeout=60)
        assert db.result(run) == value, f"{run}\n{node}"
    assert (
        db.value("SELECT count(*) FROM df.nodes WHERE status IN ('ready', 'running', 'waiting')")
        == 0
    )
