"""The SQL lexer: what is code, and what a step may be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph_strategies import TEXTS
from workbench.errors import StepError
from workbench.graph.lexer import find_references, first_words, refuse, statements, tokens
from workbench.graph.substitute import references

PIECES = st.lists(
    st.sampled_from(
        ["'", '"', "\\", "$", "$$", "$t$", "$x", "E'", "--", "\n", "/*", "*/", "a", "1", " ", ";"]
    )
).map("".join)


def _kinds(sql: str) -> list[tuple[str, str]]:
    found = [(token.kind, sql[token.start : token.end]) for token in tokens(sql)]
    return [(kind, text) for kind, text in found if kind != "space"]


@given(PIECES | st.text())
def test_tokens_cover_the_text_exactly(sql: str) -> None:
    assert "".join(sql[token.start : token.end] for token in tokens(sql)) == sql
    assert all(token.start < token.end for token in tokens(sql))


@given(PIECES | TEXTS)
def test_a_quoted_text_holds_no_reference(text: str) -> None:
    doubled = text.replace("'", "''")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    identifier = text.replace('"', '""')
    sql = f"SELECT '{doubled}', E'{escaped}', \"i{identifier}\", $after"
    assert references(sql) == {"after"}


@given(PIECES | TEXTS)
def test_a_comment_holds_no_reference(text: str) -> None:
    line = re.sub(r"[\n\r]", " ", text)
    block = text.replace("*", "").replace("/", "")
    assert references(f"--{line}\n/*{block}/*{block}*/ $no */ $after") == {"after"}


@given(PIECES | TEXTS)
def test_a_dollar_quote_holds_no_reference(text: str) -> None:
    body = text.replace("$", "€")
    assert references(f"SELECT $q${body} $x $$ '$q$, $after") == {"after"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (r"'a\' $x", [("string", r"'a\'"), ("reference", "$x")]),
        (r"E'a\' $x'", [("string", r"E'a\' $x'")]),
        ("E'a'\n'\\' $x'", [("string", "E'a'\n'\\' $x'")]),
        ("U&'a' B'1' x'F'", [("string", "U&'a'"), ("string", "B'1'"), ("string", "x'F'")]),
        ('U&"a""b"', [("identifier", 'U&"a""b"')]),
        ("typeE'a'", [("word", "typeE"), ("string", "'a'")]),
        ("a$b a$$", [("word", "a$b"), ("word", "a$$")]),
        ("$1 $x", [("parameter", "$1"), ("reference", "$x")]),
        ("$é$ $x $é$", [("string", "$é$ $x $é$")]),
        ("$aé", [("symbol", "$"), ("word", "aé")]),
        ("$$ $t$ $$", [("string", "$$ $t$ $$")]),
        ("'open $x", [("string", "'open $x")]),
        ("/* /* */ $x", [("comment", "/* /* */ $x")]),
        ("1.5e-3-2", [("number", "1.5e-3"), ("symbol", "-"), ("number", "2")]),
        ("a--$x\r$y", [("word", "a"), ("comment", "--$x"), ("reference", "$y")]),
    ],
)
def test_tokens_are_those_of_the_server(sql: str, expected: list[tuple[str, str]]) -> None:
    assert _kinds(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("$x", ("x", (), False, False)),
        ("$x?", ("x", (), False, True)),
        ("$x.c", ("x", ("c",), False, False)),
        ("$x.größe", ("x", ("größe",), False, False)),
        ("$x.c.d?", ("x", ("c", "d"), False, True)),
        ("$x.*", ("x", (), True, False)),
        ("$x.", ("x", (), False, False)),
        ("$x::int", ("x", (), False, False)),
    ],
)
def test_a_reference_is_read_in_parts(sql: str, expected: tuple[object, ...]) -> None:
    (found,) = find_references(f"SELECT {sql}")
    assert (found.name, found.path, found.star, found.optional) == expected


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("", 0),
        (" ; -- nothing\n;", 0),
        ("SELECT 1", 1),
        ("SELECT 1;", 1),
        ("SELECT ';'; -- ;\n", 1),
        ("SELECT 1; SELECT 2", 2),
        ("DO $$ BEGIN a; b; END $$", 1),
        ("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", 1),
        ("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END", 1),
        (
            "CREATE OR REPLACE PROCEDURE f() BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; END; "
            "SELECT 1",
            2,
        ),
    ],
)
def test_statements_are_counted(sql: str, count: int) -> None:
    assert statements(sql) == count


def test_first_words_skip_comments() -> None:
    assert first_words("-- x\n /* y */ Copy T From 'file'") == ("copy", "t", "from")
    assert first_words("(SELECT 1)") == ()
    assert first_words("") == ()


@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN",
        "start transaction isolation level serializable",
        "COMMIT AND CHAIN",
        "/* x */ end",
        "ROLLBACK TO s",
        "ABORT;",
        "SAVEPOINT s",
        "RELEASE s",
        "PREPARE TRANSACTION 'x'",
        "SET TRANSACTION READ ONLY",
        "SET LOCAL TRANSACTION READ ONLY",
    ],
)
def test_transaction_control_is_refused(sql: str) -> None:
    with pytest.raises(StepError, match="cannot be a step: each SQL step is a transaction"):
        refuse(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY t FROM STDIN",
        "COPY public.t (a, b) FROM stdin WITH (FORMAT csv)",
        "COPY (SELECT a FROM stdin) TO STDOUT",
    ],
)
def test_copy_through_the_client_is_refused(sql: str) -> None:
    with pytest.raises(StepError, match=r"COPY (FROM STDIN|TO STDOUT) cannot be a step"):
        refuse(sql)


def test_several_statements_are_refused() -> None:
    with pytest.raises(StepError, match="this text has 2"):
        refuse("SELECT 1; SELECT 2")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1;",
        "PREPARE p AS SELECT 1",
        "SET LOCAL work_mem = '1MB'",
        "COPY t TO '/data/x' ",
        "COPY (SELECT a FROM stdin) TO PROGRAM 'x'",
        "SELECT 'COMMIT'",
        "COMMENT ON TABLE t IS 'x'",
        "CALL commit_all()",
        "",
    ],
)
def test_other_statements_pass(sql: str) -> None:
    refuse(sql)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["'", "E'\\", '"', "/*", "$$", "$a", "E''\n", "--"])
def test_the_time_grows_with_the_text_only(text: str) -> None:
    sql = text * 100_000
    assert tokens(sql)[-1].end == len(sql)
