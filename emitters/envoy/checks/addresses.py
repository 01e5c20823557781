"""What addresses have to say before an ADM can be configured by them.

Where connections are redirected, addresses alone decide which policies a connection meets. An address that is missing,
or that two destinations share, would let calls pass without their policies, or put them under somebody else's; so it
is refused, with the name of what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Side
from emitters.addresses.index import EVERYWHERE, Networks, is_address, takes_strangers
from emitters.envoy.chains.clusters import needs_endpoints
from emitters.envoy.context import Mode
from emitters.envoy.matching.predicates import everybody
from emitters.interception import original_destinations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsl.program import Policy, Port
    from emitters.addresses import Network
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class Taken(NamedTuple):
    """What of the connections to one port, of all that are captured, belongs to an egress hop and what to nobody."""

    own: tuple[Network, ...]
    others: tuple[Network, ...]
    """Inside of the hop's networks and somebody else's."""


def check(context: Context, hops: Sequence[Hop], *, waiting: bool) -> None:
    """Report what addresses do not tell about one ADM. `waiting`: an address that is missing will come."""
    if context.mode is Mode.REDIRECT:
        for hop in hops:
            _targets(context, hop, hops)
            if hop.side is Side.EGRESS:
                _destination(context, hop, waiting)
        _equal(context, hops)
    if waiting:
        return
    for hop in hops:
        if hop.side is Side.INGRESS:
            for policy in hop.policies:
                _callers(context, hop, policy)


# ---- callers ----


def _callers(context: Context, hop: Hop, policy: Policy) -> None:
    """Everybody whom it matters to know is known by an address."""
    missing, meant = _missing_callers(context, hop, policy)
    for name in sorted(missing):
        service = name in context.program.services
        context.refuse(
            "ADM718",
            f"no address of `{name}` is known, so `{policy.name}` {'could not' if meant else 'would'} be enforced on "
            f"its calls to `{hop.service}`",
            policy,
            cause="at ingress a caller is known by the address that it sends from",
            hint=f"list the `pods` of `{name}` in the endpoints file" if service else f"give `{name}` a `cidr`",
        )


def _missing_callers(context: Context, hop: Hop, policy: Policy) -> tuple[frozenset[str], bool]:
    """Whom a policy would wrongly treat as strangers, and whether it would miss them (or else meet them)."""
    known = context.index.of(policy)
    if not known.nowhere or everybody(context.program, policy):
        return frozenset(), True
    declared = known.callers_of(hop.destination, hop.port.number)
    if takes_strangers(known.strangers, policy.sources, policy.open_sources):
        # Whoever is not known meets the policy. Guards are on the safe side with that; nobody asked the others.
        return frozenset((declared - policy.sources) & known.nowhere), False
    missing = policy.sources & known.nowhere
    if policy.open_sources:
        missing &= known.services.keys()
    elif not policy.kind.guard:
        missing &= declared
    return frozenset(missing), True


def awaited_callers(context: Context, hop: Hop) -> frozenset[str]:
    """The callers who are not known yet and would come past a policy of an ingress hop.

    A service that is listed without a pod has none: nobody is missed.
    """
    found: set[str] = set()
    for policy in hop.policies:
        missing, meant = _missing_callers(context, hop, policy)
        if meant:
            found |= missing - context.addresses.services.keys()
    return frozenset(found)


# ---- destinations ----


def _destination(context: Context, hop: Hop, waiting: bool) -> None:
    if waiting or _all_known(context, hop) or whole_ports(context, hop):
        return
    outside = hop.destination in context.program.externals
    some = bool(original_destinations(context.program, hop, context.addresses))
    context.refuse(
        "ADM717",
        f"{'not every' if some else 'no'} address of `{hop.destination}` is known, so `{hop.policies[0].name}` could "
        f"not be enforced for it at `{hop.service}`",
        hop.policies[0],
        cause=f"`{hop.service}` calls others at the same port, and only addresses tell them apart"
        if outside
        else "the address that is dialled tells which calls a policy at the sender is for",
        hint=f"add `{hop.destination}` to the endpoints file",
    )


def awaits_destination(context: Context, hop: Hop) -> bool:
    """Whether calls to the destination of an egress hop cannot be told from others yet."""
    if hop.destination in context.addresses.services:  # listed, if only to say that it is nowhere
        return False
    return not _all_known(context, hop) and not whole_ports(context, hop)


def _all_known(context: Context, hop: Hop) -> bool:
    """Whether addresses are all that a destination is dialled at. A name stands for any, until the endpoints file
    tells which: addresses beside it in the program are not its own."""
    if not original_destinations(context.program, hop, context.addresses):
        return False
    external = context.program.externals.get(hop.destination)
    if external is None or context.addresses.service_addresses(hop.destination):
        return True
    return all(is_address(host) for host in external.hosts)


def whole_ports(context: Context, hop: Hop) -> tuple[int, ...]:
    """The ports that an outside party takes for itself: not all of its addresses are known, as of one that is found by
    name, and its caller has no other declared call there."""
    if hop.destination not in context.program.externals or _all_known(context, hop):
        return ()
    ports = {hop.port.number, hop.port.target}
    for call in context.index.calls_from(hop.service):
        if call.destination != hop.destination and ports & {call.port.number, call.port.target}:
            return ()
    return tuple(sorted(ports))


def taken(context: Context, hop: Hop) -> dict[int, Taken]:
    """Port dialled -> which of the captured connections belong to an egress hop."""
    networks = dict(original_destinations(context.program, hop, context.addresses))
    for port in whole_ports(context, hop):
        # Its own addresses stay, as they may be inside of somebody else's network.
        networks[port] = (*networks.get(port, ()), *EVERYWHERE)
    found = {}
    for port, own in networks.items():
        wide = [network for network in own if network.prefixlen < network.max_prefixlen]
        others: set[Network] = set()
        if wide:
            dialled = Networks(
                network for network, names in context.index.dialled(port).items() if hop.destination not in names
            )
            others.update(inner for network in wide for inner in dialled.inside(network))
        found[port] = Taken(own, tuple(sorted(others, key=lambda n: (n.version, n.network_address, n.prefixlen))))
    return found


def _equal(context: Context, hops: Iterable[Hop]) -> None:
    """No address and port that a hop captures is also somebody else's."""
    for hop in hops:
        if hop.side is Side.INGRESS:
            continue
        for port, networks in original_destinations(context.program, hop, context.addresses).items():
            dialled = context.index.dialled(port)
            for network in networks:
                others = sorted(dialled.get(network, frozenset()) - {hop.destination})
                if others:
                    _same_address(context, hop, others[0], f"{network.network_address}:{port}")
                    break


