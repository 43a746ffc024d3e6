"""What an engine has in hand: room under its ceiling, claims that report once, interruption."""

from __future__ import annotations

import asyncio
import threading

import pytest

from workbench.engine.model import Completed, Released, Value
from workbench.engine.workload import Claim, Workload


class Bell:
    """Counts how often the engine was woken."""

    def __init__(self) -> None:
        self.rung = 0

    def __call__(self) -> None:
        self.rung += 1


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def workload(bell: Bell) -> Workload:
    return Workload(3, bell)


def claim(token: str, run: str = "r", *, suspect: bool = False) -> Claim:
    return Claim(run, 0, token, suspect=suspect)


def test_a_claim_takes_room_until_it_is_removed(workload: Workload) -> None:
    first, second = claim("a"), claim("b")
    workload.add(first)
    workload.add(second)
    assert (len(workload), workload.free, "a" in workload) == (2, 1, True)
    workload.remove(first)
    workload.remove(first)
    assert (len(workload), workload.free, "a" in workload) == (1, 2, False)
    assert workload.get("b") is second


def test_room_that_was_given_away_twice_is_made_up_for_by_later_ends(workload: Workload) -> None:
    for token in "abcd":
        workload.add(claim(token))
    assert workload.free == -1


def test_what_is_promised_to_a_claim_under_way_is_not_free(workload: Workload) -> None:
    workload.promised = 2
    assert workload.free == 1


def test_claims_may_be_removed_while_they_are_looked_through(workload: Workload) -> None:
    for token in "abc":
        workload.add(claim(token))
    for each in workload:
        workload.remove(each)
    assert len(workload) == 0


def test_tokens_are_known_before_the_database_may_bear_them(workload: Workload) -> None:
    tokens = workload.draw(3)
    assert len(set(tokens)) == 3
    assert workload.drawn == set(tokens)
    workload.undraw(tokens)
    assert workload.drawn == set()


def test_the_runs_in_hand_are_those_of_the_claims(workload: Workload) -> None:
    workload.add(claim("a", "one"))
    assert workload.busy_with("one")
    assert not workload.busy_with("two")


def test_one_suspect_makes_the_engine_suspicious(workload: Workload) -> None:
    workload.add(claim("a"))
    assert not workload.suspect
    workload.add(claim("b", suspect=True))
    assert workload.suspect


def test_a_claim_reports_once(workload: Workload, bell: Bell) -> None:
    first = claim("a")
    workload.report(first, Completed(0, "a", Value("1")))
    workload.report(first, Released(0, "a"))
    assert (workload.reports, bell.rung) == (1, 1)
    [report] = workload.take_reports(10)
    assert (report.claim, report.event) == (first, Completed(0, "a", Value("1")))


def test_reports_are_taken_oldest_first_and_no_more_than_asked(workload: Workload) -> None:
    for token in "abc":
        workload.report(claim(token), Released(0, token))
    assert [report.claim.token for report in workload.take_reports(2)] == ["a", "b"]
    assert [report.claim.token for report in workload.take_reports(2)] == ["c"]
    assert workload.take_reports(2) == []


def test_no_report_is_lost_between_threads(workload: Workload) -> None:
    def report(name: str) -> None:
        for number in range(200):
            workload.report(claim(f"{name}{number}"), Released(0, ""))

    threads = [threading.Thread(target=report, args=[name]) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({report.claim.token for report in workload.take_reports(1000)}) == 800


def test_a_report_that_could_not_be_recorded_comes_again(workload: Workload, bell: Bell) -> None:
    workload.report(claim("a"), Released(0, "a"))
    [report] = workload.take_reports(1)
    workload.requeue(report)
    assert bell.rung == 2
    assert workload.take_reports(1) == [report]


def test_a_report_that_must_wait_comes_again_later() -> None:
    async def wait_for_it() -> None:
        again = asyncio.Event()
        workload = Workload(1, again.set)
        workload.report(claim("a"), Released(0, "a"))
        [report] = workload.take_reports(1)
        again.clear()
        workload.requeue(report, delay=0.01)
        assert workload.reports == 0
        await asyncio.wait_for(again.wait(), 10)
        assert workload.take_reports(1) == [report]

    asyncio.run(wait_for_it())


def test_a_claim_is_interrupted_until_it_stops() -> None:  # a cancel may overtake its statement
    stopped = Bell()
    running = claim("a")
    running.stop = stopped
    running.interrupt()
    running.interrupt()
    assert (running.interrupted, stopped.rung) == (True, 2)


def test_what_does_not_execute_yet_is_interrupted_by_the_mark_alone() -> None:
    waiting = claim("a")
    waiting.interrupt()
    assert waiting.interrupted
