"""`workbench demo`: a guided look, on a database of its own that is removed afterwards."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from workbench.cli._parsers import Parsers, with_example
from workbench.errors import UsageError


def add_parser(subparsers: Parsers) -> None:
    """Add `demo`."""
    text = "play a durable pipeline whose engine is killed half way through"
    parser = with_example(
        subparsers, "demo", text, __doc__, "workbench demo --output /tmp/demo.html"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        default=Path("demo.html"),
        help="the page to write (default demo.html)",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # Imported here: it brings pandas, which no other command needs.
    from workbench.demo.play import play
    from workbench.demo.story import Story

    _check_writable(arguments.output)
    _never_fail_on_icons()
    for name in ("SIGTERM", "SIGHUP"):  # the second is missing on Windows
        if number := getattr(signal, name, None):
            signal.signal(number, _leave)
    # The story says what the engine would warn of: that another one is dead.
    logging.getLogger("workbench").addHandler(logging.NullHandler())
    return 0 if play(arguments.output, Story()).holds else 1


def _check_writable(page: Path) -> None:
    """Refuse before half a minute is spent, not after."""
    place = page if page.exists() else page.absolute().parent
    if page.is_dir() or not os.access(place, os.W_OK):
        raise UsageError(
            f"cannot write {page.absolute()}: call `workbench demo` in a directory of your own, or "
            "with --output FILE"
        )


def _never_fail_on_icons() -> None:
    """A console of another encoding shows question marks for them."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=sys.stdout.encoding, errors="replace")


def _leave(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C would: by an exception, so that everything is cleaned up."""
    sys.exit(128 + number)
