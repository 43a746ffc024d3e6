"""The option that names a database, for every command that needs one."""

from __future__ import annotations

import argparse

from workbench.store import starting
from workbench.store.database import conninfo

__all__ = ["add_dsn", "target"]


def add_dsn(parser: argparse.ArgumentParser) -> None:
    """Add `--dsn`."""
    parser.add_argument(
        "--dsn",
        help="a libpq string or URL; default WORKBENCH_DSN, else the embedded Postgres",
    )


def target(arguments: argparse.Namespace) -> str:
    """Return the database that the command line means; the embedded server is started for it."""
    return conninfo(arguments.dsn) if arguments.dsn else starting.target(None)
