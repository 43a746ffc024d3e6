"""The command line: `workbench COMMAND …`. One module a command, each with `add_parser` and `run`.

Exit status: 0 done, 1 refused or failed (the reason on stderr, no traceback), 2 wrong usage, 130
interrupted. Neither pandas nor widgets are imported here, so that it starts at once and headless.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import psycopg

from workbench import __version__
from workbench.cli import db, demo, drop, migrate, worker
from workbench.errors import WorkbenchError

__all__ = ["main"]

_COMMANDS = (demo, migrate, worker, drop, db)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; `argv` is without the program's name."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except (WorkbenchError, psycopg.Error, TimeoutError) as error:
        print(f"workbench: {str(error).strip()}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output left (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="workbench",
        description="Durable workflows on Postgres, from a notebook.",
        epilog="`workbench demo` shows it at work; `workbench COMMAND --help` says more of each.",
    )
    parser.add_argument("--version", action="version", version=f"workbench {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser
