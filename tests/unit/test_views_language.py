"""Every construct in the view of a run: what it is called, why it waits, which branch was taken."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pytest

from tests.unit.view_samples import at, attempt, node, run, view_of
from workbench.store.records import IterationRow, NodeRow, UnreadRow
from workbench.views.clock import told
from workbench.views.reasons import reason
from workbench.views.run_data import RunData
from workbench.views.run_view import run_html, run_text
from workbench.views.status import of_run
from workbench.views.titles import title


def shown(html: str) -> str:
    """The text of a picture without its style sheet."""
    return re.sub(r"<style>.*?</style>|<[^>]+>", "", html, flags=re.DOTALL)


def clock(at: datetime) -> str:
    return f"{at.astimezone():%H:%M:%S}"


def signal(number: int, parent: int | None, order: int | None, **given: Any) -> NodeRow:
    query = json.dumps({"signal_name": "approval", "timeout_seconds": given.pop("timeout", None)})
    return node(number, parent, order, "SIGNAL", query=query, **given)


def loop(iteration: int, **given: Any) -> list[NodeRow]:
    """A loop in this iteration, and its body."""
    return [
        node(0, None, None, "LOOP", iteration=iteration, **given),
        node(1, 0, 1, "SQL", query="SELECT 1"),
    ]


def why(*nodes: NodeRow, of: int = 0, **given: Any) -> str | None:
    data = RunData(run(**given), nodes)
    found = reason(data, nodes[of])
    return None if found is None else told(found.pieces, data.run.as_of)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (node(0, None, None, "SLEEP", query="5"), "SLEEP 5 s"),
        (node(0, None, None, "SLEEP", query="7500"), "SLEEP 2 h 5 min"),
        (
            node(0, None, None, "WAIT_SCHEDULE", query='{"cron_expr":"0 6 * * *"}'),
            "WAIT 0 6 * * * UTC",
        ),
        (signal(0, None, None), "SIGNAL approval"),
        (signal(0, None, None, timeout=3600), "SIGNAL approval, at most 1 h"),
        (node(0, None, None, "BREAK", query='{"break_value":"done"}'), "BREAK done"),
        (node(0, None, None, "BREAK", query='{"break_value":null}'), "BREAK"),
        (node(0, None, None, "IF", query='{"result_name":"orders"}'), "IF orders has rows"),
        (node(0, None, None, "LOOP"), "LOOP"),
        (node(0, None, None, "LOOP", options={"min_interval": 600}), "LOOP at most every 10 min"),
        (
            node(0, None, None, "HTTP", query='{"method":"GET","url":"https://u:p@h.org/x"}'),
            "HTTP GET https://…@h.org/x",
        ),
    ],
)
def test_each_construct_is_named_in_a_line(given: NodeRow, said: str) -> None:
    assert str(title(given)) == said


def test_a_sleep_says_when_it_wakes() -> None:
    nap = node(0, None, None, "SLEEP", query="300", status="waiting", ready_at=at(300))
    assert why(nap) == f"wakes at {clock(at(300))}, in 4 min"


def test_what_is_overdue_says_since_when() -> None:
    nap = node(0, None, None, "SLEEP", query="30", status="waiting", ready_at=at(30))
    assert why(nap) == f"wakes now: it was due at {clock(at(30))}"


def test_a_schedule_says_when_it_fires_here_and_by_its_own_clock() -> None:
    query = '{"cron_expr":"30 10 * * *","timezone":"Europe/Berlin"}'
    wait = node(0, None, None, "WAIT_SCHEDULE", query=query, status="waiting", ready_at=at(1075))
    assert why(wait) == (f"fires at {clock(at(1075))}, in 16 min 55 s (Mon 10:30 in Europe/Berlin)")


def test_a_signal_says_since_when_and_until_when_it_is_waited_for() -> None:
    waiting: dict[str, Any] = {"status": "waiting", "started_at": at(0)}
    assert (
        why(signal(0, None, None, **waiting)) == f"waits for signal approval since {clock(at(0))}"
    )
    assert why(signal(0, None, None, ready_at=at(120), timeout=120, **waiting)) == (
        f"waits for signal approval since {clock(at(0))}, times out at {clock(at(120))}, in 1 min"
    )


def test_a_signal_that_did_not_come_is_told() -> None:
    late = '{"signal_name": "approval", "timed_out": true, "data": null}'
    assert why(signal(0, None, None, status="completed", result_preview=late)) == "timed out"


def test_a_join_that_holds_a_failed_branch_says_so() -> None:
    nodes = [
        node(0, None, None, "JOIN", status="running"),
        node(1, 0, 1, "SQL", status="completed"),
        node(2, 0, 2, "SQL", status="failed"),
        node(3, 0, 4, "SQL", status="running"),
        node(4, 0, 5, "SLEEP", query="5", status="waiting"),
        node(5, 0, 6, "SQL", status="ready"),
    ]
    assert why(*nodes) == "branch 2 failed; waits for 3 more"


def test_a_loop_between_iterations_says_when_the_next_one_begins() -> None:
    nodes = loop(3, status="waiting", ready_at=at(120), started_at=at(0))
    assert why(*nodes) == f"iteration 4 begins at {clock(at(120))}, in 1 min"


def test_a_loop_says_how_many_iterations_were_abandoned_and_why() -> None:
    nodes = loop(14, status="running", abandoned=13, started_at=at(50))
    ended = [IterationRow(0, 13, at(48), at(49), {"message": "no route"})]
    data = RunData(run(), nodes, (), ended)
    found = reason(data, nodes[0])
    assert found is not None
    assert told(found.pieces, data.run.as_of) == "13 iterations in a row were abandoned: no route"


def test_a_step_whose_function_nobody_has_says_so() -> None:
    step = node(0, None, None, "PYTHON", handler="crm:clean", status="ready", ready_at=at(0))
    assert why(step, missing_handlers=["crm:clean"]) == "no live engine has the handler crm:clean"


def test_only_the_current_iterations_attempts_are_shown_and_the_header_counts_all() -> None:
    nodes = loop(98, status="running", started_at=at(50))
    attempts = [
        attempt(1, 1, "failed", started_at=at(48), finished_at=at(49), error={"message": "old"}),
        attempt(1, 1, "failed", started_at=at(50), finished_at=at(51), error={"message": "new"}),
    ]
    ended = [IterationRow(0, 97, at(48), at(49), None)]
    view = view_of(run(attempts=97), nodes, attempts, ended)
    assert [a.error for a in view.data.attempts_of[1]] == [{"message": "new"}]
    text = shown(view.html())
    assert "attempts 1 of 97 shown" in text
    assert "+ 97 earlier iterations" in text
    assert "and 96 iterations before" in text
    assert "iteration 98" in str(view)


def test_the_arm_that_was_not_taken_is_dimmed_and_says_so() -> None:
    nodes = [
        node(0, None, None, "IF", status="completed"),
        node(1, 0, 1, "SQL", query="SELECT 'yes'", status="skipped"),
        node(2, 0, 2, "SQL", query="SELECT 'no'", status="completed"),
        node(3, 0, 3, "SQL", query="SELECT false", status="completed"),
    ]
    html = str(view_of(run(), nodes).html())
    assert 'class="wb-branch wb-idle"><div class="wb-heading">then' in html
    assert "thennot taken" in shown(html)
    text = run_text(RunData(run(), nodes))
    places = [text.index(word) for word in ("condition: SQL", "then: SQL", "else: SQL")]
    assert places == sorted(places)


def test_the_winner_and_the_loser_of_a_race_are_told_apart() -> None:
    nodes = [
        node(0, None, None, "RACE", status="completed", result_node=1),
        node(1, 0, 1, "SQL", query="SELECT 1", status="completed"),
        node(2, 0, 2, "SLEEP", query="60", status="cancelled"),
    ]
    text = shown(view_of(run(), nodes).html())
    assert "branch 1first" in text
    assert "branch 2too late" in text


def test_a_composites_copy_of_an_error_is_not_repeated() -> None:
    error = {"type": "X", "message": "boom", "node": 1}
    nodes = [
        node(0, None, None, "LOOP", status="failed", error=error, iteration=1),
        node(1, 0, 1, "SQL", status="failed", error=error),
    ]
    assert str(view_of(run(), nodes)).count("boom") == 1


def test_values_of_headers_are_never_shown() -> None:
    request = {
        "url": "https://api.example.com/x",
        "method": "POST",
        "body": '{"a": 1}',
        "headers": {"Authorization": "Bearer hunter2", "Accept": "text/plain"},
    }
    html = str(view_of(run(), [node(0, None, None, "HTTP", query=json.dumps(request))]).html())
    assert "hunter2" not in html
    assert "Authorization, Accept" in html


def test_unread_signals_are_counted_by_name() -> None:
    unread = [UnreadRow("approval", 2, at(1), at(2)), UnreadRow("go", 1, at(3), at(3))]
    view = view_of(run(), loop(1, status="running"), (), (), unread)
    assert "unread signals approval (2), go (1)" in shown(view.html())
    assert "unread signals: approval (2), go (1)" in str(view)


def test_a_run_that_waits_for_a_signal_says_how_to_send_it() -> None:
    view = view_of(run(), [signal(0, None, None, status="waiting", started_at=at(0))])
    assert 'It waits for a signal: run.signal("approval").' in str(view)


@pytest.mark.parametrize(
    ("leaves", "state"),
    [
        (["completed", "waiting"], "waiting"),
        (["running", "waiting"], "running"),
        (["ready", "waiting"], "running"),
        (["waiting", "pending"], "waiting"),
    ],
)
def test_a_run_is_waiting_only_when_nothing_is_about_to_be_executed(
    leaves: list[str], state: str
) -> None:
    nodes = [node(0, None, None, "JOIN", status="running")]
    nodes += [node(i, 0, i, "SQL", status=status) for i, status in enumerate(leaves, 1)]
    assert of_run(run(), nodes) == state


def test_a_loop_that_waits_for_its_next_iteration_makes_the_run_wait() -> None:
    nodes = loop(2, status="waiting", ready_at=at(90), started_at=at(1))
    assert of_run(run(), nodes) == "waiting"


def test_a_join_of_a_thousand_branches_is_folded_and_its_failure_is_not() -> None:
    nodes = [node(0, None, None, "JOIN", status="running")]
    nodes += [
        node(i, 0, i + 2, "SQL", query=f"SELECT {i}", status="pending") for i in range(1, 1001)
    ]
    nodes[500] = node(500, 0, 502, "SQL", query="SELECT 500", status="failed")
    text = shown(run_html(RunData(run(), nodes)))
    assert "493 more branches, 4 to 496" in text
    assert "SELECT 500" in text
    assert "SELECT 50<" not in text
    assert len(text) < 4000
