"""What an engine has in hand: its claims, the room left under its ceiling, the reports that wait to
be recorded.

Touched by the engine's loop only, except `report`, which handler threads call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from uuid import uuid4

from workbench.engine.delivery import Delivery
from workbench.engine.model import ReportEvent

__all__ = ["Claim", "Report", "Workload"]


@dataclass(slots=True)
class Claim:
    """A leaf that is this engine's. `begun` once the claim is committed and executing; `stop`
    interrupts that. `executed` is what its attempt executes, where that is not what the graph says;
    `timer` ends the attempt when it takes too long;
    `delivery` the response that it stores, once there is one.
    """

    run: str
    node: int
    token: str
    suspect: bool = False
    begun: bool = False
    interrupted: bool = False
    reported: bool = False
    stop: Callable[[], None] | None = None
    executed: str | None = None
    timer: asyncio.TimerHandle | None = None
    delivery: Delivery | None = None

    def interrupt(self) -> None:
        """Ask whatever executes the leaf to stop.

        Again and again until it has: a cancel that overtakes its statement finds nothing to cancel.
        """
        self.interrupted = True
        if self.stop is not None:
            self.stop()


@dataclass(slots=True)
class Report:
    """How a claim ended, until a checkpoint has recorded it."""

    claim: Claim
    event: ReportEvent
    tries: int = 0


class Workload:
    """Claims by token, within a ceiling."""

    def __init__(self, ceiling: int, wake: Callable[[], None]) -> None:
        self.ceiling = ceiling
        self.drawn: set[str] = set()
        self.confirmations: list[str] = []  # cancelled claims whose end is still to be confirmed
        self.recording: set[str] = set()  # runs of rounds under way
        self.ending = 0  # claims whose room is given away with commits under way
        self.promised = 0  # to claims under way
        self.suspect_asked = False  # a claim under way may bring one
        self._wake = wake
        self._claims: dict[str, Claim] = {}
        self._reports: deque[Report] = deque()

    def __len__(self) -> int:
        return len(self._claims)

    def __contains__(self, token: str) -> bool:
        return token in self._claims

    def __iter__(self) -> Iterator[Claim]:
        return iter(list(self._claims.values()))

    @property
    def free(self) -> int:
        """How many more leaves may run; below zero where more do."""
        return self.ceiling - len(self._claims) - self.promised + self.ending

    @property
    def suspect(self) -> bool:
        """Whether a leaf that was lost before is running here, or about to."""
        return self.suspect_asked or any(claim.suspect for claim in self._claims.values())

    @property
    def reports(self) -> int:
        """How many wait to be recorded, and can be now."""
        if not self.recording:
            return len(self._reports)
        return sum(report.claim.run not in self.recording for report in self._reports)

    def draw(self, count: int) -> list[str]:
        """Tokens for a claim about to be made; known before the database may bear them, so that
        none is ever orphaned.
        """
        tokens = [str(uuid4()) for _ in range(count)]
        self.drawn.update(tokens)
        return tokens

    def undraw(self, tokens: Iterable[str]) -> None:
        """The claim was answered: those not taken are forgotten."""
        self.drawn.difference_update(tokens)

    def add(self, claim: Claim) -> None:
        self._claims[claim.token] = claim

    def get(self, token: str) -> Claim:
        return self._claims[token]

    def remove(self, *claims: Claim) -> None:
        """The claims have ended: there is room for others."""
        removed = [c for c in claims if self._claims.pop(c.token, None) is not None]
        for claim in removed:
            if claim.timer is not None:
                claim.timer.cancel()
        if removed:
            self._wake()

    def discard(self, tokens: Iterable[str]) -> None:
        """Forget those of these claims that were never begun."""
        held = [self._claims[token] for token in tokens if token in self._claims]
        self.remove(*(claim for claim in held if not claim.begun))

    def busy_with(self, run: str) -> bool:
        return any(claim.run == run for claim in self._claims.values())

    def shared(self, run: str) -> bool:
        """Whether several leaves of a run execute here."""
        return sum(claim.run == run for claim in self._claims.values()) > 1

    def report(self, claim: Claim, event: ReportEvent) -> None:
        """Hand over how a claim ended. Thread-safe; a claim reports once."""
        if not claim.reported:
            claim.reported = True
            self._reports.append(Report(claim, event))
            self._wake()

    def confirm(self, tokens: Iterable[str]) -> None:
        """What these cancelled claims executed has come to its end, or was never begun."""
        new = [token for token in tokens if token not in self.confirmations]
        if new:
            self.confirmations += new
            self._wake()

    def requeue(self, report: Report, delay: float = 0.0) -> None:
        """Record this one later: somebody holds the run's lock, or the database is away."""
        if delay:
            asyncio.get_running_loop().call_later(delay, self.requeue, report)
        else:
            self._reports.append(report)
            self._wake()

    def take_reports(self, most: int) -> list[Report]:
        """The oldest reports, but for those about runs that are being recorded already."""
        taken: list[Report] = []
        kept: list[Report] = []
        while self._reports and len(taken) < most:
            report = self._reports.popleft()
            (kept if report.claim.run in self.recording else taken).append(report)
        self._reports.extendleft(reversed(kept))
        return taken
