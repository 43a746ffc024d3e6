"""The text picture of a graph, as `df.explain` prints it.

`label` is one node in one line, `tree` the whole. Status marks come from the caller, by node
number, so that one picture serves graphs and runs. Pictures for cells are in the views.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from workbench.graph.node import Node
from workbench.graph.policies import http_limit
from workbench.graph.shapes import MAX_NODES, too_many
from workbench.graph.values import encode
from workbench.graph.walk import Visit, below

_PADDING: Final = 4


def tree(node: Node, marks: Mapping[int, str] | None = None) -> str:
    """Draw a graph, one node a line, all lines padded to the longest plus 4.

    Parameters:
        marks: node number → status mark such as `✓`, shown after the node's line.

    Raises:
        GraphError: more than 10,000 nodes.
    """
    if node.count > MAX_NODES:
        raise too_many()
    lines: list[str] = []
    pending: list[str | _Item] = [_Item(Visit(0, node, None, "root"), "", "", "    ")]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            lines += item.split("\n")
        elif item.visit.node.node_type == "THEN":
            pending.extend(reversed(_sequence(item)))
        else:
            mark = (marks or {}).get(item.visit.number)
            lines += _line(item, f" {mark}" if mark else "").split("\n")
            pending.extend(reversed(_children(item)))
    width = max(map(len, lines)) + _PADDING
    return "\n".join(line.ljust(width) for line in lines)


def label(node: Node) -> str:
    """Return one node's own line, without its children."""
    describe = _LABELS.get(node.node_type)
    text = describe(node) if describe else node.node_type
    named = node.result_name is not None and node.node_type not in ("THEN", "RACE")
    return f"{text} |=> '{node.result_name}'" if named else text


class _Item(NamedTuple):
    """A node still to be drawn: its line's prefix and connector, and its children's prefix.

    `limits` are those of sequences that begin with it.
    """

    visit: Visit
    prefix: str
    connector: str
    inner: str
    limits: str = ""


class _End(NamedTuple):
    """Where a sequence with a limit ends, and which step it began at."""

    limit: int
    first: int


def _line(item: _Item, mark: str) -> str:
    node = item.visit.node
    limit = http_limit(node)
    own = "" if limit is None else f" [http ≤ {limit}]"
    return f"{item.prefix}{item.connector}{label(node)}{own}{item.limits}{mark}"


def _sequence(item: _Item) -> list[_Item]:
    """Flatten nested THENs into one list; the first step keeps the connector."""
    steps: list[Visit] = []
    limits: dict[int, str] = {}
    pending: list[Visit | _End] = [item.visit]
    while pending:
        visit = pending.pop()
        if isinstance(visit, _End):
            said = f" [{len(steps) - visit.first} steps: http ≤ {visit.limit}]"
            limits[visit.first] = limits.get(visit.first, "") + said
        elif visit.node.node_type == "THEN":
            limit = http_limit(visit.node)
            if limit is not None:
                pending.append(_End(limit, len(steps)))
            pending.extend(reversed(below(visit)))
        else:
            steps.append(visit)
    inner = f"{item.prefix}    "
    return [
        _Item(visit, item.prefix, "→ " if n else item.connector, inner, limits.get(n, ""))
        for n, visit in enumerate(steps)
    ]


def _children(item: _Item) -> list[str | _Item]:
    node = item.visit.node
    visits = below(item.visit)
    if node.node_type in ("IF", "LOOP"):
        # Drawn in the order in which they run, not in pre-order.
        asked = [visit for visit in visits if visit.path.endswith(".condition_node")]
        others = [visit for visit in visits if not visit.path.endswith(".condition_node")]
        visits = asked + others if node.node_type == "IF" else others + asked
    found: list[str | _Item] = []
    if node.node_type == "IF" and node.condition is None:
        asked_of = _config(node).get("result_name", "?")
        found += [f"{item.inner}? condition:", f"{item.inner}  └─rows of '{asked_of}'"]
    for index, visit in enumerate(visits):
        last = node.node_type not in ("JOIN", "RACE", "FLOW") or index == len(visits) - 1
        prefix = f"{item.inner}  "
        found.append(item.inner + _heading(node, visit, index))
        found.append(
            _Item(visit, prefix, "└─" if last else "├─", prefix + ("    " if last else "│   "))
        )
    return found


