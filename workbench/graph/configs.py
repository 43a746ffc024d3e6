"""What the JSON config of a node must say: one fault a type, in the words of the SQL side.

Builders and `validate` ask the same functions, so that a graph is refused alike wherever it was
made; `functions/22…24` of the store are their mirror. Options, retry and policy are in `extras`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from workbench.graph import schedule
from workbench.graph.durations import MAX_SECONDS
from workbench.graph.shapes import EMBEDDED_FIELDS, IDENTIFIER, SHAPES
from workbench.graph.values import encode

Config = Mapping[str, Any]

HTTP_METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH")
MULTIPART_METHODS: Final = ("POST", "PUT", "PATCH")
MAX_TIMEOUT: Final = 2**31 - 1
LONGEST_HANDLER: Final = 200
"""Seconds; what `df.http` and `df.wait_for_signal` can be given."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_HOST: Final = re.compile(r"https?://[^/?#\s]", re.ASCII | re.IGNORECASE)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,11}(\.[0-9]{1,6})?", re.ASCII)


def config_fault(kind: str, config: Config) -> str | None:
    """Tell what is wrong with a type's config object, or None."""
    for key in SHAPES[kind].keys:
        if key not in config:
            return f"query in {kind} lacks {key!r}"
    field = EMBEDDED_FIELDS.get(kind)
    if field is not None and field in config:
        return f"{field} in {kind} must be a first-class Durofut field, not embedded in query"
    check = _CHECKS.get(kind)
    return check(config) if check else None


def seconds_fault(query: str) -> str | None:
    """Tell what is wrong with the query of a SLEEP, or None."""
    if _SECONDS.fullmatch(query) and float(query) <= MAX_SECONDS:
        return None
    return (
        f"query in SLEEP must be a number of seconds from 0 to {MAX_SECONDS}, not {query[:100]!r}"
    )


def if_rows_fault(config: Config) -> str | None:
    """Tell what is wrong with the config of an IF that has no condition node."""
    if config.get("condition_type") != "result_has_rows":
        return "condition_node is missing; IF nodes need a condition"
    name = config.get("result_name")
    if not isinstance(name, str):
        return "query in IF lacks 'result_name'; df.if_rows needs a result's name"
    if not name:
        return "df.if_rows: result name cannot be empty"
    if not IDENTIFIER.fullmatch(name):
        return f"df.if_rows: '{name[:100]}' is not a valid identifier; name a result as |=> does"
    return None


def signal_fault(config: Config) -> str | None:
    """Tell what is wrong with the config of a SIGNAL."""
    name, timeout = config.get("signal_name"), config.get("timeout_seconds")
    if not isinstance(name, str) or not name:
        return "Signal name cannot be empty"
    if timeout is None:
        return None
    if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout > MAX_TIMEOUT:
        return (
            f"Timeout must be a whole number of seconds up to {MAX_TIMEOUT}, not {shown(timeout)}"
        )
    return None if timeout > 0 else "Timeout must be positive"


def schedule_fault(config: Config) -> str | None:
    """Tell what is wrong with the config of a WAIT_SCHEDULE."""
    for key in ("cron_expr", "timezone"):
        if key in config and not isinstance(config[key], str):
            return f"{key} in WAIT_SCHEDULE must be text, not {json_type(config[key])}"
    return schedule.fault(config["cron_expr"], config.get("timezone", "UTC"))


def http_fault(kind: str, config: Config) -> str | None:
    """Tell what is wrong with a request, as far as it shows before `$name` and `{var}` are known."""
    return (
        _method_fault(kind, config.get("method"))
        or _timeout_fault(config.get("timeout_seconds", 30))
        or _url_fault(kind, config.get("url"))
        or _headers_fault(config.get("headers"))
        or (_body_fault(config) if kind == "HTTP" else _parts_fault(config.get("parts")))
    )


def json_type(value: object) -> str:
    """Return the name that JSON has for a value's type."""
    names = {bool: "boolean", str: "string", dict: "object", list: "array", tuple: "array"}
    if value is None:
        return "null"
    return names.get(type(value), "number" if isinstance(value, int | float) else "object")


def shown(value: object) -> str:
    """Return a value as error texts show it: its JSON, at most 100 characters."""
    try:
        return encode(value)[:100]
    except ValueError:
        return repr(value)[:100]


