"""Checks that the addresses that an ADM needs are known and distinct.

With redirection, addresses alone decide which policies a connection meets. If an address is missing, or two
destinations share one, calls would pass without their policies, or under the policies of another destination. Each such
address is reported as an error that names the party which it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.program import Side
from emitters.envoy.chains.clusters import needs_endpoints
from emitters.envoy.hop_addresses import all_known, missing_callers, whole_ports
from emitters.interception.captures import original_destinations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsl.program import Policy, Port
    from emitters.envoy.context import Context
    from emitters.hops import Hop


def check(context: Context, hops: Sequence[Hop], *, waiting: bool) -> None:
    """Reports the missing and shared addresses of one ADM, and ports that it cannot tell apart.

    `waiting`: the server learns missing addresses later, so they are not reported.
    """
    if context.mode.redirected:
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
    """Reports the callers of an ingress hop whose addresses are missing and needed by a policy."""
    missing = missing_callers(context, hop, policy)
    verb = "could not" if missing.unenforced else "would"
    for name in sorted(missing.names):
        service = name in context.program.services
        context.refuse(
            "ADM718",
            f"no address of `{name}` is known, so `{policy.name}` {verb} be enforced on its calls to `{hop.service}`",
            policy,
            cause="at ingress an ADM recognises a caller by the address that it sends from",
            hint=f"list the `pods` of `{name}` in the endpoints file" if service else f"give `{name}` a `cidr`",
        )


# ---- destinations ----


def _destination(context: Context, hop: Hop, waiting: bool) -> None:
    if waiting or all_known(context, hop) or whole_ports(context, hop):
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
        else "the address that the sender dials decides which calls a policy applies to",
        hint=f"add `{hop.destination}` to the endpoints file",
    )


def _equal(context: Context, hops: Iterable[Hop]) -> None:
    """Reports an address and port of an egress hop that another destination has, too."""
    for hop in hops:
        if hop.side is Side.INGRESS:
            continue
        for port, networks in original_destinations(context.program, hop, context.addresses).items():
            shared = context.index.shared.intersection(networks)
            dialled = context.index.dialled(port) if shared else {}
            for network in filter(shared.__contains__, networks):
                others = sorted(dialled.get(network, frozenset()) - {hop.destination})
                if others:
                    _same_address(context, hop, others[0], f"{network.network_address}:{port}")
                    break


def _same_address(context: Context, hop: Hop, other: str, address: str) -> None:
    context.refuse(
        "ADM716",
        f"`{hop.destination}`, which `{hop.service}` calls, and `{other}` are both at `{address}`",
        hop.policies[0],
        cause="the address that the caller dials decides which destination is meant",
        hint="give the two different addresses or ports, or declare one destination",
    )


# ---- ports that lead to one ----


def _targets(context: Context, hop: Hop, hops: Sequence[Hop]) -> None:
    """Reports two ports of a service that have different policies, although the ADM receives the connections to both at
    one port and cannot tell them apart."""
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
        # Two processes: an ADM that chooses among endpoints, or parses a protocol, needs to tell them apart.
        elif not same or port.protocol is not hop.port.protocol or needs_endpoints(hop, hop.policies):
            _same_dialled(context, hop, port, min(shared))


def _arriving(context: Context, hop: Hop, port: Port) -> set[int]:
    """The ports at which an ADM sees connections to the pods of a destination, for one of its ports."""
    known = context.addresses
    if hop.side is Side.EGRESS and known.pod_addresses(hop.destination):
        # The network translates no port of a service without an address, so its callers dial either number.
        return {port.target} if known.service_addresses(hop.destination) else {port.number, port.target}
    return {port.target}


def _same_target(context: Context, hop: Hop, other: Port) -> None:
    first, second = sorted((hop.port.number, other.number))
    context.refuse(
        "ADM716",
        f"ports {first} and {second} of `{hop.destination}` lead to one port of its process, under different policies",
        hop.policies[0],
        cause="a connection arrives at the process's port, and does not show which of the two its caller dialled",
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
