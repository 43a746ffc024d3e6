"""Outcomes as a table for people and as JSON for comparing."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import workbench as wb
from benchmarks.figures import Figure, Outcome

__all__ = ["document", "table", "write"]

_HEAD = ("benchmark", "figure", "ratio", "target", "", "raw commits/s", "absolute")


def table(outcomes: Sequence[Outcome]) -> str:
    """One line a figure; raw commits/s are the median before it and the reading after it.

    `unsteady` says that the machine's speed changed meanwhile, so that neither verdict counts.
    """
    lines: list[tuple[str, ...]] = [_HEAD]
    for outcome in outcomes:
        lines += [_line(outcome.name, figure) for figure in outcome.figures]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    told = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    errors = [f"{each.name} failed: {each.error}" for each in outcomes if each.error is not None]
    return "\n".join(told + errors)


def _line(name: str, figure: Figure) -> tuple[str, ...]:
    return (
        name,
        figure.title,
        f"{figure.value:.2f} {figure.unit}",
        "" if figure.target is None else str(figure.target),
        figure.verdict if figure.raw.steady else f"{figure.verdict}, unsteady",
        f"{figure.raw.before:,.0f} → {figure.raw.after:,.0f}",
        figure.detail,
    )


def document(
    outcomes: Sequence[Outcome], *, began: datetime, postgres: str, quick: bool
) -> dict[str, Any]:
    """Everything that was measured and on what, as JSON data."""
    return {
        "began": began.isoformat(timespec="seconds"),
        "quick": quick,
        "workbench": wb.__version__,
        "postgres": postgres,
        "python": platform.python_version(),
        "machine": {"platform": platform.platform(), "cpus": os.cpu_count()},
        "benchmarks": [
            {
                "name": outcome.name,
                "error": outcome.error,
                "figures": [
                    asdict(each) | {"verdict": each.verdict, "steady": each.raw.steady}
                    for each in outcome.figures
                ],
            }
            for outcome in outcomes
        ],
    }


def write(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
