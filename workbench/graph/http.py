"""Builders of HTTP steps: `http`, `http_multipart`.

The config is what `df.http` and `df.http_multipart` write: all keys in one order, the keys of
headers and parts as jsonb orders them. What the values in it become when the step runs is
`http_text`; the request itself is made by the engine.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

from workbench.errors import GraphError, ValueRefused
from workbench.graph.build import Ref
from workbench.graph.configs import http_fault, json_type, sorted_keys
from workbench.graph.durations import seconds
from workbench.graph.extras import options_fault
from workbench.graph.node import Node
from workbench.graph.shapes import did_you_mean
from workbench.graph.values import Json, encode

_PART_KEYS: Final = ("name", "data", "data_b64", "filename", "content_type")


def http(
    url: str,
    *,
    method: str | None = None,
    json: Json = ...,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: object = 30,
    retry_statuses: Iterable[int] | None = None,
    raise_for_status: bool = False,
    sink: str | None = None,
) -> Node:
    """An HTTP request: GET without a body, POST with one.

    `$name`, `{var}` and `secret("NAME")` may stand in the URL, the body and the headers' values.
    The value is `{"status", "body", "encoding", "headers", "ok", "duration_ms"}`; 5xx statuses,
    network errors and time-outs are failures.

    Parameters:
        method: GET, POST, PUT, DELETE or PATCH.
        json: any JSON value, sent as the body with `Content-Type: application/json` unless the
            headers have another one.
        body: text, sent as it is.
        timeout: of the whole request: seconds, a timedelta, or text such as "1 minute".
        retry_statuses: statuses that count as failures, too, such as `[429]`.
        raise_for_status: make every other 4xx a failure that is not retried.
        sink: `schema.table(column)`: the body of a 2xx response is inserted there, in one
            transaction with the step's completion. The value then has `sink` and `size` (in bytes)
            in place of `body` and `encoding`.

    Raises:
        GraphError: the request cannot be made as described.
        ValueRefused: `json` holds something that JSON cannot.
    """
    if json is not ...:
        if body is not None:
            raise GraphError("http() takes json= or body=, not both")
        body, headers = _encoded(json), _with_type(headers)
    config = {
        "url": url,
        "method": ("GET" if body is None else "POST") if method is None else method,
        "body": body,
        "headers": headers,
        "timeout_seconds": seconds(timeout, "http(timeout=…)"),
    }
    return _node("HTTP", config, _options(retry_statuses, raise_for_status, sink))


def http_multipart(
    url: str,
    parts: Iterable[Mapping[str, Any]],
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    timeout: object = 30,
    retry_statuses: Iterable[int] | None = None,
    raise_for_status: bool = False,
    sink: str | None = None,
) -> Node:
    """An HTTP request with a `multipart/form-data` body.

    Parameters:
        parts: one mapping each, with `name` and either `data` (bytes or text, stored as base64) or
            `data_b64` (base64 text, or one reference such as `$file.content`); `filename` and
            `content_type` are optional.
        method: POST, PUT or PATCH.
        headers, timeout, retry_statuses, raise_for_status, sink: as for `http`.

    Raises:
        GraphError: the request cannot be made as described.
    """
    if isinstance(parts, str | bytes | Mapping) or not isinstance(parts, Iterable):
        raise GraphError('http_multipart() takes a list of parts: [{"name": …, "data": …}]')
    config = {
        "url": url,
        "method": method,
        "parts": [_part(part, index) for index, part in enumerate(parts)],
        "headers": headers,
        "timeout_seconds": seconds(timeout, "http_multipart(timeout=…)"),
    }
    return _node("HTTP_MULTIPART", config, _options(retry_statuses, raise_for_status, sink))


def http_query(config: Mapping[str, Any]) -> str:
    """Return the config's text, with the method in upper case and nested keys in jsonb's order."""
    values = {**config, "method": config["method"].upper()}
    return encode({key: _in_order(value) for key, value in values.items()}, "the request")


def options_in_order(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as `df.with_http` writes them: those that say something, in jsonb's order."""
    return {key: options[key] for key in sorted_keys(options) if options[key]}


def _node(kind: str, config: Mapping[str, Any], options: dict[str, Any]) -> Node:
    _check_headers(config["headers"])
    if fault := http_fault(kind, config) or options_fault(kind, options):
        raise GraphError(fault)
    return Node(kind, query=http_query(config), options=options_in_order(options) or None)


def _options(
    statuses: Iterable[int] | None, raise_for_status: bool, sink: str | None
) -> dict[str, Any]:
    listed = statuses if statuses is None or isinstance(statuses, str) else list(statuses)
    options: dict[str, Any] = {
        "retry_statuses": [] if listed is None else listed,
        "raise_for_status": raise_for_status,
    }
    return options if sink is None else options | {"sink": sink}


def _check_headers(headers: object) -> None:
    if headers is None:
        return
    if not isinstance(headers, Mapping) or not all(isinstance(key, str) for key in headers):
        raise GraphError(f"headers is a mapping of names to texts, not {headers!r:.100}")


def _encoded(value: Json) -> str:
    try:
        return encode(value, "json")
    except ValueRefused as refused:
        if not _holds_ref(value):
            raise
        raise GraphError(
            'http(json=…) takes no ref(); write the reference as text, as in {"id": "$x.id"}'
        ) from refused


def _holds_ref(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_ref, value.values()))
    return isinstance(value, Ref) or (
        isinstance(value, list | tuple) and any(map(_holds_ref, value))
    )


def _with_type(headers: Mapping[str, str] | None) -> Mapping[str, str]:
    given = headers or {}
    _check_headers(given)
    if any(name.lower() == "content-type" for name in given):
        return given
    return {**given, "Content-Type": "application/json"}


def _part(part: object, index: int) -> dict[str, Any]:
    what = f"parts[{index}]"
    if not isinstance(part, Mapping):
        raise GraphError(f"{what} must be a mapping with name and data, not {json_type(part)}")
    for key, value in part.items():
        if key not in _PART_KEYS:
            raise GraphError(
                f"{what} has the unknown key {key!r}; use {', '.join(_PART_KEYS)}."
                f"{did_you_mean(str(key), _PART_KEYS)}"
            )
        if not isinstance(value, str) and not (key == "data" and isinstance(value, bytes)):
            raise GraphError(f"{what}[{key!r}] must be text, not {type(value).__name__}")
    if "name" not in part or ("data" in part) == ("data_b64" in part):
        raise GraphError(f"{what} needs a name, and either data or data_b64")
    stored = dict(part)
    if "data" in stored:
        data = stored.pop("data")
        raw = data.encode() if isinstance(data, str) else data
        stored["data_b64"] = base64.b64encode(raw).decode()
    return stored


def _in_order(value: Any) -> Any:
    """Order the keys of objects at any depth as jsonb does, which is what SQL is given."""
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted_keys(value)}
    if isinstance(value, list | tuple):
        return [_in_order(item) for item in value]
    return value
