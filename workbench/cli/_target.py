"""The option that names a database, for every command that needs one."""

from __future__ import annotations

import argparse
import os

from workbench.store import embedded, starting
from workbench.store.database import conninfo

__all__ = ["add_dsn", "target", "untouched"]


def add_dsn(parser: argparse.ArgumentParser) -> None:
    """Add `--dsn`."""
    parser.add_argument(
        "--dsn",
        help="a libpq string or URL; default WORKBENCH_DSN, else the embedded Postgres",
    )


def target(arguments: argparse.Namespace) -> str:
    """Return the database that the command line means; the embedded server is started for it."""
    return conninfo(arguments.dsn) if arguments.dsn else starting.target(None)


def untouched(arguments: argparse.Namespace) -> str:
    """Return the same database without making or changing anything in it."""
    named = arguments.dsn or os.environ.get("WORKBENCH_DSN")
    return conninfo(named) if named else embedded.ensure()
