"""`python -m workbench.demo.engine`: the engine that the demo kills.

It executes the runs of the database in WORKBENCH_DSN, prints its identity once it is in place, and
ends when its standard input is closed: with the process that started it, however that ended.
"""

from __future__ import annotations

import os
import sys

from workbench.engine.worker import Engine

__all__ = ["main"]


def main() -> None:
    """Run an engine until standard input ends."""
    engine = Engine(os.environ["WORKBENCH_DSN"])
    engine.start()
    sys.stdout.write(f"{engine.id}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    engine.stop()


if __name__ == "__main__":
    main()
