"""`workbench db …`: start, look at, enter, copy, stop and remove the embedded Postgres.

It speaks of the embedded server only, also where WORKBENCH_DSN leads `connect()` to another one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg

from workbench.cli._contents import lines, size
from workbench.cli._parsers import Parsers, with_example
from workbench.errors import EmbeddedError, SchemaError
from workbench.store import copies, embedded, removal

Command = Callable[[argparse.Namespace], int]

_HOME = "default WORKBENCH_HOME, else the user's data directory"


def add_parser(subparsers: Parsers) -> None:
    """Add `db` and its commands."""
    parser = with_example(
        subparsers,
        "db",
        "the embedded Postgres: start, status, stop, psql, log, path, dump, restore, destroy",
        __doc__,
        "workbench db status",
        "workbench db dump monday.dump",
    )
    parser.add_argument("--home", type=Path, metavar="DIR", help="its directory; " + _HOME)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add(commands, "start", _start, "start it, or find it running, and print its DSN")
    _add(commands, "status", _status, "tell whether it runs, and where")
    _add(commands, "stop", _stop, "stop it; committed work is safe")
    _add(commands, "path", _path, "print the directory that holds it")
    log = _add(commands, "log", _log, "print the end of its log")
    log.add_argument("-n", "--lines", type=_count, default=50, help="how many lines (default 50)")
    dump = _add(
        commands, "dump", _dump, "copy the whole database into one file, also while it works"
    )
    dump.add_argument("file", type=Path, metavar="FILE", help="the file to make")
    restore = _add(commands, "restore", _restore, "put the database of such a file in its place")
    restore.add_argument("file", type=Path, metavar="FILE", help="what `db dump` has written")
    restore.add_argument(
        "--replace", action="store_true", help="also when there are runs or tables, which are lost"
    )
    destroy = _add(commands, "destroy", _destroy, "stop it and remove its directory and all data")
    destroy.add_argument("--yes", action="store_true", help="remove it; without, only list it")
    # psql's own options are not ours to read: this parser knows no option at all.
    psql = commands.add_parser(
        "psql", prefix_chars="\0", add_help=False, help="start it and open psql: db psql [OPTION…]"
    )
    psql.add_argument("arguments", nargs=argparse.REMAINDER)
    psql.set_defaults(run=_psql)


def _add(commands: Parsers, name: str, run: Command, text: str) -> argparse.ArgumentParser:
    file = " FILE" if name in ("dump", "restore") else ""
    parser = with_example(commands, name, text, None, f"workbench db {name}{file}")
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


def _dump(arguments: argparse.Namespace) -> int:
    file = copies.dump(arguments.file, arguments.home)
    print(
        f"{file}, {size(file.stat().st_size)}: the whole embedded database; `workbench db restore` reads it"
    )
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    copies.restore(arguments.file, arguments.home, replace=arguments.replace)
    print(f"restored from {arguments.file}; unfinished runs go on with the next engine")
    return 0


def _destroy(arguments: argparse.Namespace) -> int:
    found = embedded.status(arguments.home)
    parts = embedded.ours(found.home)
    if not parts:
        print(f"there is no embedded Postgres in {found.home}: nothing to remove")
        return 0
    print(
        f"in {found.home}: {', '.join(path.name for path in parts)}", *_held(found.home), sep="\n"
    )
    if not arguments.yes:
        print("Nothing was removed. Keep a copy with `workbench db dump FILE`;")
        print("`workbench db destroy --yes` stops the server and removes all of it.")
        return 1
    embedded.destroy(found.home)
    print("removed")
    return 0


def _held(home: Path) -> list[str]:
    """What its database holds, in lines; the server is started for that. StateError while engines work."""
    try:
        with psycopg.connect(embedded.ensure(home), autocommit=True) as conn:
            contents = removal.contents(conn)
    except (EmbeddedError, SchemaError) as broken:
        return [f"  what it holds cannot be told: {str(broken).splitlines()[0]}"]
    if contents is None:
        return ["  it holds no schema df"]
    removal.refuse_while_engines_work(contents)
    return lines(contents)


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
