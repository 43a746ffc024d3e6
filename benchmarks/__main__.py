"""The command line: `python -m benchmarks [NAME …] [--quick] [--json FILE]`.

Exit status: 0 when everything was measured, whatever the figures; 1 when a benchmark failed; 2 for
wrong usage.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from benchmarks import report
from benchmarks.figures import Figure, Outcome
from benchmarks.registry import BENCHMARKS
from benchmarks.site import Server, server
from benchmarks.sizes import FULL, QUICK, Sizes
from workbench.errors import WorkbenchError

__all__ = ["main"]

_RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; `argv` is without the program's name."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING)
    began = datetime.now(UTC)
    sizes = QUICK if arguments.quick else FULL
    names = arguments.names or BENCHMARKS
    with server() as running:
        outcomes = [_outcome(name, running, sizes) for name in names]
    data = report.document(outcomes, began=began, postgres=running.version, quick=arguments.quick)
    path = arguments.json or _RESULTS / f"{began:%Y-%m-%d-%H%M%S}.json"
    report.write(path, data)
    print(report.table(outcomes))
    if arguments.quick:
        print("quick: tiny sizes, no figure counts")
    print(f"written to {path}", file=sys.stderr)
    return 1 if any(outcome.error is not None for outcome in outcomes) else 0


def _outcome(name: str, running: Server, sizes: Sizes) -> Outcome:
    """One that fails takes neither the others' figures nor its own earlier ones with it."""
    print(f"measuring {name} …", file=sys.stderr)
    figures: list[Figure] = []
    try:
        figures.extend(BENCHMARKS[name](running, sizes))
    except (WorkbenchError, psycopg.Error, RuntimeError, TimeoutError) as failed:
        return Outcome(name, tuple(figures), f"{type(failed).__name__}: {failed}")
    return Outcome(name, tuple(figures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="What durable steps cost, in commits of the server they run on.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", type=_name, help=f"{', '.join(BENCHMARKS)}; default all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to try the harness: no figure counts"
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="where the JSON goes; default benchmarks/results/<date>.json",
    )
    return parser


def _name(text: str) -> str:
    if text not in BENCHMARKS:
        raise argparse.ArgumentTypeError(
            f"no benchmark {text!r}; there are {', '.join(BENCHMARKS)}"
        )
    return text


if __name__ == "__main__":
    sys.exit(main())
