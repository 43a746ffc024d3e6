"""Where an HTTP step may go: which addresses are restricted, and what the administrator says.

Public addresses are allowed, restricted ranges are not; the settings `http_allow` and `http_deny`
change both, and a denial wins. Pure decisions about names and addresses: resolving and connecting
are `http_send`'s.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from workbench.errors import StepError

__all__ = ["Destinations"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# IANA's special-purpose registries, written out: `ipaddress.is_global` changes between versions of
# Python.
_RESTRICTED: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("unspecified", ("0.0.0.0/8", "::/128")),
    ("loopback", ("127.0.0.0/8", "::1/128")),
    ("link-local", ("169.254.0.0/16", "fe80::/10")),
    ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
    ("shared address space", ("100.64.0.0/10",)),
    ("multicast", ("224.0.0.0/4", "ff00::/8")),
    ("documentation", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")),
    ("documentation", ("2001:db8::/32", "3fff::/20")),
    ("reserved", ("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4", "2001::/23")),
)
_RANGES: Final = tuple(
    (word, ipaddress.ip_network(text)) for word, texts in _RESTRICTED for text in texts
)
# Of IPv6, only this is in public use; the rest is reserved, forms of IPv4 excepted.
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_6TO4: Final = ipaddress.IPv6Network("2002::/16")


class Destinations:
    """The rules of one moment: lists of host names, `.suffixes`, addresses and ranges.

    Parameters
    ----------
    allow:
        Restricted destinations that may be reached all the same.
    deny:
        Destinations that may not be reached, whatever `allow` says.
    """

    def __init__(self, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        self._listed = list(allow)
        self._allow_names, self._allow = _read(self._listed)
        self._deny_names, self._deny = _read(deny)

    def check_host(self, host: str) -> None:
        """Refuse a host whose name is denied.

        Raises
        ------
        StepError
            It is; the text names the entry of `http_deny`.
        """
        if entry := _listed_name(host, self._deny_names):
            raise StepError(
                f"Blocked: '{host}' is denied by the setting http_deny ({entry!r}). Whoever "
                "administers the schema can change it with df.set_setting('http_deny', …)."
            )

    def check_address(self, host: str, address: str) -> None:
        """Refuse an address that a host's name leads to.

        Raises
        ------
        StepError
            The address is denied, or restricted and not allowed.
        """
        forms = list(_forms(ipaddress.ip_address(address)))
        if entry := _containing(forms, self._deny):
            raise StepError(
                f"Blocked: the resolved IP address for '{host}' is denied: {address} is in "
                f"{entry}, which the setting http_deny lists. Whoever administers the schema can "
                "change it with df.set_setting('http_deny', …)."
            )
        if _listed_name(host, self._allow_names) or _containing(forms, self._allow):
            return
        for form in forms:
            if word := _restriction(form):
                raise StepError(self._refusal(host, address, word))

    def _refusal(self, host: str, address: str, word: str) -> str:
        wider = json.dumps([*self._listed, address])
        return (
            f"Blocked: the resolved IP address for '{host}' is in a restricted range. {address} is "
            f"{word}; HTTP steps reach public addresses only, so that a workflow cannot be made to "
            "call into the network around its engine. If this destination is meant, whoever "
            f"administers the schema allows it: SELECT df.set_setting('http_allow', '{wider}')"
        )


def _read(entries: Iterable[str]) -> tuple[list[str], list[Network]]:
    names: list[str] = []
    networks: list[Network] = []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            names.append(entry)
    return names, networks


def _listed_name(host: str, names: Iterable[str]) -> str | None:
    """The entry that a name is, or lies below."""
    host = _comparable(host)
    for entry in names:
        name = _comparable(entry)
        if host == name.removeprefix(".") or (name.startswith(".") and host.endswith(name)):
            return entry
    return None


def _comparable(name: str) -> str:
    """A name as it is looked up: without case, without the root's dot, in ASCII."""
    name = name.lower().rstrip(".")
    if name.isascii():
        return name
    import idna  # comes with httpx

    dot = "." if name.startswith(".") else ""
    try:
        return dot + idna.encode(name.removeprefix("."), uts46=True).decode("ascii")
    except idna.IDNAError:
        return name


def _containing(forms: Iterable[Address], networks: Iterable[Network]) -> Network | None:
    for form in forms:
        for network in networks:
            if form in network:
                return network
    return None


def _forms(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 address that a mapped, NAT64 or 6to4 one leads to."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        if address in _MAPPED or address in _NAT64:
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        elif address in _6TO4:
            yield ipaddress.IPv4Address((int(address) >> 80) & 0xFFFFFFFF)


def _restriction(address: Address) -> str | None:
    """What keeps an address from being public, or None."""
    for word, network in _RANGES:
        if address in network:
            return word
    if isinstance(address, ipaddress.IPv6Address) and not (
        address in _GLOBAL_UNICAST or address in _MAPPED or address in _NAT64
    ):
        return "reserved"
    return None
