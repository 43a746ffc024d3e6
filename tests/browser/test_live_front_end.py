"""The front end's half of a live view alone: its module in an empty page, beside a model that the
test writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.unit.view_samples import at, node, run, sequence
from workbench.store.records import NodeRow
from workbench.views.clock import milliseconds
from workbench.views.live_widget import LiveWidget
from workbench.views.run_data import RunData
from workbench.views.run_view import run_html
from workbench.views.words import duration

SHOW = """async ([module, style, state]) => {
    const url = URL.createObjectURL(new Blob([module], {type: "text/javascript"}));
    const handlers = {};
    window.sent = [];
    window.set = (changes) => {
        Object.assign(state, changes);
        for (const name in changes) handlers[`change:${name}`]?.();
    };
    const model = {
        get: (name) => state[name],
        on: (event, handler) => { handlers[event] = handler; },
        off: (event) => { delete handlers[event]; },
        send: (message) => window.sent.push(message),
    };
    const sheet = document.createElement("style");
    sheet.textContent = style;
    document.head.append(sheet);
    window.module = await import(url);
    window.leave = window.module.default.render({model, el: document.body});
}"""

STEP = node(0, None, None, "SQL", query="SELECT 1", status="running", started_at=at(50))
NESTED = [
    node(0, None, None, "JOIN", status="running"),
    replace(STEP, node_id=1, parent_id=0, ord=1),
    replace(STEP, node_id=2, parent_id=0, ord=2),
]


def state(nodes: list[NodeRow], seconds: float = 60, **given: Any) -> dict[str, Any]:
    data = RunData(run(as_of=at(seconds), **given), nodes)
    return {
        "html": str(run_html(data, style=False)),
        "as_of": milliseconds(data.run.as_of),
        "state": "live",
        "reason": "",
        "actions": ["cancel"],
        "outcome": {},
    }


def show(page: Page, shown: dict[str, Any]) -> Locator:
    page.goto("about:blank")
    page.evaluate(SHOW, [LiveWidget._esm, LiveWidget._css, shown])
    return page.locator(".wb-view")


def test_durations_read_as_in_python(page: Page) -> None:
    seconds = [0, 0.0004, 0.035, 0.9994, 1, 4.24, 9.96, 42, 60, 252, 3600, 3725, 90_000, 187_200]
    show(page, state([STEP]))
    said = page.evaluate("seconds => seconds.map(window.module.duration)", seconds)
    assert said == [duration(each) for each in seconds]


def test_moments_are_in_the_browsers_zone(page: Page) -> None:
    view = show(page, state([STEP]))
    expect(view.locator(".wb-facts time")).to_have_text("2026-11-30 14:42:05 +05:30")


def test_a_running_step_counts_on_and_a_finished_one_does_not(page: Page) -> None:
    page.clock.install()
    done = replace(STEP, status="completed", finished_at=at(53.2))
    view = show(page, state(sequence(done, STEP)))
    times = view.locator(".wb-row .wb-time")
    expect(times).to_have_text(["3.2 s", "10 s"])
    page.clock.run_for(4_000)
    expect(times).to_have_text(["3.2 s", "14 s"])
    expect(view.locator(".wb-long")).to_have_text("1 min 4 s")


def test_a_kernel_that_says_nothing_for_long_is_told(page: Page) -> None:
    page.clock.install()
    view = show(page, state([STEP]))
    foot = view.locator(".wb-live")
    expect(foot).to_have_text("live")
    page.clock.run_for(16_000)
    expect(foot).to_contain_text("not current: no news from the kernel")
    expect(view.locator(".wb-row .wb-time")).to_have_text("25 s")
    page.evaluate("changes => window.set(changes)", {"as_of": milliseconds(at(80))})
    expect(foot).to_have_text("live")
    expect(view.locator(".wb-row .wb-time")).to_have_text("30 s")


def test_rows_that_come_and_go_leave_the_others_alone(page: Page) -> None:
    view = show(page, state(sequence(STEP, STEP)))
    first = view.locator("li[data-key='#1']")
    first.locator("summary").click()
    mark = first.evaluate_handle("element => element")
    for nodes in (sequence(STEP, STEP, STEP), sequence(STEP, STEP)):
        page.evaluate("changes => window.set(changes)", {"html": state(nodes)["html"]})
        expect(view.locator(".wb-steps > li")).to_have_count((len(nodes) + 1) // 2)
        assert first.evaluate("(element, mark) => element === mark", mark)
        expect(first.locator(".wb-detail")).to_be_visible()
        expect(first.locator("summary")).to_be_focused()


def test_a_sequence_is_a_list_and_nested_steps_are_a_tree(page: Page) -> None:
    view = show(page, state(sequence(STEP, STEP)))
    expect(view.get_by_role("tree")).to_have_count(0)
    page.evaluate("changes => window.set(changes)", {"html": state(NESTED)["html"]})
    expect(view.get_by_role("tree", name="steps")).to_have_count(1)
    expect(view.get_by_role("treeitem")).to_have_count(3)
    expect(view.get_by_role("treeitem").nth(1)).to_have_attribute("aria-level", "2")


@pytest.mark.parametrize(
    ("keys", "row"),
    [("ArrowDown", 1), ("End", 2), ("End ArrowUp", 1), ("End ArrowLeft", 0), ("End Home", 0)],
)
def test_arrow_keys_move_through_a_tree(page: Page, keys: str, row: int) -> None:
    view = show(page, state(NESTED))
    view.get_by_role("treeitem").first.focus()
    for key in keys.split():
        page.keyboard.press(key)
    expect(view.get_by_role("treeitem").nth(row)).to_be_focused()


def test_arrow_keys_open_and_close_a_step(page: Page) -> None:
    view = show(page, state(NESTED))
    view.get_by_role("treeitem").last.focus()
    details = view.locator(".wb-detail").last
    page.keyboard.press("ArrowRight")
    expect(details).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(details).to_be_hidden()


def test_a_front_end_says_when_it_shows_and_when_no_more(page: Page) -> None:
    show(page, state([STEP]))
    page.evaluate("window.leave()")
    shown, hidden = page.evaluate("window.sent")
    assert (shown["type"], hidden["type"]) == ("shown", "hidden")
    assert shown["front_end"] == hidden["front_end"]
