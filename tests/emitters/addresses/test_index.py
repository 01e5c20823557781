"""The most specific network says who a caller is: what is emitted agrees with a plain look at all networks."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from dsl.program import Program, Side
from emitters.addresses import Addresses, Network, ServiceAddresses, loopback, peers
from emitters.addresses import index as known
from emitters.addresses.index import EVERYWHERE, AddressIndex, AmbiguousCallersError, Callers
from emitters.envoy import emit
from emitters.envoy.chains.tcp import chains
from emitters.envoy.context import Context, Mode
from emitters.envoy.kinds.allow import Allow
from emitters.envoy.kinds.shared.callers import principals
from emitters.envoy.matching.callers import callers_predicate
from emitters.hops import hops
from solver.place import place
from tests.generate import generate

PARTIES = ("s0", "s1", "e0", "e1", "e2")
# Sixteen addresses are enough to nest networks four deep.
NETWORKS = st.builds(
    lambda length, index: ipaddress.ip_network((0x0A000000 | (index << (32 - length)) & 0xF, length), strict=False),
    st.integers(28, 32),
    st.integers(0, 15),
)
OWNED = st.dictionaries(NETWORKS, st.sampled_from(PARTIES), max_size=12)
PEERS = [ipaddress.ip_address(0x0A000000 + index) for index in range(17)]


def _world(owned: dict[Network, str], unknown: bool, rest: str = "") -> tuple[Any, Addresses]:
    """Services by pods, externals by networks, one network each at most; `internet` is every other caller."""
    cidrs = dict.fromkeys(PARTIES, "")
    for network, name in owned.items():
        cidrs[name] += f'  cidr "{network}"'
    # An external that never calls and has a port stands for no unknown address, so those without a network have none.
    lines = [f"external {name} {{ http 80{cidrs[name]} }}" for name in PARTIES if name.startswith("e")]
    lines += ["service s0 { http 80 }", "service s1 { http 80 }", "service to { tcp 90 }"]
    lines += ["external internet", "call internet -> to"] if unknown else []
    program = dsl.load_text("\n".join(["app test", *lines, rest, ""]))
    pods = {
        name: ServiceAddresses((), tuple(str(n.network_address) for n, own in owned.items() if own == name))
        for name in PARTIES
        if name.startswith("s")
    }
    return program, Addresses(pods)


def _owned(program: Any, addresses: Addresses) -> dict[Network, set[str]]:
    return {network: set(names) for network, names in AddressIndex(program, addresses).owners.items()}


def _truth(owners: dict[Network, set[str]], peer: Any, names: frozenset[str], otherwise: bool) -> bool:
    """Straight from the definition: the longest network that has the peer in it."""
    around = [network for network in owners if peer in network]
    if not around:
        return otherwise
    return bool(owners[max(around, key=lambda network: network.prefixlen)] & names)


def _layered(callers: Callers, peer: Any) -> bool:
    depth = 0
    while depth < len(callers.layers) and any(peer in network for network in callers.layers[depth]):
        depth += 1
    return depth % 2 == 1


def _holds(predicate: Any, peer: Any) -> bool:
    """What Envoy makes of a predicate over the peer's address."""
    if "not_matcher" in predicate:
        return not _holds(predicate["not_matcher"], peer)
    if "and_matcher" in predicate:
        return all(_holds(item, peer) for item in predicate["and_matcher"]["predicate"])
    if "or_matcher" in predicate:
        return any(_holds(item, peer) for item in predicate["or_matcher"]["predicate"])
    ranges = predicate["single_predicate"]["custom_match"]["typed_config"]["cidr_ranges"]
    return any(_in(item, peer) for item in ranges)


def _admits(principal: Any, peer: Any) -> bool:
    if "any" in principal:
        return True
    if "not_id" in principal:
        return not _admits(principal["not_id"], peer)
    if "and_ids" in principal:
        return all(_admits(item, peer) for item in principal["and_ids"]["ids"])
    if "or_ids" in principal:
        return any(_admits(item, peer) for item in principal["or_ids"]["ids"])
    return _in(principal["direct_remote_ip"], peer)


def _in(item: Any, peer: Any) -> bool:
    return peer in ipaddress.ip_network(f"{item['address_prefix']}/{item['prefix_len']}")


