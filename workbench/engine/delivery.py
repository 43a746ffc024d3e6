"""A response on its way into a table: what a sink's statement stores, and what the node's value is.

The statement is executed as SQL steps are (`sql`), so that the body and the completion are one
transaction. Which responses are stored is decided in `http`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workbench.engine.http_request import redact
from workbench.engine.http_response import as_text, stored_envelope
from workbench.engine.model import Value
from workbench.errors import StepError
from workbench.graph.sinks import Sink
from workbench.store import step
from workbench.store.wire import Session, Statement, rows

__all__ = ["ON_THREAD", "Answer", "Delivery"]

ON_THREAD: Final = 1024 * 1024  # bytes of a body from which its encoding would hold up the loop

#: Whether the column is of type bytea, or of a domain over it; no row, or NULL, where there is none.
_TAKES_BYTES: Final = b"""
    WITH RECURSIVE types (oid) AS (
        SELECT a.atttypid FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE n.nspname = $1 AND c.relname = $2 AND a.attname = $3
        UNION ALL
        SELECT b.typbasetype FROM types t JOIN pg_type b ON b.oid = t.oid WHERE b.typtype = 'd')
    SELECT bool_or(oid = 'bytea'::regtype) FROM types"""


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """A response that has been read to its end; `duration` in milliseconds."""

    status: int
    headers: dict[str, str]
    body: bytes
    duration: int

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True, repr=False)
class Delivery:
    """A response whose body a sink takes. `secrets` are those of its request, which no error may
    show.
    """

    sink: Sink
    answer: Answer
    secrets: Mapping[str, str]

    def value(self) -> Value:
        """The node's value, once the body is stored."""
        answer = self.answer
        return Value(
            stored_envelope(
                answer.status,
                answer.headers,
                (self.sink.text, len(answer.body)),
                answer.duration,
            )
        )

    async def statement(self, session: Session) -> Statement:
        """What stores the body, as the column wants it.

        Raises
        ------
        StepError
            The body is no text and the column takes nothing else.
        """
        place = tuple(n.encode() for n in (self.sink.schema, self.sink.table, self.sink.column))
        look = Statement(_TAKES_BYTES, place)
        _, _, found, _ = await session.run(*step.on_own_path(look))
        encode = self._bytes if rows(found) == [["t"]] else self._text
        body = encode() if len(self.answer.body) < ON_THREAD else await asyncio.to_thread(encode)
        return Statement(self.sink.insert.encode(), (body,))

    def described(self, error: dict[str, Any]) -> dict[str, Any]:
        """An error of the statement's, as one of the sink's."""
        told = error | {"message": f"sink {self.sink.text}: {error['message']}"}
        told.pop("position", None)  # in a statement that nobody wrote
        return {k: redact(v, self.secrets) if isinstance(v, str) else v for k, v in told.items()}

    def _bytes(self) -> bytes:
        return b"\\x" + self.answer.body.hex().encode()

    def _text(self) -> bytes:
        kind = self.answer.headers.get("content-type", "")
        text = as_text(self.answer.body, kind)
        if text is None:
            raise StepError(
                f"the body ({kind or 'no Content-Type'}, {len(self.answer.body)} bytes) is not text, "
                "and nothing was stored; a column of type bytea takes it"
            )
        return text.encode()
