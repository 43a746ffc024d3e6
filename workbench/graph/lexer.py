"""A lexer for PostgreSQL's SQL: enough to know what is code and what is not.

It knows strings, quoted identifiers, nested comments, dollar quotes, parameters and the
workbench's own `$name` references, as the server's scanner reads them with
`standard_conforming_strings` on. It also counts statements and refuses those that a step cannot
run. It is no parser: whether a statement is valid is the server's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from workbench.errors import StepError


class Token(NamedTuple):
    """A piece of SQL text: `sql[start:end]`.

    `kind` is one of space, comment, string (dollar quotes too), identifier (quoted), word,
    number, parameter (`$1`), reference (`$name…`), symbol (one character of code).
    """

    kind: str
    start: int
    end: int


class Reference(NamedTuple):
    """A `$name`, `$name?`, `$name.path`, `$name.path?` or `$name.*` in code."""

    start: int
    end: int
    name: str
    path: tuple[str, ...]
    star: bool
    optional: bool


# The server's identifier characters: every byte above 127 counts as a letter. `$` may continue
# a word, so that `a$b` holds neither a quote nor a reference.
_LETTER: Final = r"A-Za-z_\x80-\U0010ffff"
# A string that follows a newline continues the one before it, with the same escapes.
_CONTINUES: Final = (
    r"(?:[ \t\f\v]++|--[^\n\r]*+)*+[\n\r](?:[ \t\n\r\f\v]++|--[^\n\r]*+(?:[\n\r]|\Z))*+"
)
_ESCAPED: Final = r"'(?:[^'\\]++|''|\\.)*+(?:'|\\?\Z)"

# Every repetition is possessive: an unterminated string must not cost more than its length.
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>[ \t\n\r\f\v]++)
    | (?P<comment>--[^\n\r]*+)
    | (?P<block>/\*)
    | (?P<escaped>[eE]{_ESCAPED}(?:{_CONTINUES}{_ESCAPED})*+)
    | (?P<string>(?:[bBxXnN]|[uU]&)?'(?:[^']++|'')*+(?:'|\Z))
    | (?P<identifier>(?:[uU]&)?"(?:[^"]++|"")*+(?:"|\Z))
    | (?P<word>[{_LETTER}][{_LETTER}0-9$]*+)
    | (?P<number>\.?[0-9][0-9_.]*+(?:[eE][+-]?[0-9]++)?)
    | (?P<parameter>\$[0-9]++)
    | (?P<dollar>\$(?:[{_LETTER}][{_LETTER}0-9]*+)?\$)
    | (?P<reference>\$[A-Za-z_][A-Za-z0-9_]*+(?![\x80-\U0010ffff])
        (?:\.\*|(?:\.[{_LETTER}][{_LETTER}0-9]*+)*+\??))
    | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK: Final = re.compile(r"/\*|\*/")
_SILENT: Final = frozenset(("space", "comment"))


def tokens(sql: str) -> list[Token]:
    """Split SQL text into tokens that cover it without gaps.

    An unterminated string, comment or identifier reaches to the end of the text.
    """
    found: list[Token] = []
    at = 0
    while match := _TOKEN.match(sql, at):
        kind, end = match.lastgroup or "symbol", match.end()
        if kind == "block":
            kind, end = "comment", _end_of_comment(sql, end)
        elif kind == "dollar":
            kind, end = "string", _end_of_dollar_quote(sql, match.group(), end)
        elif kind == "escaped":
            kind = "string"
        found.append(Token(kind, at, end))
        at = end
    return found


def find_references(sql: str) -> Iterator[Reference]:
    """Yield the `$name` references in code, in order; whether a name exists is not asked."""
    if "$" not in sql:
        return
    for token in tokens(sql):
        if token.kind == "reference":
            yield _reference(sql, token)


def statements(sql: str) -> int:
    """Count the statements; empty ones do not count.

    Semicolons inside parentheses (rules) and inside the `BEGIN ATOMIC` body of a function belong
    to their statement.
    """
    return len(_split(sql))


def first_words(sql: str, limit: int = 4) -> tuple[str, ...]:
    """Return the words that the first statement begins with, in lower case.

    Comments are skipped; the first token that is not a bare word ends the list.
    """
    parts = _split(sql)
    return _leading_words(parts[0])[:limit] if parts else ()


def refuse(sql: str) -> None:
    """Refuse what cannot run as a step.

    Raises:
        StepError: several statements, transaction control, or COPY from or to the client.
    """
    parts = _split(sql)
    if len(parts) > 1:
        raise StepError(
            f"a SQL step is one statement, this text has {len(parts)}; make a step of each with "
            "`a >> b` or seq(a, b), or put them into one DO block"
        )
    for part in parts:
        _refuse_transaction_control(_leading_words(part))
        _refuse_client_copy(part)


def _end_of_comment(sql: str, at: int) -> int:
    depth = 1
    while mark := _COMMENT_MARK.search(sql, at):
        at = mark.end()
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return at
    return len(sql)


def _end_of_dollar_quote(sql: str, tag: str, at: int) -> int:
    end = sql.find(tag, at)
    return len(sql) if end < 0 else end + len(tag)


def _reference(sql: str, token: Token) -> Reference:
    text = sql[token.start + 1 : token.end]
    optional, star = text.endswith("?"), text.endswith(".*")
    name, *path = text.removesuffix("?").removesuffix(".*").split(".")
    return Reference(token.start, token.end, name, tuple(path), star, optional)


def _split(sql: str) -> list[list[str]]:
    """Return each statement as its tokens' texts; bare words in lower case."""
    parts: list[list[str]] = []
    part: list[str] = []
    parens = blocks = 0
    for token in tokens(sql):
        if token.kind in _SILENT:
            continue
        text = sql[token.start : token.end]
        if token.kind == "word":
            text = text.lower()
            blocks += _block_step(part, text, blocks) if parens == 0 else 0
        elif token.kind == "symbol":
            parens = max(0, parens + {"(": 1, ")": -1}.get(text, 0))
        if text == ";" and parens == 0 and blocks == 0:
            parts.append(part)
            part = []
        else:
            part.append(text)
    parts.append(part)
    return [part for part in parts if part]


