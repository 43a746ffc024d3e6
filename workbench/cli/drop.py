"""`workbench drop`: remove the workbench from a database, schema `df` and everything in it.

Without --yes it only lists what would go, unfinished runs first, and ends with status 1. It refuses
while engines are at work. Tables of your own in other schemas stay.
"""

from __future__ import annotations

import argparse

import psycopg

from workbench.cli._contents import lines
from workbench.cli._parsers import Parsers, with_example
from workbench.cli._target import add_dsn, untouched
from workbench.store import removal
from workbench.store.database import shown


def add_parser(subparsers: Parsers) -> None:
    """Add `drop`."""
    text = "remove the workbench's schema, and all runs, from a database"
    parser = with_example(
        subparsers,
        "drop",
        text,
        __doc__,
        "workbench drop --dsn postgresql://me@db.example.org/work",
    )
    add_dsn(parser)
    parser.add_argument("--yes", action="store_true", help="remove it; without, only list it")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    dsn = untouched(arguments)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as conn:
        found = removal.contents(conn)
        if found is None:
            print(f"there is no schema df in {shown(dsn)}: nothing to remove")
            return 0
        print(f"in {shown(dsn)}:", *lines(found), sep="\n")
        removal.refuse_while_engines_work(found)
        if not arguments.yes:
            print("Nothing was removed, and nothing can be brought back without a copy (pg_dump).")
            print("`workbench drop --yes` (with the same --dsn) removes all of it.")
            return 1
        removal.drop(conn)
    print("removed")
    return 0
