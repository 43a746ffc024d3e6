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
     ├─ RetryAfter            raised by handlers: try this step again after a delay
     ├─ HttpError             an HTTP step's request failed; recorded with the attempt, retried
     └─ RunError              how a run ended, raised by `Run.result`
         ├─ RunFailed
         └─ RunCancelled

Timeouts raise the built-in `TimeoutError`. Each text says what was refused, why, and the next move.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from workbench import delays

__all__ = [
    "DatabaseError",
    "EmbeddedError",
    "GraphError",
    "HandlerError",
    "HttpError",
    "NotFound",
    "RetryAfter",
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


class Response(Protocol):
    """An HTTP response, as far as a delay is read from it."""

    @property
    def headers(self) -> Mapping[str, str]: ...


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


class RetryAfter(WorkbenchError):
    """Raised by a handler: this attempt failed, the next one starts after exactly this delay.

    It counts as an attempt and is not capped by `max_backoff`; it changes nothing about later
    failures. When no attempt is left, the step fails. `raise RetryAfter(30) from error` keeps the
    original error, which is then what the attempt shows.

    Parameters
    ----------
    seconds:
        The delay, 0 to 30 days; a timedelta is taken too.
    message:
        Why, for the attempt's row.

    Raises
    ------
    TypeError, ValueError
        It is no such delay.
    """

    def __init__(self, seconds: float | timedelta, message: str | None = None) -> None:
        self.seconds = delays.checked(seconds)
        super().__init__(message or f"try again after {self.seconds:g} s")

    @classmethod
    def from_response(
        cls, response: Response, default: float | timedelta = 1.0, message: str | None = None
    ) -> RetryAfter:
        """The delay that a response's `Retry-After` asks for, in seconds or as a date.

        Parameters
        ----------
        response:
            Anything with `headers`, such as that of httpx or requests.
        default:
            The delay when it asks for none that makes sense.
        """
        asked = delays.from_headers(response.headers)
        return cls(default if asked is None else asked, message)


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
