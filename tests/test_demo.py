"""`workbench demo` as a newcomer runs it: in an empty directory, with an empty home, no terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parent.parent
_HOME = re.compile(r"a Postgres of the demo's own starts in (\S+)")


def _environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "WORKBENCH_", "PYTHON"))}
    return kept | {"HOME": str(home), "PYTHONPATH": str(_ROOT)}


def _demo(directory: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "workbench", "demo", *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def _one(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    assert match, f"no {pattern!r} in:\n{text}"
    return match.groups()


def _processes_with(text: str) -> list[str]:
    """Command lines of processes that name `text`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_text(errors="replace").replace("\0", " ")
        except OSError:  # it has ended
            continue
        if text in line:
            found.append(line)
    return found


def _assert_nothing_is_left(story: str) -> None:
    (home,) = _one(_HOME.pattern, story)
    assert not Path(home).exists()
    assert _processes_with(home) == []


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """The demo's output, its errors, and the directory it ran in."""
    base = tmp_path_factory.mktemp("demo")
    directory = base / "here"
    directory.mkdir()
    process = _demo(directory, _environment(base))
    out, errors = process.communicate(timeout=110)
    assert process.returncode == 0, out + errors
    return out, errors, directory


def test_the_demo_says_nothing_on_stderr(played: tuple[str, str, Path]) -> None:
    assert played[1] == ""


def test_without_a_terminal_the_story_has_no_colours(played: tuple[str, str, Path]) -> None:
    assert "\x1b" not in played[0]


def test_the_killed_engine_process_is_gone(played: tuple[str, str, Path]) -> None:
    (pid,) = _one(r"engine [0-9a-f]{8} is process (\d+)", played[0])
    assert f"process {pid} is killed by signal 9 (SIGKILL)" in played[0]
    assert not Path("/proc", pid).exists()


def test_another_engine_finishes_the_run(played: tuple[str, str, Path]) -> None:
    (first,) = _one(r"engine ([0-9a-f]{8}) is process", played[0])
    (second, late) = _one(r"taken over by engine ([0-9a-f]{8}), (.+ m?s) after the kill", played[0])
    assert second != first
    assert late
    (run,) = _one(r"run ([0-9a-f]{8}) starts", played[0])
    assert f"✓ run {run} is completed" in played[0]


def test_the_made_up_failure_is_retried_after_a_wait(played: tuple[str, str, Path]) -> None:
    failed = played[0].index("attempt 1 failed: the country register does not answer (made up)")
    waits = played[0].index("waits 1.0 s for attempt 2")
    again = played[0].index("1,704 rows by a Python handler; attempt 2 succeeded")
    assert failed < waits < again


def test_every_effect_is_there_once_though_more_were_begun(played: tuple[str, str, Path]) -> None:
    assert "Nothing was done twice" in played[0]
    assert "1,704  rows staged, of 1,704 in the source" in played[0]
    assert "60  rows published, 60 different ones" in played[0]
    (drawn,) = _one(r"(\d+)  rows inserted altogether", played[0])
    (undone,) = _one(r"(\d+)  of them for the killed engine", played[0])
    assert int(undone) >= 25
    assert int(drawn) == 60 + int(undone)


def test_the_page_holds_the_run_and_refers_to_nothing_outside(
    played: tuple[str, str, Path],
) -> None:
    page = (played[2] / "demo.html").read_text("utf-8")
    (run,) = _one(r"run ([0-9a-f]{8}) starts", played[0])
    assert run in page
    assert "Nothing was done twice" in page
    # The name of SVG in the icons' data URLs is no address that is fetched.
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(?:src|href)=|@import|url\(\"?(?!data:)", page.replace('url("data:', ""))


def test_nothing_is_left_but_the_page(played: tuple[str, str, Path]) -> None:
    out, _, directory = played
    _assert_nothing_is_left(out)
    assert [file.name for file in directory.iterdir()] == ["demo.html"]
    assert list((directory.parent / "home").rglob("*")) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = _demo(tmp_path, _environment(tmp_path))
    assert process.stdout
    story = ""
    while "run " not in story:
        line = process.stdout.readline()
        assert line, process.communicate()
        story += line
    process.send_signal(number)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert errors == ""
    assert "is completed" not in rest
    _assert_nothing_is_left(story)
    assert not (tmp_path / "demo.html").exists()


def test_a_place_where_no_page_can_be_written_is_refused_at_once(tmp_path: Path) -> None:
    process = _demo(tmp_path, _environment(tmp_path), "--output", str(tmp_path / "no" / "x.html"))
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == ""
    assert errors == (
        f"workbench: cannot write {tmp_path}/no/x.html: call `workbench demo` in a directory of "
        "your own, or with --output FILE\n"
    )
