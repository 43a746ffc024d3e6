"""What a run says about itself in errors and while somebody waits for it: pure texts."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.store.records import NodeRow, RunRow

__all__ = ["cancelled", "failed", "timed_out"]


def timed_out(row: RunRow, seconds: float) -> str:
    """Say that a run goes on although nobody waits for it any longer."""
    missing = f" It waits, {row.waits_for.replace('`', '')}." if row.waits_for else ""
    return (
        f"run {row.run_id} is still {row.status} after {seconds:g} s; it goes on.{missing} "
        f"Look at it: bench.get({row.run_id!r})"
    )


def cancelled(row: RunRow) -> str:
    """Say why a run was cancelled, and the next move."""
    reason = (row.error or {}).get("message")
    return (
        f"run {row.run_id} was cancelled: {reason}. "
        "bench.start(run.definition) starts its graph anew."
    )


def failed(row: RunRow, nodes: Sequence[NodeRow]) -> str:
    """Say which step failed a run, at which attempt and by what, and the next move."""
    error = dict(row.error or {})
    attempt = f", attempt {error['attempt']} of {row.max_attempts}" if "attempt" in error else ""
    state = f" [{error['sqlstate']}]" if error.get("sqlstate") else ""
    what = f"{error.get('type')}{state}: {str(error.get('message')).strip()}".rstrip(": ")
    stop = "" if what.endswith((".", "?", "!")) else "."
    hint = f" {error['hint'].strip()}" if error.get("hint") else ""
    return (
        f"run {row.run_id} failed at step {_step(nodes, error.get('node'))}{attempt}: "
        f"{what}{stop}{hint} Next: run.failure has the whole error, run.attempts every try."
    )


def _step(nodes: Sequence[NodeRow], number: int | None) -> str:
    for node in nodes:
        if node.node_id == number:
            handler = (node.handler or "").rpartition(":")[2]
            what = " ".join((handler or node.query or node.node_type).split())
            shown = f"{what[:40]}…" if len(what) > 40 else what
            return f"{node.result_name or shown!r} (#{number})"
    return f"#{number}"
