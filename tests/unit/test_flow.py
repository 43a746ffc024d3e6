"""Defining flows: what parameters and options mean, what is refused, and what a cell run again does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workbench.engine.policy import Policy
from workbench.errors import GraphError, HandlerError
from workbench.flow import Flow
from workbench.graph.build import as_node, seq, sql
from workbench.graph.control import each, join
from workbench.graph.node import Node
from workbench.graph.policies import with_retry
from workbench.graph.validate import validate
from workbench.graph.waiting import sleep
from workbench.simulated import Fails, Outcomes, Succeeds, simulate


def website(flow_input: Any) -> Any:
    return flow_input


def fetch(link: Any, ctx: Any) -> Any:
    return link, ctx


def prices(website: Any, fetch: Any, limit: int = 3) -> Any:
    return website, fetch, limit


def nothing() -> None: ...


def many(*pages: Any) -> Any:
    return pages


def itself(itself: Any) -> Any:
    return itself


@pytest.fixture
def flow() -> Flow:
    found = Flow("scrape", max_attempts=2)
    found.step(website)
    found.map(over="website")(fetch)
    return found


def config(flow: Flow) -> Any:
    return json.loads(flow.graph().query or "")


def test_decorators_return_the_function(flow: Flow) -> None:
    assert flow.step(prices) is prices
    assert flow.step(after=[website], max_attempts=1)(nothing) is nothing
    assert list(flow) == ["website", "fetch", "prices", "nothing"]


def test_parameters_are_dependencies(flow: Flow) -> None:
    flow.step(after="website")(nothing)
    flow.step(prices)
    assert config(flow)["steps"] == [
        {"step": "website"},
        {"step": "fetch", "after": ["website"]},
        {"step": "nothing", "after": ["website"]},
        {"step": "prices", "after": ["website", "fetch"]},
    ]
    root, mapped, _, last = flow.graph().extra
    assert json.loads(root.query or "")["input"] == {"flow_input": {"$ref": "input"}}
    assert json.loads(mapped.query or "") == {"over": "website", "as": "item"}
    assert mapped.left is not None
    assert json.loads(mapped.left.query or "")["input"] == {"link": {"$ref": "item"}}
    given = json.loads(last.query or "")["input"]
    assert given == {"website": {"$ref": "website"}, "fetch": {"$ref": "fetch"}}
    validate(flow.graph())


def test_a_steps_own_options_win(flow: Flow) -> None:
    flow = Flow("f", max_attempts=5, timeout="2 s", start_delay=1)
    flow.step(max_attempts=1, timeout=9)(website)
    flow.map(over=website, return_exceptions=True)(fetch)
    flow.add("pause", sql("SELECT 1"), after=[fetch], start_delay=0)
    assert flow.graph().retry == {"max_attempts": 5, "base_delay": 1}
    root, mapped, last = flow.graph().extra
    assert (root.retry, root.options) == ({"max_attempts": 1}, {"timeout": 9, "start_delay": 1})
    assert mapped.options == {"start_delay": 1}
    assert mapped.left is not None
    assert mapped.left.options == {"timeout": 2}
    assert json.loads(mapped.query or "")["return_exceptions"] is True
    assert last.options == {"timeout": 2}


def test_a_map_that_is_added_has_its_limits_where_they_belong() -> None:
    flow = Flow("f", timeout=9)
    flow.add("m", with_retry(each("input", "SELECT 1"), max_attempts=7), timeout=5, start_delay=2)
    (mapped,) = flow.graph().extra
    assert (mapped.options, mapped.retry) == ({"start_delay": 2}, {"max_attempts": 7})
    assert mapped.left is not None
    assert mapped.left.options == {"timeout": 5}
    validate(flow.graph())


def test_conditions_and_modes_are_in_the_config(flow: Flow) -> None:
    flow.step(
        if_={"website": {"kind": "shop"}}, if_not={"fetch": []}, if_skipped=website,
        when_unmet="skip-cascade", when_exhausted="skip",
    )(prices)  # fmt: skip
    assert config(flow)["steps"][-1] == {
        "step": "prices",
        "after": ["website", "fetch"],
        "if": {"website": {"kind": "shop"}},
        "if_not": {"fetch": []},
        "if_skipped": "website",
        "when_unmet": "skip-cascade",
        "when_exhausted": "skip",
    }


def test_a_function_that_is_defined_anew_replaces_its_step(flow: Flow) -> None:
    flow.step(prices)
    flow.step(max_attempts=1)(website)
    assert list(flow) == ["website", "fetch", "prices"]
    assert flow.graph().extra[0].retry == {"max_attempts": 1}
    again = Flow("scrape", max_attempts=2)
    assert again.step(website) is website
    assert again.graph() != flow.graph()


def test_the_element_of_a_map_is_called_like_no_dependency() -> None:
    flow = Flow("f")
    flow.add("item", "SELECT 1")
    flow.map(over="item")(fetch)
    assert json.loads(flow.graph().extra[1].query or "") == {"over": "item", "as": "item_"}


def test_a_flow_is_a_step_anywhere(flow: Flow) -> None:
    assert as_node(flow) == flow.graph()
    assert (sql("SELECT 1") >> as_node(flow)).count == flow.graph().count + 2
    validate(join(as_node(flow), seq("SELECT 1", as_node(flow))))
    assert "MAP over website" in str(flow)
    assert repr(flow) == "<Flow scrape: website, fetch>"
    assert repr(Flow("empty")) == "<Flow empty: no steps>"


def other(slug: str) -> Any:
    """Another function of a given name."""
    scope: dict[str, Any] = {"__name__": "elsewhere"}
    exec(f"def {slug}(): ...", scope)
    return scope[slug]


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda f: f.step(other("website")), "step 'website' of flow 'scrape' is already .*website"),
        (lambda f: f.add("a", "SELECT 1", after=["websit"]), "no step of flow 'scrape'.* Did you mean 'website'"),
        (lambda f: f.add("a", "SELECT 1", after=[website, "website"]), "depends on 'website' twice"),
        (lambda f: f.step(after="website")(prices), "depends on 'website' twice"),
        (lambda f: f.step(itself), "'itself' depends on itself"),
        (lambda f: f.step(after=["fetch"])(website), "in a circle: website -> fetch -> website"),
        (lambda f: f.map(over="nobody")(fetch), "depends on 'nobody'"),
        (lambda f: f.map(nothing), "map 'nothing' takes no parameter"),
        (lambda f: f.step(many), "cannot name a step"),
        (lambda f: f.add("a", "SELECT 1", if_="x"), "if_ must be an object"),
        (lambda f: f.add("a", "SELECT 1", if_skipped="website"), "none of the steps that it depends on"),
        (lambda f: f.add("a", "SELECT 1", when_unmet="stop"), "when_unmet must be 'skip'.*not 'stop'"),
        (lambda f: f.add("a", "SELECT 1", when_exhausted=1), "when_exhausted must be"),
        (lambda f: f.add("a", "SELECT 1", max_attempts=0), "step 'a': max_attempts"),
        (lambda f: f.add("a", "SELECT 1", base_delay=-1), "step 'a': base_delay"),
        (lambda f: f.add("a", "SELECT 1", timeout=0), "timeout must be longer than 0 s"),
        (lambda f: f.add("a", "SELECT 1", start_delay=float("inf")), "step 'a': start_delay"),
        (lambda f: f.add("a", "SELECT 1", retries=1), "no option 'retries'"),
        (lambda f: f.add("a b", "SELECT 1"), "cannot be a slug"),
        (lambda f: f.add("run", "SELECT 1"), "it is reserved"),
        (lambda f: f.add("ctx", "SELECT 1"), "it is reserved"),
        (lambda f: f.map(if_={"x": 1})(fetch), "a list, which never contains"),
        (lambda f: f.step(return_exceptions=True)(nothing), "no option 'return_exceptions'"),
        (lambda f: f.map(over=website, return_exceptions=1)(fetch), "must be True or False"),
        (lambda f: f.add("a", "SELECT 1", after=[other("fetch")]), "depends on 'elsewhere:fetch'"),
        (lambda f: f.map(over=["website", "fetch"])(fetch), "goes over one step"),
        (lambda f: f.map(over="input")(fetch), "leave over= out"),
        (lambda f: f.map(if_={})(fetch), "a list, which never contains"),
        (lambda f: f.add("a", sleep(1), timeout=5), "timeout does not apply to SLEEP"),
        (lambda f: f.add("a", sleep(1), start_delay=5), "start_delay does not apply to SLEEP"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_changes_nothing(
    flow: Flow, define: Any, message: str
) -> None:
    before = flow.graph().to_json()
    with pytest.raises(GraphError, match=message):
        define(flow)
    assert flow.graph().to_json() == before


def test_a_lambda_is_no_step(flow: Flow) -> None:
    with pytest.raises(HandlerError, match="lambda"):
        flow.step(lambda: 1)


@pytest.mark.parametrize("slug", ["", "1a", "a-b", "input", "x" * 129])
def test_slugs_of_flows_are_checked(slug: str) -> None:
    with pytest.raises(GraphError, match="slug"):
        Flow(slug)


def test_what_is_added_must_be_a_leaf(flow: Flow) -> None:
    with pytest.raises(
        GraphError, match="step 'two': a step is a single leaf or a map of one, not THEN"
    ):
        flow.add("two", seq("SELECT 1", "SELECT 2"))


def test_a_map_goes_over_what_it_depends_on(flow: Flow) -> None:
    flow.add("m", each("website", "SELECT 1"))
    with pytest.raises(GraphError, match="step 'm': it goes over \"website\", which is none of"):
        validate(flow.graph())


def test_a_flow_can_be_simulated() -> None:
    flow = Flow("shop", max_attempts=2)
    flow.add("pages", "SELECT 1")
    flow.add("price", each("pages", "SELECT 2"), after=["pages"])
    outcomes: Outcomes = {"pages": Succeeds([1, 2]), "price": [Fails(), Succeeds(10)]}
    frame = simulate(flow.graph(), outcomes, Policy(), None, 100).df
    assert list(zip(frame["name"], frame["attempt"], strict=True)) == [
        ("pages", 1), ("price[0]", 1), ("price[1]", 1), ("price[0]", 2), ("price[1]", 2),
    ]  # fmt: skip


def test_flows_are_joined_like_nodes(flow: Flow) -> None:
    graph = flow.graph()
    assert (flow & flow) == (graph & graph)
    assert ("SELECT 1" >> flow >> "SELECT 2") == ("SELECT 1" >> graph >> "SELECT 2")
    assert (flow | "SELECT 1") == (graph | "SELECT 1")
    assert flow.named("x") == graph.named("x")


def test_what_was_said_is_kept_as_it_was(flow: Flow) -> None:
    pattern = {"website": {"k": [1]}}
    flow.add("a", "SELECT 1", after=website, if_=pattern)
    before = flow.graph()
    pattern["website"]["k"].append(2)
    assert flow.graph() == before


def test_a_nodes_own_limits_beat_those_of_the_flow() -> None:
    flow = Flow("f", timeout=7)
    flow.add("a", Node("SQL", query="SELECT 1", options={"timeout": 3}))
    assert flow.graph().extra[0].options == {"timeout": 3}
