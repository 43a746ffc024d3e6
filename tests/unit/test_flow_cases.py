"""Flows on a virtual clock: what each case of the reference says must come out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.flow_playing import Playing, fails, flow, gives, over
from workbench.engine.model import CancelRequested, Completed, Start, Value
from workbench.engine.simulate import Fails, Succeeds


def play(graph: Any, given: Any = None, **handlers: Any) -> Playing:
    return Playing(graph, given, **handlers).run()


def test_1_a_line_passes_values_on() -> None:
    graph = flow(("a", ""), ("b", "a"), ("c", "b"))
    done = play(
        graph,
        {"n": 2},
        a=gives(4),
        b=lambda c: Succeeds(str(c.sees["a"] + 1)),
        c=lambda c: Succeeds(f'{{"v":{c.sees["b"]}}}'),
    )
    assert done.output == {"c": {"v": 5}}
    assert done.calls == [("a", None, 1), ("b", None, 1), ("c", None, 1)]


def test_2_a_diamond_joins_once() -> None:
    done = play(flow(("a", ""), ("l", "a"), ("r", "a"), ("j", "l r")), 5)
    assert [slug for slug, *_ in done.calls] == ["a", "l", "r", "j"]
    assert done.sees["j"].keys() >= {"l", "r"}
    assert done.output == {"j": "j"}


def test_3_only_last_steps_are_in_the_output() -> None:
    assert play(flow(("x", ""), ("y", ""), ("z", "x"))).output == {"y": "y", "z": "z"}


def test_4_a_hundred_in_the_middle() -> None:
    middle = [f"p{n}" for n in range(100)]
    done = play(flow(("a", ""), *((p, "a") for p in middle), ("j", " ".join(middle))))
    assert [slug for slug, *_ in done.calls] == ["a", *middle, "j"]


def test_6_a_root_map_and_a_sum() -> None:
    done = play(
        flow(("m*", ""), ("c", "m")),
        [1, 2, 3],
        m=over(lambda n: 2 * n),
        c=lambda c: Succeeds(str(sum(c.sees["m"]))),
    )
    assert (done.value("m"), done.output) == ([2, 4, 6], {"c": 12})


def test_7_a_map_has_no_size_before_what_it_goes_over() -> None:
    playing = Playing(flow(("g", ""), ("m*", "g"), ("c", "m")))
    playing.simulation.report(Start())
    assert playing.state("m").size is None
    assert playing.elements("m") == []
    assert len(playing.simulation.run.nodes) == len(playing.plan.nodes)


def test_8_the_list_has_the_order_of_the_elements() -> None:
    values, seconds = ["null", '"b"', '"c"'], [2, 3, 1]
    done = play(
        flow(("m*", "")), [0, 1, 2], m=lambda c: Succeeds(values[c.index], seconds[c.index])
    )
    assert done.output == {"m": [None, "b", "c"]}


def test_9_maps_over_nothing_complete_in_the_transition_that_starts_the_run() -> None:
    playing = Playing(flow(("m1*", ""), ("m2*", "m1"), ("c", "m2")), [])
    playing.simulation.report(Start())
    assert playing.statuses == {"m1": "completed", "m2": "completed", "c": "ready"}
    assert playing.run().sees["c"]["m2"] == []
    alone = Playing(flow(("m1*", ""), ("m2*", "m1")), [])
    alone.simulation.report(Start())
    assert (alone.status, alone.output) == ("completed", {"m2": []})


def test_10_an_empty_map_and_what_follows_it_in_one_transition() -> None:
    playing = Playing(flow(("g", ""), ("m*", "g"), ("c", "m")))
    playing.simulation.report(Start())
    taken = playing.simulation.claim(playing.number("g"))
    playing.simulation.report(Completed(taken.node, taken.token, Value("[]")))
    assert playing.statuses == {"g": "completed", "m": "completed", "c": "ready"}


@pytest.mark.parametrize("mode", ["fail", "skip", "skip-cascade"])
def test_12_what_is_no_list_fails_its_producer_at_once(mode: str) -> None:
    playing = Playing(flow(("p", "", {"when_exhausted": mode}), ("m*", "p"), ("o", "")))
    playing.simulation.report(Start())
    p = playing.simulation.claim(playing.number("p"))
    o = playing.simulation.claim(playing.number("o"))
    playing.simulation.report(Completed(p.node, p.token, Value('{"not":"arr"}')))
    assert playing.status == "failed"
    assert playing.statuses == {"p": "failed", "m": "cancelled", "o": "cancelled"}
    assert "map 'm'" in str((playing.state("p").error or {})["message"])
    assert "an object" in str((playing.state("p").error or {})["message"])
    assert [a.outcome for a in playing.simulation.attempts] == ["failed", "cancelled"]
    assert playing.simulation.report(Completed(o.node, o.token, Value("1"))).refused


def test_12_unless_the_condition_of_the_map_skips_it() -> None:
    done = play(flow(("p", ""), ("m*", "p", {"if_": {"p": [1]}}), ("c", "m")), p=gives({"no": 1}))
    assert done.statuses == {"p": "completed", "m": "skipped", "c": "completed"}


@pytest.mark.parametrize(
    ("before", "condition"),
    [
        ("", {"if_not": {"p": {"no": 1}}}),
        ("", {"if_skipped": "p"}),
        ("o", {"if_": {"o": {"go": True}}}),
        ("o", {"if_not": {"o": "o", "p": {"no": 1}}}),
        ("no", {"if_": {"no": 1}}),
    ],
)
def test_12_or_what_else_is_known_of_it(before: str, condition: dict[str, Any]) -> None:
    graph = flow(
        ("o", ""), ("no", "", {"if_": {"x": 1}}), ("p", before), ("m*", f"p {before}", condition)
    )
    done = play(graph, {}, p=gives({"no": 1}))
    assert (done.status, done.statuses["m"]) == ("completed", "skipped")


def test_12_rows_that_python_made_up_are_no_list() -> None:
    rows = {"rows": [{"a": 1}]}
    assert play(flow(("p", ""), ("m*", "p")), p=gives(rows)).status == "failed"
    asked = play(flow(("p", ""), ("c", "p", {"if_": {"p": rows}})), p=gives(rows))
    assert asked.statuses["c"] == "completed"


def test_13_elements_retry_on_their_own() -> None:
    done = play(
        flow(("m*", "", {"max_attempts": 2})),
        [1, 2, 3],
        m=lambda c: Fails() if c.element == 2 and c.attempt == 1 else Succeeds(str(c.element)),
    )
    assert done.output == {"m": [1, 2, 3]}
    assert sorted(done.calls) == [("m", 0, 1), ("m", 1, 1), ("m", 1, 2), ("m", 2, 1)]
    assert [d for d in done.delays("m") if d is not None] == [1]


def test_14_delays_double() -> None:
    done = play(flow(("a", "", {"max_attempts": 4, "base_delay": 3}), ("b", "a")), a=fails(2))
    assert done.delays("a") == [3, 6, None]
    assert (done.status, done.state("a").error) == ("completed", None)


def test_15_spent_attempts_fail_the_run() -> None:
    graph = flow(("a", "", {"max_attempts": 2, "base_delay": 5}), ("o", ""), ("b", "a"))
    done = play(graph, a=fails(2))
    assert done.statuses == {"a": "failed", "o": "completed", "b": "cancelled"}
    assert (done.status, done.output) == ("failed", None)


SPENT = {"max_attempts": 1, "when_exhausted": "skip"}


def test_16_a_step_that_fails_may_be_skipped() -> None:
    graph = flow(("a", "", SPENT), ("o", ""), ("b", "a"), ("c", "a o"))
    done = play(graph, a=fails(1, error={"type": "E", "message": "boo"}))
    assert (done.status, done.reason("a")) == ("completed", "handler_failed")
    assert (done.state("a").error or {})["message"] == "boo"
    assert "a" not in done.sees["b"]
    assert done.sees["c"].keys() >= {"o"}
    alone = play(flow(("a", "", SPENT)), a=fails(1))
    assert (alone.status, alone.output) == ("completed", None)
    mapped = play(flow(("a", "", SPENT), ("m*", "a"), ("c", "m")), a=fails(1))
    assert (mapped.sees["c"]["m"], mapped.output) == ([], {"c": "c"})


def test_17_a_condition_on_a_skipped_step_is_not_met() -> None:
    condition = {"if_": {"p": {"ok": True}}}
    failed = play(
        flow(("p", "", SPENT), ("c", "p", {**condition, "when_unmet": "fail"})), p=fails(1)
    )
    assert (failed.status, failed.statuses["c"]) == ("failed", "failed")
    assert "condition not met" in str((failed.state("c").error or {})["message"])
    skipped = play(flow(("p", "", SPENT), ("c", "p", condition)), p=fails(1))
    assert (skipped.status, skipped.output) == ("completed", None)


def test_18_modes_of_an_unmet_condition() -> None:
    go = {"if_": {"go": True}}
    plain = play(flow(("a", "", go), ("b", "")), {"go": False})
    assert plain.statuses == {"a": "skipped", "b": "completed"}
    failed = play(flow(("a", "", {**go, "when_unmet": "fail"}), ("b", "")), {"go": False})
    assert (failed.status, failed.calls) == ("failed", [])
    cascade = {**go, "when_unmet": "skip-cascade"}
    done = play(flow(("a", "", cascade), ("c", "a"), ("o", ""), ("d", "c o")), {"go": False})
    assert done.statuses == {"a": "skipped", "c": "skipped", "o": "completed", "d": "skipped"}
    assert [done.reason(s) for s in "acd"] == ["condition_unmet", *["dependency_skipped"] * 2]
    assert (done.status, done.output) == ("completed", None)


def test_19_one_of_two() -> None:
    done = play(
        flow(
            ("a", ""),
            ("x", "a", {"if_": {"a": {"k": "x"}}}),
            ("y", "a", {"if_": {"a": {"k": "y"}}}),
            ("j", "x y"),
        ),
        a=gives({"k": "y"}),
    )
    assert done.statuses["x"] == "skipped"
    assert done.sees["j"].keys() & {"x", "y"} == {"y"}


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ({"role": "admin", "active": True}, True),
        ({"role": "admin", "active": True, "suspended": True}, False),
        ({"role": "guest", "active": True}, False),
        ({"role": "admin"}, False),
    ],
)
def test_20_required_and_forbidden(given: Any, runs: bool) -> None:
    condition = {"if_": {"role": "admin", "active": True}, "if_not": {"suspended": True}}
    assert play(flow(("a", "", condition)), given).statuses["a"] == (
        "completed" if runs else "skipped"
    )


def test_21_a_start_delay_counts_from_readiness_and_once() -> None:
    graph = flow(
        ("a", "", {"start_delay": 300, "max_attempts": 2}),
        ("b", ""),
        ("c", "b", {"start_delay": 900}),
    )
    playing = Playing(graph, a=fails(1))
    began = playing.simulation.now
    playing.simulation.report(Start())
    assert playing.simulation.ready == [playing.number("b")]
    starts = {
        (playing.slug(a.node), a.number): (a.start - began).total_seconds()
        for a in playing.run().simulation.attempts
    }
    assert starts == {("a", 1): 300, ("a", 2): 301, ("b", 1): 0, ("c", 1): 900}


def test_23_a_handler_may_choose_its_delay() -> None:
    def a(called: Any) -> Any:
        if called.attempt == 1:
            return Fails(delay=7.0, delay_source="retry_after")
        return Fails() if called.attempt == 2 else Succeeds("1")

    done = play(flow(("a", "", {"max_attempts": 3, "base_delay": 5})), a=a)
    assert done.delays("a") == [7, 10, None]
    only_one = play(
        flow(("m*", "", {"max_attempts": 2})),
        [0, 1],
        m=lambda c: Fails(delay=7.0) if (c.index, c.attempt) == (1, 1) else Succeeds("1"),
    )
    assert sorted(d for d in only_one.delays("m") if d is not None) == [7]


# What no case of the reference says by itself.


def test_the_first_spent_element_ends_its_siblings_and_the_run() -> None:
    done = play(
        flow(("m*", "", {"max_attempts": 1}), ("c", "m")),
        [1, 2, 3],
        m=lambda c: Fails(seconds=1) if c.element == 2 else Succeeds("1", seconds=c.element * 2),
    )
    assert (done.status, done.statuses) == ("failed", {"m": "failed", "c": "cancelled"})
    assert [e.status for e in done.elements("m")] == ["cancelled", "failed", "cancelled"]
    assert "element 1 failed" in str((done.state("m").error or {})["message"])


def test_errors_may_stand_in_the_place_of_values() -> None:
    done = play(
        flow(("m*", "", {"max_attempts": 1, "return_exceptions": True}), ("c", "m")),
        [1, 2],
        m=lambda c: Fails({"type": "E", "message": "boo"}) if c.element == 2 else Succeeds("1"),
    )
    first, second = done.sees["c"]["m"]
    assert (first, second["type"], second["message"]) == (1, "E", "boo")


def test_errors_in_the_place_of_values_can_be_asked_for() -> None:
    done = play(
        flow(
            ("m*", "", {"max_attempts": 1, "return_exceptions": True}),
            ("c", "m", {"if_": {"m": [{"type": "E"}]}}),
        ),
        [1],
        m=fails(1, error={"type": "E", "message": "boo"}),
    )
    assert done.statuses == {"m": "completed", "c": "completed"}


def test_a_spent_element_may_skip_its_map() -> None:
    done = play(flow(("m*", "", SPENT), ("m2*", "m"), ("c", "m2")), [1, 2], m=fails(1))
    assert done.statuses == {"m": "skipped", "m2": "completed", "c": "completed"}
    assert done.sees["c"]["m2"] == []


def test_a_map_over_a_map() -> None:
    done = play(
        flow(("a*", ""), ("b*", "a")), [1, 2], a=over(lambda n: n + 1), b=over(lambda n: n * 10)
    )
    assert done.output == {"b": [20, 30]}


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ([{"k": 1}], True),
        ([{"k": 1}, {"k": 2}], True),
        ([{"k": 3}], False),
        ([], True),
        ({}, False),
    ],
)
def test_a_condition_may_ask_the_output_of_a_map(pattern: Any, holds: bool) -> None:
    done = play(
        flow(("m*", ""), ("c", "m", {"if_": {"m": pattern}})),
        [1, 2],
        m=over(lambda n: {"k": n, "more": True}),
    )
    assert done.statuses["c"] == ("completed" if holds else "skipped")


def test_whether_a_step_was_skipped_can_be_asked() -> None:
    graph = flow(("a", "", {"if_": {"go": 1}}), ("b", "a", {"if_skipped": "a"}))
    assert play(graph, {"go": 1}).statuses == {"a": "completed", "b": "skipped"}
    assert play(graph, {"go": 2}).statuses == {"a": "skipped", "b": "completed"}


def test_the_first_unmet_fail_decides_before_any_skip() -> None:
    no = {"if_": {"go": 1}}
    done = play(
        flow(
            ("a", "", no),
            ("b", "", {**no, "when_unmet": "fail"}),
            ("c", "", {**no, "when_unmet": "fail"}),
        ),
        {},
    )
    assert done.statuses == {"a": "cancelled", "b": "failed", "c": "cancelled"}


def test_a_cascade_skips_what_still_has_running_parents() -> None:
    playing = Playing(
        flow(("a", "", {"if_": {"go": 1}, "when_unmet": "skip-cascade"}), ("o", ""), ("d", "a o")),
        {},
    )
    playing.simulation.report(Start())
    assert playing.statuses == {"a": "skipped", "o": "ready", "d": "skipped"}


def test_a_flow_without_steps_completes_at_its_start() -> None:
    playing = Playing(flow())
    playing.simulation.report(Start())
    assert (playing.status, playing.output) == ("completed", None)


def test_cancelling_ends_every_element() -> None:
    playing = Playing(flow(("m*", ""), ("c", "m")), [1, 2, 3])
    playing.simulation.report(Start())
    playing.simulation.report(CancelRequested("enough"))
    assert playing.statuses == {"m": "cancelled", "c": "cancelled"}
    assert {e.status for e in playing.elements("m")} == {"cancelled"}
