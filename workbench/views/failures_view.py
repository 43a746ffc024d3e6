"""The view of what fails and how often: failures by fingerprint, each opening to an example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from workbench.errors import NotFound, UsageError
from workbench.store.lineage_records import FailureRow
from workbench.views.base import View, page
from workbench.views.clock import when
from workbench.views.lineage_html import history_css
from workbench.views.markup import Safe, join, tag
from workbench.views.step_detail import error_block
from workbench.views.words import as_of, count, moment, shorten

if TYPE_CHECKING:
    import pandas

__all__ = ["FailuresView"]


class FailuresView(View):
    """What failed, the failure seen last first.

    Parameters:
        rows: what `store.lineage.failures` reads.
        taken: the moment they show.
        attempt: finds the attempt that is a failure's example.
    """

    def __init__(
        self,
        rows: Sequence[FailureRow],
        taken: datetime,
        attempt: Callable[[FailureRow], Any] | None = None,
    ) -> None:
        self.rows = tuple(rows)
        self.taken = taken
        self._attempt = attempt

    @property
    def df(self) -> pandas.DataFrame:
        """One row a failure, the one seen last first.

        Index `fingerprint`. Columns: `label`, `node`, `code`, `message`, `example_run_id` (text);
        `attempts`, `runs`, `example_node_id` (int64); `first_seen`, `last_seen`
        (datetime64[us, UTC]).
        """
        import pandas

        text = pandas.Series(["text"]).dtype
        times = "datetime64[us, UTC]"
        dtypes: dict[str, Any] = {
            "label": text, "node": text, "code": text, "message": text, "attempts": "int64",
            "runs": "int64", "first_seen": times, "last_seen": times, "example_run_id": text,
            "example_node_id": "int64",
        }  # fmt: skip
        index = pandas.Index([r.fingerprint for r in self.rows], name="fingerprint", dtype=text)
        columns = {
            name: pandas.Series([getattr(row, name) for row in self.rows], index, dtype)
            for name, dtype in dtypes.items()
        }
        return pandas.DataFrame(columns, index=index)

    def attempt(self, which: str | int = 0) -> Any:
        """Return the example of a failure, an `Attempt`.

        Parameters:
            which: a fingerprint or the beginning of one, or a place in the list from 0.

        Raises:
            NotFound: there is no such failure here, or its example is not kept any more.
        """
        if isinstance(which, int):
            found = self.rows[which : which + 1] if which >= 0 else ()
        elif isinstance(which, str):
            found = tuple(row for row in self.rows if row.fingerprint.startswith(which))
        else:
            raise UsageError(f"attempt() takes a fingerprint or a place, not {which!r}")
        if len(found) != 1 or self._attempt is None:
            raise NotFound(
                f"{which!r} is not one of these {count(len(self.rows), 'failure')}; "
                ".df lists their fingerprints"
            )
        return self._attempt(found[0])

    def html(self) -> Safe:
        attempts = sum(row.attempts for row in self.rows)
        line = tag(
            "div",
            tag("span", "Failures", class_="wb-label"),
            tag(
                "span",
                f"{count(len(self.rows), 'failure')} in {count(attempts, 'attempt')}",
                class_="wb-long wb-quiet",
            ),
            class_="wb-head-line",
        )
        head = tag("header", line, class_="wb-head")
        style = tag("style", history_css())
        if not self.rows:
            nothing = tag("div", tag("p", "No attempt has failed."), class_="wb-none")
            return page("Failures", self.taken, style, head, nothing)
        body = tag("div", [_row(row) for row in self.rows], class_="wb-failures")
        return page("Failures", self.taken, style, head, body)

    def __str__(self) -> str:
        lines = [f"Failures: {len(self.rows)}", ""]
        for row in self.rows:
            lines.append(f"{row.attempts:>5}× {row.code}: {row.message or 'no message'}")
            seen = f"first {moment(row.first_seen)}, last {moment(row.last_seen)}"
            lines.append(f"       {_where(row)} · {seen} · {row.fingerprint}")
        return "\n".join([*lines, "", as_of(self.taken)])

    def __repr__(self) -> str:
        return f"<FailuresView {count(len(self.rows), 'failure')}>"


def _where(row: FailureRow) -> str:
    label = f" of {row.label}" if row.label else ""
    return f"step {row.node}{label} · {count(row.runs, 'run')}"


def _row(row: FailureRow) -> Safe:
    summary = tag(
        "summary",
        tag("span", f"{row.attempts:,}×", class_="wb-times"),
        tag(
            "span",
            tag(
                "span",
                tag("code", row.code),
                " ",
                shorten(row.message, 300),
                class_="wb-failure-text",
            ),
            tag("div", _where(row), class_="wb-failure-where"),
        ),
        tag("span", "last ", when(row.last_seen), class_="wb-meta"),
        tag("span", class_="wb-more", aria_hidden="true"),
        class_="wb-failure",
    )
    return tag("details", summary, _example(row), data_key=row.fingerprint)


def _example(row: FailureRow) -> Safe:
    call = f"bench.failures(…).attempt({row.fingerprint!r})"
    facts = join(
        "first ", when(row.first_seen), " · example: run ",
        tag("code", row.example_run_id, class_="wb-id"), f", step #{row.example_node_id} · ",
        tag("code", call), " has what it executed",
    )  # fmt: skip
    error = error_block(row.example_error) if row.example_error else None
    return tag(
        "div", tag("div", error), tag("div", facts, class_="wb-failure-where"), class_="wb-detail"
    )
