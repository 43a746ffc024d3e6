"""Which addresses an HTTP step may connect to."""

from __future__ import annotations

import pytest

from workbench.engine.destinations import Destinations
from workbench.errors import StepError

PUBLIC = [
    "1.1.1.1",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.0.1",
    "172.32.0.1",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2002:101:101::",
]

RESTRICTED = [
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "unspecified"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "shared address space"),
    ("127.0.0.1", "loopback"),
    ("127.255.0.1", "loopback"),
    ("169.254.169.254", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.168.1.1", "private"),
    ("192.0.2.1", "documentation"),
    ("198.18.0.1", "reserved"),
    ("224.0.0.1", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("fe80::1", "link-local"),
    ("fc00::1", "private"),
    ("fd12::1", "private"),
    ("ff02::1", "multicast"),
    ("2001:db8::1", "documentation"),
    ("2001::1", "reserved"),
    ("4000::1", "reserved"),
    ("::127.0.0.1", "reserved"),
    ("64:ff9b:1::1", "reserved"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.0.0.1", "private"),
    ("64:ff9b::a00:1", "private"),
    ("64:ff9b::7f00:1", "loopback"),
    ("2002:a00:1::", "private"),
    ("2002:7f00:1::1", "loopback"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    Destinations().check_address("example.com", address)


@pytest.mark.parametrize(("address", "word"), RESTRICTED)
def test_restricted_addresses_are_refused(address: str, word: str) -> None:
    with pytest.raises(StepError) as refused:
        Destinations().check_address("example.com", address)
    assert str(refused.value).startswith(
        "Blocked: the resolved IP address for 'example.com' is in a restricted range. "
        f"{address} is {word};"
    )


def test_the_refusal_names_the_setting_that_would_allow_it() -> None:
    with pytest.raises(StepError) as refused:
        Destinations(["10.0.0.0/8"]).check_address("localhost", "127.0.0.1")
    expected = """SELECT df.set_setting('http_allow', '["10.0.0.0/8", "127.0.0.1"]')"""
    assert str(refused.value).endswith(expected)


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("127.0.0.1", "localhost", "127.0.0.1"),
        ("127.0.0.0/8", "localhost", "127.9.9.9"),
        ("127.0.0.1", "localhost", "::ffff:127.0.0.1"),
        ("::1", "localhost", "::1"),
        ("fd00::/8", "db", "fd00::7"),
        ("localhost", "localhost", "127.0.0.1"),
        ("LocalHost", "LOCALHOST.", "::1"),
        (".corp.example", "corp.example", "10.0.0.1"),
        (".corp.example", "db.corp.example", "10.0.0.1"),
        ("münchen.example", "xn--mnchen-3ya.example", "10.0.0.1"),
    ],
)
def test_http_allow_lifts_the_restriction(entry: str, host: str, address: str) -> None:
    Destinations([entry]).check_address(host, address)


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("127.0.0.1", "localhost", "127.0.0.2"),
        ("127.0.0.1", "localhost", "::1"),
        ("corp.example", "db.corp.example", "10.0.0.1"),
        (".corp.example", "evilcorp.example", "10.0.0.1"),
        ("10.0.0.0/8", "x", "192.168.0.1"),
    ],
)
def test_http_allow_lifts_nothing_else(entry: str, host: str, address: str) -> None:
    with pytest.raises(StepError, match="restricted range"):
        Destinations([entry]).check_address(host, address)


@pytest.mark.parametrize("entry", ["1.1.1.1", "1.0.0.0/8"])
def test_a_denied_address_is_refused_although_it_is_public(entry: str) -> None:
    for address in ("1.1.1.1", "::ffff:1.1.1.1"):
        with pytest.raises(StepError, match="http_deny"):
            Destinations(deny=[entry]).check_address("one", address)


def test_a_denied_name_is_refused_with_all_below_a_suffix() -> None:
    rules = Destinations(deny=[".example.com", "host"])
    for host in ("example.com", "a.EXAMPLE.com", "host", "host."):
        with pytest.raises(StepError, match=r"^Blocked: .*http_deny"):
            rules.check_host(host)
    for host in ("example.org", "notexample.com", "a.host"):
        rules.check_host(host)


def test_a_denial_wins_over_an_allowance() -> None:
    rules = Destinations(allow=["127.0.0.1"], deny=["127.0.0.0/8"])
    with pytest.raises(StepError, match="http_deny"):
        rules.check_address("localhost", "127.0.0.1")
