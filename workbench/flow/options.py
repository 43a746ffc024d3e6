"""What may be said of a flow and of a step besides its dependencies, checked when it is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import GraphError
from workbench.graph.configs import shown
from workbench.graph.dag import MODES
from workbench.graph.durations import seconds
from workbench.graph.extras import OPTIONS
from workbench.graph.node import Node
from workbench.graph.policies import with_retry
from workbench.graph.shapes import did_you_mean
from workbench.graph.values import decode, encode

__all__ = ["Options"]

_LIMITS = ("max_attempts", "base_delay", "max_backoff", "timeout", "start_delay")
_CONDITIONS = ("if_", "if_not", "if_skipped", "when_unmet", "when_exhausted")


@dataclass(frozen=True)
class Options:
    """The options of a flow, or of one of its steps; None is what was not said."""

    retry: Mapping[str, Any] | None = None
    timeout: float | None = None
    start_delay: float | None = None
    if_: Mapping[str, Any] | None = None
    if_not: Mapping[str, Any] | None = None
    if_skipped: str | None = None
    when_unmet: str = "skip"
    when_exhausted: str = "fail"
    return_exceptions: bool = False

    @classmethod
    def of(
        cls, what: str, given: Mapping[str, Any], *, is_step: bool = False, is_map: bool = False
    ) -> Options:
        """Check the options of `what`, which error texts name.

        Raises:
            GraphError: an option that there is not, or a value that it cannot have.
        """
        known = _LIMITS + (_CONDITIONS if is_step else ())
        known += ("return_exceptions",) if is_map else ()
        for key in given:
            if key not in known:
                raise GraphError(
                    f"{what} has no option {key!r}.{did_you_mean(key, known)} It has: "
                    f"{', '.join(known)}"
                )
        said = {key: value for key, value in given.items() if value is not None}
        return cls(
            _retry(what, said),
            _timeout(what, said.get("timeout")),
            _delay(what, said.get("start_delay")),
            _pattern(what, "if_", said.get("if_")),
            _pattern(what, "if_not", said.get("if_not")),
            _name(what, said.get("if_skipped")),
            _mode(what, "when_unmet", said),
            _mode(what, "when_exhausted", said),
            _flag(what, said.get("return_exceptions", False)),
        )

    def conditions(self) -> dict[str, Any]:
        """What the config of a FLOW says of a step: only what is not the default."""
        found: dict[str, Any] = {}
        if self.if_ is not None:
            found["if"] = dict(self.if_)
        if self.if_not is not None:
            found["if_not"] = dict(self.if_not)
        if self.if_skipped is not None:
            found["if_skipped"] = self.if_skipped
        for key, modes in MODES.items():
            if getattr(self, key) != modes[0]:
                found[key] = getattr(self, key)
        return found

    def limit(self, node: Node, flow: Options) -> Node:
        """A step's node with its limits, as far as its type has any: those of the step, else its own,
        else those of the flow. The timeout of a map is that of each element.
        """
        if node.node_type == "MAP" and node.left is not None:
            plain = replace(self, start_delay=0)
            node = replace(node, left=plain.limit(node.left, replace(flow, start_delay=0)))
        options = dict(node.options or {})
        for key in ("timeout", "start_delay"):
            if key in OPTIONS.get(node.node_type, ()):
                said = getattr(self, key)
                options[key] = options.get(key, getattr(flow, key)) if said is None else said
                if not options[key]:
                    del options[key]
        return replace(node, options=options or None)

    def without_use(self, node: Node) -> str | None:
        """A limit that the step itself names, and that its node cannot have."""
        body = node.left if node.node_type == "MAP" and node.left is not None else node
        if self.timeout is not None and "timeout" not in OPTIONS.get(body.node_type, ()):
            return "timeout"
        if self.start_delay and "start_delay" not in OPTIONS.get(node.node_type, ()):
            return "start_delay"
        return None


def _retry(what: str, said: Mapping[str, Any]) -> Mapping[str, Any] | None:
    rules = {key: said[key] for key in ("max_attempts", "base_delay", "max_backoff") if key in said}
    if not rules:
        return None
    try:
        return with_retry(Node("SQL", query="-"), **rules).retry
    except GraphError as refused:
        raise GraphError(f"{what}: {str(refused).removeprefix('with_retry: ')}") from None


def _timeout(what: str, value: Any) -> float | None:
    if value is None:
        return None
    found = seconds(value, f"{what}: timeout")
    if found <= 0:
        raise GraphError(f"{what}: timeout must be longer than 0 s; leave it out for no limit")
    return found


def _delay(what: str, value: Any) -> float | None:
    return None if value is None else seconds(value, f"{what}: start_delay")


def _pattern(what: str, key: str, value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise GraphError(
            f"{what}: {key} must be an object to be contained, such as "
            f'{{"website": {{"kind": "shop"}}}}, not {shown(value)}'
        )
    found: dict[str, Any] = decode(encode(dict(value), key))  # refuses what JSON cannot hold
    return found


def _name(what: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    name = getattr(value, "__name__", None)
    if not isinstance(name, str):
        raise GraphError(f"{what}: if_skipped must be a step or its name, not {value!r}")
    return name


def _mode(what: str, key: str, said: Mapping[str, Any]) -> str:
    modes = MODES[key]
    mode = said.get(key, modes[0])
    if mode not in modes:
        listed = ", ".join(map(repr, modes[:-1]))
        raise GraphError(f"{what}: {key} must be {listed} or {modes[-1]!r}, not {mode!r}")
    return str(mode)


def _flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise GraphError(f"{what}: return_exceptions must be True or False, not {value!r}")
    return value
