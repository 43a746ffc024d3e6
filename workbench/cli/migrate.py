"""`workbench migrate`: create schema `df` in a database, or bring it up to this package's version."""

from __future__ import annotations

import argparse
import logging

from workbench.cli._parsers import Parsers, with_example
from workbench.cli._target import add_dsn, target
from workbench.store.database import shown
from workbench.store.migrate import migrate


def add_parser(subparsers: Parsers) -> None:
    """Add `migrate`."""
    text = "create or upgrade the workbench's schema in a database"
    parser = with_example(
        subparsers,
        "migrate",
        text,
        __doc__,
        "workbench migrate --dsn postgresql://me@db.example.org/work",
    )
    add_dsn(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    logging.basicConfig(format="%(message)s")  # what the server remarks on while migrating
    dsn = target(arguments)
    version = migrate(dsn)
    print(f"schema df is at version {version} in {shown(dsn)}")
    return 0
