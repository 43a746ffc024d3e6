"""Being alive, seeing who is not, and giving back what was lost.

One session holds this engine's advisory lock and beats. On every look it also watches the other
engines of its role: one whose lock is gone, or whose heartbeat stands still, is declared dead; its
sessions are ended and its leaves become ready again. Now and then the leaves that bear this
engine's name are compared with the claims it knows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import workbench
from workbench.engine.core import Core
from workbench.engine.machine import Limits
from workbench.engine.model import Lost, Released
from workbench.engine.workload import Claim
from workbench.store import verbs
from workbench.store.migrate import SCHEMA_VERSION
from workbench.store.verbs import Leaf, Watched
from workbench.store.wire import Session, rows

__all__ = ["LOOK", "Liveness"]

log = logging.getLogger("workbench")

LOOK = 0.3  # seconds between looks: a killed engine is missed in two of them
BEAT = 1.0  # seconds between heartbeats, when the limit leaves room for several
SILENCE = 0.6  # of the limit without a heartbeat, after which requests are given up
COMPARE = 2.0  # seconds between comparisons of tokens
STALLED = 60.0  # seconds between searches for runs in which nothing is alive
RETENTION = 60.0  # seconds between searches for finished runs that are past retention
MOST = 200


@dataclass(slots=True)
class _Seen:
    """What this observer has seen of another engine, by its own clock."""

    beat: str
    beat_since: float
    unheld_since: float | None = None


class Liveness:
    """Heartbeats and sweeps on the control session.

    `on_silence` is called when no heartbeat has succeeded for so long that others may soon take
    this engine for dead, and give away what it holds.
    """

    def __init__(self, core: Core, handler_names: set[str], on_silence: Callable[[], None]) -> None:
        self._core = core
        self._on_silence = on_silence
        self._alarm: asyncio.TimerHandle | None = None
        self._handlers = handler_names
        self._published: set[str] | None = None
        self._limit = 15.0
        self._seen: dict[str, _Seen] = {}
        self._recovering: set[str] = set()
        self._to_acknowledge = 0
        self._last = dict.fromkeys(("beat", "compare", "stalled", "retention"), 0.0)

    async def enter(self, session: Session) -> None:
        """Take a place in `df.engines`: the old one when it still counts as alive, else a new
        identity.
        """
        core = self._core
        limit, lost, faults = [
            float(str(rows(r)[0][0]))
            for r in await session.run(
                *map(verbs.setting, ("heartbeat_limit", "max_lost", "max_faults"))
            )
        ]
        self._limit, core.limits = limit, Limits(int(lost), int(faults))
        retaken = False
        if core.identity:
            (result,) = await session.run(verbs.retake(core.identity))
            retaken = rows(result)[0][0] == "t"
        if not retaken:
            core.identity = secrets.token_hex(4)
            await session.run(
                verbs.enter(
                    core.identity,
                    socket.gethostname(),
                    os.getpid(),
                    workbench.__version__,
                    SCHEMA_VERSION,
                    core.ceilings,
                )
            )
            log.info("engine %s entered", core.identity)
        self._published = None
        self._seen.clear()
        core.saw(alone=False)
        await self._beat(session)
        await self._compare(session)

    async def look(self, session: Session) -> None:
        """One look at everything that is due."""
        if self._due("beat", min(BEAT, self._limit / 4)):
            await self._beat(session)
        await self._watch(session)
        if self._to_acknowledge:  # a newcomer: the first beat notices it, the second says so
            self._to_acknowledge -= 1
            await self._beat(session)
        if self._due("compare", COMPARE):
            await self._compare(session)
        if self._due("stalled", STALLED):
            await self._revive(session)
        if self._due("retention", RETENTION):
            await self._prune(session)

    def compare_next(self) -> None:
        """Compare tokens at the next look: something may have been cancelled."""
        self._last["compare"] = 0.0

    def _due(self, what: str, every: float) -> bool:
        now = time.monotonic()
        if now - self._last[what] < every:
            return False
        self._last[what] = now
        return True

    async def _beat(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        names = set(self._handlers)
        news = None if names == self._published else names
        beat = verbs.beat(self._core.identity, news, alone=self._core.alone)
        (result,) = await session.run(beat)
        alive, schema, alone = rows(result)[0]
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_at(began + SILENCE * self._limit, self._on_silence)
        self._published = names
        self._core.saw(alone=alone == "t")
        if alive != "t":
            log.warning(
                "engine %s was declared dead by another one: it takes a new identity",
                self._core.identity,
            )
            self._core.claiming = False
            await self._renew(session)
        elif int(schema or 0) > SCHEMA_VERSION:
            if self._core.claiming:
                log.warning(
                    "the schema is newer than this engine: it claims nothing more; restart it with the new package"
                )
            self._core.claiming = False
        else:
            self._core.claiming = not self._core.stopping

    async def _renew(self, session: Session) -> None:
        """What was claimed under the old name is lost to us: its reports will be refused."""
        for claim in self._core.workload:
            claim.interrupt()
        self._core.copies.clear()
        await session.run(verbs.UNLOCK)
        await self.enter(session)

    # The others.

    async def _watch(self, session: Session) -> None:
        (result,) = await session.run(verbs.watch(self._core.identity))
        watched = verbs.read_watched(result)
        if watched and self._core.alone:
            self._to_acknowledge = 2
        buried = [
            engine
            for engine in watched
            if self._is_dead(engine) and await self._bury(session, engine)
        ]
        for gone in self._seen.keys() - {engine.id for engine in watched}:
            del self._seen[gone]
        if buried:
            await session.run(verbs.end_sessions())
        (result,) = await session.run(verbs.orphans(MOST))
        await self._recover(session, verbs.read_orphans(result))

    async def _recover(self, session: Session, orphans: list[tuple[Leaf, str | None]]) -> None:
        """Give back what dead engines and outside workers executed, once their sessions are gone."""
        new = [each for each in orphans if each[0].token not in self._recovering]
        tokens = {leaf.token for leaf, _ in new}
        if any(claim.token in tokens and not claim.interrupted for claim in self._core.workload):
            await self._beat(session)  # ours: we were declared dead, and need a new name first
            return
        if new:  # whoever buried that engine may not have come to this yet
            await session.run(verbs.end_sessions())
        for leaf, lost in new:
            event: Lost | Released = Released(leaf.node, leaf.token)
            if lost is not None:
                event = Lost(leaf.node, leaf.token, lost)
            self._core.workload.report(Claim(leaf.run, leaf.node, leaf.token), event)
        self._recovering = {leaf.token for leaf, _ in orphans}

    def _is_dead(self, engine: Watched) -> bool:
        """A lock missed twice, or a heartbeat that stood still for the whole limit while this
        observer watched.
        """
        now = time.monotonic()
        seen = self._seen.get(engine.id)
        if seen is None or seen.beat != engine.last_seen_at:
            unheld = seen.unheld_since if seen else None
            seen = self._seen[engine.id] = _Seen(engine.last_seen_at, now, unheld)
        if engine.held or engine.trust_in < self._limit:
            seen.unheld_since = None
        elif seen.unheld_since is None:
            seen.unheld_since = now
        elif now - seen.unheld_since >= LOOK * 0.9:
            return True
        return now - seen.beat_since >= self._limit

    async def _bury(self, session: Session, engine: Watched) -> bool:
        (result,) = await session.run(verbs.bury(engine.id, engine.last_seen_at))
        dead = bool(rows(result))
        if dead:
            log.warning("engine %s is dead: its steps go on elsewhere", engine.id)
        return dead

    # Ourselves.

    async def _compare(self, session: Session) -> None:
        """Give back what bears our name and is not known; interrupt what we execute and is no
        longer ours.
        """
        work = self._core.workload
        begun = [claim for claim in work if claim.begun and not claim.reported]
        me = self._core.identity
        bearing, releasing = await session.run(verbs.held(me), verbs.releasing(me))
        held = verbs.read_leaves(bearing)
        # Cancelled, and unknown here: it was never begun.
        ended = [str(row[0]) for row in rows(releasing)]
        work.confirm(t for t in ended if t not in work and t not in work.drawn)
        for leaf in held:
            if (
                leaf.token not in work
                and leaf.token not in work.drawn
                and leaf.token not in self._recovering
            ):
                work.report(Claim(leaf.run, leaf.node, leaf.token), Released(leaf.node, leaf.token))
        tokens = {leaf.token for leaf in held}
        for claim in begun:
            if claim.token not in tokens:
                claim.interrupt()

    async def _revive(self, session: Session) -> None:
        """Ask for another look at live runs in which nothing is alive, and end those whose role is
        gone.
        """
        await session.run(verbs.revive(MOST), verbs.fail_orphaned(MOST))

    async def _prune(self, session: Session) -> None:
        """Delete a batch of what is past retention; where there was any, look again at once."""
        (result,) = await session.run(verbs.prune(MOST))
        if rows(result) != [["0"]]:
            self._last["retention"] = 0.0

    async def leave(self, session: Session) -> None:
        await session.run(verbs.leave(self._core.identity))
