"""An engine in a process of its own: `python -m tests.engine.engine_process DSN CEILING`.

It says its identity and stops in order when its input ends.
"""

from __future__ import annotations

import logging
import os
import sys

from workbench.engine.worker import Engine


def main(dsn: str, ceiling: str) -> None:
    logging.basicConfig(level=os.environ.get("ENGINE_LOG", "CRITICAL"))
    engine = Engine(dsn, ceiling=int(ceiling))
    engine.start()
    sys.stdout.write(f"{engine.id}\n")
    sys.stdout.flush()
    sys.stdin.read()
    engine.stop()
    os._exit(0)  # handlers that do not end are abandoned: their threads must not hold up the exit


if __name__ == "__main__":
    main(*sys.argv[1:])
