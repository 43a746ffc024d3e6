"""`demo.html`: the story, the counts and the run's picture, in one file that refers to nothing outside."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from workbench.demo.story import Line
from workbench.views.markup import Safe, tag
from workbench.views.run_view import RunView
from workbench.views.status import STATUSES

__all__ = ["write_page"]


_LEAD = (
    "Four steps, in SQL and Python. One failed, waited, and was tried again; while the last one ran, the "
    "process that executed it was killed, and another went on. Below, a click on a step shows what it "
    "executed, its attempts and its result."
)


def write_page(
    path: Path,
    lines: Sequence[Line],
    counts: Sequence[tuple[str, str]],
    view: RunView,
    *,
    holds: bool,
) -> None:
    """Write the page.

    Parameters
    ----------
    lines:
        The story.
    counts:
        Each number and what it says.
    view:
        The run.
    holds:
        Whether the counts prove that every effect is there once.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    title = "A durable pipeline whose engine was killed half way through"
    body = tag(
        "main",
        tag("h1", title),
        tag("p", _LEAD, " Written by ", tag("code", "workbench demo"), ".", class_="lead"),
        tag("h2", "Nothing was done twice" if holds else "Something was done twice or not at all"),
        tag(
            "dl", [tag("div", tag("dt", n), tag("dd", what)) for n, what in counts], class_="counts"
        ),
        tag("h2", "What happened"),
        tag("ol", [_line(line) for line in lines], class_="story"),
        tag("h2", "The run"),
        view.html(),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "workbench demo"),
        tag("style", _style()),
    )
    document = tag("html", head, tag("body", body), lang="en")
    path.write_text(f"<!doctype html>\n{document}\n", encoding="utf-8")


def _line(line: Line) -> Safe:
    icon = (
        tag("span", STATUSES[line.status].icon, class_="icon", title=line.status)
        if line.status
        else tag("span", "·", class_="icon")
    )
    return tag(
        "li",
        tag("time", f"{line.seconds:.1f} s"),
        icon,
        tag("span", tag("b", line.step, " ") if line.step else None, line.text),
        class_=f"is-{line.status}",
    )


def _style() -> Safe:
    return Safe(resources.files(__package__).joinpath("page.css").read_text("utf-8"))
