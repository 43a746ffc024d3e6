"""What a database holds, in lines, for the commands that remove it."""

from __future__ import annotations

from workbench.store.removal import Contents

__all__ = ["lines", "size"]

_UNFINISHED = ("running", "pending")
_OWN_BOOKS = ("closed_functions", "schema_functions", "schema_migrations")
_FINISHED = ("completed", "failed", "cancelled")


def lines(found: Contents) -> list[str]:
    """Schema `df` in a few lines, the unfinished runs first."""
    tables = ", ".join(
        f"{name} {rows:,}" for name, rows in found.tables.items() if rows and name not in _OWN_BOOKS
    )
    told = [
        ("schema", f"df, version {found.version}, {len(found.tables)} tables, {size(found.size)}"),
        ("unfinished runs", _counts(found.runs, _UNFINISHED)),
        ("finished runs", _counts(found.runs, _FINISHED)),
        ("rows", tables),
        ("roles that were let in", ", ".join(found.roles)),
        ("needs it, goes with it", ", ".join(found.outside)),
        ("engines at work", "; ".join(found.engines)),
    ]
    return [f"  {name:<24}{text}" for name, text in told if text]


def size(number: int) -> str:
    """Bytes as people say them."""
    amount = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def _counts(runs: dict[str, int], statuses: tuple[str, ...]) -> str:
    found = [f"{runs[status]:,} {status}" for status in statuses if runs.get(status)]
    return ", ".join(found) or "none"
