"""The builders of HTTP steps, and secrets."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from workbench.errors import GraphError, ValueRefused
from workbench.graph import Node, http, http_multipart, py, ref, secret, sql
from workbench.graph.handlers import Handler

URL = "https://host/"


def config(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.query or "")
    return found


def test_a_request_without_a_body_is_a_get() -> None:
    assert http(URL) == Node(
        "HTTP",
        query='{"url":"https://host/","method":"GET","body":null,"headers":null,'
        '"timeout_seconds":30}',
    )


def test_a_request_with_a_body_is_a_post() -> None:
    assert config(http(URL, body="x"))["method"] == "POST"
    assert config(http(URL, body=""))["method"] == "POST"
    assert config(http(URL, json=None))["method"] == "POST"
    assert config(http(URL, method="put", body="x"))["method"] == "PUT"


def test_json_is_sent_compactly_and_says_what_it_is() -> None:
    found = config(http(URL, json={"id": "$x.id", "é": [1, None]}, headers={"Accept": "a/b"}))
    assert found["body"] == '{"id":"$x.id","é":[1,null]}'
    assert found["headers"] == {"Accept": "a/b", "Content-Type": "application/json"}


@pytest.mark.parametrize("name", ["Content-Type", "content-type", "CONTENT-TYPE"])
def test_a_content_type_that_is_given_stays(name: str) -> None:
    assert config(http(URL, json=[], headers={name: "application/x"}))["headers"] == {
        name: "application/x"
    }


def test_text_is_sent_as_it_is() -> None:
    found = config(http(URL, body='{"a": 1}'))
    assert (found["body"], found["headers"]) == ('{"a": 1}', None)


def test_headers_are_ordered_as_the_server_orders_them() -> None:
    headers = {"Xyz": "1", "A": "2", "Abc": "3"}
    assert list(config(http(URL, headers=headers))["headers"]) == ["A", "Abc", "Xyz"]


def test_the_time_out_takes_every_length_of_time() -> None:
    assert config(http(URL, timeout="1 minute"))["timeout_seconds"] == 60
    assert config(http(URL, timeout=0.5))["timeout_seconds"] == 0.5


def test_options_are_there_when_they_say_something() -> None:
    assert http(URL, retry_statuses=[], raise_for_status=False).options is None
    assert http(URL, retry_statuses=(429, 408)).options == {"retry_statuses": [429, 408]}
    assert (
        http(URL, raise_for_status=True, retry_statuses={429})
        .to_json()
        .endswith('"options":{"retry_statuses":[429],"raise_for_status":true}}')
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": 7}, "url in HTTP must be text, not number"),
        ({"url": "host/x"}, "Blocked: unsupported URL scheme ''"),
        ({"url": "$base/x"}, "Blocked: unsupported URL scheme ''"),
        ({"method": "FETCH"}, "Invalid HTTP method: FETCH. Must be GET, POST, PUT, DELETE, or"),
        ({"method": 7}, "Invalid HTTP method: 7"),
        ({"timeout": 0}, "Timeout must be positive"),
        ({"timeout": None}, r"http\(timeout=…\): None is no length of time"),
        ({"headers": {"A": 1}}, "header 'A' must be text, not number"),
        ({"headers": {1: "a"}}, "headers is a mapping of names to texts"),
        ({"headers": [("a", "b")]}, "headers is a mapping of names to texts"),
        ({"headers": {"A": "x\n"}}, "header 'A' contains a line break"),
        ({"body": b"x"}, "body in HTTP must be text"),
        ({"body": "x", "json": 1}, "json= or body=, not both"),
        ({"json": {"a": ref("x")}}, "takes no ref"),
        ({"json": ref("x")}, "takes no ref"),
        ({"retry_statuses": [99]}, "option 'retry_statuses' must be a list of HTTP statuses"),
        ({"retry_statuses": "429"}, "option 'retry_statuses' must be a list of HTTP statuses"),
        ({"sink": "pages"}, r"option 'sink' must read schema\.table\(column\), not \"pages\""),
        ({"sink": 'a."b\0"(c)'}, r"option 'sink' must read schema\.table\(column\)"),
        ({"raise_for_status": 1}, "option 'raise_for_status' must be true or false, not 1"),
    ],
)
def test_a_request_that_cannot_be_made_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        http(**{"url": URL, **arguments})


def test_json_that_is_none_names_its_path() -> None:
    with pytest.raises(ValueRefused, match=r'^json\["a"\] is nan'):
        http(URL, json={"a": math.nan})


def test_an_upload_takes_bytes_text_and_references() -> None:
    node = http_multipart(
        URL,
        [
            {"name": "a", "data": b"\x00\xff", "filename": "a.bin", "content_type": "x/y"},
            {"name": "b", "data": "é"},
            {"name": "c", "data_b64": "$file.content"},
        ],
    )
    assert config(node) == {
        "url": URL,
        "method": "POST",
        "parts": [
            {"name": "a", "data_b64": "AP8=", "filename": "a.bin", "content_type": "x/y"},
            {"name": "b", "data_b64": "w6k="},
            {"name": "c", "data_b64": "$file.content"},
        ],
        "headers": None,
        "timeout_seconds": 30,
    }
    assert list(config(node)["parts"][0]) == ["name", "data_b64", "filename", "content_type"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "parts must contain at least one part"),
        ("x", "takes a list of parts"),
        ({"name": "a", "data": ""}, "takes a list of parts"),
        (["x"], r"parts\[0\] must be a mapping with name and data, not string"),
        ([{"name": "a"}], r"parts\[0\] needs a name, and either data or data_b64"),
        ([{"data": "a"}], r"parts\[0\] needs a name, and either data or data_b64"),
        ([{"name": "a", "data": "", "data_b64": ""}], "either data or data_b64"),
        ([{"name": "a", "data": "", "file": "x"}], "unknown key 'file'.* Did you mean 'filename'"),
        ([{"name": 7, "data": ""}], r"parts\[0\]\['name'\] must be text, not int"),
        ([{"name": "a", "data_b64": b""}], r"parts\[0\]\['data_b64'\] must be text, not bytes"),
    ],
)
def test_a_part_that_is_none_is_refused(parts: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        http_multipart(URL, parts)


def test_an_upload_is_no_get() -> None:
    with pytest.raises(GraphError, match="Invalid HTTP method for multipart: GET"):
        http_multipart(URL, [{"name": "a", "data": ""}], method="GET")


def test_a_secret_is_stored_as_a_reference_wherever_it_is_put() -> None:
    token = secret("T")
    assert "Bearer " + token == f"Bearer {token}" == "Bearer {secret:T}"
    assert token + "!" == "{secret:T}!"
    assert config(http(URL, headers={"A": token}))["headers"] == {"A": "{secret:T}"}
    assert config(http(URL, json={"a": [token]}))["body"] == '{"a":["{secret:T}"]}'
    assert config(http(secret("HOST") + "/x"))["url"] == "{secret:HOST}/x"


def test_a_secret_shows_its_name() -> None:
    assert repr(secret("API_TOKEN")) == "secret('API_TOKEN')"
    assert repr({"A": secret("T")}) == "{'A': secret('T')}"


@pytest.mark.parametrize("name", ["", "a b", "a-b", "1a", "{x}", None, 7])
def test_a_secret_has_a_name(name: Any) -> None:
    with pytest.raises(GraphError, match="not a name; use letters, digits and underscores"):
        secret(name)


def test_a_secret_is_for_http_steps_only() -> None:
    def refused(build: Handler) -> str:
        with pytest.raises(GraphError) as caught:
            build()
        return str(caught.value)

    assert refused(lambda: py("m:f", key=[secret("T")])) == (
        "secret('T') is put in place in HTTP steps only; a Python step reads os.environ itself"
    )
    assert "in HTTP steps only" in refused(lambda: sql("SELECT $k", k=secret("T")))
