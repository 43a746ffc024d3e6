"""Every exception the workbench raises, and nothing else.

    WorkbenchError
     ├─ UsageError            the call itself was wrong; nothing was sent or stored
     │   ├─ GraphError        a graph that cannot be built or started
     │   ├─ HandlerError      a function that cannot be a handler
     │   └─ ValueRefused      a value that JSON or Postgres cannot hold (names the path)
     ├─ DatabaseError         the database refused, is missing or is not what it must be
     │   ├─ EmbeddedError     the embedded server cannot be started or reached
     │   └─ SchemaError       schema `df` is missing, too new, too old or somebody else's
     ├─ NotFound              no such run, node or attempt (or not visible to this role)
     ├─ StateError            the run or node is not in a state that allows the act
     ├─ StepError             one step cannot succeed; recorded with the attempt, never retried
     │   └─ SubstitutionError a `$name` or `{var}` that has no usable value
     ├─ HttpError             an HTTP step's request failed; recorded with the attempt, retried
     └─ RunError              how a run ended, raised by `Run.result`
         ├─ RunFailed
         └─ RunCancelled

Timeouts raise the built-in `TimeoutError`. Each text says what was refused, why, and the next move.
"""

from __future__ import annotations

__all__ = [
    "DatabaseError",
    "EmbeddedError",
    "GraphError",
    "HandlerError",
    "HttpError",
    "NotFound",
    "RunCancelled",
    "RunError",
    "RunFailed",
    "SchemaError",
    "StateError",
    "StepError",
    "SubstitutionError",
    "UsageError",
    "ValueRefused",
    "WorkbenchError",
]


class WorkbenchError(Exception):
    """The root of the tree: `except WorkbenchError` catches everything the workbench raises."""


class UsageError(WorkbenchError, ValueError):
    """The call was wrong: nothing was sent to the database."""


class GraphError(UsageError):
    """A graph that cannot be built, serialised or started."""


class HandlerError(UsageError):
    """A function that cannot be stored as a handler, or a stored name that leads to no function."""


class ValueRefused(UsageError):
    """A value that JSON or Postgres cannot hold; the text names the path to it and how to convert it."""


class DatabaseError(WorkbenchError):
    """The database refused, is missing, or is not what it must be."""


class EmbeddedError(DatabaseError):
    """The embedded Postgres server cannot be started or reached."""


class SchemaError(DatabaseError):
    """Schema `df` is missing, newer than this package, or belongs to another product."""


class NotFound(WorkbenchError, LookupError):
    """No such run, node or attempt, or it is not visible to this role."""


class StateError(WorkbenchError):
    """The run or node is not in a state that allows what was asked."""


class StepError(WorkbenchError):
    """This step cannot succeed however often it is tried."""


class SubstitutionError(StepError):
    """A `$name` or `{var}` in a step has no usable value."""


class HttpError(WorkbenchError):
    """An HTTP step's request failed: no connection, no answer in time, or a failing status.

    `retry_after` is the delay, in seconds, that the answer asked for.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RunError(WorkbenchError):
    """How a run ended when it did not complete."""


class RunFailed(RunError):
    """The run failed; the text names the step, the attempt and the error."""


class RunCancelled(RunError):
    """The run was cancelled."""
