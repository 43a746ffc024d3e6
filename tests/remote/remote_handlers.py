"""Handlers of these tests that `tests/engine/step_handlers.py` does not have."""

from __future__ import annotations

from workbench.engine.context import Context


def represent_context(ctx: Context) -> str:
    """How the context of an attempt shows itself."""
    return repr(ctx)
