"""From a response on the wire to the value of an HTTP node.

A body is decompressed and counted while it arrives, and cut off where it is too long; it becomes
text where it is text and base64 elsewhere. When a failing response wants to be asked again is read
here, too. Which responses fail is decided in `http`.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import AsyncIterator, Iterable
from typing import Final, Protocol

from workbench.graph.values import encode

__all__ = [
    "PREVIEW",
    "Body",
    "as_text",
    "envelope",
    "plain_headers",
    "preview",
    "read",
    "stored_envelope",
]

PREVIEW: Final = 512  # bytes of a failing response's body in its error's text
_TEXT_SUBTYPES: Final = frozenset(
    [
        "json",
        "xml",
        "javascript",
        "ecmascript",
        "x-www-form-urlencoded",
        "graphql",
        "yaml",
        "x-yaml",
    ]
)
_CHARSET: Final = re.compile(r""";\s*charset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)


class Body(Protocol):
    """The body of a response as it is on the wire."""

    def aiter_raw(self) -> AsyncIterator[bytes]: ...


def plain_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Names in lower case; the values of a repeated header joined by ", ". A value that is not
    ASCII has no agreed meaning and is left out.
    """
    found: dict[str, str] = {}
    for name, value in raw:
        if value.isascii():
            key, text = name.decode("latin-1").lower(), value.decode("ascii")
            found[key] = f"{found[key]}, {text}" if key in found else text
    return found


async def read(response: Body, coding: str | None, most: int) -> tuple[bytes, bool]:
    """The first `most` bytes of the decompressed body, and whether there is more of it.

    Parameters
    ----------
    coding:
        The Content-Encoding; gzip and deflate are undone, others are left as they are.

    Raises
    ------
    zlib.error, EOFError
        The compressed body is broken, or ends early.
    """
    inflater = _Inflater(coding) if (coding := _known(coding)) else None
    found = bytearray()
    arrived = 0
    async for chunk in response.aiter_raw():
        arrived += len(chunk)
        room = most + 1 - len(found)
        found += chunk[:room] if inflater is None else inflater.feed(chunk, room)
        if max(arrived, len(found)) > most:
            return bytes(found[:most]), True
    if inflater is not None and arrived and not inflater.ended:
        raise EOFError("the compressed body ends early")
    return bytes(found), False


def _known(coding: str | None) -> str | None:
    coding = (coding or "").strip().lower().removeprefix("x-")
    return coding if coding in ("gzip", "deflate") else None


class _Inflater:
    """Undoes one compression, never beyond what there is room for: a few kilobytes may stand for
    gigabytes.
    """

    def __init__(self, coding: str) -> None:
        self._gzip = coding == "gzip"
        self._stream = zlib.decompressobj(31) if self._gzip else None
        self._head = b""
        self.ended = False

    def feed(self, data: bytes, room: int) -> bytes:
        """Up to `room` (at least one) decompressed bytes."""
        if self._stream is None:
            self._head += data
            if len(self._head) < 2:
                return b""
            data, self._stream = self._head, zlib.decompressobj(_deflate_bits(self._head))
        found = b""
        while data and len(found) < room:
            if self.ended:
                if not (self._gzip and data.startswith(b"\x1f")):
                    break  # padding, or garbage
                # Several files in a row are one body.
                self._stream, self.ended = zlib.decompressobj(31), False
            found += self._stream.decompress(data, room - len(found))
            self.ended = self._stream.eof
            data = self._stream.unused_data if self.ended else self._stream.unconsumed_tail
        return found


def _deflate_bits(head: bytes) -> int:
    """With zlib's header, as the standard says, or without, as some servers send it."""
    has_header = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return 15 if has_header else -15


def envelope(status: int, headers: dict[str, str], body: bytes, duration_ms: int) -> str:
    """The node's value as JSON text.

    Raises
    ------
    ValueRefused
        It is larger than a result may be (16 MiB).
    """
    text = as_text(body, headers.get("content-type", ""))
    value = {
        "status": status,
        "body": base64.b64encode(body).decode() if text is None else text,
        "encoding": "base64" if text is None else "text",
        "headers": headers,
        "ok": 200 <= status < 300,
        "duration_ms": duration_ms,
    }
    return encode(value, "the HTTP response")


def stored_envelope(
    status: int, headers: dict[str, str], stored: tuple[str, int], duration_ms: int
) -> str:
    """The same where the body is stored elsewhere: the sink, and the body's size in bytes."""
    sink, size = stored
    value = {
        "status": status,
        "sink": sink,
        "size": size,
        "headers": headers,
        "ok": 200 <= status < 300,
        "duration_ms": duration_ms,
    }
    return encode(value, "the HTTP response")


def preview(body: bytes, headers: dict[str, str]) -> str:
    """The beginning of a body for an error's text."""
    charset = _CHARSET.search(headers.get("content-type", ""))
    return _decoded(body[:PREVIEW], charset[1] if charset else "utf-8")


def as_text(body: bytes, content_type: str) -> str | None:
    """A body as text; None when it is none, or contains what Postgres cannot hold."""
    if _says_text(content_type):
        charset = _CHARSET.search(content_type)
        text = _decoded(body, charset[1] if charset else "utf-8")
    else:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return None
    return None if "\0" in text else text


def _says_text(content_type: str) -> bool:
    kind, _, subtype = content_type.partition(";")[0].strip().lower().partition("/")
    return (
        kind == "text"
        or (kind == "application" and subtype in _TEXT_SUBTYPES)
        or subtype.endswith(("+json", "+xml", "+yaml"))
    )


def _decoded(body: bytes, charset: str) -> str:
    """Text by its charset, UTF-8 when there is no such; what it cannot read becomes U+FFFD."""
    if charset.lower() in ("utf-8", "utf8"):
        charset = "utf-8-sig"  # a mark of byte order is not part of the text
    try:
        text = body.decode(charset, "replace")
        text.encode()
    except (LookupError, ValueError):
        text = body.decode("utf-8-sig", "replace")
    return text
