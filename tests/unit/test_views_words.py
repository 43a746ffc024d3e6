"""Durations, moments, sizes and counts as people say them; HTML by construction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.views.markup import EMPTY, Safe, escape, join, tag
from workbench.views.words import as_of, count, duration, moment, shorten, size


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (0.0001, "1 ms"),
        (0.0351, "35 ms"),
        (0.9996, "1.0 s"),
        (4.21, "4.2 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (252, "4 min 12 s"),
        (3600, "1 h"),
        (11_100, "3 h 5 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_moment_has_its_offset() -> None:
    moment_ = datetime(2026, 11, 30, 8, 12, 5, tzinfo=UTC)
    assert moment(moment_, timezone(timedelta(hours=1))) == "2026-11-30 09:12:05 +01:00"
    assert as_of(moment_, UTC) == "as of 2026-11-30 08:12:05 +00:00"


def test_sizes_and_counts() -> None:
    assert [size(n) for n in (0, 812, 14_200, 3_210_000)] == ["0 B", "812 B", "14 kB", "3.2 MB"]
    assert [count(n, "row") for n in (0, 1, 12_400)] == ["0 rows", "1 row", "12,400 rows"]
    assert shorten("abcdef", 4) == "abc…"


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>", tag("i", "&"), title='"x"') == (
        '<p title="&quot;x&quot;">&lt;b&gt;<i>&amp;</i></p>'
    )
    assert join("<", None, [Safe("<br>"), 3]) == "&lt;<br>3"
    assert tag("input", hidden=True, value=None, aria_label="a") == '<input hidden aria-label="a">'
    assert escape(EMPTY) == ""


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.titles: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.titles.append(dict(attrs).get("title"))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(text=st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs", "Cc"])))
def test_any_text_comes_back_from_the_html_as_it_was(text: str) -> None:
    parser = _Texts()
    parser.feed(tag("p", text, title=text))
    parser.close()
    assert (parser.tags, parser.titles, "".join(parser.texts)) == (["p"], [text], text)