def _heading(node: Node, visit: Visit, index: int) -> str:
    slot = visit.path.rpartition(".")[2]
    match node.node_type, slot:
        case "IF", "condition_node":
            return "? condition:"
        case "IF", "left":
            return "✓ then:"
        case "IF", _:
            return "✗ else:"
        case "LOOP", "condition_node":
            return "? until:" if _is_until(node) else "? while:"
        case "LOOP", _:
            return "↻ body:"
        case "FLOW", _:
            return f"◆ step {index + 1}:{_step_words(node, index)}"
        case "MAP", _:
            return "∀ element:"
    return f"║ branch {index + 1}:"


def _step_words(flow: Node, index: int) -> str:
    """What a step of a FLOW waits for, and under which condition it runs."""
    steps = _config(flow).get("steps")
    step = steps[index] if isinstance(steps, list) and index < len(steps) else {}
    found = ""
    if step.get("after"):
        found += f" after {', '.join(map(str, step['after']))}"
    for key in ("if", "if_not"):
        if key in step:
            found += f" {key} {_cut(encode(step[key]), 50)}"
    if "if_skipped" in step:
        found += f" if_skipped {step['if_skipped']}"
    return found


def _cut(text: str, limit: int) -> str:
    """Cut to `limit` bytes of UTF-8, three of them dots, never inside a character."""
    data = text.encode(errors="replace")
    return text if len(data) <= limit else data[: limit - 3].decode(errors="ignore") + "..."


def _config(node: Node) -> dict[str, Any]:
    try:
        value = json.loads(node.query or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _http(node: Node) -> str:
    config = _config(node)
    url = _cut(str(config.get("url", "?")), 40)
    return f"{node.node_type} {config.get('method', 'POST')} {url}"


def _signal(node: Node) -> str:
    config = _config(node)
    timeout = config.get("timeout_seconds")
    suffix = "" if timeout is None else f" ({timeout}s)"
    return f"SIGNAL '{config.get('signal_name', '?')}'{suffix}"


def _break(node: Node) -> str:
    value = _config(node).get("break_value")
    return "BREAK" if value is None else f"BREAK '{_cut(str(value), 20)}'"


def _wait(node: Node) -> str:
    config = _config(node)
    zone = f" {config['timezone']}" if "timezone" in config else ""
    return f"WAIT '{config.get('cron_expr', '?')}'{zone}"


def _loop(node: Node) -> str:
    if node.condition is None:
        return "LOOP (infinite)"
    return "LOOP (until)" if _is_until(node) else "LOOP (while)"


def _is_until(node: Node) -> bool:
    return node.options is not None and node.options.get("until") is True


def _branches(node: Node) -> int:
    return sum(1 for _ in node.children())


_LABELS: Final[dict[str, Callable[[Node], str]]] = {
    "SQL": lambda node: f"SQL: {_cut(node.query or '?', 50)}",
    "SLEEP": lambda node: f"SLEEP {node.query or '?'}s",
    "WAIT_SCHEDULE": _wait,
    "HTTP": _http,
    "HTTP_MULTIPART": _http,
    "SIGNAL": _signal,
    "LOOP": _loop,
    "BREAK": _break,
    "JOIN": lambda node: f"JOIN ({_branches(node)})",
    "PYTHON": lambda node: f"PYTHON {_config(node).get('handler', '?')}",
    "EXTERNAL": lambda node: f"EXTERNAL {_config(node).get('handler', '?')}",
    "FLOW": lambda node: f"FLOW {_config(node).get('slug', '?')} ({_branches(node)})",
    "MAP": lambda node: f"MAP over {_config(node).get('over', '?')}",
}
