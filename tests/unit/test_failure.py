"""Errors as data: whatever is raised, recording it succeeds and the record can be stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.failure import clean, describe
from workbench.errors import StepError, SubstitutionError, ValueRefused


def raised(error: BaseException) -> BaseException:
    """The error with a traceback, as a handler would have raised it."""
    try:
        raise error
    except BaseException as caught:
        return caught


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(key)
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def check_storable(described: dict[str, Any]) -> None:
    """What Postgres needs of a jsonb: plain JSON, without NUL and without half characters."""
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    for text in texts(described):
        assert "\x00" not in text
        text.encode("utf-8")


def test_an_error_is_its_type_and_message_and_traceback() -> None:
    described = describe(raised(KeyError("links")))
    assert (described["type"], described["message"]) == ("KeyError", "'links'")
    assert described["traceback"].startswith("Traceback (most recent call last):\n")
    assert described["traceback"].endswith("\nKeyError: 'links'\n")
    assert described.keys() == {"type", "message", "traceback"}


def test_a_traceback_can_be_left_out() -> None:
    assert describe(ValueError("no"), trace=False) == {"type": "ValueError", "message": "no"}


@pytest.mark.parametrize("error", [StepError("a"), SubstitutionError("a"), ValueRefused("a")])
def test_what_trying_again_cannot_help_says_so(error: Exception) -> None:
    assert describe(error, trace=False)["permanent"] is True


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_is_no_exception_is_described_all_the_same(error: BaseException) -> None:
    described = describe(raised(error))
    check_storable(described)
    assert described["type"] == type(error).__name__


# Texts.


def test_nul_is_written_out() -> None:
    assert describe(ValueError("a\x00b"), trace=False)["message"] == "a\\0b"


def test_a_lone_surrogate_is_written_out_and_a_character_stays() -> None:
    assert describe(ValueError("\ud800é😀\udfff"), trace=False)["message"] == "\\ud800é😀\\udfff"


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.integers(0, 40))
def test_a_cleaned_text_can_be_stored_and_is_as_short_as_asked(text: str, limit: int) -> None:
    cleaned = clean(text, limit)
    check_storable({"message": cleaned})
    assert len(cleaned.partition("…")[0]) <= limit or "…" in text


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60))
def test_a_text_that_can_be_stored_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize("character", ["x", "é", "\x00", "\ud800", "😀"])
def test_a_message_of_ten_megabytes_is_cut(character: str) -> None:
    described = describe(raised(ValueError(character * 10_000_000)))
    check_storable(described)
    assert described["message"].startswith(clean(character))
    assert described["message"].endswith(" characters in all)")
    assert len(json.dumps(described, ensure_ascii=False)) < 100_000


# Exceptions that misbehave.


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Quitter(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class NotText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307 - on purpose


class Endless(Exception):
    def __str__(self) -> str:
        return str(self)


class Falsy(Exception):
    def __bool__(self) -> bool:
        return False


class Ambiguous(Exception):
    def __bool__(self) -> bool:
        raise ValueError("the truth value is ambiguous")


class NoRepr(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class BadNotes(Exception):
    __notes__ = 7  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Mute(), "RuntimeError"),
        (Quitter(), "SystemExit"),
        (NotText(), "TypeError"),
        (Endless(), "RecursionError"),
    ],
)
def test_an_error_whose_message_cannot_be_read_is_named_by_its_type(
    error: Exception, reason: str
) -> None:
    described = describe(raised(error))
    check_storable(described)
    assert described["type"] == type(error).__name__
    assert described["message"] == f"(its message could not be read: {reason})"


@pytest.mark.parametrize(
    "error",
    [
        NoRepr("\ud800"),
        BadNotes("x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        OSError(2, "no\x00thing", "a\udcff"),
        ExceptionGroup("\x00", [Mute(), ValueError("\udc80")]),
        SyntaxError("bad", ("f\x00.py", 1, 1, "x = \ud800", 1, 2)),
    ],
)
def test_a_strange_error_can_be_stored(error: Exception) -> None:
    check_storable(describe(raised(error)))


def test_a_strange_type_name_can_be_stored() -> None:
    strange = type("Strange", (Exception,), {"__qualname__": "a\x00\ud800" + "b" * 1000})
    described = describe(raised(strange("x")))
    check_storable(described)
    assert described["type"].startswith("a\\0\\ud800bbb")


# Causes.


def chain(length: int) -> BaseException:
    error: BaseException = ValueError("0")
    for number in range(1, length):
        outer = ValueError(str(number))
        outer.__cause__ = error
        error = outer
    return error


def test_causes_are_named_from_the_outside_in() -> None:
    assert describe(chain(3), trace=False) == {
        "type": "ValueError",
        "message": "2",
        "causes": [{"type": "ValueError", "message": "1"}, {"type": "ValueError", "message": "0"}],
    }


def test_causes_end_after_five() -> None:
    described = describe(chain(5000), trace=False)
    assert [cause["message"] for cause in described["causes"]] == [
        "4998",
        "4997",
        "4996",
        "4995",
        "4994",
    ]


def test_an_error_during_the_handling_of_another_names_it() -> None:
    error = ValueError("second")
    error.__context__ = KeyError("first")
    assert describe(error, trace=False)["causes"] == [{"type": "KeyError", "message": "'first'"}]


def test_an_error_that_is_its_own_cause_is_described_once() -> None:
    error = ValueError("x")
    error.__cause__ = error
    assert "causes" not in describe(raised(error))


def test_causes_that_go_in_a_circle_are_each_described_once() -> None:
    one, two = ValueError("1"), ValueError("2")
    one.__cause__, two.__cause__ = two, one
    assert describe(one, trace=False)["causes"] == [{"type": "ValueError", "message": "2"}]


@pytest.mark.parametrize(
    "cause",
    [Falsy("x"), Ambiguous("x"), Mute()],
)
def test_a_strange_cause_is_described(cause: Exception) -> None:
    error = ValueError("outer")
    error.__cause__ = cause
    described = describe(raised(error))
    check_storable(described)
    assert [each["type"] for each in described["causes"]] == [type(cause).__name__]


# The database's errors.


def failure(connection: psycopg.Connection, statement: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    return caught.value


def test_a_database_error_has_the_servers_fields(admin: psycopg.Connection) -> None:
    error = failure(admin, "SELECT nmae FROM (SELECT 1 AS name) AS t")
    assert describe(error, trace=False) == {
        "type": "UndefinedColumn",
        "message": 'column "nmae" does not exist',
        "sqlstate": "42703",
        "hint": 'Perhaps you meant to reference the column "t.name".',
        "position": 8,
    }


def test_a_raised_error_has_its_detail_and_context(admin: psycopg.Connection) -> None:
    error = failure(
        admin,
        "DO $$ BEGIN RAISE 'gone' USING detail = 'all of it', errcode = 'P0123'; END $$",
    )
    assert describe(error, trace=False) == {
        "type": "ProgrammingError",
        "message": "gone",
        "sqlstate": "P0123",
        "detail": "all of it",
        "context": "PL/pgSQL function inline_code_block line 1 at RAISE",
    }


def test_a_database_error_made_by_hand_has_what_is_known() -> None:
    assert describe(psycopg.errors.UniqueViolation("twice"), trace=False) == {
        "type": "UniqueViolation",
        "message": "twice",
        "sqlstate": "23505",
    }
    assert describe(psycopg.OperationalError("away"), trace=False)["sqlstate"] is None


def test_a_record_is_accepted_by_the_database(admin: psycopg.Connection) -> None:
    worst = ValueError("\x00 \ud800 \\u0000 \" ' 😀 " + "x" * 100_000)
    worst.__cause__ = Mute()
    described = describe(raised(worst))
    for ascii_only in (True, False):
        text = json.dumps(described, ensure_ascii=ascii_only)
        row = admin.execute("SELECT %s::jsonb", [text]).fetchone()
        assert row == (described,)


class Wrapped(Exception):
    """As SQLAlchemy wraps what its driver raised."""

    def __init__(self, orig: Exception) -> None:
        super().__init__("wrapped")
        self.orig = orig


def test_a_wrapped_database_error_keeps_its_sqlstate() -> None:
    described = describe(Wrapped(psycopg.errors.UniqueViolation("twice")), trace=False)
    assert described["sqlstate"] == "23505"


def chained(error: Exception, cause: BaseException | None, context: Exception) -> Exception:
    """As `raise error from cause` does while `context` is being handled."""
    error.__context__, error.__cause__ = context, cause
    return error


def test_an_error_raised_from_a_database_error_has_its_sqlstate() -> None:
    cause = psycopg.errors.CheckViolation("no")
    assert (
        describe(chained(ValueError("bad row"), cause, cause), trace=False)["sqlstate"] == "23514"
    )


def test_a_hidden_context_stays_hidden() -> None:
    hidden = chained(ValueError("outer"), None, KeyError("inner"))  # raise … from None
    assert "causes" not in describe(hidden, trace=False)
