"""Which policies apply to a call, given that an ADM at ingress and a NetworkPolicy know callers by address alone.

    Mesh, source, Target -> policies, each with the facts on which it depends

Most addresses belong to one party. An address that may belong to several parties, or to none, makes the policies
uncertain: the program does not determine them. Such a fact stays open in the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admc.review.program_tests.facts import Fact
from admc.review.program_tests.mesh import Applying, Mesh, Target, networks
from dsl.program import Policy, Protocol

_UNKNOWN: Final = None
"""Stands for an address that belongs to no party."""


def policies_on(mesh: Mesh, source: str, target: Target) -> tuple[Applying, ...]:
    """The policies that apply to a call, or may apply to it, in declared order.

    To an undeclared call only guards and policies with `*` among their sources apply. If its destination is an
    external, no policy applies, since no NetworkPolicy closes an external.
    """
    applying = []
    # Two policies with the same doubt share one fact, so that it holds for both of them or for neither.
    facts: dict[str, Fact] = {}
    others = tuple(_alike(mesh, source, target))
    for policy in mesh.program.policies:
        if not _concerns(policy, target):
            continue
        surely = source in policy.sources and _covers(mesh, policy, source, target)
        doubts = tuple(facts.setdefault(fact.what, fact) for fact in _doubts(mesh, policy, source, target, others))
        if surely or doubts:
            applying.append(Applying(policy, surely, doubts))
    return tuple(applying)


def past_closing(mesh: Mesh, source: str, target: Target) -> Fact | None:
    """The fact that decides whether a NetworkPolicy lets an undeclared caller pass to a port that it closes.

    None: the NetworkPolicy certainly refuses the caller (docs/interception.md). It admits the whole network of an
    external, but a smaller network inside is that of another admitted external (docs/rules.md, R7). So only an external
    with an equal network may pass.
    """
    name = target.destination
    closing = mesh.closing[name, target.port.number]
    policy = mesh.program.policy_by_name[closing[0]]
    hint = f"ask for another caller, or pin {', '.join(f'`{policy_name}`' for policy_name in closing)} at ingress"
    service = mesh.program.services.get(source)
    if source == name:
        return Fact(policy, f"whether `{name}` calls its own pod, which no NetworkPolicy refuses", hint)
    if service is not None:
        what = f"whether `{source}` is on the node of a pod of `{name}`, which its NetworkPolicy does not refuse"
        return Fact(policy, what, hint) if service.host_network else None
    admitted = mesh.admitted[name, target.port.number]
    for other in alike(mesh, source):
        if other in admitted:
            what = f"whether an address of `{source}` is also one of `{other}`, which may call `{name}`"
            return Fact(policy, what, "give both a `cidr` that does not overlap the other")
    return None


def at_unknown_address(mesh: Mesh, source: str, target: Target) -> bool:
    """Whether a caller may have an address that belongs to no party, such as the address of its node."""
    service = mesh.program.services.get(source)
    if service is None:
        return not mesh.program.externals[source].cidrs and source not in mesh.unlocated
    return service.host_network or (source == target.destination and not target.declared)


def alike(mesh: Mesh, source: str) -> tuple[str, ...]:
    """The other externals that share a network with the external `source`.

    Neither an ADM nor a NetworkPolicy can tell them apart: they take an address in the network for that of whichever
    external a policy names.
    """
    external = mesh.program.externals.get(source)
    own = () if external is None else networks(external)
    return tuple(dict.fromkeys(name for network in own for name in mesh.at_network[network] if name != source))


def _concerns(policy: Policy, target: Target) -> bool:
    protocol = target.port.protocol
    return (
        (policy.ports is None or target.port.number in policy.ports)
        and protocol in policy.kind.protocols
        and (policy.match is None or protocol is not Protocol.TCP)
        and target.destination in policy.destinations
    )


def _covers(mesh: Mesh, policy: Policy, source: str, target: Target) -> bool:
    """Whether a policy that has `source` among its sources applies to the source's call, declared or not."""
    if (source, target.destination, target.port.number) in mesh.declared:
        return True
    return target.destination in mesh.program.services and (policy.open_sources or policy.kind.guard)


def _doubts(mesh: Mesh, policy: Policy, source: str, target: Target, others: tuple[str | None, ...]) -> Iterator[Fact]:
    """Facts that reverse whether a policy applies at ingress, compared with the caller's name alone."""
    name = target.destination
    if not mesh.at_ingress(policy, target):
        return
    named = source in policy.sources
    surely = named and _covers(mesh, policy, source, target)
    if named and not surely:
        # The ADM is configured with the addresses of all sources, also of those without a declared call (ADM417).
        what = f"whether policies for declared calls of `{source}` apply to `{source} -> {name}`, which is not declared"
        yield Fact(policy, what, f"declare the call, or leave `{source}` out of the sources of `{policy.name}`")
    for other in others:
        if other is _UNKNOWN:
            if _meets_unknown(mesh, policy, target) is not surely:
                what = f"whether `{source}` calls from an address that is unknown to `{name}`, such as its node's"
                yield Fact(policy, what, "ask for another caller")
        elif not surely and other in policy.sources and _covers(mesh, policy, other, target):
            what = f"whether an address of `{source}` is also one of `{other}`"
            yield Fact(policy, what, "give both a `cidr` that does not overlap the other")


def _meets_unknown(mesh: Mesh, policy: Policy, target: Target) -> bool:
    """Whether a policy applies at ingress to callers from addresses that belong to no party."""
    if mesh.unlocated:
        return any(name in policy.sources and _covers(mesh, policy, name, target) for name in mesh.unlocated)
    return policy.open_sources


def _alike(mesh: Mesh, source: str, target: Target) -> Iterator[str | None]:
    """The parties that an ADM at ingress may take a caller for.

    | networks of two externals    | the address belongs to             |
    | ---------------------------- | ---------------------------------- |
    | one inside the other         | the external of the smaller one    |
    | equal                        | the external that the policy names |
    """
    if at_unknown_address(mesh, source, target):
        yield _UNKNOWN
    else:
        yield from alike(mesh, source)
