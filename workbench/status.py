"""`Status`: how a bench stands, as `bench.status()` says it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Status"]


@dataclass(frozen=True)
class Status:
    """How a bench stands.

    Attributes
    ----------
    database:
        Where, without a password.
    schema_version:
        Of schema `df`.
    engine:
        Identity of the engine of this process; None when it has none running.
    listening:
        Whether notifications reach it: without them it polls 4 times a second. None without an
        engine, and in its first moments.
    unfinished_runs, live_engines:
        Of this role, on this database.
    """

    database: str
    schema_version: int
    engine: str | None
    listening: bool | None
    unfinished_runs: int
    live_engines: int

    def __str__(self) -> str:
        how = {
            True: "woken by LISTEN",
            False: "polling only, LISTEN does not work here",
            None: "trying LISTEN",
        }
        engine = f"engine {self.engine}, {how[self.listening]}" if self.engine else "no engine here"
        return (
            f"{self.database} (schema version {self.schema_version}): {engine}; "
            f"{self.unfinished_runs} unfinished runs, {self.live_engines} live engines"
        )
