"""From an HTTP node and the values it refers to, to the request that is sent: method, URL, headers,
content.

Everything that is wrong with it is found here, before any network is used, and is permanent. Where
the request may go is decided in `destinations`, sending is `http_send`'s.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import workbench
from workbench.engine.plan import Planned
from workbench.errors import StepError
from workbench.graph.http_text import Known, reveal, shown, substitute, whole_value
from workbench.graph.sinks import Sink

__all__ = ["Request", "prepare", "redact"]

TIMEOUT: Final = 30  # seconds; the default of df.http
SHOWN_BODY: Final = 16_000  # characters of a body in an attempt's row
SHOWN_URL: Final = 500  # characters of a URL in an error's text
_METHODS: Final = {
    "HTTP": ("GET", "POST", "PUT", "DELETE", "PATCH"),
    "HTTP_MULTIPART": ("POST", "PUT", "PATCH"),
}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_USERINFO: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN: Final = re.compile(r"[\r\n\0]")


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """What is sent. It holds secrets and has no repr; `shown` is its URL without them.

    `timeout` is seconds for the whole exchange. `retry_statuses` are failures beside 5xx;
    `raise_for_status` makes other 4xx permanent failures; `sink` takes the body of a 2xx.
    """

    method: str
    url: str
    shown: str
    headers: tuple[tuple[str, str], ...]
    content: bytes | None
    timeout: float
    retry_statuses: frozenset[int]
    raise_for_status: bool
    sink: Sink | None = None

    def described(self, secrets: Mapping[str, str]) -> str:
        """The request as JSON for the attempt's row: no secrets, no values of headers, and of a body
        that is text the beginning.
        """
        body = None
        if self.content is not None:
            body = redact(self.content.decode(errors="replace"), secrets)[:SHOWN_BODY]
        names = [name for name, _ in self.headers]
        return json.dumps(
            {"method": self.method, "url": self.shown, "headers": names, "body": body},
            ensure_ascii=False,
        )


def prepare(planned: Planned, known: Known, secrets: Mapping[str, str]) -> Request:
    """The request of an HTTP or HTTP_MULTIPART node.

    Parameters
    ----------
    secrets:
        Name and value of every secret that the node's texts refer to.

    Raises
    ------
    StepError
        The node is no request that could be sent; no text of it contains a secret or the value of
        a header.
    """
    config = planned.config if isinstance(planned.config, dict) else {}
    method = _method(planned.type, config.get("method"))
    url = substitute(_text(config.get("url"), "url"), known, "url").strip()
    headers = _headers(config.get("headers"), known, secrets)
    content: bytes | None
    if planned.type == "HTTP_MULTIPART":
        kind, content = _multipart(_parts(config.get("parts"), known, secrets))
        # The boundary is chosen here: whatever the user says of the content's type is wrong.
        headers = _without(headers, "content-type") | {"Content-Type": kind}
    else:
        content = _body(config.get("body"), known, secrets)
    options = planned.options or {}
    return Request(
        method,
        _checked_scheme(reveal(url, secrets, "url")),
        _without_userinfo(shown(url)),
        tuple((_DEFAULTS | _canonical(_without(headers, *_FRAMING))).items()),
        content,
        _timeout(config.get("timeout_seconds")),
        frozenset(options.get("retry_statuses") or ()),
        options.get("raise_for_status") is True,
        Sink.parse(options["sink"]) if options.get("sink") else None,
    )


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """The text with every secret's value replaced by the secret's name."""
    forms = {
        form: name
        for name, value in secrets.items()
        for form in (
            value,
            quote(value, safe=""),
            encode_basestring(value)[1:-1],
            repr(value)[1:-1],
        )
        if form
    }
    # Longer ones first: one secret's value may be part of another's.
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, f"{{secret:{forms[form]}}}")
    return text


#: Not kept alive: the next request goes where its own look-up leads it.
_DEFAULTS: Final = {
    "accept": "*/*",
    "accept-encoding": "gzip, deflate",
    "connection": "close",
    "user-agent": f"workbench/{workbench.__version__}",
}


#: They follow from the content.
_FRAMING: Final = ("content-length", "transfer-encoding")


def _without(headers: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}


def _canonical(headers: Mapping[str, str]) -> dict[str, str]:
    """Header names do not differ by case; the defaults' places are taken over."""
    return {name.lower() if name.lower() in _DEFAULTS else name: v for name, v in headers.items()}


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise StepError(f"an HTTP step's {what} must be text, not {type(value).__name__}")
    return value


