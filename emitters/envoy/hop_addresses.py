"""The connections that belong to a hop by their addresses, and the addresses that are missing to recognise them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from emitters.addresses.index import EVERYWHERE, Networks, includes_unknown, is_address
from emitters.addresses.model import order
from emitters.envoy.matching.callers import covers_all_callers
from emitters.interception.captures import original_destinations

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.addresses import Network
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class Taken(NamedTuple):
    """The networks by which captured connections to one port belong to an egress hop, or to other destinations."""

    own: tuple[Network, ...]
    others: tuple[Network, ...]
    """Networks of other destinations inside the hop's own networks."""


class MissingCallers(NamedTuple):
    """The callers without an address for which a policy would be enforced wrongly."""

    names: frozenset[str]
    unenforced: bool
    """True: the policy would not be enforced on their calls. False: it would be, although they are not its sources."""


def missing_callers(context: Context, hop: Hop, policy: Policy) -> MissingCallers:
    """The callers that a policy of an ingress hop would wrongly treat as unknown ones."""
    known = context.index.for_policy(policy)
    if not known.unaddressed or covers_all_callers(context.program, policy):
        return MissingCallers(frozenset(), unenforced=True)
    declared = known.callers_of(hop.destination, hop.port.number)
    if includes_unknown(known.unlocated, policy.sources, policy.open_sources):
        # The policy is enforced on every unknown caller, also on declared callers that are not its sources.
        return MissingCallers(frozenset((declared - policy.sources) & known.unaddressed), unenforced=False)
    missing = policy.sources & known.unaddressed
    if policy.open_sources:
        missing &= known.services.keys()
    elif not policy.kind.guard:
        missing &= declared
    return MissingCallers(frozenset(missing), unenforced=True)


def awaited_callers(context: Context, hop: Hop) -> frozenset[str]:
    """The callers whose addresses are still missing, so that a policy of an ingress hop would not be enforced on them.

    A service that is listed without a pod is not among them: it has no pod that could call.
    """
    callers: set[str] = set()
    for policy in hop.policies:
        missing = missing_callers(context, hop, policy)
        if missing.unenforced:
            callers |= missing.names - context.addresses.services.keys()
    return frozenset(callers)


def awaits_destination(context: Context, hop: Hop) -> bool:
    """Whether an address of an egress hop's destination is missing, so that some calls to it look like other calls."""
    if hop.destination in context.addresses.services:  # listed, perhaps without any address
        return False
    return not all_known(context, hop) and not whole_ports(context, hop)


def all_known(context: Context, hop: Hop) -> bool:
    """Whether all addresses at which a destination is dialled are known.

    A host name stands for any address until the endpoints file lists its own: addresses beside it in the program belong
    to other hosts of the party.
    """
    if not original_destinations(context.program, hop, context.addresses):
        return False
    external = context.program.externals.get(hop.destination)
    if external is None or context.addresses.service_addresses(hop.destination):
        return True
    return all(is_address(host) for host in external.hosts)


def whole_ports(context: Context, hop: Hop) -> tuple[int, ...]:
    """The ports at which all connections of a caller count as connections to an outside party.

    There are such ports if not all addresses of the party are known (it has a host name, for instance), and the caller
    declares no call to another destination at one of these ports.
    """
    if hop.destination not in context.program.externals or all_known(context, hop):
        return ()
    ports = {hop.port.number, hop.port.target}
    for call in context.index.calls_from(hop.service):
        if call.destination != hop.destination and ports & {call.port.number, call.port.target}:
            return ()
    return tuple(sorted(ports))


def taken(context: Context, hop: Hop) -> dict[int, Taken]:
    """Port dialled -> the networks by which captured connections belong to an egress hop."""
    networks = dict(original_destinations(context.program, hop, context.addresses))
    for port in whole_ports(context, hop):
        # The party's own addresses stay in the list: they may be inside the network of another party.
        networks[port] = (*networks.get(port, ()), *EVERYWHERE)
    connections = {}
    for port, own in networks.items():
        wide = [network for network in own if network.prefixlen < network.max_prefixlen]
        others: set[Network] = set()
        if wide:
            dialled = Networks(
                network for network, names in context.index.dialled(port).items() if hop.destination not in names
            )
            others.update(inner for network in wide for inner in dialled.inside(network))
        connections[port] = Taken(own, tuple(sorted(others, key=order)))
    return connections
