"""The harness of the benchmarks, at tiny sizes: what it lists, refuses, and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.figures import Aspect, Raw, at_least, at_most
from benchmarks.registry import BENCHMARKS


def test_the_registry_lists_every_benchmark() -> None:
    assert list(BENCHMARKS) == ["chain", "sql", "python", "idle", "million"]


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
    assert "no benchmark 'chains'; there are chain, sql, python, idle, million" in (
        capsys.readouterr().err
    )


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