@pytest.mark.long
@given(OWNED, st.frozensets(st.sampled_from((*PARTIES, "internet")), min_size=1), st.booleans(), st.booleans())
def test_callers(owned: dict[Network, str], names: frozenset[str], unknown: bool, open_: bool) -> None:
    program, addresses = _world(owned, unknown)
    owners = _owned(program, addresses)
    names = names if unknown else names - {"internet"}
    found = AddressIndex(program, addresses).callers(names, unknown=open_)
    takes = "internet" in names if unknown else open_
    for peer in PEERS:
        wanted = _truth(owners, peer, names, otherwise=takes)
        assert _layered(found, peer) == wanted
        assert _holds(callers_predicate(found, "x"), peer) == wanted


@given(OWNED, st.frozensets(st.sampled_from(PARTIES), min_size=1))
def test_admitted(owned: dict[Network, str], names: frozenset[str]) -> None:
    listed = ", ".join(sorted(names))
    program, addresses = _world(owned, True, f"policy p = allow(callers: [{listed}]) on * -> to\npin p at ingress")
    ((service, (hop,)),) = hops(program, place(program)).items()
    context = Context(program, addresses, AddressIndex(program, addresses), Mode.REDIRECT, program.services[service])
    assert hop.side is Side.INGRESS
    policy = hop.policies[0]
    admitted = principals(context, hop, policy, Allow.of(policy).admitted_callers())
    owners = _owned(program, addresses)
    for peer in PEERS:
        assert any(_admits(item, peer) for item in admitted) == _truth(owners, peer, names, otherwise=False)


@pytest.mark.long
@given(OWNED, st.frozensets(st.sampled_from((*PARTIES, "internet")), min_size=1), st.booleans())
def test_filter_chains_of_connections(owned: dict[Network, str], names: frozenset[str], unknown: bool) -> None:
    names = names if unknown else names - {"internet"}
    calls = "\n".join(f"call {name} -> to" for name in ("s0", "s1"))
    policy = (
        f"policy p = connection_rate_limit(connections: 9, per: 1s) on {{{', '.join(sorted(names | {'s0'}))}}} -> to"
    )
    program, addresses = _world(owned, unknown, f"{calls}\n{policy}\npin p at ingress")
    ((service, found),) = hops(program, place(program)).items()
    context = Context(program, addresses, AddressIndex(program, addresses), Mode.REDIRECT, program.services[service])
    made = chains(context, found[0])
    owners = _owned(program, addresses)
    sources = found[0].policies[0].sources
    for peer in PEERS:
        around = {network.prefixlen: chain for chain in made for network in chain.sources if peer in network}
        chain = around[max(around)] if around else next(chain for chain in made if chain.rest)
        limited = any("local_ratelimit" in item["typed_config"]["@type"] for item in chain.filters)
        assert limited == _truth(owners, peer, sources, otherwise="internet" in sources)


def test_a_network_in_a_network_in_a_network() -> None:
    program = dsl.load_text(
        """app test
external out { cidr "10.0.0.0/8"  cidr "10.1.1.0/24" }
external in { cidr "10.1.0.0/16"  cidr "10.1.1.128/25" }
service a { http 80 }
call out, in -> a
"""
    )
    found = AddressIndex(program, Addresses()).callers(frozenset({"out"}), unknown=False)
    assert [[str(network) for network in layer] for layer in found.layers] == [
        ["10.0.0.0/8"],
        ["10.1.0.0/16"],
        ["10.1.1.0/24"],
        ["10.1.1.128/25"],
    ]


@pytest.mark.long
def test_addresses_are_looked_up_once_for_each_party(monkeypatch: pytest.MonkeyPatch) -> None:
    program = dsl.load_text(generate(200, 600, 60, 1))
    asked: list[str] = []

    def counted(program: Program, addresses: Addresses, name: str) -> tuple[Network, ...]:
        asked.append(name)
        return peers(program, addresses, name)

    monkeypatch.setattr(known, "peers", counted)
    assert len(emit(program, place(program), loopback(program), Mode.REDIRECT)) > 20
    assert len(asked) == len(set(asked)) <= len(program.services) + len(program.externals)


def test_two_that_no_address_tells_apart() -> None:
    program = dsl.load_text("app test\nexternal x\nexternal y\nservice a { http 80 }\ncall x, y -> a\n")
    found = AddressIndex(program, Addresses())
    with pytest.raises(AmbiguousCallersError):
        found.callers(frozenset({"x"}), unknown=False)
    assert found.callers(frozenset({"x", "y"}), unknown=False).layers == (EVERYWHERE,)
    assert found.callers(frozenset({"a"}), unknown=True).layers == ()
