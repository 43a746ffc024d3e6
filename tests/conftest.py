"""A real Postgres for every test: one embedded server a run, shared by all of its processes.

`server` is its DSN, `admin` a superuser's connection, `empty_dsn` a database of the test's own,
`dsn` one that holds the workbench's schema. The run's first process makes the server's home and
removes it; as root it lies outside pytest's own folders, which the server's user cannot enter.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from workbench.errors import EmbeddedError
from workbench.store import embedded

_PREFIX = "workbench-tests-"
_HOME = pytest.StashKey[Path]()
_SETTINGS = {"fsync": "off", "max_connections": "200"}
_numbers = itertools.count(1)

# Two cores and a database beside the test: wall time per example says nothing.
hypothesis.settings.register_profile("workbench", deadline=None)
hypothesis.settings.load_profile("workbench")


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith(("PG", "WORKBENCH_"))]:
        if name != "WORKBENCH_PG_BIN":  # the one that chooses the server's version
            del os.environ[name]
    if hasattr(config, "workerinput"):
        config.stash[_HOME] = Path(config.workerinput["home"])
        return
    _remove_homes_of_killed_runs()
    config.stash[_HOME] = Path(tempfile.mkdtemp(dir="/tmp", prefix=f"{_PREFIX}{os.getpid()}-"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell a worker of pytest-xdist where the run's server is."""
    node.workerinput["home"] = str(node.config.stash[_HOME])  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and (home := config.stash.get(_HOME, None)):
        _remove_home(home)


def _remove_homes_of_killed_runs() -> None:
    for home in Path("/tmp").glob(_PREFIX + "[0-9]*-*"):
        pid = int(home.name.removeprefix(_PREFIX).split("-")[0])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            _remove_home(home)
        except PermissionError:
            pass  # somebody else's run


def _remove_home(home: Path) -> None:
    try:
        embedded.stop(home)
    except EmbeddedError:
        return  # of another user, or in another container: not ours to remove
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> str:
    """The DSN of the run's server, as superuser `postgres`."""
    return embedded.ensure(pytestconfig.stash[_HOME], settings=_SETTINGS)


@pytest.fixture
def admin(server: str) -> Iterator[psycopg.Connection]:
    """A superuser's autocommit connection to the database `postgres`."""
    with psycopg.connect(server, autocommit=True) as connection:
        yield connection


@pytest.fixture
def empty_dsn(server: str) -> Iterator[str]:
    """The DSN of a fresh empty database, dropped after the test with all its sessions."""
    with _database(server, "template1") as dsn:
        yield dsn


@pytest.fixture
def dsn(server: str, _template: str) -> Iterator[str]:
    """The DSN of a fresh database that holds the schema, dropped after the test. Its ceilings are 32
    and 8.
    """
    with _database(server, _template) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def _template(server: str) -> Iterator[str]:
    from workbench.store.migrate import migrate

    with _database(server, "template1") as dsn:
        migrate(dsn)
        with psycopg.connect(dsn, autocommit=True) as conn:  # those of the embedded database
            conn.execute("SELECT df.set_setting('max_activity_concurrency', '32')")
            conn.execute("SELECT df.set_setting('max_http_concurrency', '8')")
        yield str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty directory for a server of the test's own, which is stopped afterwards."""
    base = Path(tempfile.mkdtemp(dir="/tmp", prefix=f"{_PREFIX}{os.getpid()}-"))
    base.chmod(0o711)
    try:
        yield base / "home"
    finally:
        for lock in base.rglob("lock"):
            embedded.stop(lock.parent)
        shutil.rmtree(base)


@contextmanager
def _database(server: str, template: str) -> Iterator[str]:
    name = f"test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{next(_numbers)}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield make_conninfo(server, dbname=name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(drop.format(sql.Identifier(name)))
