"""Where the body of a response goes instead of the node's result: `schema.table(column)`.

Names are read as SQL reads them: in lower case unless quoted. Whether there is such a column is the
server's to say, when the step runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Self

from workbench.errors import GraphError
from workbench.graph.configs import shown
from workbench.graph.literals import quote_name

__all__ = ["Sink", "sink_fault"]

# The server's identifiers, as in `lexer`; `functions/27_extras.sql` has the same expression.
_LETTER: Final = r"A-Za-z_\x80-\U0010ffff"
_NAME: Final = rf'([{_LETTER}][{_LETTER}0-9$]*|"(?:[^"\0]|"")+")'
_SINK: Final = re.compile(rf"{_NAME}\.{_NAME}\({_NAME}\)")
_LOWER: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class Sink:
    """A column of a table; `text` is how the graph names it."""

    text: str
    schema: str
    table: str
    column: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `schema.table(column)`.

        Raises:
            GraphError: it reads otherwise.
        """
        if (match := _SINK.fullmatch(text)) is None:
            raise GraphError(_fault(text))
        return cls(text, *map(_name, match.groups()))

    @property
    def insert(self) -> str:
        """The statement that stores its one parameter."""
        schema, table, column = map(quote_name, (self.schema, self.table, self.column))
        return f"INSERT INTO {schema}.{table} ({column}) VALUES ($1)"


def sink_fault(value: Any) -> str | None:
    """Tell what is wrong with a sink, or None."""
    if isinstance(value, str) and _SINK.fullmatch(value):
        return None
    return _fault(value)


def _fault(value: Any) -> str:
    return f"option 'sink' must read schema.table(column), not {shown(value)}"


def _name(written: str) -> str:
    if written.startswith('"'):
        return written[1:-1].replace('""', '"')
    return written.translate(_LOWER)
