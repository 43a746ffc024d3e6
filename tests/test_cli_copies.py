"""`workbench db dump`, `restore` and `destroy`: nothing is lost, nothing goes without being asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.engine.support import wait_until
from tests.remote.commands import Command, environment
from workbench.bench import Bench
from workbench.connecting import connect
from workbench.graph.build import sql
from workbench.graph.waiting import wait_for_signal
from workbench.store import embedded

Cli = Callable[..., Command]
TABLE = "CREATE TABLE mine AS SELECT 7 AS x"


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    """Run `workbench db …` for the test's own server, in `tmp_path`."""
    return lambda *arguments, **variables: Command(
        "db", *arguments, cwd=tmp_path, WORKBENCH_HOME=str(home), **variables
    )


@pytest.fixture
def bench(home: Path) -> Iterator[Bench]:
    """A bench on the test's own server."""
    embedded.ensure(home, settings={"fsync": "off"})
    with closing(connect(home=home)) as bench:
        yield bench


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_after_dump_destroy_and_restore_all_runs_are_there_and_unfinished_ones_go_on(
    bench: Bench, home: Path, cli: Cli, tmp_path: Path
) -> None:
    done = bench.start(sql("SELECT 6 * 7 AS n"))
    done.result(timeout=20)
    graph = (
        sql("SELECT nextval('calls') AS n").named("n")
        >> wait_for_signal("go")
        >> sql("SELECT $n.n AS n")
    )
    bench.query("CREATE SEQUENCE calls")
    waiting = bench.start(graph)
    wait_until(lambda: "waiting" in [node.status for node in waiting.nodes])
    copied = cli("dump", "a.dump")  # while the engine works
    assert (copied.status, copied.err) == (0, "")
    assert copied.out.startswith(f"{tmp_path / 'a.dump'}, ")
    bench.close()

    assert cli("destroy", "--yes").status == 0
    assert not home.exists()
    embedded.ensure(home, settings={"fsync": "off"})
    restored = cli("restore", "a.dump")
    assert (restored.status, restored.err) == (0, "")

    with closing(connect(home=home)) as again:
        assert again.get(done.id).result() == {"rows": [{"n": 42}], "row_count": 1}
        run = again.get(waiting.id)
        run.signal("go")
        assert run.result(timeout=20) == {"rows": [{"n": 1}], "row_count": 1}
    assert files(tmp_path) == ["a.dump"]


def test_a_database_with_data_is_replaced_only_on_demand_and_as_a_whole(
    bench: Bench, cli: Cli
) -> None:
    bench.query(TABLE)
    bench.close()
    assert cli("dump", "a.dump").status == 0
    refused = cli("restore", "a.dump")
    assert (refused.status, refused.out) == (1, "")
    assert "tables of your own: 1), and nothing was changed" in refused.err
    assert "--replace" in refused.err
    assert cli("restore", "a.dump", "--replace").status == 0


def test_a_copy_that_cannot_be_read_leaves_the_database_as_it_was(
    bench: Bench, cli: Cli, tmp_path: Path
) -> None:
    bench.query(TABLE)
    bench.hold()
    assert cli("dump", "whole.dump").status == 0
    whole = (tmp_path / "whole.dump").read_bytes()
    (tmp_path / "half.dump").write_bytes(whole[: len(whole) // 2])
    failed = cli("restore", "half.dump", "--replace")
    assert (failed.status, failed.out) == (1, "")
    assert failed.err.startswith("workbench: pg_restore failed, and nothing was changed")
    assert bench.query("SELECT x FROM mine").x.tolist() == [7]
    databases = bench.query("SELECT datname FROM pg_database WHERE datname LIKE 'workbench%'")
    assert databases.empty


def test_nothing_is_replaced_or_destroyed_below_an_engine_at_work(
    bench: Bench, home: Path, cli: Cli
) -> None:
    bench.start(sql("SELECT 1")).result(timeout=20)
    assert cli("dump", "a.dump").status == 0
    for command in (["restore", "a.dump", "--replace"], ["destroy", "--yes"]):
        refused = cli(*command)
        assert refused.status == 1
        assert "engines are at work here, and nothing was changed" in refused.err
    assert bench.query("SELECT count(*) AS n FROM df.instances").n.tolist() == [1]
    assert embedded.status(home).running


def test_destroying_lists_what_goes_and_asks(bench: Bench, home: Path, cli: Cli) -> None:
    bench.start(sql("SELECT 1")).result(timeout=20)
    bench.close()
    (home / "mine.txt").write_text("not the server's")
    asked = cli("destroy")
    assert (asked.status, asked.err) == (1, "")
    assert "finished runs           1 completed" in asked.out
    assert "workbench db destroy --yes" in asked.out
    assert embedded.status(home).running
    assert cli("destroy", "--yes").status == 0
    assert files(home) == ["mine.txt"]
    nothing = cli("destroy", "--yes")
    assert (nothing.status, nothing.out) == (
        0,
        f"there is no embedded Postgres in {home}: nothing to remove\n",
    )


def test_a_folder_that_is_no_home_is_left_alone(home: Path, cli: Cli) -> None:
    home.mkdir()
    (home / "log").write_text("somebody's")
    assert cli("destroy", "--yes").status == 0
    assert files(home) == ["log"]


def test_a_dump_overwrites_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.dump").write_text("precious")
    refused = cli("dump", "a.dump")
    assert refused.status == 1
    assert "exists already, and was left alone" in refused.err
    assert (tmp_path / "a.dump").read_text() == "precious"


def test_a_missing_pg_dump_names_what_to_install(bench: Bench, home: Path, cli: Cli) -> None:
    folder = home.parent / "bin"
    folder.mkdir()
    for name in ("postgres", "initdb"):
        (folder / name).touch(0o755)
    refused = cli("dump", "a.dump", WORKBENCH_PG_BIN=str(folder), PATH="/nowhere")
    assert refused.status == 1
    assert "there is no pg_dump" in refused.err
    assert "apt install postgresql-client" in refused.err


def test_a_copy_takes_the_data_to_another_version_of_postgres(home: Path, cli: Cli) -> None:
    ours = embedded.find_bin()
    others = [it for it in sorted(Path("/usr/lib/postgresql").glob("*/bin")) if it != ours]
    if not others or not (others[0] / "pg_dump").exists():
        pytest.skip("there is only one version of Postgres here")
    old = {"WORKBENCH_PG_BIN": str(others[0])}
    run = "import workbench as wb; b = wb.connect(); r = b.start('SELECT 1 AS n'); r.result(30); print(r.id)"
    done = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True,
        env=environment(WORKBENCH_HOME=str(home), **old),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert cli("dump", "old.dump", **old).status == 0
    assert cli("stop", **old).status == 0
    restored = cli("restore", "old.dump")
    assert (restored.status, restored.err) == (0, "")
    with closing(connect(home=home)) as bench:
        assert bench.get(done.stdout.strip()).result()["rows"] == [{"n": 1}]