def _same_address(context: Context, hop: Hop, other: str, address: str) -> None:
    context.refuse(
        "ADM716",
        f"`{hop.destination}`, which `{hop.service}` calls, and `{other}` are both at `{address}`",
        hop.policies[0],
        cause="the address that is dialled decides which destination is meant",
        hint="give the two different addresses or ports, or make them one",
    )


# ---- ports that lead to one ----


def _targets(context: Context, hop: Hop, hops: Sequence[Hop]) -> None:
    """A port of a service at which connections arrive as at another is under the same policies."""
    service = context.program.services.get(hop.destination)
    if service is None or len(service.ports) < 2:
        return
    own = _arriving(context, hop, hop.port)
    alike = [
        (port, shared)
        for port in service.ports
        if port.number != hop.port.number and (shared := own & _arriving(context, hop, port))
    ]
    if not alike:
        return
    called = {call.port.number for call in context.index.calls_from(hop.service) if call.destination == hop.destination}
    enforced: Mapping[int, tuple[Policy, ...]] = {
        other.port.number: other.policies
        for other in hops
        if (other.side, other.destination) == (hop.side, hop.destination)
    }
    for port, shared in alike:
        if hop.side is Side.EGRESS and port.number not in called:
            continue
        same = enforced.get(port.number, ()) == hop.policies
        if port.target == hop.port.target:
            if not same:
                _same_target(context, hop, port)
        # Two processes: an ADM that chooses among endpoints, or speaks a protocol, has to know which of them is meant.
        elif not same or port.protocol is not hop.port.protocol or needs_endpoints(hop, hop.policies):
            _same_dialled(context, hop, port, min(shared))


def _arriving(context: Context, hop: Hop, port: Port) -> set[int]:
    """The ports at which an ADM sees connections to the pods of a destination, for one of its ports."""
    known = context.addresses
    if hop.side is Side.EGRESS and known.pod_addresses(hop.destination):
        # Nobody translates ports of a service without an address, so its callers dial either number.
        return {port.target} if known.service_addresses(hop.destination) else {port.number, port.target}
    return {port.target}


def _same_target(context: Context, hop: Hop, other: Port) -> None:
    first, second = sorted((hop.port.number, other.number))
    context.refuse(
        "ADM716",
        f"ports {first} and {second} of `{hop.destination}` lead to one port of its process, under different policies",
        hop.policies[0],
        cause="a connection arrives at the process's port, and nothing says which of the two its caller dialled",
        hint="let the process listen on two ports, or put both ports under the same policies",
    )


def _same_dialled(context: Context, hop: Hop, other: Port, dialled: int) -> None:
    first, second = sorted((hop.port.number, other.number))
    context.refuse(
        "ADM716",
        f"`{hop.service}` may mean port {first} or {second} of `{hop.destination}` where it dials {dialled}, and the "
        "two are not enforced alike",
        hop.policies[0],
        cause=f"no service address of `{hop.destination}` is known, so a port and its target are both dialled at its "
        "pods",
        hint="let the process listen on the ports of the service, or give the service an address",
    )