def sorted_keys(config: Mapping[str, Any]) -> list[str]:
    """Return the keys of an object as jsonb orders them: by length in bytes, then by bytes."""
    return sorted(config, key=_jsonb_order)


def _jsonb_order(key: str) -> tuple[int, bytes]:
    data = key.encode(errors="replace")
    return len(data), data


def _method_fault(kind: str, method: object) -> str | None:
    multipart = kind == "HTTP_MULTIPART"
    if isinstance(method, str):
        allowed = MULTIPART_METHODS if multipart else HTTP_METHODS
        if method.isascii() and method.upper() in allowed:
            return None
    text = method[:100] if isinstance(method, str) else shown(method)
    if multipart:
        return f"Invalid HTTP method for multipart: {text}. Must be POST, PUT, or PATCH"
    return f"Invalid HTTP method: {text}. Must be GET, POST, PUT, DELETE, or PATCH"


def _timeout_fault(timeout: object) -> str | None:
    if timeout is None:  # as good as absent
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout > MAX_TIMEOUT:
        return f"Timeout must be a number of seconds up to {MAX_TIMEOUT}, not {shown(timeout)}"
    return None if timeout > 0 else "Timeout must be positive"


def _url_fault(kind: str, url: object) -> str | None:
    if not isinstance(url, str):
        return f"url in {kind} must be text, not {json_type(url)}"
    if "{" in url or _HOST.match(url):  # a variable or a secret may hold the scheme
        return None
    match = _SCHEME.match(url)
    scheme = match[1] if match else ""
    if scheme.lower() in ("http", "https"):
        return f"Invalid URL '{url[:100]}': it names no host; write https://host/path"
    return f"Blocked: unsupported URL scheme '{scheme[:100]}'. Only http and https are allowed."


def _headers_fault(headers: object) -> str | None:
    if headers is None:
        return None
    if not isinstance(headers, Mapping):
        return f"headers must be a JSON object of names and texts, not {json_type(headers)}"
    for name in sorted_keys(headers):
        value = headers[name]
        if not _HEADER.fullmatch(name):
            return f"header '{name[:100]}' has no valid name; use letters, digits and hyphens"
        if not isinstance(value, str):
            return f"header '{name[:100]}' must be text, not {json_type(value)}; write it in quotes"
        if "\r" in value or "\n" in value:
            return f"header '{name[:100]}' contains a line break; remove it"
    return None


def _body_fault(config: Config) -> str | None:
    body = config.get("body")
    if body is None or isinstance(body, str):
        return None
    return f"body in HTTP must be text, not {json_type(body)}"


def _parts_fault(parts: object) -> str | None:
    if parts is None:
        return "parts is required and cannot be NULL"
    if not isinstance(parts, list | tuple):
        return "parts must be a JSON array of part objects"
    return None if parts else "parts must contain at least one part"


def _break_fault(config: Config) -> str | None:
    value = config["break_value"]
    if value is None or isinstance(value, str):
        return None
    return f"break_value in BREAK must be text or null, not {json_type(value)}"


def _handler_fault(config: Config) -> str | None:
    handler = config["handler"]
    if isinstance(handler, str) and handler:
        return None
    return "handler in PYTHON must be a name such as 'module:function'"


def external_fault(config: Config) -> str | None:
    """Tell what is wrong with the config of a step for outside workers."""
    handler = config["handler"]
    if not (isinstance(handler, str) and handler.strip() and len(handler) <= LONGEST_HANDLER):
        return f"handler in EXTERNAL must be a name of 1 to {LONGEST_HANDLER} characters"
    if not isinstance(config.get("input", {}), dict):
        return f"input in EXTERNAL must be an object, not {json_type(config['input'])}"
    return None


def parse(query: str) -> Any:
    """Read a config as the server does: no NaN, no Infinity.

    Raises:
        ValueError, RecursionError: not JSON.
    """
    return json.loads(query, parse_constant=_refuse_constant)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_CHECKS: Final[dict[str, Callable[[Config], str | None]]] = {
    "BREAK": _break_fault,
    "WAIT_SCHEDULE": schedule_fault,
    "SIGNAL": signal_fault,
    "PYTHON": _handler_fault,
    "EXTERNAL": external_fault,
    "HTTP": lambda config: http_fault("HTTP", config),
    "HTTP_MULTIPART": lambda config: http_fault("HTTP_MULTIPART", config),
}
