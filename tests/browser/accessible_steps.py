"""Handlers of the runs whose views are looked at by axe; no tests."""

from __future__ import annotations

from typing import Any

import workbench as wb

shop = wb.Flow("shop", max_attempts=1)


@shop.step
def links(flow_input: Any) -> Any:
    return flow_input


@shop.map(over=links, return_exceptions=True)
def price(link: int) -> float:
    return 12 / link


@shop.step(if_={"links": [99]})
def never(links: Any) -> Any:
    return links
