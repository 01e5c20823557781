"""An index of a program's parties by address: which party a network belongs to, which networks lie inside another.

    program + addresses -> AddressIndex

Large applications have thousands of services and as many policies, so the cost of most look-ups grows with the parties
that they are about. Only the first look-up of a sort, and one for unknown callers, go through all parties.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_left, bisect_right
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from emitters.addresses.model import Network, order, peers, text_of
from emitters.addresses.model import network as network_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsl.program import Call, Policy, Program, Service
    from emitters.addresses.model import Addresses

EVERYWHERE: Final[tuple[Network, ...]] = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class Callers(NamedTuple):
    """A set of connections, by the address of their direct peer.

    A connection is in the set if its peer is in the first layer, but not in the second, unless the peer is in the
    third, and so on. Each layer lies inside the previous one: the most specific network tells which party a peer is,
    and a pod inside the network of an outside party is the pod.
    """

    layers: tuple[tuple[Network, ...], ...] = ()

    def parts(self) -> tuple[tuple[tuple[Network, ...], tuple[Network, ...]], ...]:
        """The same set as pairs of layers: the peer is in the first layer of some pair, and not in the second.

        Pairs stand side by side, since Envoy refuses configuration that is nested too deeply.
        """
        layers = (*self.layers, ())
        return tuple((layers[index], layers[index + 1]) for index in range(0, len(self.layers), 2))

    @property
    def all_peers(self) -> bool:
        return self.layers == (EVERYWHERE,)


class AmbiguousCallersError(Exception):
    """A policy names one of two outside parties that no address tells apart; carries their names."""

    def __init__(self, meant: str, other: str) -> None:
        self.meant = meant
        self.other = other
        super().__init__(f"no address tells {meant} and {other} apart")


def unlocated_externals(program: Program) -> tuple[str, ...]:
    """The outside parties that an unknown address may belong to: those without a `cidr`, except for parties that are
    only called."""
    outside = [name for name, external in program.externals.items() if not external.cidrs]
    calling = {call.source for call in program.calls} if outside else set()
    return tuple(name for name in outside if name in calling or not program.externals[name].ports)


class Networks:
    """Networks in an order in which each is followed by all networks inside it."""

    def __init__(self, networks: Iterable[Network]) -> None:
        keyed = sorted((order(network), network) for network in networks)
        self._keys: list[tuple[int, int, int]] = [key for key, _ in keyed]
        self._networks: list[Network] = [network for _, network in keyed]

    def inside(self, network: Network) -> Sequence[Network]:
        """The networks that are a proper part of `network`."""
        if network.prefixlen == network.max_prefixlen:
            return ()
        begin = bisect_right(self._keys, order(network))
        end = bisect_left(self._keys, (network.version, int(network.broadcast_address) + 1, 0))
        return self._networks[begin:end]


class AddressIndex:
    """The addresses of a program's parties. A look-up of an unknown address gives an empty result; `peers` takes
    names of parties only."""

    def __init__(self, program: Program, addresses: Addresses) -> None:
        self._program = program
        self._addresses = addresses
        self._peers: dict[str, tuple[Network, ...]] = {}
        self._callers: dict[tuple[frozenset[str], bool], Callers] = {}
        self._fewer: dict[frozenset[str], frozenset[str]] = {}
        self._dialled: dict[int, Mapping[Network, frozenset[str]]] = {}
        self._homes: dict[int, AddressIndex] = {}

    def for_policy(self, policy: Policy) -> AddressIndex:
        """The index of the program that declares a policy's callers (`Policy.home`), with the addresses of this
        index."""
        home = policy.home
        if home is None or home is self._program:
            return self
        if id(home) not in self._homes:
            self._homes[id(home)] = AddressIndex(home, self._addresses)
        return self._homes[id(home)]

    def sources_of(self, policy: Policy) -> frozenset[str]:
        """The sources of a policy that are parties of this program."""
        return policy.sources if policy.home is None else policy.sources & self.parties

    @property
    def services(self) -> Mapping[str, Service]:
        return self._program.services

    @cached_property
    def parties(self) -> frozenset[str]:
        return frozenset((*self._program.services, *self._program.externals))

    @cached_property
    def unlocated(self) -> tuple[str, ...]:
        """See `unlocated_externals`."""
        return unlocated_externals(self._program)

    @cached_property
    def unaddressed(self) -> frozenset[str]:
        """The parties without an address, except for the unlocated ones."""
        located, externals = self._addresses, self._program.externals
        return frozenset(
            name
            for name in self.parties
            if not (
                located.pod_addresses(name)
                if name not in externals
                else (externals[name].cidrs or located.service_addresses(name))
            )
        ).difference(self.unlocated)

    @cached_property
    def ipv6(self) -> bool:
        """Whether any party of the program has an IPv6 address."""
        texts = [
            *(text for located in self._addresses.services.values() for text in (*located.addresses, *located.pods)),
            *(text for listed in self._addresses.externals.values() for text in listed),
            *(text for external in self._program.externals.values() for text in (*external.cidrs, *external.hosts)),
        ]
        return ":" in "\n".join(texts)

    def callers_of(self, destination: str, number: int) -> frozenset[str]:
        """The parties that declare a call to a port."""
        return self._callers_of.get((destination, number), frozenset())

    @cached_property
    def _callers_of(self) -> Mapping[tuple[str, int], frozenset[str]]:
        callers: dict[tuple[str, int], set[str]] = {}
        for call in self._program.calls:
            callers.setdefault((call.destination, call.port.number), set()).add(call.source)
        return {key: frozenset(names) for key, names in callers.items()}

    def calls_from(self, source: str) -> Sequence[Call]:
        """The declared calls of a party."""
        return self._calls_from.get(source, ())

    @cached_property
    def _calls_from(self) -> Mapping[str, Sequence[Call]]:
        calls: dict[str, list[Call]] = {}
        for call in self._program.calls:
            calls.setdefault(call.source, []).append(call)
        return calls

    def fewer_of(self, names: frozenset[str]) -> frozenset[str]:
        """The named parties or all others, whichever are fewer: enough to tell the two groups apart."""
        if names not in self._fewer:
            self._fewer[names] = names if 2 * len(names) <= len(self.parties) else self.parties - names
        return self._fewer[names]

    # ---- the parties that send ----

    def peers(self, name: str) -> tuple[Network, ...]:
        """The networks that connections from a party come from; sorted, without duplicates."""
        if name not in self._peers:
            self._peers[name] = peers(self._program, self._addresses, name)
        return self._peers[name]

    @cached_property
    def owners(self) -> Mapping[Network, tuple[str, ...]]:
        """Network -> the parties that send from it. No address distinguishes two parties at one address."""
        owners: dict[Network, tuple[str, ...]] = {}
        for name in (*self._program.services, *self._program.externals):
            for network in self.peers(name):
                owners[network] = (*owners.get(network, ()), name)
        return owners

    @cached_property
    def _senders(self) -> Networks:
        return Networks(self.owners)

    def owners_of(self, network: Network) -> tuple[str, ...]:
        """The parties that send from all of a network: those of the most specific network around it."""
        wider = (network.supernet(new_prefix=length) for length in range(network.prefixlen, -1, -1))
        return next((self.owners[around] for around in wider if around in self.owners), ())

    def senders_inside(self, network: Network) -> Sequence[Network]:
        """The networks of senders that are a proper part of `network`."""
        return self._senders.inside(network)

    def callers(self, names: frozenset[str], *, unknown: bool) -> Callers:
        """The connections of the named parties. An unlocated external stands for every unknown address.

        `unknown` adds the connections from unknown addresses. Raises `AmbiguousCallersError`.
        """
        key = (names, unknown)
        if key not in self._callers:
            self._callers[key] = self._find(*key)
        return self._callers[key]

    def _find(self, names: frozenset[str], unknown: bool) -> Callers:
        named = {network for name in names for network in self.peers(name)}
        # A network of a named party and of another one counts as that of the named party.
        if includes_unknown(self.unlocated, names, unknown):
            others = {network for name in self.parties - names for network in self.peers(name)} - named
            inner = {network for other in others for network in self.senders_inside(other)} & named
            return Callers(_layers(dict.fromkeys(others, False) | dict.fromkeys(inner, True), (EVERYWHERE,)))
        others = {network for wide in named for network in self.senders_inside(wide)} - named
        return Callers(_layers(dict.fromkeys(others, False) | dict.fromkeys(named, True), ()))

    # ---- the parties that callers dial ----

    @cached_property
    def shared(self) -> frozenset[Network]:
        """The networks that are listed more than once, usually none. Only there can callers dial several parties."""
        located = self._addresses
        texts = [text for service in located.services.values() for part in service[:2] for text in part]
        for name, external in self._program.externals.items():
            listed = (*external.cidrs, *literal(external.hosts), *located.service_addresses(name))
            texts += [text_of(network_of(text)) for text in listed]
        if len(set(texts)) == len(texts):
            return frozenset()
        return frozenset(network_of(text) for text, times in Counter(texts).items() if times > 1)

    def dialled(self, port: int) -> Mapping[Network, frozenset[str]]:
        """The parties that a caller reaches at each network by dialling a port: services at their addresses and
        pods, and outside parties."""
        if port not in self._dialled:
            parties: dict[Network, set[str]] = {}
            for name, text in self._texts.get(port, ()):
                parties.setdefault(network_of(text), set()).add(name)
            self._dialled[port] = {network: frozenset(names) for network, names in parties.items()}
        return self._dialled[port]

    @cached_property
    def _texts(self) -> Mapping[int, Sequence[tuple[str, str]]]:
        """Port dialled -> the parties there, each with an address."""
        texts_of: dict[int, list[tuple[str, str]]] = {}
        for name, service in self._program.services.items():
            for port in service.ports:
                for text in self._addresses.service_addresses(name):
                    texts_of.setdefault(port.number, []).append((name, text))
                for text in self._addresses.pod_addresses(name):
                    texts_of.setdefault(port.target, []).append((name, text))
        for name, external in self._program.externals.items():
            texts = (*external.cidrs, *literal(external.hosts), *self._addresses.service_addresses(name))
            for number in {port.number for port in external.ports}:
                texts_of.setdefault(number, []).extend((name, text) for text in texts)
        return texts_of


def includes_unknown(unlocated: Sequence[str], names: frozenset[str], unknown: bool) -> bool:
    """Whether the named callers, or `unknown` ones, include unknown addresses. Raises `AmbiguousCallersError`."""
    meant = [name for name in unlocated if name in names]
    others = [name for name in unlocated if name not in names]
    if meant and others:
        raise AmbiguousCallersError(meant[0], others[0])
    return bool(meant) or (unknown and not others)


def literal(hosts: Iterable[str]) -> tuple[str, ...]:
    """The hosts that are addresses and not names."""
    return tuple(host for host in hosts if is_address(host))


def is_address(text: str) -> bool:
    """Whether a text is an address, and neither a network nor a name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def ordered(networks: Iterable[Network]) -> tuple[Network, ...]:
    """Networks in canonical order: IPv4 first, then by address, a network before those inside it."""
    return tuple(sorted(networks, key=order))


def _layers(named: Mapping[Network, bool], base: tuple[tuple[Network, ...], ...]) -> tuple[tuple[Network, ...], ...]:
    """The networks of named (True) and of other parties, as layers (`Callers`) on top of those of `base`."""
    layers = [list(layer) for layer in base]
    ground = len(layers)
    around: list[tuple[int, int, int]] = []
    """Version, last address and depth of the networks around the current one; depth 1 is the first layer."""
    for network in ordered(named):
        while around and (around[-1][0] != network.version or around[-1][1] < int(network.network_address)):
            around.pop()
        depth = around[-1][2] if around else ground
        if named[network] == (depth % 2 == 1):
            continue  # it is inside a network of the same group
        depth += 1
        if depth > len(layers):
            layers.append([])
        layers[depth - 1].append(network)
        around.append((network.version, int(network.broadcast_address), depth))
    return tuple(map(tuple, layers))
