"""`connect`: the workbench on a database, and the benches that are open in this process."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from pathlib import Path

from workbench.bench import Bench
from workbench.errors import UsageError
from workbench.graph.handlers import set_namespace
from workbench.store import starting
from workbench.store.database import conninfo

__all__ = ["connect"]

#: The open ones, by target and by whether an engine may run: kept here, for an engine at work needs
#: its bench also when nobody else holds that.
_benches: dict[tuple[str, bool], Bench] = {}
_lock = threading.Lock()


def connect(
    dsn: str | None = None,
    *,
    engine: bool = True,
    home: str | Path | None = None,
    namespace: str | None = None,
    secrets: Callable[[str], str | None] | None = None,
) -> Bench:
    """Open the workbench on a database.

    Parameters
    ----------
    dsn:
        A libpq connection string or URL (`postgresql://…`, also `postgresql+psycopg://…`). None
        takes the environment variable `WORKBENCH_DSN`, else the embedded server, which is started
        or attached to.
    engine:
        False never runs an engine here: for looking only.
    home:
        The embedded server's directory; None takes `WORKBENCH_HOME`, else the user's data
        directory.
    namespace:
        Stands for `__main__` in the stored names of handlers; in a notebook its file's stem does,
        without being told.
    secrets:
        Gives the value of a `secret("NAME")` in an HTTP step, None when it has none; None takes the
        environment variable of that name.

    Returns
    -------
    Bench
        The same one for the same target and `engine`, so that cells can be run again. No engine is
        started yet.

    Raises
    ------
    SchemaError
        The server has no schema `df` (make it with `migrate(dsn)`), a newer one, or somebody
        else's.
    EmbeddedError, DatabaseError
        The server cannot be started or reached.
    """
    if dsn is not None and home is not None:
        raise UsageError(
            "connect() takes a dsn or a home, not both: home is the embedded server's directory"
        )
    if namespace is not None:
        set_namespace(namespace)
    target = conninfo(dsn) if dsn is not None else starting.target(home)
    with _lock:
        bench = _benches.get((target, engine))
        if bench is None or bench.closed:
            _forget_closed()
            bench = _benches[target, engine] = Bench(target, engine=engine)
    if secrets is not None:
        bench._own.secrets = secrets
    bench._say_what_waits()
    return bench


def _forget_closed() -> None:
    for key in [key for key, bench in _benches.items() if bench.closed]:
        del _benches[key]


@atexit.register
def _close_all() -> None:
    for bench in tuple(_benches.values()):
        bench.close()
