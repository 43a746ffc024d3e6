"""SQL leaves, and the inserts of HTTP leaves with a sink: the statement and its checkpoint in one
transaction, on a small pool of sessions.

Statements for another database than the one that holds the runs, and those that cannot run in a
transaction, run in autocommit instead, at least once. The happy path of a step never leaves this
module: the statement, then under the run's lock the decision, its rows and the next leaf of the
same run, then COMMIT. Whatever does not succeed is reported like the end of any other attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import lru_cache
from weakref import WeakValueDictionary

import psycopg
from psycopg import pq

from workbench.engine import documents
from workbench.engine.core import Core, Settled
from workbench.engine.delivery import Delivery
from workbench.engine.failure import describe
from workbench.engine.model import Completed, Failed, Faulted, Lost, Released, Run, Value
from workbench.engine.pool import Connect, Pool, Pools
from workbench.engine.workload import Claim
from workbench.errors import StepError, ValueRefused
from workbench.graph.lexer import first_words, refuse
from workbench.graph.shapes import did_you_mean
from workbench.graph.substitute import references
from workbench.store import step, verbs
from workbench.store.results import CATALOG_QUERY, ResultReader
from workbench.store.verbs import Leaf
from workbench.store.wire import Session, Statement, error, raise_first, rows

__all__ = ["SqlLeaves"]

log = logging.getLogger("workbench")

TURN = 0.5  # seconds that a branch stands in line here for its run
NO_SESSION = 0.5  # seconds until a session for a response that is there already is asked for again
RETRY_AFTER = "DFRTA"  # the SQLSTATE with which df.retry_after raises; the detail has the seconds


class SqlLeaves:
    """Executes SQL leaves; one task a leaf."""

    def __init__(self, core: Core, connect: Connect) -> None:
        self._core = core
        self._pools = Pools(connect)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def close(self) -> None:
        await self._pools.close()

    async def execute(self, run: Run, claim: Claim, sql: str) -> None:
        """Run the statement to its end; the claim has been dealt with when this returns.

        It is the caller's to deal with when this raises, and nothing has run. StepError: the
        statement cannot be a step. psycopg.Error, OSError: there is no session to be had.
        """
        claim.executed = sql if sql != run.plan[claim.node].query else None
        _refuse(sql)
        pool = self._pool(run)
        try:
            session = await pool.take()
        except psycopg.OperationalError as refused:
            if not run.elsewhere:
                raise
            self._report(claim, refused)
            return
        await self._in_session(session, pool, run, claim, Statement(sql.encode()))

    async def store(self, run: Run, claim: Claim, delivery: Delivery) -> None:
        """Store a response's body, as the statement that completes its leaf; the claim has been
        dealt with when this returns. The request is not made again for want of a session.
        """
        claim.delivery = delivery
        pool = self._pool(run)
        while not claim.interrupted:
            try:
                session = await pool.take()
            except (psycopg.OperationalError, OSError) as refused:
                if run.elsewhere:
                    self._report(claim, refused)
                    return
                log.warning(
                    "run %s node %s: no session to store it: %s", run.id, claim.node, refused
                )
                await asyncio.sleep(NO_SESSION)
            else:
                await self._in_session(session, pool, run, claim, delivery)
                return
        self._core.workload.report(claim, Released(claim.node, claim.token))

    def _pool(self, run: Run) -> Pool:
        return self._pools.of(run.database if run.elsewhere else None)

    async def _in_session(
        self, session: Session, pool: Pool, run: Run, claim: Claim, work: Statement | Delivery
    ) -> None:
        """Execute, and give the session back."""
        clean = False
        try:
            claim.stop = lambda: _cancel(session)
            statement = await work.statement(session) if isinstance(work, Delivery) else work
            clean = await self._execute(session, run, claim, statement)
        except StepError as refused:
            self._report(claim, refused)
        except psycopg.Error as failed:
            if session.broken and not claim.interrupted:
                reason = f"the connection was lost while the statement ran: {failed}"
                self._core.workload.report(claim, Lost(claim.node, claim.token, reason))
            else:
                self._faulted(claim, failed)
        except Exception as fault:
            log.exception(
                "run %s node %s: the engine could not execute its statement", run.id, claim.node
            )
            self._report(claim, fault)
        finally:
            claim.stop = None
            pool.give_back(session, clean=clean)

    async def _execute(
        self, session: Session, run: Run, claim: Claim, statement: Statement
    ) -> bool:
        """Execute and deal with the claim; whether the session is as it was before."""
        leaf = Leaf(claim.run, claim.node, claim.token)
        if claim.interrupted:  # before there was anything to interrupt
            self._core.workload.report(claim, Released(claim.node, claim.token))
            return True
        if run.elsewhere or run.nodes[claim.node].autocommit or run.plan[claim.node].alone:
            await self._alone(session, run, claim, statement)
            return False
        reader = ResultReader()
        together = self._core.workload.shared(run.id)
        version = None if together else run.version
        ran = await step.run_in_transaction(
            session, statement, leaf, version, _bounded(reader, session)
        )
        claim.stop = None  # a cancel that arrived now would hit the checkpoint
        if ran.blame is None and ran.infrastructure is None:
            if together:
                return await self._checkpoint_in_turn(session, run, claim, ran, reader)
            return await self._checkpoint(session, run, claim, ran, reader)
        await session.run(verbs.ROLLBACK)
        if ran.infrastructure is not None:
            self._faulted(claim, ran.infrastructure)
        elif _needs_autocommit(ran.blame, statement) and not claim.interrupted:
            _, _, marked, _ = await session.run(*step.on_own_path(verbs.goes_autocommit(leaf)))
            if rows(marked) == [["t"]]:
                run.nodes[claim.node].autocommit = True
                await self._alone(session, run, claim, statement)
            else:  # cancelled in the meantime: it must not run a second time
                self._core.workload.report(claim, Released(claim.node, claim.token))
        else:
            self._failed(claim, ran, reader)
        return False

    async def _alone(self, session: Session, run: Run, claim: Claim, statement: Statement) -> None:
        """At-least-once, and the attempt row will say so."""
        reader = ResultReader()
        claim.stop = lambda: _cancel(session)
        await session.run(step.mark_alone(Leaf(claim.run, claim.node, claim.token)))
        if claim.interrupted:  # a cancel sent by now may have hit anything but the statement
            self._core.workload.report(claim, Released(claim.node, claim.token))
            return
        ran = await step.run_alone(session, statement, _bounded(reader, session))
        if ran.blame is not None or reader.oversize:
            self._failed(claim, ran, reader)
            return
        try:
            database = run.database if run.elsewhere else None
            value = await self._value(session, claim, ran, reader, database)
        except (StepError, ValueRefused) as refused:
            self._report(claim, refused)
            return
        done = Completed(claim.node, claim.token, value, executed=claim.executed)
        self._core.workload.report(claim, done)

    async def _checkpoint_in_turn(
        self, session: Session, run: Run, claim: Claim, ran: step.Ran, reader: ResultReader
    ) -> bool:
        """Branches of one run stand in line here and not before the lock of its row: so the copy
        knows what each of them did, and nothing has to be read again. Not for long: Postgres finds
        out about deadlocks only where it sees who waits.
        """
        turn = self._turns.setdefault(run.id, asyncio.Lock())
        try:
            await asyncio.wait_for(turn.acquire(), TURN)
        except TimeoutError:
            return await self._lock_and_checkpoint(session, run, claim, ran, reader)
        try:
            return await self._lock_and_checkpoint(session, run, claim, ran, reader)
        finally:
            turn.release()

    async def _lock_and_checkpoint(
        self, session: Session, run: Run, claim: Claim, ran: step.Ran, reader: ResultReader
    ) -> bool:
        leaf = Leaf(claim.run, claim.node, claim.token)
        await step.lock_run(session, leaf, self._core.copies.version(run.id), ran)
        return await self._checkpoint(session, run, claim, ran, reader)

    async def _checkpoint(
        self, session: Session, run: Run, claim: Claim, ran: step.Ran, reader: ResultReader
    ) -> bool:
        """The run is locked and the statement's effects are pending: decide, write, commit.

        Returns whether the session was left as it was before the step.
        """
        try:
            settled = await self._settle(session, claim, ran, reader)
        except (StepError, ValueRefused) as refused:
            await session.run(verbs.ROLLBACK)
            self._report(claim, refused)
            return False
        if settled is None:
            await session.run(verbs.ROLLBACK)
            self._core.workload.report(claim, Released(claim.node, claim.token))
            return False
        try:
            clean = await self._commit(session, settled)
        except BaseException as failed:
            self._core.abandoned([settled])
            if not isinstance(failed, psycopg.Error):
                raise
            await self._not_committed(session, claim, failed)
            return False
        self._core.committed(settled)
        return clean

    async def _settle(
        self, session: Session, claim: Claim, ran: step.Ran, reader: ResultReader
    ) -> Settled | None:
        """Decide what follows from the result; None when the claim is no longer ours, or there is
        no copy of the run to decide on.
        """
        if reader.oversize:
            raise _oversize()
        value = await self._value(session, claim, ran, reader)
        current = await self._current(session, claim, ran)
        if current is None or ran.now is None:
            return None
        done = Completed(claim.node, claim.token, value, cancel=ran.cancel, executed=claim.executed)
        settled = self._core.settle(current, done, ran.now, self._core.room(1, 1))
        if settled is None:
            if current.nodes[claim.node].token != claim.token:  # a race was lost meanwhile
                return None
            raise StepError(
                "the completion was refused although the claim looked current: its effects were "
                "rolled back"
            )
        self._core.ends(settled, claim)
        return settled

    async def _current(self, session: Session, claim: Claim, ran: step.Ran) -> Run | None:
        """The copy of the locked run, brought up to date."""
        if not ran.locked:
            return None
        current = self._core.copies.refresh(ran.locked[0], ran.asked)
        if current is None and claim.run in self._core.copies:  # older than what was asked for
            await step.lock_run(session, Leaf(claim.run, claim.node, claim.token), -1, ran)
            current = self._core.copies.refresh(ran.locked[0], -1) if ran.locked else None
        return current

    async def _commit(self, session: Session, settled: Settled) -> bool:
        """Write and commit; whether the reset that follows in the same pipeline succeeded, too."""
        written, committed, *reset = await session.pipeline(
            documents.statement(
                self._core.identity,
                settled.decision.at,
                [(settled.run.id, settled.decision)],
                tell=settled.foreign,
                frees=settled.frees and not self._core.hungry,
                prepared=False,
            ),
            verbs.COMMIT,
            *step.RESET_AFTER_TAIL,
        )
        raise_first([written, committed])
        if committed.command_status != b"COMMIT":
            raise psycopg.errors.InFailedSqlTransaction("COMMIT answered ROLLBACK")
        return session.reusable and not any(map(error, reset))

    async def _not_committed(self, session: Session, claim: Claim, failed: psycopg.Error) -> None:
        """Rolled back, or lost in COMMIT: then the report's own look at the token, under the run's
        lock, tells which.
        """
        if not session.broken:
            await session.run(verbs.ROLLBACK)
        if (failed.sqlstate or "")[:2] in ("22", "54"):  # jsonb refuses the value
            refusal = StepError(
                f"the result cannot be stored as jsonb: {failed}. Convert it in the statement, e.g. to text."
            )
            self._report(claim, refusal)
        else:
            self._faulted(claim, failed)

    async def _value(
        self,
        session: Session,
        claim: Claim,
        ran: step.Ran,
        reader: ResultReader,
        database: str | None = None,
    ) -> Value:
        if claim.delivery is not None:
            return claim.delivery.value()
        assert ran.final is not None
        catalog = self._pools.of(database).catalog
        if unknown := reader.unknown_types(catalog, ran.final):
            oids = ("{" + ",".join(map(str, sorted(unknown))) + "}").encode()
            (result,) = await session.run(Statement(CATALOG_QUERY.encode(), (oids,)))
            catalog.learn(rows(result))
        return Value(*reader.finish(ran.final, catalog))

    def _failed(self, claim: Claim, ran: step.Ran, reader: ResultReader) -> None:
        if reader.oversize:
            self._report(claim, _oversize())
        elif claim.interrupted:
            self._core.workload.report(claim, Released(claim.node, claim.token))
        else:
            assert ran.blame is not None
            self._report(claim, ran.blame)

    def _faulted(self, claim: Claim, failed: psycopg.Error) -> None:
        """Not the statement's fault; nor anybody's, when it was the interruption that struck late."""
        event: Faulted | Released = Released(claim.node, claim.token)
        if not claim.interrupted:
            event = Faulted(claim.node, claim.token, describe(failed, trace=False))
        self._core.workload.report(claim, event)

    def _report(self, claim: Claim, failed: Exception) -> None:
        error = describe(failed, trace=not isinstance(failed, psycopg.Error | StepError))
        run = self._core.copies.get(claim.run)
        if isinstance(failed, psycopg.errors.SyntaxError) and run is not None:
            error |= _hint(run, run.plan[claim.node].query or "")
        if claim.delivery is not None:
            error = claim.delivery.described(error)
        delay, source = _asked_delay(failed)
        event = Failed(claim.node, claim.token, error, delay, source, executed=claim.executed)
        self._core.workload.report(claim, event)


def _asked_delay(failed: Exception) -> tuple[float | None, str | None]:
    """The delay that `df.retry_after` asked for, in seconds, and its source."""
    if isinstance(failed, psycopg.Error) and failed.sqlstate == RETRY_AFTER:
        return float(failed.diag.message_detail or 0), "retry_after"
    return None, None


def _hint(run: Run, sql: str) -> dict[str, str]:
    """What a syntax error is likely to be about: a `$name` that names nothing was left as it stood."""
    known = run.plan.names | {"input"}
    for name in sorted(references(sql) - known):
        return {"hint": f"${name} names no result of an earlier step.{did_you_mean(name, known)}"}
    return {}


def _refuse(sql: str) -> None:
    """Refuse what cannot be a step; most statements are executed again and again."""
    if refusal := _refusal(sql):
        raise StepError(refusal)


@lru_cache(maxsize=512)
def _refusal(sql: str) -> str | None:
    try:
        refuse(sql)
    except StepError as refused:
        return str(refused)
    return None


def _oversize() -> StepError:
    return StepError(
        "the result is larger than 16 MiB: the statement was cancelled and rolled back. Return "
        "less, or write to a table."
    )


def _bounded(reader: ResultReader, session: Session) -> Callable[[pq.abc.PGresult], None]:
    """Read chunks until the limit is passed, then interrupt the statement: a huge SELECT must not
    fill the kernel.
    """

    def read(chunk: pq.abc.PGresult) -> None:
        fits = not reader.oversize
        reader(chunk)
        if fits and reader.oversize:
            _cancel(session)

    return read


_background: set[asyncio.Task[None]] = set()


def _cancel(session: Session) -> None:
    """Interrupt what the session is executing; whoever awaits it sees the error."""
    task = asyncio.ensure_future(_try_to_cancel(session))
    _background.add(task)
    task.add_done_callback(_background.discard)


async def _try_to_cancel(session: Session) -> None:
    """A server that is away cannot be asked, and has nothing to interrupt."""
    with contextlib.suppress(psycopg.Error, OSError):
        await session.cancel()


def _needs_autocommit(failed: Exception | None, statement: Statement) -> bool:
    """Whether this statement cannot run in a transaction block, told by the error before anything
    of it had run.
    """
    if not isinstance(failed, psycopg.Error):
        return False
    if failed.sqlstate == "25001":
        return not failed.diag.context
    return failed.sqlstate == "2D000" and first_words(statement.sql.decode(), 1)[:1] in (
        ("call",),
        ("do",),
    )
