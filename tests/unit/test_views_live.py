"""Live views without a browser: when they look, what they show, when they stop."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.view_samples import at, node, run, view_of
from workbench.errors import DatabaseError, StateError
from workbench.news import News
from workbench.views.live import LiveView, Source, updater, widget
from workbench.views.live_widget import actions_of
from workbench.views.run_data import RunData

WITHIN = 10.0  # seconds for anything that is waited for

STEP = node(0, None, None, "SQL", query="SELECT 1")


def data(status: str = "running", seconds: float = 60, **given: Any) -> RunData:
    return RunData(run(status=status, as_of=at(seconds), **given), [STEP])


class Stage:
    """A run that the test moves on, the view of it, and all that the view was told to show."""

    def __init__(self) -> None:
        self.now: RunData | Exception = data()
        self.fetched: list[float] = []
        self.told: list[tuple[Any, ...]] = []
        self.refusal: Exception | None = None
        self.news = News()
        self._heard = threading.Condition()
        source = Source(
            self._fetch,
            lambda call: self.news.subscribe("r", call),
            self._cancel,
            self._signal,
            lambda: self._tell("tries"),
        )
        self.view = LiveView(source, data(), lambda view, data: self)

    def _fetch(self) -> RunData:
        self.fetched.append(time.monotonic())
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    def _cancel(self) -> None:
        if self.refusal:
            raise self.refusal

    def _signal(self, name: str, text: str) -> None:
        if self.refusal:
            raise self.refusal
        self._tell("signal", name, text)

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN
        with self._heard:
            while not condition():
                assert time.monotonic() < deadline, self.told
                self._heard.wait(0.01)

    def change(self, now: RunData | Exception) -> None:
        self.now = now
        self.news.heard("r", ended=False)

    def _tell(self, *what: Any) -> None:
        with self._heard:
            self.told.append(what)
            self._heard.notify_all()

    # As a face.

    def mime_data(self) -> dict[str, Any]:
        return {}

    def draw(self, data: RunData) -> None:
        self._tell("draw", data.run.status)

    def beat(self, data: RunData) -> None:
        self._tell("beat")

    def trouble(self, text: str, *, final: bool) -> None:
        self._tell("trouble", text, final)

    def answer(self, done: str, refusal: str) -> None:
        self._tell("answer", done, refusal)

    def close(self) -> None:
        self._tell("close")


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    updater.add(stage.view)
    stage.wait(lambda: len(stage.fetched) > 0)
    yield stage
    stage.view.drop()
    stage.wait(lambda: updater.shown() == [])


def test_what_has_not_changed_is_not_shown_again_however_the_clock_moves(stage: Stage) -> None:
    stage.change(data(seconds=61))
    stage.wait(lambda: len(stage.fetched) > 1)
    stage.change(data(seconds=62, label="other"))
    stage.wait(lambda: ("draw", "running") in stage.told)
    assert stage.told == [("draw", "running")]


def test_a_burst_of_changes_is_looked_at_four_times_a_second_at_most(stage: Stage) -> None:
    until = time.monotonic() + 0.6
    number = 0
    while time.monotonic() < until:
        number += 1
        stage.change(data(label=f"label {number}"))
        threading.Event().wait(0.001)
    gaps = [b - a for a, b in zip(stage.fetched, stage.fetched[1:], strict=False)]
    assert len(gaps) >= 2
    assert min(gaps) >= 0.25


def test_a_run_that_nobody_tells_of_is_looked_at_all_the_same(stage: Stage) -> None:
    stage.now = data(label="other")
    stage.wait(lambda: ("draw", "running") in stage.told)
    assert stage.fetched[-1] - stage.fetched[-2] >= 0.9


def test_the_end_is_shown_and_then_nobody_looks_or_listens(stage: Stage) -> None:
    assert stage.news.subscribers == 1
    stage.change(data("completed", finished_at=at(61)))
    stage.wait(lambda: updater.shown() == [])
    assert stage.told == [("draw", "completed")]
    assert stage.news.subscribers == 0


def test_a_view_that_no_front_end_shows_stops_and_goes_on_when_shown_again(stage: Stage) -> None:
    stage.view.shown("a")
    stage.view.shown("b")
    stage.view.hidden("a")
    assert stage.view.wanted
    stage.view.hidden("b")
    stage.wait(lambda: updater.shown() == [])
    assert stage.news.subscribers == 0
    stage.now = data(label="other")
    stage.view.shown("c")
    stage.wait(lambda: ("draw", "running") in stage.told)
    assert stage.news.subscribers == 1


def test_a_database_that_is_away_is_told_and_not_for_good(stage: Stage) -> None:
    stage.change(DatabaseError("away; call again"))
    stage.wait(lambda: ("trouble", "away; call again", False) in stage.told)
    stage.now = data()
    stage.view.shown("a")
    stage.wait(lambda: ("draw", "running") in stage.told)


def test_what_the_workbench_refuses_ends_the_view(stage: Stage) -> None:
    stage.change(StateError("this bench is closed"))
    stage.wait(lambda: updater.shown() == [])
    assert stage.told == [("trouble", "this bench is closed", True)]
    assert stage.news.subscribers == 0


def test_an_error_that_nobody_expected_is_shown_and_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.change(ZeroDivisionError("oh"))
    stage.wait(lambda: ("trouble", "ZeroDivisionError: oh", False) in stage.told)
    assert "Traceback" in caplog.text


def test_a_run_between_two_attempts_can_be_told_to_try_now(stage: Stage) -> None:
    tried = node(0, None, None, "SQL", status="ready", attempt=1)
    retrying = RunData(run(status="running"), [tried])
    assert actions_of(retrying, waits=False) == ["try_now", "cancel"]
    assert actions_of(data(), waits=True) == ["signal", "cancel"]
    assert actions_of(data("failed"), waits=False) == ["retry", "resume"]
    assert actions_of(data("completed"), waits=False) == []
    stage.view.act("try_now")
    stage.wait(lambda: ("tries",) in stage.told)


@pytest.mark.parametrize("refusal", [None, StateError("not cancelled: it had ended")])
def test_a_button_says_what_came_of_it(stage: Stage, refusal: Exception | None) -> None:
    stage.refusal = refusal
    stage.view.act("cancel")
    said = str(refusal) if refusal else ""
    stage.wait(lambda: ("answer", "", said) in stage.told)


@pytest.mark.parametrize(("typed", "sent"), [('{"by": 1}', '{"by": 1}'), ("  ", "null")])
def test_a_signal_is_sent_with_what_was_typed_and_told(stage: Stage, typed: str, sent: str) -> None:
    stage.view.act("signal", "approval", typed)
    stage.wait(lambda: ("answer", "signal approval sent", "") in stage.told)
    assert ("signal", "approval", sent) in stage.told


def test_a_refused_signal_says_why(stage: Stage) -> None:
    stage.refusal = StateError("the run has ended")
    stage.view.act("signal", "approval", "")
    stage.wait(lambda: ("answer", "", "the run has ended") in stage.told)


def test_a_button_of_another_version_is_refused(stage: Stage) -> None:
    stage.view.act("explode")
    refusal = "this view has no button 'explode': run its cell again"
    stage.wait(lambda: ("answer", "", refusal) in stage.told)


def test_the_oldest_of_many_hidden_views_is_freed() -> None:
    stages = [Stage() for _ in range(17)]
    for stage in stages:
        updater.add(stage.view)
        stage.view.drop()
        stage.wait(lambda: updater.shown() == [])
    stages[0].wait(lambda: ("close",) in stages[0].told)
    assert [stage.told for stage in stages[1:]] == [[]] * 16


def test_the_thread_ends_with_the_last_view_and_comes_back_with_the_next() -> None:
    for _ in range(2):
        stage = Stage()
        updater.add(stage.view)
        stage.wait(lambda stage=stage: len(stage.fetched) > 0)  # type: ignore[misc]
        (thread,) = [each for each in threading.enumerate() if each.name == "workbench-views"]
        stage.view.drop()
        thread.join(WITHIN)
        assert not thread.is_alive()


def test_news_reach_the_subscribers_of_that_run_only_until_they_leave() -> None:
    news = News()
    heard: list[str] = []
    leave = news.subscribe("a", lambda: heard.append("a"))
    news.subscribe("b", lambda: heard.append("b"))
    news.heard("a", ended=False)
    leave()
    leave()
    news.heard("a", ended=True)
    assert heard == ["a"]
    assert news.subscribers == 1


def test_outside_a_kernel_there_is_the_static_picture_only() -> None:
    assert widget(Stage().view._source, data()) == {}
    source = Stage().view._source
    view = view_of(run(), [STEP], source=source)
    assert set(view._repr_mimebundle_()) == {"text/html", "text/plain"}


def test_nothing_of_widgets_is_imported_before_a_view_is_shown() -> None:
    code = """
import sys, workbench, workbench.bench, workbench.cli.worker, workbench.views.run_view
sys.exit(any(name in sys.modules for name in ("anywidget", "ipywidgets", "traitlets", "pandas")))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_data_is_the_same_whenever_it_was_read() -> None:
    assert data(seconds=1).same_as(data(seconds=2))
    assert not data().same_as(data(label="other"))
    assert not data().same_as(RunData(data().run, [replace(STEP, status="ready")]))
