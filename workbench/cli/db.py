"""`workbench db …`: start, look at, enter and stop the embedded Postgres.

It speaks of the embedded server only, also where WORKBENCH_DSN leads `connect()` to another one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from workbench.cli._types import Parsers
from workbench.errors import EmbeddedError
from workbench.store import embedded

Command = Callable[[argparse.Namespace], int]

_HOME = "default WORKBENCH_HOME, else the user's data directory"


def add_parser(subparsers: Parsers) -> None:
    """Add `db` and its commands."""
    parser = subparsers.add_parser("db", help="the embedded Postgres", description=__doc__)
    parser.add_argument("--home", type=Path, metavar="DIR", help="its directory; " + _HOME)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add(commands, "start", _start, "start it, or find it running, and print its DSN")
    _add(commands, "status", _status, "tell whether it runs, and where")
    _add(commands, "stop", _stop, "stop it; committed work is safe")
    _add(commands, "path", _path, "print the directory that holds it")
    log = _add(commands, "log", _log, "print the end of its log")
    log.add_argument("-n", "--lines", type=_count, default=50, help="how many lines (default 50)")
    # psql's own options are not ours to read: this parser knows no option at all.
    psql = commands.add_parser(
        "psql", prefix_chars="\0", add_help=False, help="start it and open psql: db psql [OPTION…]"
    )
    psql.add_argument("arguments", nargs=argparse.REMAINDER)
    psql.set_defaults(run=_psql)


def _add(commands: Parsers, name: str, run: Command, text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    # Accepted before and after the command; SUPPRESS: absence here does not undo the one before.
    parser.add_argument("--home", type=Path, metavar="DIR", default=argparse.SUPPRESS, help=_HOME)
    parser.set_defaults(run=run)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return number


def _start(arguments: argparse.Namespace) -> int:
    print(embedded.ensure(arguments.home))
    _note_other_dsn()
    return 0


def _status(arguments: argparse.Namespace) -> int:
    found = embedded.status(arguments.home)
    if not found.running:
        print(f"stopped; home {found.home}")
    elif found.dsn is None:
        print(f"starting, recovering or stopping; home {found.home}, log {found.log}")
    else:
        process = f"process {found.pid}" if found.pid else "in another container"
        print(f"running, {process}; home {found.home}\n{found.dsn}")
    _note_other_dsn()
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    print("stopped" if embedded.stop(arguments.home) else "was not running")
    return 0


def _path(arguments: argparse.Namespace) -> int:
    print(embedded.status(arguments.home).home)
    return 0


def _log(arguments: argparse.Namespace) -> int:
    log = embedded.status(arguments.home).log
    if not log.exists():
        raise EmbeddedError(f"no log in {log.parent}: no server was started there yet")
    lines = embedded.log_tail(log, size=1000 * (arguments.lines + 1)).splitlines()
    for line in lines[len(lines) - min(arguments.lines, len(lines)) :]:
        print(line)
    return 0


def _psql(arguments: argparse.Namespace) -> int:
    psql = embedded.find_psql()
    if psql is None:
        raise EmbeddedError(
            "there is no psql to open: neither beside the embedded server nor on PATH; install one "
            "(`apt install postgresql-client`, `conda install postgresql`)"
        )
    dsn = embedded.ensure(arguments.home)
    options = arguments.arguments
    if options[:1] == ["--"]:  # to psql it would mean that no option follows
        options = options[1:]
    sys.stdout.flush()
    os.execv(psql, [str(psql), f"--dbname={dsn}", *options])


def _note_other_dsn() -> None:
    if os.environ.get("WORKBENCH_DSN"):
        note = "note: WORKBENCH_DSN is set, so connect() goes there and not to the embedded server"
        print(note, file=sys.stderr)
