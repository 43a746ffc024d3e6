"""When a failed attempt is tried again, and how much later. Pure arithmetic; `machine.py` applies
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Policy", "backoff", "is_permanent"]

#: SQLSTATE classes that describe the statement and not the moment: syntax and access rules,
#: integrity constraints, authorization, missing database, missing schema. Trying again would repeat
#: them to the byte.
PERMANENT_CLASSES = frozenset({"42", "23", "28", "3D", "3F"})


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens when a leaf fails.

    `max_attempts` counts the first try; `base_delay` and `max_backoff` are seconds; `on_failure` is
    `fail` or `continue`.
    """

    max_attempts: int = 1
    max_backoff: float = 16.0
    on_failure: str = "fail"
    base_delay: float = 1.0

    def nearer(self, retry: Mapping[str, Any] | None) -> Policy:
        """The policy for a node with nearer rules: those of the keys that they name."""
        return self if retry is None else replace(self, **retry)


def backoff(failures: int, policy: Policy) -> float:
    """Seconds to wait after the n-th failed attempt: `min(base_delay * 2^(n-1), max_backoff)`,
    without overflow for any n.
    """
    doublings = min(failures - 1, 1000)  # 2.0**1000 is finite and above any interval
    return min(policy.base_delay * 2.0**doublings, policy.max_backoff)


def is_permanent(error: Mapping[str, Any]) -> bool:
    """Whether trying again cannot help: said by the error itself or by the class of its
    SQLSTATE.
    """
    return bool(error.get("permanent")) or str(error.get("sqlstate") or "")[:2] in PERMANENT_CLASSES
