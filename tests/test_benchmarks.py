"""The harness of the benchmarks, at tiny sizes: what it lists, refuses, and writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks import marks
from benchmarks.__main__ import main
from benchmarks.figures import Aspect, Raw, at_least, at_most
from benchmarks.registry import BENCHMARKS
from benchmarks.sizes import QUICK


def test_the_registry_lists_every_benchmark() -> None:
    assert list(BENCHMARKS) == [
        "chain",
        "sql",
        "python",
        "idle",
        "latency",
        "starts",
        "workers",
        "million",
        "join",
        "flows",
        "loop",
        "nodes",
        "sleepers",
        "signals",
        "policies",
        "failures",
        "views",
    ]


def test_a_rate_is_told_per_commit_and_a_delay_in_commit_times() -> None:
    assert Aspect("", "steps").ratio(0.002, raw=1000) == 0.5
    assert Aspect("", "starts", "delay").ratio(0.002, raw=1000) == 2.0


def test_a_target_is_met_at_its_bound() -> None:
    assert at_least(0.3).met_by(0.3)
    assert not at_least(0.3).met_by(0.29)
    assert at_most(15).met_by(15)
    assert not at_most(15).met_by(15.1)


def test_a_speed_that_drifts_by_more_than_a_quarter_is_unsteady() -> None:
    assert Raw((1000.0, 1100.0, 1250.0), before=1100.0, after=1200.0).steady
    assert not Raw((1000.0, 1100.0, 1250.0), before=1100.0, after=1260.0).steady


def test_an_unknown_benchmark_is_refused_with_the_known_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["chains"])
    assert (
        "no benchmark 'chains'; "
        "there are chain, sql, python, idle, latency, starts, workers, million, "
        "join, flows, loop, nodes, sleepers, signals, policies, failures, views"
    ) in capsys.readouterr().err


def test_a_quick_benchmark_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results" / "quick.json"
    assert main(["sql", "--quick", "--json", str(path)]) == 0
    data = json.loads(path.read_text("utf-8"))
    assert data["quick"] is True
    (benchmark,) = data["benchmarks"]
    assert (benchmark["name"], benchmark["error"]) == ("sql", None)
    (figure,) = benchmark["figures"]
    assert figure["title"] == "1,000 one-step SQL runs waiting"
    assert figure["target"] == {"bound": ">=", "number": 0.45}
    assert figure["verdict"] in ("pass", "miss")
    assert figure["value"] > 0
    assert len(figure["raw"]["samples"]) == 3
    assert "1,000 one-step SQL runs waiting" in capsys.readouterr().out


def test_starts_and_their_latency_are_references_without_a_target(tmp_path: Path) -> None:
    starts, latency = measured(tmp_path, "starts", "latency")
    assert (starts["error"], latency["error"]) == (None, None)
    assert [figure["title"] for figure in starts["figures"]] == [
        "df.start, a commit each",
        "df.start, 1,000 in one transaction",
        "bench.start, engine held",
    ]
    assert [figure["title"] for figure in latency["figures"]] == [
        "start by another connection to finished, woken by NOTIFY, p50",
        "start by another connection to finished, woken by NOTIFY, p99",
        "start by another connection to finished, polling only, p50",
        "start by another connection to finished, polling only, p99",
    ]
    figures = starts["figures"] + latency["figures"]
    assert {figure["verdict"] for figure in figures} == {"reference"}


def test_more_workers_are_told_per_commit_and_against_one(tmp_path: Path) -> None:
    (workers,) = measured(tmp_path, "workers")
    assert workers["error"] is None
    titles = [
        "1,000 one-step SQL runs waiting, 1 worker",
        "1,000 one-step SQL runs waiting, 2 workers",
        "1,000 one-step SQL runs waiting, 3 workers",
        "1,000 one-step SQL runs waiting, 2 workers against one",
        "1,000 one-step SQL runs waiting, 3 workers against one",
    ]
    titles += [title.replace("1,000", "2,000").replace("SQL", "Python") for title in titles]
    assert [figure["title"] for figure in workers["figures"]] == titles
    assert all(" cores" in figure["detail"] for figure in workers["figures"])


def test_an_effect_that_happened_twice_voids_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_twice(conn: psycopg.Connection) -> list[str]:
        runs = counted(conn)
        return [*runs[1:], runs[-1]]

    counted = marks.in_table
    monkeypatch.setattr(marks, "in_table", one_twice)
    (workers,) = measured(tmp_path, "workers", status=1)
    assert workers["figures"] == []
    assert workers["error"].startswith(
        "RuntimeError: 14 effects, in 13 of 14 runs, instead of one in each: "
    )


def test_the_benchmarks_with_targets_all_run(tmp_path: Path) -> None:
    names = ("chain", "python", "idle", "million")
    for benchmark in measured(tmp_path, *names):
        assert benchmark["error"] is None
        assert benchmark["figures"]


LANGUAGE = ("join", "loop", "nodes", "sleepers", "signals")


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The benchmarks of the language by name, by one invocation that is over soon."""
    sizes = replace(QUICK, long_iterations=200, distant_starts=2, idle_seconds=0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.__main__.QUICK", sizes)
        benchmarks = measured(tmp_path_factory.mktemp("language"), *LANGUAGE)
    assert [benchmark["error"] for benchmark in benchmarks] == [None] * len(LANGUAGE)
    return {benchmark["name"]: benchmark["figures"] for benchmark in benchmarks}


def test_branches_have_a_target_where_they_are_python(language: dict[str, Any]) -> None:
    assert [(figure["title"], figure["target"]) for figure in language["join"]] == [
        ("JOIN of 1,000 Python steps", {"bound": ">=", "number": 1.5}),
        ("JOIN of 1,000 SQL steps", None),
        ("JOIN of 4,000 Python steps, 3 workers", None),
    ]


def test_a_loop_is_told_against_its_steps_and_by_what_it_leaves(language: dict[str, Any]) -> None:
    assert with_targets(language["loop"]) == [
        "loop, Python body and condition: beyond its steps",
        "loop, SQL body and condition: beyond its steps",
        "200,000 iterations, Python body and condition: the last thousand against the first",
        "200,000 iterations, Python body and condition: memory at the end against the first tenth",
        "200,000 iterations, Python body and condition: rows left",
        "200,000 iterations, SQL body and condition: the last thousand against the first",
        "200,000 iterations, SQL body and condition: memory at the end against the first tenth",
        "200,000 iterations, SQL body and condition: rows left",
    ]


def test_a_long_loop_leaves_its_last_iterations(language: dict[str, Any]) -> None:
    left = [figure["detail"] for figure in language["loop"] if figure["unit"] == "rows"]
    assert left == ["3 nodes, 240 attempts, 100 iterations, 0 values, 0 signals"] * 2


def test_a_large_run_is_told_against_a_small_one(language: dict[str, Any]) -> None:
    assert with_targets(language["nodes"]) == [
        "10,000 nodes against 1,000: chain of SQL steps",
        "10,000 nodes against 1,000: chain of Python steps",
        "10,000 nodes against 1,000: JOIN of 100 chains of SQL steps",
        "10,000 nodes against 1,000: JOIN of 100 chains of Python steps",
    ]


def test_sleepers_are_told_for_an_engine_that_listens_and_one_that_polls(
    language: dict[str, Any],
) -> None:
    start = "100,000 sleepers against none: start by another connection to finished"
    assert with_targets(language["sleepers"]) == [
        "idle engine beside 100,000 sleepers, woken by NOTIFY: CPU",
        "idle engine beside 100,000 sleepers, woken by NOTIFY: memory",
        f"{start}, woken by NOTIFY, p50",
        "idle engine beside 100,000 sleepers, polling only: CPU",
        "idle engine beside 100,000 sleepers, polling only: memory",
        f"{start}, polling only, p50",
    ]


def test_signals_are_told_per_branch_and_per_run(language: dict[str, Any]) -> None:
    units = [figure["unit"] for figure in language["signals"]]
    assert units == ["branches/commit", "runs/commit"]


def with_targets(figures: list[dict[str, Any]]) -> list[str]:
    return [figure["title"] for figure in figures if figure["target"] is not None]


def measured(directory: Path, *names: str, status: int = 0) -> list[dict[str, Any]]:
    """What a quick invocation wrote about each benchmark."""
    path = directory / "quick.json"
    assert main([*names, "--quick", "--json", str(path)]) == status
    benchmarks: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["benchmarks"]
    return benchmarks
