"""`workbench worker`: an engine without a notebook, until SIGTERM or Ctrl-C.

It executes the runs of the role it connects as; modules given with `--import` bring the handlers.
Any number of workers and kernels may share a database. Claims go back when it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
from types import FrameType

from workbench.cli._parsers import Parsers, with_example
from workbench.cli._target import add_dsn, target
from workbench.engine.worker import Engine
from workbench.errors import UsageError
from workbench.store.database import Database, shown

log = logging.getLogger("workbench")

_CHECK = 1.0  # seconds between looks at whether the engine's thread still runs


def add_parser(subparsers: Parsers) -> None:
    """Add `worker`."""
    text = "execute runs without a notebook"
    parser = with_example(
        subparsers,
        "worker",
        text,
        __doc__,
        "workbench worker --dsn postgresql://me@db.example.org/work --import jobs.handlers",
    )
    add_dsn(parser)
    parser.add_argument(
        "--import",
        dest="modules",
        metavar="MODULE",
        action="append",
        default=[],
        help="import a module with handlers, from this directory too; may be given again",
    )
    parser.add_argument(
        "--ceiling",
        type=int,
        metavar="N",
        help="steps that run at once; default the setting max_activity_concurrency",
    )
    parser.add_argument("--quiet", action="store_true", help="log warnings and errors only")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    logging.basicConfig(
        level=logging.WARNING if arguments.quiet else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
        stream=sys.stderr,
    )
    _import(arguments.modules)
    if arguments.ceiling is not None and arguments.ceiling < 1:
        raise UsageError(f"--ceiling must be at least 1, not {arguments.ceiling}")
    dsn = target(arguments)
    with contextlib.closing(Database(dsn)) as database, database.connection():
        pass  # refuses what cannot be used, in words, before an engine tries
    engine = Engine(dsn, ceiling=arguments.ceiling)
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    engine.start()
    log.info("engine %s works on %s; SIGTERM or Ctrl-C ends it", engine.id, shown(dsn))
    while engine.alive and not stopped.wait(_CHECK):
        pass
    if not stopped.is_set():
        log.error("the engine has ended by itself; see above")
        return 1
    engine.stop()
    if engine.handlers_running:  # at its ordinary end Python would wait for their threads
        log.warning("a handler did not end and is abandoned: its step starts again elsewhere")
        logging.shutdown()
        os._exit(0)
    return 0


def _import(modules: list[str]) -> None:
    """Import modules as `python -m` would find them: from the current directory too."""
    if modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as missing:
            raise UsageError(
                f"--import {module}: no module {missing.name!r}. Call the worker in the directory that has it, "
                "or set PYTHONPATH."
            ) from None
        except Exception as error:
            raise UsageError(f"--import {module}: {_in_one_line(error)}") from error


def _in_one_line(error: Exception) -> str:
    """What was raised, and where."""
    message = (str(error).splitlines() or [""])[0]
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {message} ({place.filename}, line {place.lineno})"
