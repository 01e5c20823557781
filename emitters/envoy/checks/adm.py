"""Finds parts of one ADM that Envoy cannot express, before anything is built. Each finding has a hint and the line of
the policy, the template or, for a port of its own, the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.program import Side
from emitters.addresses.index import AmbiguousCallersError, includes_unknown
from emitters.envoy.chains import routes
from emitters.envoy.checks import combinations
from emitters.envoy.kinds.registry import arguments_of, class_of
from emitters.envoy.matching.callers import covers_all_callers
from emitters.ports import OWN_PORTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


def check(context: Context, hops: Sequence[Hop], tried: set[str] | None = None) -> None:
    """Reports what Envoy cannot express about one ADM, whatever the addresses are. Only built messages show the rest.

    `tried`: the names of policies whose own check has run; those of this ADM are added.
    """
    tried = set() if tried is None else tried
    _own_ports(context)
    _one_bucket(context, hops)
    for hop in hops:
        combinations.check(context, hop)
        if hop.carries_requests:
            routes.check(context, hop)
        for policy in hop.policies:
            if hop.side is Side.INGRESS:
                _unlocated_callers(context, policy)
            kind = arguments_of(policy)
            kind.check_hop(context, hop, policy)
            if policy.name not in tried:
                tried.add(policy.name)
                kind.check(context, policy)


def _own_ports(context: Context) -> None:
    """Reports a process that listens at a port of the ADM beside it. The port that callers dial may be any port."""
    name = context.service.name
    for port in context.service.ports:
        if port.target not in OWN_PORTS:
            continue
        context.findings.error(
            "ADM725",
            f"`{name}` listens at {port.target}, and so does the ADM that it is to host",
            context.service.span,
            cause=f"the ADM {OWN_PORTS[port.target]}, and one pod has each port once",
            hint=f"let the process listen elsewhere: `{port.protocol} {port.number} -> 8080`; or write `no adm`, if "
            "its policies can be enforced at others",
        )


def _unlocated_callers(context: Context, policy: Policy) -> None:
    """Reports a policy about only some of the outside parties without addresses: an unknown address may be any of these
    parties, so a policy has to be about all of them or none."""
    unlocated = context.index.for_policy(policy).unlocated
    try:
        if not covers_all_callers(context.program, policy):
            includes_unknown(unlocated, policy.sources, policy.open_sources)
    except AmbiguousCallersError as error:
        _ambiguous(context, policy, error, "is about", "or mean both")
        return
    try:
        admitted = arguments_of(policy).admitted_callers()
        if admitted is not None:
            includes_unknown(unlocated, admitted, unknown=False)
    except AmbiguousCallersError as error:
        _ambiguous(context, policy, error, "admits", "or admit both")


def _ambiguous(context: Context, policy: Policy, error: AmbiguousCallersError, verb: str, otherwise: str) -> None:
    context.refuse(
        "ADM703",
        f"`{policy.name}` {verb} `{error.meant}` and not `{error.other}`, and no address tells the two apart",
        policy,
        cause="both are outside parties without a `cidr`, so an unknown address may be either",
        hint=f"give `{error.meant}` or `{error.other}` a `cidr`, {otherwise}",
    )


def _one_bucket(context: Context, hops: Sequence[Hop]) -> None:
    """Reports a limit for several ports of one destination, which would become several limits."""
    covered: dict[tuple[str, str, str], list[Hop]] = {}
    for hop in hops:
        for policy in hop.policies:
            if class_of(policy.kind).counts_per_port(policy.kind):
                covered.setdefault((policy.name, hop.side.value, hop.destination), []).append(hop)
    for (name, _, destination), split in covered.items():
        if len(split) > 1:
            ports = ", ".join(f"{hop.port.name or hop.port.number}" for hop in split)
            context.refuse(
                "ADM708",
                f"`{name}` is one limit for `{destination}`, and Envoy would keep one for each of its ports {ports}",
                context.program.policy_by_name[name],
                cause="a limit lives in the filters of one port",
                hint=f"write a policy for each port, such as `on ... -> {destination}:{split[0].port.name or 'NAME'}`",
            )
