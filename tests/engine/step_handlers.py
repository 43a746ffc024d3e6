"""Handlers of the engine's tests, importable by every engine process.

Handlers that wait stand before a gate, an advisory lock that the test holds (`Database.gate`), or
look at `ctx.cancelled`. What they saw they write into the table `seen`.
"""

from __future__ import annotations

import datetime
import logging
import math
import os
import signal
import threading
import time
from typing import Any

from workbench.engine.context import Context
from workbench.errors import RetryAfter

SEEN = "CREATE TABLE seen (what text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())"


def echo(value: Any) -> Any:
    return value


def represent(value: Any) -> str:
    """Types and digits of a value, which equality would not tell apart; keys sorted."""
    return repr(in_order(value))


def in_order(value: Any) -> Any:
    """The value with its keys sorted: jsonb has an order of its own."""
    if isinstance(value, list):
        return [in_order(item) for item in value]
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return value


def note(ctx: Context, what: str) -> str:
    _note(ctx, what)
    return what


def pass_gate(ctx: Context, gate: int) -> int:
    """Block in a thread until the test opens the gate; the attempt's number."""
    with ctx.connect() as conn:
        conn.execute("INSERT INTO seen VALUES ('begun')")
        conn.execute("SELECT pg_advisory_lock_shared(%s)", (gate,))
    return ctx.attempt


def sleep_blocking(ctx: Context, seconds: float) -> int:
    _note(ctx, "begun")
    time.sleep(seconds)
    return ctx.attempt


def until_cancelled(ctx: Context) -> str:
    """Work on until the result is not wanted any more, then return all the same."""
    _note(ctx, "begun")
    deadline = time.monotonic() + 20
    while not ctx.cancelled and time.monotonic() < deadline:
        time.sleep(0.01)
    if ctx.cancelled:
        _note(ctx, "cancelled")
    return "half done"


def first_until_cancelled(ctx: Context) -> str:
    """Only the first call works on until it is cancelled."""
    with ctx.connect() as conn:
        row = conn.execute("SELECT count(*) FROM seen").fetchone()
    if row == (0,):
        return until_cancelled(ctx)
    return "whole"


def kill_worker(ctx: Context, how: str) -> None:
    """Take the whole process down."""
    _note(ctx, "begun")
    if how == "exit":
        os._exit(1)
    os.kill(os.getpid(), signal.SIGKILL)


def fork_child(ctx: Context, gate: int) -> int:
    """Leave a forked child behind, note its process id, then block."""
    child = os.fork()
    if child == 0:
        try:
            time.sleep(60)
        finally:
            os._exit(0)
    _note(ctx, str(child))
    return pass_gate(ctx, gate)


def fail_first(ctx: Context, failures: int) -> int:
    if ctx.attempt <= failures:
        raise RuntimeError(f"e{ctx.attempt}")
    return ctx.attempt


def leave(code: int) -> None:
    raise SystemExit(code)


def interrupt() -> None:
    raise KeyboardInterrupt


def unspeakable() -> None:
    raise Unspeakable


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def speak_strangely() -> None:
    raise RuntimeError("a NUL \0, a surrogate \udcff, " + "long " * 10_000)


BAD: dict[str, Any] = {
    "datetime": {"rows": [{"when": datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)}]},
    "nan": [1.0, math.nan],
    "bytes": {"a": {"b": b"x"}},
    "key": {"a": {1: "x"}},
    "nul": ["fine", "a\0b"],
    "surrogate": ["\udcff"],
    "set": {"s": {1}},
}


def give_bad(kind: str) -> Any:
    return BAD[kind]


def give_text(size: int) -> str:
    return "x" * size


def give_nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _note(ctx: Context, what: str) -> None:
    with ctx.connect() as conn:
        conn.execute("INSERT INTO seen VALUES (%s)", (what,))


def interim() -> str:
    """Registered by a test under a name that no process has at first."""
    return "here now"


def only_here() -> str:
    """Registered by a test in its own process only."""
    return "here"


def idempotency_key(ctx: Context) -> str:
    return ctx.idempotency_key


def asks_for_later(ctx: Context, seconds: float) -> str:
    """Fails the first time, and says when to try again."""
    if ctx.attempt > 1:
        return "done"
    try:
        raise OSError("busy")
    except OSError as busy:
        raise RetryAfter(seconds) from busy


_crowd: list[int] = []  # how many calls of `crowd` were running, at the start of each
_in_crowd: set[str] = set()
_crowd_lock = threading.Lock()


def crowd(ctx: Context) -> None:
    """Note how many of these run at once."""
    me = ctx.idempotency_key
    with _crowd_lock:
        _in_crowd.add(me)
        _crowd.append(len(_in_crowd))
    time.sleep(0.005)
    with _crowd_lock:
        _in_crowd.discard(me)


def largest_crowd() -> int:
    """The most that ran at once since this was last asked."""
    with _crowd_lock:
        largest = max(_crowd, default=0)
        _crowd.clear()
    return largest


def default(value: Any = "default") -> Any:
    return value


def progress(ctx: Context, gate: int) -> list[str]:
    """Say how far it is, stand before a gate, and say what cannot be."""
    ctx.progress(0.4, "page 4")
    with ctx.connect() as conn:
        conn.execute("SELECT pg_advisory_lock_shared(%s)", (gate,))
    refused: list[str] = []
    said: list[Any] = ["half", True, 1.5, math.nan]
    for fraction in said:
        try:
            ctx.progress(fraction)
        except (TypeError, ValueError) as error:
            refused.append(type(error).__name__)
    return refused


def speak(ctx: Context, who: str, gate: int) -> str:
    """Prints and logs before and after a gate, at which another one stands at the same time."""
    print(f"{who} prints")  # noqa: T201
    logging.getLogger("speaker").warning("%s logs", who)
    pass_gate(ctx, gate)
    print(f"{who} ends", flush=True)  # noqa: T201
    return who


async def speak_and_fail(text: str, times: int) -> None:
    for _ in range(times):
        print(text)  # noqa: T201
    raise ValueError("enough")