def _method(node_type: str, method: Any) -> str:
    allowed = _METHODS[node_type]
    found = _text(method, "method").upper()
    if found not in allowed:
        listed = f"{', '.join(allowed[:-1])}, or {allowed[-1]}"
        what = "Invalid HTTP method for multipart" if len(allowed) == 3 else "Invalid HTTP method"
        raise StepError(f"{what}: {method}. Must be {listed}")
    return found


def _timeout(seconds: Any) -> float:
    if seconds is None:
        return TIMEOUT
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise StepError("Timeout must be positive")
    return seconds


def _checked_scheme(url: str) -> str:
    scheme = match[1] if (match := _SCHEME.match(url)) else ""
    if scheme.lower() not in ("http", "https"):
        raise StepError(
            f"Blocked: unsupported URL scheme '{scheme}'. Only http and https are allowed."
        )
    return url


def _without_userinfo(url: str) -> str:
    url = _USERINFO.sub(r"\1", url)
    return url if len(url) <= SHOWN_URL else f"{url[:SHOWN_URL]}…"


def _headers(headers: Any, known: Known, secrets: Mapping[str, str]) -> dict[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, dict):
        raise StepError("an HTTP step's headers must be a JSON object of texts")
    found: dict[str, str] = {}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise StepError(
                f"{name[:60]!r} is not the name of a header; use letters, digits and '-'"
            )
        if not isinstance(value, str):
            raise StepError(f"the header {name} must be text, not {type(value).__name__}")
        value = reveal(substitute(value, known, "plain"), secrets, "plain").strip()
        if _FORBIDDEN.search(value):
            raise StepError(
                f"the header {name} contains a line break or NUL after its values were put in, "
                "which would end it and begin another; remove it from the value"
            )
        found[name] = value
    return found


def _body(body: Any, known: Known, secrets: Mapping[str, str]) -> bytes | None:
    if body is None:
        return None
    if not isinstance(body, str):
        raise StepError(f"an HTTP step's body must be text, not {type(body).__name__}")
    return reveal(substitute(body, known, "body"), secrets, "body").encode()


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a multipart form."""

    name: str
    data: bytes
    filename: str | None
    content_type: str | None


def _parts(parts: Any, known: Known, secrets: Mapping[str, str]) -> list[_Part]:
    if parts is None:
        raise StepError("parts is required and cannot be NULL")
    if not isinstance(parts, list):
        raise StepError("parts must be a JSON array of part objects")
    if not parts:
        raise StepError("parts must contain at least one part")
    return [_part(part, f"parts[{i}]", known, secrets) for i, part in enumerate(parts)]


def _part(part: Any, where: str, known: Known, secrets: Mapping[str, str]) -> _Part:
    if not isinstance(part, dict):
        raise StepError(f"{where} must be an object with name and data_b64")
    for key in ("name", "data_b64"):
        if not isinstance(part.get(key), str):
            raise StepError(f"{where}: {key} is required and must be text")
    for key in ("filename", "content_type"):
        if not isinstance(part.get(key), str | None):
            raise StepError(f"{where}: {key} must be text")
    if _FORBIDDEN.search(part.get("content_type") or ""):
        raise StepError(f"{where}: content_type contains a line break or NUL; remove it")

    def filled(key: str) -> str | None:
        text = part.get(key)
        return text and reveal(substitute(text, known, "plain"), secrets, "plain")

    return _Part(
        filled("name") or "",
        _decoded(whole_value(part["data_b64"], known), where),
        filled("filename"),
        part.get("content_type"),
    )


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise StepError(
            f"{where}: data_b64 is not base64; write encode(convert_to(…, 'UTF8'), 'base64') in SQL"
        ) from None


def _multipart(parts: Iterable[_Part]) -> tuple[str, bytes]:
    """Content-Type and content of a form (RFC 7578; names are escaped as browsers do)."""
    boundary = uuid4().hex
    pieces: list[bytes] = []
    for part in parts:
        head = f'Content-Disposition: form-data; name="{_escaped(part.name)}"'
        if part.filename is not None:
            head += f'; filename="{_escaped(part.filename)}"'
        if part.content_type:
            head += f"\r\nContent-Type: {part.content_type}"
        pieces += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), part.data, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(pieces)


def _escaped(name: str) -> str:
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
