"""axe-core looks at every view, light and dark: no serious fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

import workbench as wb
from tests.browser.accessible_steps import shop
from tests.engine.support import wait_until

PAGE = (
    '<!doctype html><html lang="en"><title>views</title><body><main><h1>views</h1>{}</main></body>'
)


@pytest.fixture
def bench(dsn: str) -> Iterator[wb.Bench]:
    with wb.connect(dsn) as bench:
        yield bench


def views(bench: wb.Bench) -> dict[str, Any]:
    """Every view there is, of runs that have something to show."""
    flow = bench.start(shop, input=[1, 0, 3], label="shop").wait()
    request = wb.with_policy(wb.http("http://127.0.0.1:9/"), http={"max_concurrency": 1})
    branches = wb.join(wb.sleep(3600), request)
    branches = wb.loop(wb.if_("SELECT true", branches, "SELECT 2"), min_interval=60)
    live = bench.start(branches, label="live", max_attempts=9, max_backoff=3600)
    failed = bench.start(
        wb.sql("SELECT 1 AS n").named("x") >> wb.sql("SELECT 1 / 0"), label="bad"
    ).wait()
    again = failed.retry().wait()
    bench.start(wb.wait_for_signal("go"), label="waits")
    wait_until(lambda: live.attempts, what="a failed request")
    return {
        "run of a flow": flow,
        "live run": live,
        "failed run": failed,
        "graph": shop,
        "explain of a flow": flow.explain(),
        "explain": live.explain(),
        "timeline": live.timeline(),
        "lineage": again.lineage(),
        "diff": again.diff(),
        "resume": failed.resume_plan(),
        "attempt": failed.failure,
        "activity": bench.activity(),
        "runs": bench.runs(),
        "dashboard": bench.dashboard(),
        "failures": bench.failures(),
        "unresolved": bench.unresolved_failures(),
        "engines": bench.engines(),
        "flows": bench.flows(),
        "simulation": bench.simulate(wb.sql("SELECT 1"), max_attempts=2),
    }


def test_axe_finds_no_serious_fault_in_any_view(bench: wb.Bench, page: Page) -> None:
    axe = Axe()
    faults: list[str] = []
    for name, view in views(bench).items():
        html = view._repr_mimebundle_()["text/html"]
        page.set_content(PAGE.format(html))
        page.evaluate(
            "document.querySelectorAll('details').forEach((each) => { each.open = true })"
        )
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for found in axe.run(page).response["violations"]:
                if found["impact"] in ("serious", "critical"):
                    where = [node["html"][:160] for node in found["nodes"][:3]]
                    faults.append(f"{name}, {scheme}: {found['id']}: {found['help']}: {where}")
    assert not faults, "\n".join(faults)
