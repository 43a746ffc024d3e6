"""Runs of every construct in JupyterLab: branches, waits, signals sent from the view, graphs."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open
from tests.browser.test_run_view import WAIT, foot, locked, status, step_status

APPROVAL = """
run = bench.start(
    wb.sql("SELECT 812 AS n").named("orders")
    >> wb.if_(
        "SELECT $orders.n > 500",
        (
            wb.wait_for_signal("approval", timeout="1 hour")
            | wb.wait_for_schedule("30 9 * * 1-5", timezone="Europe/Berlin")
        ).named("decision"),
        wb.sql("SELECT 'small'").named("small"),
    )
    >> wb.sql("SELECT $decision::jsonb -> 'data' AS data").named("last"),
    label="large orders",
)
run"""


def signal_button(view: Locator) -> Locator:
    return view.get_by_role("button", name="Signal", exact=True)


def test_a_signal_is_sent_from_the_view_which_says_so(notebook: Open) -> None:
    book = notebook(APPROVAL)
    book.run_all()
    view = book.output(1).locator(".wb-view")
    expect(status(view)).to_have_text("waiting")
    expect(view).to_contain_text('It waits for a signal: run.signal("approval").')
    expect(view).to_contain_text("waits for signal approval since")
    signal_button(view).click()
    data = view.get_by_role("textbox", name="data of the signal")
    expect(data).to_be_focused()
    view.page.keyboard.press("Escape")
    expect(signal_button(view)).to_be_focused()
    signal_button(view).click()
    data.press_sequentially('{"by": "ada"}')  # letters are no shortcuts of the notebook
    book.shot("run-signal", view)
    data.press("Enter")
    expect(status(view)).to_have_text("completed")
    expect(foot(view)).to_contain_text("signal approval sent")
    expect(view.locator(".wb-part").first).to_contain_text('"by": "ada"')
    expect(view.get_by_role("button")).to_have_count(0)


def test_of_several_waits_one_is_chosen_and_unread_signals_are_counted(notebook: Open) -> None:
    book = notebook(
        "run = bench.start(wb.join(wb.wait_for_signal('go').named('go'),"
        " wb.wait_for_signal('stop').named('stop'))); run",
        "run.signal('note'); run.signal('note')",
    )
    book.run_all()
    view = book.output(1).locator(".wb-view")
    expect(view).to_contain_text("unread signals note (2)")
    signal_button(view).click()
    view.get_by_role("combobox", name="signal").select_option("stop")
    view.get_by_role("button", name="Send").click()
    expect(step_status(view, "stop")).to_have_text("completed")
    expect(step_status(view, "go")).to_have_text("waiting")
    expect(signal_button(view)).to_be_visible()


def test_times_that_are_to_come_are_in_the_browsers_zone_and_count_down(notebook: Open) -> None:
    book = notebook("run = bench.start(wb.sleep('3 minutes')); run", "run.nodes[0].ready_at")
    book.run_all()
    view = book.output(1).locator(".wb-view")
    line = view.locator(".wb-line")
    expect(line).to_contain_text("wakes at")
    zone = {"timeZone": "Asia/Kolkata", "hour12": False}
    shown = line.locator("time")
    expected = shown.evaluate(
        "(time, zone) => new Date(time.dateTime).toLocaleTimeString('en-GB', zone)", zone
    )
    expect(shown).to_contain_text(expected)
    first = line.inner_text()
    view.page.wait_for_function(
        "([line, first]) => line.innerText !== first", arg=[line.element_handle(), first]
    )


def test_an_opened_graph_stays_open_and_follows_the_run(notebook: Open, dsn: str) -> None:
    book = notebook(
        f"run = bench.start(wb.join(wb.sql({WAIT!r}).named('held'), wb.sql('SELECT 1/0')),"
        " label='join'); run"
    )
    with locked(dsn):
        book.run_all()
        view = book.output(1).locator(".wb-view")
        expect(view).to_contain_text("branch 2 failed; waits for 1 more")
        view.get_by_text("graph", exact=True).click()
        card = view.locator(".wb-card", has_text="held")
        expect(card.locator(".wb-word")).to_have_text("running")
        book.shot("run-graph", view)
    expect(status(view)).to_have_text("failed")
    expect(card.locator(".wb-word")).to_have_text("completed")
    expect(card).to_be_visible()


def test_pictures_of_graphs_and_runs_follow_the_theme(notebook: Open) -> None:
    book = notebook(
        APPROVAL,
        "graph = run.definition; graph",
        "bench.explain(\"'SELECT 1' ~> ('SELECT 2' & df.sleep(60))\")",
        "run.explain()",
        "bench.runs()",
    )
    book.run_all()
    expect(status(book.output(1).locator(".wb-view"))).to_have_text("waiting")
    book.idle()
    expect(book.output(2).locator(".wb-card")).to_have_count(6)
    expect(book.output(3).locator(".wb-frame")).to_contain_text("branch 2")
    expect(book.output(4).locator(".wb-view")).to_contain_text("large orders")
    colours = {}
    for theme in ("Light", "Dark"):
        book.theme(theme)
        card = book.output(2).locator(".wb-card").first
        colours[theme] = card.evaluate("element => getComputedStyle(element).backgroundColor")
        for cell in range(1, 6):
            view = book.output(cell).locator(".wb-view")
            book.shot(f"language-{cell}-{theme.lower()}", view)
    assert colours == {"Light": "rgb(255, 255, 255)", "Dark": "rgb(33, 33, 33)"}


def test_arrow_keys_move_through_a_nested_run(notebook: Open) -> None:
    book = notebook(APPROVAL)
    book.run_all()
    view = book.output(1).locator(".wb-view")
    expect(status(view)).to_have_text("waiting")
    rows = view.locator("[role=tree] .wb-row[role=treeitem]")
    expect(rows).to_have_count(8)
    rows.first.focus()
    view.page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    view.page.keyboard.press("ArrowRight")
    expect(rows.nth(2)).to_be_focused()
    view.page.keyboard.press("ArrowLeft")
    expect(rows.nth(1)).to_be_focused()
    levels = [row.get_attribute("aria-level") for row in rows.all()]
    assert levels == ["1", "1", "2", "2", "3", "3", "2", "1"]
