"""An engine in a process of its own: `python -m tests.engine.engine_process DSN CEILING`.

It says its identity and stops in order when its input ends. With a third argument it is a nursery:
for each line of input a process with an engine is forked, which says its process id and lives until
it is killed or the nursery is gone.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time

from workbench.engine.worker import Engine


def main(dsn: str, ceiling: str, nursery: str = "") -> None:
    logging.basicConfig(level=os.environ.get("ENGINE_LOG", "CRITICAL"))
    if nursery:
        bear_engines(dsn, int(ceiling))
        return
    engine = Engine(dsn, ceiling=int(ceiling))
    engine.start()
    sys.stdout.write(f"{engine.id}\n")
    sys.stdout.flush()
    sys.stdin.read()
    engine.stop()
    os._exit(0)  # handlers that do not end are abandoned: their threads must not hold up the exit


def bear_engines(dsn: str, ceiling: int) -> None:
    """Fork from a process that has imported everything and has no threads: much is saved."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the killed
    nursery = os.getpid()
    for _ in sys.stdin:
        if os.fork():
            continue
        Engine(dsn, ceiling=ceiling).start()
        sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        while os.getppid() == nursery:
            time.sleep(0.5)
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
