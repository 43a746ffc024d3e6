"""Copies of the embedded database: `pg_dump` into one file, `pg_restore` in place of what is there.

A copy is taken in one snapshot, so it may be made while engines work. A restored database replaces
the old one in a single step, after it has been read in completely: an error leaves things as they were.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from workbench.errors import EmbeddedError, StateError, UsageError
from workbench.store import embedded, removal

__all__ = ["dump", "restore"]

_READING = "workbench_restoring"  # the names of databases for the time of a restoration
_REPLACED = "workbench_replaced"
_SWAP = (
    f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN ('postgres', '{_READING}')",
    f"ALTER DATABASE postgres RENAME TO {_REPLACED}",
    f"ALTER DATABASE {_READING} RENAME TO postgres",
)


def dump(file: Path, home: Path | None = None) -> Path:
    """Write the whole embedded database into `file`, in the custom format of `pg_dump`.

    Parameters
    ----------
    file:
        To be made; it appears when it is complete.
    home:
        As for `embedded.ensure`, which starts the server.

    Returns
    -------
    Path
        The file, absolute.

    Raises
    ------
    UsageError
        The file exists, or its folder cannot be written to.
    EmbeddedError
        There is no fitting `pg_dump`, it failed, or the server does not start.
    """
    file = file.expanduser().absolute()
    if file.exists():
        raise UsageError(f"{file} exists already, and was left alone: choose another name")
    if not os.access(file.parent, os.W_OK):
        raise UsageError(f"cannot write into {file.parent}: choose another folder")
    dsn = embedded.ensure(home)
    program = _program("pg_dump", dsn)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".dump-") as folder:
        partial = Path(folder, "dump")
        _run(program, "--format=custom", f"--file={partial}", f"--dbname={dsn}")
        partial.rename(file)
    return file


def restore(file: Path, home: Path | None = None, *, replace: bool = False) -> None:
    """Put the database of `file`, written by `dump`, in the place of the embedded one.

    Parameters
    ----------
    file:
        What `dump` has written.
    home:
        As for `embedded.ensure`, which starts the server.
    replace:
        Whether a database that holds runs or tables may be replaced. Everything in it is lost.

    Raises
    ------
    UsageError
        There is no such file.
    StateError
        The database holds something and `replace` is false, or engines are at work in it.
    EmbeddedError
        There is no fitting `pg_restore`, it failed, or the server does not start.
    """
    file = file.expanduser().absolute()
    if not os.access(file, os.R_OK) or file.is_dir():
        raise UsageError(f"there is no file {file} to read")
    dsn = embedded.ensure(home)
    _refuse_losses(dsn, replace)
    program = _program("pg_restore", dsn)
    with psycopg.connect(make_conninfo(dsn, dbname="template1"), autocommit=True) as conn:
        conn.execute(
            f"DROP DATABASE IF EXISTS {_READING} WITH (FORCE)"
        )  # of an interrupted restoration
        conn.execute(f"CREATE DATABASE {_READING} TEMPLATE template0")
        try:
            target = make_conninfo(dsn, dbname=_READING)
            _run(program, "--exit-on-error", f"--dbname={target}", str(file))
            _refuse_losses(dsn, replace)  # once more: reading may have taken long
            with conn.transaction():
                for statement in _SWAP:
                    conn.execute(statement)
        except BaseException:
            conn.execute(f"DROP DATABASE IF EXISTS {_READING} WITH (FORCE)")
            raise
        conn.execute(f"DROP DATABASE {_REPLACED} WITH (FORCE)")


def _refuse_losses(dsn: str, replace: bool) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        found = removal.contents(conn)
        tables = conn.execute(
            "SELECT count(*) FROM pg_stat_user_tables WHERE schemaname <> 'df'"
        ).fetchone()
    runs = sum(found.runs.values()) if found else 0
    own = tables[0] if tables else 0
    if found:
        removal.refuse_while_engines_work(found)
    if (runs or own) and not replace:
        raise StateError(
            f"the embedded database holds data (runs: {runs:,}, tables of your own: {own:,}), and nothing was changed. "
            "Copy it with `workbench db dump FILE`, then restore with --replace, which removes all that is in it."
        )


def _program(name: str, dsn: str) -> Path:
    """Find `pg_dump` or `pg_restore`: beside the server's programs, else on PATH; not older than
    the server.
    """
    beside = embedded.find_bin() / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    with psycopg.connect(dsn) as conn:
        server = conn.info.server_version // 10000
    install = (
        f"install the client programs of PostgreSQL {server} (`apt install postgresql-client`, `conda install "
        "postgresql`), or set WORKBENCH_PG_BIN to a folder that has them"
    )
    if found is None:
        raise EmbeddedError(
            f"there is no {name}: neither beside the embedded server nor on PATH; {install}"
        )
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"\) (\d+)", said)
    if version is None or int(version[1]) < server:
        raise EmbeddedError(
            f"{found} is too old for a server of version {server} ({said.strip() or 'it does not run'}); {install}"
        )
    return Path(found)


def _run(program: Path, *arguments: str) -> None:
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise EmbeddedError(
            f"{program.name} failed, and nothing was changed: {done.stderr.strip()}"
        )
