"""What handlers say of how far they are: from their threads to the rows of their nodes, the last word
of each a few times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from functools import partial

import psycopg

from workbench.engine.failure import clean
from workbench.engine.workload import Claim
from workbench.store import verbs
from workbench.store.wire import Statement

__all__ = ["Progress"]

PACE = 0.2  # seconds between two writes
LONGEST_NOTE = 200  # characters


class Progress:
    """Collects what is said and writes it by `ask`; what cannot be written is forgotten."""

    def __init__(self, ask: Callable[[Statement], Awaitable[psycopg.pq.abc.PGresult]]) -> None:
        self._ask = ask
        self._said: dict[str, tuple[Claim, float, str | None]] = {}
        self._writing: asyncio.Task[None] | None = None

    def teller(self, claim: Claim) -> Callable[[float, str | None], None]:
        """For the handler of a claim, on its thread."""
        loop = asyncio.get_running_loop()
        return partial(self._hear, loop, claim)

    def _hear(
        self, loop: asyncio.AbstractEventLoop, claim: Claim, fraction: float, note: str | None
    ) -> None:
        with contextlib.suppress(RuntimeError):  # the engine has ended, the handler has not
            loop.call_soon_threadsafe(self._note, claim, fraction, note)

    def _note(self, claim: Claim, fraction: float, note: str | None) -> None:
        self._said[claim.token] = (claim, fraction, note)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._said:
                said, self._said = self._said, {}
                rows = [
                    {
                        "run": claim.run,
                        "node_id": claim.node,
                        "token": claim.token,
                        "fraction": fraction,
                        "note": None if note is None else clean(note, LONGEST_NOTE),
                    }
                    for claim, fraction, note in said.values()
                ]
                with contextlib.suppress(psycopg.Error, OSError):
                    await self._ask(verbs.note_progress(json.dumps(rows)))
                await asyncio.sleep(PACE)
        finally:
            self._writing = None

    def close(self) -> None:
        """Write nothing more."""
        if self._writing is not None:
            self._writing.cancel()