def _block_step(part: list[str], word: str, depth: int) -> int:
    """Follow BEGIN … END inside a function written in standard SQL, as psql does."""
    if word not in ("begin", "case", "end") or part[:1] != ["create"]:
        return 0
    head = part[1:4]
    if head[:2] == ["or", "replace"]:
        head = head[2:]
    if head[:1] not in (["function"], ["procedure"]):
        return 0
    if word == "begin" or (word == "case" and depth):
        return 1
    return -1 if word == "end" and depth else 0


def _leading_words(part: list[str]) -> tuple[str, ...]:
    words = []
    for text in part:
        if not (text[0].isalpha() or text[0] == "_") or text[-1] in "'\"":
            break
        words.append(text)
    return tuple(words)


_CONTROL: Final = frozenset(("begin", "commit", "end", "rollback", "abort", "savepoint", "release"))
_CONTROL_PAIRS: Final = frozenset(
    (("start", "transaction"), ("prepare", "transaction"), ("set", "transaction"))
)


def _refuse_transaction_control(words: tuple[str, ...]) -> None:
    if words[:1] == ("set",) and words[1:2] in (("local",), ("session",)):
        words = ("set", *words[2:])
    if words[:2] in _CONTROL_PAIRS:
        said = " ".join(words[:2])
    elif words and words[0] in _CONTROL:
        said = words[0]
    else:
        return
    raise StepError(
        f"{said.upper()} cannot be a step: each SQL step is a transaction of its own, which the "
        "workbench commits together with the step's checkpoint. Remove it; for a procedure that "
        "commits on its own, write sql('CALL …', transaction=False)"
    )


def _refuse_client_copy(part: list[str]) -> None:
    if part[0] != "copy":
        return
    depth = 0
    for word, following in pairwise(part):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and word in ("from", "to") and following in ("stdin", "stdout"):
            raise StepError(
                f"COPY {word.upper()} {following.upper()} cannot be a step: a step has no client "
                "to stream to or from. Select the rows instead, or load them with "
                "bench.load(frame, table)"
            )
