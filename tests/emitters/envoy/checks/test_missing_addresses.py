"""The parties whose missing addresses make proxies refuse connections, by name."""

from __future__ import annotations

import pytest

from emitters.addresses import Addresses
from emitters.envoy.checks.missing_addresses import Unlisted, unlisted
from emitters.hops import hops
from tests.emitters.envoy.checks.test_missing_and_shared_addresses import ALL, BASE, REFUSED
from tests.emitters.envoy.support import load

MISSING = {
    "a destination of requests": Unlisted(("b",), ()),
    "a destination of connections": Unlisted(("store",), ()),
    "two hosts at one port": Unlisted(("maps",), ()),
    "a host at a service's target port": Unlisted(("maps",), ()),
    "a caller of requests": Unlisted((), ("a",)),
    "a caller of connections": Unlisted((), ("a",)),
    # It is listed, and has no pod: no request can come from it.
    "a caller that a guard is about and that declares no call": Unlisted(),
    # It is not refused but meets the policy.
    "a caller that would be taken for the outside": Unlisted(),
}


def _missing(text: str, addresses: Addresses) -> Unlisted:
    program, placement = load(text)
    return unlisted(program, addresses, hops(program, placement))


@pytest.mark.parametrize("name", MISSING)
def test_who_is_missing_is_named(name: str) -> None:
    _, text, addresses = REFUSED[name]
    assert _missing(text, addresses) == MISSING[name]


def test_a_party_without_a_policy_is_not_missing() -> None:
    text = BASE + "policy t = timeout(after: 1s) on a -> b"
    assert _missing(text, Addresses(ALL)) == Unlisted()
    assert _missing(text, Addresses({"b": ALL["b"]})) == Unlisted()
    assert _missing(text, Addresses()) == Unlisted(("b",), ())


def test_each_name_is_listed_once() -> None:
    assert Unlisted(("b", "d"), ("a", "b")).names == ("a", "b", "d")
