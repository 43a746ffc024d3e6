"""Putting values into the texts of an HTTP step: URL, headers, body, the parts of a multipart form.

Variables first, then `$` references, which are found textually: no SQL is read here. A value lands
as its place wants it: percent-encoded in a URL's path and query, escaped inside a JSON body's
strings, as it is elsewhere. `{secret:NAME}` stays a mark, which only the template can make, until
`reveal` puts the value there. What is done with the texts is the engine's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from json.encoder import encode_basestring
from typing import Any, Final, Literal, NamedTuple, Never
from urllib.parse import quote

from workbench.errors import StepError, SubstitutionError
from workbench.graph.lexer import Reference
from workbench.graph.substitute import (
    Named,
    expand_variables,
    lacks_field,
    rows_of,
    value_of,
)
from workbench.graph.values import Json, encode

Place = Literal["url", "body", "plain"]
"""What a text is; `plain` is a header's value or a name in a multipart form."""

_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_REFERENCE: Final = re.compile(
    r"\$([A-Za-z_][A-Za-z0-9_]*)(?!\w)(?:(\.\*)|((?:\.[^\W\d]\w*)*)(\??))"
)
_SECRET: Final = re.compile(r"\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")
# No text in Postgres holds NUL, so that no value can pretend to be a mark.
_MARK: Final = re.compile(r"\0([A-Za-z_][A-Za-z0-9_]*)\0")
_BEFORE_PATH: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?[^/?#]*")
_KEY: Final = re.compile(r"[^/?#&={}$]+=")
_QUOTES: Final = re.compile(r'\\.|"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Known:
    """What a node's texts can refer to: named results, captured variables, and `sys_instance_id`
    and `sys_label`, which win over variables.
    """

    names: Mapping[str, Named] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    system: Mapping[str, str] = field(default_factory=dict)


class _Hole(NamedTuple):
    """A piece of text that a value takes the place of."""

    start: int
    end: int
    value: Json = None
    raw: bool = False  # a variable: outside of strings it may be any piece of JSON


def references(
    config: Mapping[str, Any], variables: Mapping[str, str], system: Mapping[str, str]
) -> set[str]:
    """Return the names that a node's texts may refer to, so that only those need loading."""
    return {
        match[1]
        for text in _texts(config)
        for match in _REFERENCE.finditer(expand_variables(text, variables, system))
    }


def secrets(config: Mapping[str, Any]) -> set[str]:
    """Return the secrets that a node's texts refer to."""
    return {match[1] for text in _texts(config) for match in _SECRET.finditer(text)}


def substitute(text: str, known: Known, place: Place) -> str:
    """Return a text with its values in; secrets are marks still, see `shown` and `reveal`.

    Raises:
        SubstitutionError: a known name has no usable value.
        StepError: the text contains NUL.
    """
    if "\0" in text:
        raise StepError("an HTTP step's text contains a NUL character; remove it")
    text = _SECRET.sub("\0\\1\0", text)
    text = _fill(text, list(_variables(text, known)), place, known.names)
    return _fill(text, list(_references(text, known, place)), place, known.names)


def reveal(text: str, values: Mapping[str, str], place: Place) -> str:
    """Return what `substitute` returned with the secrets' values in."""
    holes = [_Hole(m.start(), m.end(), values[m[1]]) for m in _MARK.finditer(text)]
    return _fill(text, holes, place)


def shown(text: str) -> str:
    """Return what `substitute` returned as it may be shown: secrets by their names."""
    return _MARK.sub(r"{secret:\1}", text)


def whole_value(text: str, known: Known) -> str:
    """Return the base64 text of a multipart part: `data_b64` itself, or what it refers to.

    A value is taken as a whole or not at all: base64 pieces do not concatenate. The prefix that
    bytea columns have is removed; NULL is empty content.

    Raises:
        SubstitutionError: a reference with anything around it, or without a usable value.
    """
    text = text.strip()
    if "$" not in text and "{" not in text:
        return text
    value = _whole(text, known)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SubstitutionError(f"data_b64: {text} is not text; write encode(…, 'base64') in SQL")
    return value.removeprefix("base64:")


def _whole(text: str, known: Known) -> Json:
    variables = {**known.variables, **known.system}
    if (braces := _VARIABLE.fullmatch(text)) and braces[1] in variables:
        return variables[braces[1]]
    match = _REFERENCE.fullmatch(text)
    if match is None or match[2] or match[1] not in known.names:
        raise SubstitutionError(
            "data_b64 takes base64 text or one whole-value reference ($name, $name?, $name.column, "
            f"$name.column? or {{variable}}) and nothing around it, not {text[:60]!r}"
        )
    reference = _read(match, 0)
    return value_of(reference, known.names[reference.name])


def _texts(config: Mapping[str, Any]) -> Iterator[str]:
    """Every text of a node into which values are put; what is no text is refused elsewhere."""
    found = [config.get("url"), config.get("body")]
    headers, parts = config.get("headers"), config.get("parts")
    if isinstance(headers, dict):
        found += headers.values()
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            found += [part.get(key) for key in ("name", "filename", "data_b64")]
    return (text for text in found if isinstance(text, str))


def _variables(text: str, known: Known) -> Iterator[_Hole]:
    values = {**known.variables, **known.system}
    for match in _VARIABLE.finditer(text):
        if match[1] in values:
            yield _Hole(match.start(), match.end(), values[match[1]], raw=True)


def _references(text: str, known: Known, place: Place) -> Iterator[_Hole]:
    for match in _REFERENCE.finditer(text):
        if match[1] not in known.names:
            continue
        named = known.names[match[1]]
        reference = _read(match, _begins_query(match) if place == "url" else 0)
        if reference.star:
            yield _Hole(reference.start, reference.end, rows_of(reference, named))
        elif not (reference.optional and lacks_field(reference, named)):
            yield _Hole(reference.start, reference.end, value_of(reference, named))


def _read(match: re.Match[str], cut: int) -> Reference:
    """The reference, without so many characters at its end."""
    path = tuple(match[3].split(".")[1:]) if match[3] else ()
    optional = bool(match[4]) and not cut
    return Reference(match.start(), match.end() - cut, match[1], path, bool(match[2]), optional)


def _begins_query(match: re.Match[str]) -> int:
    """1 when the `?` after a reference begins the URL's query: it is the first, and `key=`
    follows.
    """
    begins = match[4] and "?" not in match.string[: match.end() - 1]
    return int(bool(begins and _KEY.match(match.string, match.end())))


def _fill(text: str, holes: list[_Hole], place: Place, names: Container[str] = ()) -> str:
    """Put values in; `names` are those whose references will be filled later."""
    if not holes:
        return text
    write = _writer(text, holes, place, names)
    parts: list[str] = []
    done = 0
    for hole in holes:
        parts += [text[done : hole.start], write(hole)]
        done = hole.end
    return "".join([*parts, text[done:]])


def _writer(
    text: str, holes: list[_Hole], place: Place, names: Container[str]
) -> Callable[[_Hole], str]:
    """How a value is written, each as its place in the text wants it."""
    if place == "url":
        return partial(_in_url, _host_part(text, holes))
    if place == "body":
        later = [_Hole(m.start(), m.end()) for m in _REFERENCE.finditer(text) if m[1] in names]
        marks = [_Hole(m.start(), m.end()) for m in _MARK.finditer(text)]
        # It must be JSON whatever the values are, those that are not known yet included.
        every = {hole.start: hole for hole in (*later, *marks, *holes)}
        if inside := _inside_strings(text, [every[start] for start in sorted(every)]):
            return partial(_in_json, inside)
    return lambda hole: _as_text(hole.value)


def _host_part(text: str, holes: Iterable[_Hole]) -> range:
    """Where a URL's host and port are; the whole of a URL that is nothing but a reference."""
    for hole in holes:
        text = text[: hole.start] + "x" * (hole.end - hole.start) + text[hole.end :]
    before_path = _BEFORE_PATH.match(text)
    end = before_path.end() if before_path else 0
    return range(text.rfind("@", 0, end) + 1, end)


def _in_url(host_part: range, hole: _Hole) -> str:
    text = _as_text(hole.value)
    return text if hole.start in host_part else quote(text, safe="")


def _inside_strings(text: str, holes: Iterable[_Hole]) -> dict[int, bool] | None:
    """Tell of each hole whether it lies inside a JSON string; None when the text is no JSON
    document with values in its holes.
    """
    parts: list[str] = []
    inside: dict[int, bool] = {}
    done, open_string = 0, False
    for hole in holes:
        piece = text[done : hole.start]
        open_string ^= sum(match[0] == '"' for match in _QUOTES.finditer(piece)) % 2 == 1
        inside[hole.start] = open_string
        parts += [piece, "x" if open_string else "null"]
        done = hole.end
    document = _parse("".join([*parts, text[done:]]))
    return inside if isinstance(document, dict | list | str) else None


def _in_json(inside: Mapping[int, bool], hole: _Hole) -> str:
    """A value inside a string, escaped; outside, as JSON: text that is JSON as it stands, as
    numeric columns and documents are, any other text as a string.
    """
    value = hole.value
    if inside[hole.start]:
        return encode_basestring(_as_text(value))[1:-1]
    if isinstance(value, str):
        as_is = hole.raw or _parse(value) is not _NOT_JSON
        return value if as_is else encode_basestring(value)
    return encode(value, "value")


def _as_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return "NULL" if value is None else encode(value, "value")


_NOT_JSON: Final = object()


def _parse(text: str) -> Any:
    """The value of a JSON text, numbers as text; `_NOT_JSON` when it is none."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not JSON")
