"""Builders of steps that wait: `sleep`, `wait_for_schedule`, `wait_for_signal`.

Waiting holds no thread and no connection: it is a row with a time. The rules of cron expressions
are in `schedule`.
"""

from __future__ import annotations

from workbench.errors import GraphError
from workbench.graph.configs import schedule_fault, signal_fault
from workbench.graph.durations import seconds
from workbench.graph.node import Node
from workbench.graph.values import encode


def sleep(duration: object) -> Node:
    """Wait; the value is `{"slept": true, "seconds": N}`.

    Parameters:
        duration: seconds, a timedelta, or text such as "10 minutes"; at least 0.

    Raises:
        GraphError: no length of time, or more than 1,000 years.
    """
    return Node("SLEEP", query=encode(seconds(duration, "sleep()")))


def wait_for_schedule(cron: str, timezone: str = "UTC") -> Node:
    """Wait for the next time that a cron expression matches, after the step has begun.

    Parameters:
        cron: five fields: minute, hour, day of month, month, day of week (0 and 7 are Sunday;
            names are taken). When both days are restricted, either one matches.
        timezone: the IANA name of the time zone in which the fields are read.

    Raises:
        GraphError: not such an expression, or no such time zone.
    """
    if fault := schedule_fault({"cron_expr": cron, "timezone": timezone}):
        raise GraphError(fault)
    return Node("WAIT_SCHEDULE", query=schedule_query(cron, timezone))


def wait_for_signal(name: str, timeout: object = None) -> Node:
    """Wait for a signal, for ever or at most as long as `timeout`.

    The value is `{"signal_name": …, "timed_out": false, "data": …}`. A signal sent before the wait
    began is kept for it.

    Parameters:
        timeout: whole seconds, a timedelta, or text such as "1 hour"; more than 0.

    Raises:
        GraphError: an empty name, or a time-out that is not a positive whole number of seconds.
    """
    whole = None if timeout is None else seconds(timeout, "wait_for_signal(timeout=…)")
    if fault := signal_fault({"signal_name": name, "timeout_seconds": whole}):
        raise GraphError(fault)
    return Node("SIGNAL", query=signal_query(name, whole))


def schedule_query(cron: str, timezone: str) -> str:
    """Return the config of a WAIT_SCHEDULE."""
    place = "" if timezone == "UTC" else f',"timezone":{encode(timezone)}'
    return f'{{"cron_expr":{encode(cron)}{place}}}'


def signal_query(name: str, timeout: int | float | None) -> str:
    """Return the config of a SIGNAL."""
    return f'{{"signal_name":{encode(name)},"timeout_seconds":{encode(timeout)}}}'
