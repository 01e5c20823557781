"""Checks the place of one decision by rules R3, R4, R5, R7, R8 and R10, each rule on its own.

Every check receives a requirement and its place in the placement, and returns violations of that place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain

from dsl.program import Place, Policy, Program, Reliance, Side, Verb
from solver.placement import Decision, Rule, Violation
from solver.verify.scope import (
    DestinationFacts,
    Requirement,
    admitted_callers,
    can_host,
    holds_part_of,
    is_known,
    may_reject,
    service_arguments,
    tells_callers_apart,
    unrecognisable,
)


class Places:
    """The checks of one program."""

    def __init__(self, program: Program, destination_facts: DestinationFacts) -> None:
        self.program = program
        self.near = destination_facts
        self.pins: Mapping[tuple[str, str], list[Place]] = defaultdict(list)
        for pin in program.pins:
            self.pins[(pin.policy, pin.destination)].append(pin.place)
        self.suspicious = frozenset(
            service.name for service in program.services.values() if not service.trusted or service.host_network
        )
        self.hostless = frozenset(service.name for service in program.services.values() if not can_host(service))
        self.protocols = frozenset(call.port.protocol for call in program.calls)
        self.odd = frozenset(call.source for call in program.calls).difference(
            service.name for service in program.services.values() if can_host(service) and service.trusted
        )
        """Senders to which an egress rule may apply."""
        self.tells_apart: dict[str, bool] = {}
        self.unrecognisable: dict[str, str | None] = {}
        self.shared_addresses = any(service.host_network for service in program.services.values())
        self.everyone = program.services.keys() | program.externals.keys()
        self.noticed = _noticed(program)
        """Sender and destination of calls of which a policy notices that they get no answer, with that policy."""

    def offered(self, required: Requirement) -> frozenset[Place]:
        """The places of which a decision takes one, and says of each other why not. Both ends are no choice."""
        kind = required.policy.kind
        if kind.both:
            return frozenset({Place.BOTH})
        pinned = Place.NETWORK in self.pins.get((required.policy.name, required.destination), ())
        network = pinned or (kind.network and self.program.network_policies is not None)
        return frozenset({Place.INGRESS, Place.EGRESS} | ({Place.NETWORK} if network else set()))

    def check(self, required: Requirement, decision: Decision) -> Iterator[Violation]:
        """Violations of `decision.place`, and a mark `closes` that is missing or that the decision does not need."""
        problems = chain(
            self._capability(required, decision.place),
            self._ingress(required) if Side.INGRESS in decision.place.sides else (),
            self._egress(required) if Side.EGRESS in decision.place.sides else (),
            self._network(required) if decision.place is Place.NETWORK else (),
            self._pins(required, decision.place),
            self._closing(required, decision),
        )
        for rule, message in problems:
            yield Violation(rule, message, required.policy.name, required.destination)

    def _capability(self, required: Requirement, place: Place) -> Iterator[tuple[Rule, str]]:
        policy, kind = required.policy, required.policy.kind
        if place not in kind.places:
            yield Rule.CAPABILITY, f"kind `{kind.name}` cannot be enforced at {place}"
        elif place not in policy.places:
            yield Rule.CAPABILITY, f"`{policy.name}` is not narrowed to {place}"
        if self.protocols <= kind.protocols:
            return
        calls = self.program.calls
        for index in required.calls:
            protocol = calls[index].port.protocol
            if protocol not in kind.protocols:
                call = calls[index]
                yield (
                    Rule.CAPABILITY,
                    f"a `{protocol}` call (`{call.source} -> {call.destination}`) cannot carry kind `{kind.name}`",
                )

    def _ingress(self, required: Requirement) -> Iterator[tuple[Rule, str]]:
        there = required.destination
        if there in self.program.externals:
            yield Rule.OUTSIDE, f"`{there}` is external and has no ingress"
        elif there not in self.program.services:
            yield Rule.COVERAGE, f"`{there}` is no service"
        elif there in self.hostless:
            yield Rule.HOST, f"`{there}` cannot host an ADM"
        stranger = self.near.node_sender.get(there)
        if stranger is not None and self._tells_apart(required.policy):
            yield (
                Rule.CLOSED,
                f"`{required.policy.name}` has to identify callers, and `{stranger}` may have the address of a node",
            )
        if required.policy.kind.guard and not required.policy.open_sources and there in required.policy.sources:
            yield (
                Rule.CLOSED,
                f"`{required.policy.name}` judges calls of `{there}` to itself, which may come from its node",
            )
        named = self._unrecognisable(required.policy)
        if named is not None:
            yield Rule.CLOSED, f"`{required.policy.name}` names `{named}`, which shares the address of its node"

        if self.near.refusals and there in self.program.services:
            for port in self.program.services[there].ports:
                counting = self.near.refusals.get((there, port.target))
                if counting is not None and port.number in required.ports:
                    where = f"port {port.number} of `{there}`"
                    yield Rule.CAPABILITY, f"an ADM at {where} hides the refused connections that `{counting}` counts"

    def _egress(self, required: Requirement) -> Iterator[tuple[Rule, str]]:
        policy, there, kind = required.policy, required.destination, required.policy.kind
        for sender in sorted(self.odd.intersection(required.senders)):
            if sender in self.program.externals:
                yield Rule.OUTSIDE, f"`{sender}` is external and has no egress"
            elif sender not in self.program.services:
                yield Rule.COVERAGE, f"`{sender}` is no service"
            elif sender in self.hostless:
                yield Rule.HOST, f"`{sender}` cannot host an ADM"
            if sender in self.suspicious and (kind.guard or may_reject(policy)):
                yield Rule.CLOSED, f"`{sender}` may bypass its own ADM"
        inner = self.near.inner_calls.get(there)
        if inner is not None:
            for sender in sorted(inner.intersection(required.senders)):
                yield (
                    Rule.CAPABILITY,
                    f"the ADM of `{sender}` calls `{there}` itself for another policy, behind its filters",
                )
        if kind.per_replica:
            yield Rule.STATE, f"`{policy.name}` is a limit of each replica of `{there}`"
        if kind.state and len(required.senders) > 1:
            yield Rule.STATE, f"`{policy.name}` counts {len(required.senders)} senders together"
        if required.open and there not in self.program.externals:
            why = self.near.unclosable.get(there)
            if why is not None:
                yield Rule.CLOSED, f"`{there}` cannot be closed: {why}"
            if kind.guard and not required.calls:
                yield Rule.CLOSED, f"guard `{policy.name}` applies to no declared call and has to be at ingress"

    def _network(self, required: Requirement) -> Iterator[tuple[Rule, str]]:
        """A guard that only the NetworkPolicy of its destination enforces (docs/rules.md, `network`)."""
        policy, there, program = required.policy, required.destination, self.program
        if policy.match is not None:
            yield Rule.CAPABILITY, f"`{policy.name}` has a match, and a NetworkPolicy sees no request"
        if policy.narrowing is not None:
            yield Rule.CAPABILITY, f"`{policy.name}` is narrowed, which excludes the network"
        if not policy.open_sources or policy.sources != self.everyone:
            yield Rule.CAPABILITY, f"`{policy.name}` is not for every caller, and a NetworkPolicy leaves out none"
        if program.network_policies is None:
            yield Rule.CLOSED, "the program does not say that NetworkPolicies are enforced"
        if self.shared_addresses and program.accepts_host_network is None:
            yield Rule.CLOSED, "a service on the host's network passes NetworkPolicies on its node"
        admitted = admitted_callers(policy)
        for name in sorted(admitted):
            if name in program.services and program.services[name].host_network:
                yield Rule.CLOSED, f"no NetworkPolicy can name `{name}`, which shares the address of its node"
            if name in program.externals and not is_known(program.externals[name]):
                yield Rule.CLOSED, f"no NetworkPolicy can name `{name}`, which has no known address"
            for other in sorted(program.externals.keys() - admitted) if name in program.externals else ():
                if holds_part_of(program.externals[name], program.externals[other]):
                    yield Rule.CLOSED, f"the NetworkPolicy that admits `{name}` would admit addresses of `{other}`"
        if there not in program.services:
            yield Rule.OUTSIDE, f"`{there}` is no service of the cluster, so no NetworkPolicy closes it"
            return
        if there in self.near.unclosable:
            yield Rule.CLOSED, f"`{there}` cannot be closed: {self.near.unclosable[there]}"
        ports = program.services[there].ports
        targets = {port.target for port in ports if port.number in required.ports}
        for port in ports:
            if port.target in targets and port.number not in required.ports:
                yield Rule.CLOSED, f"closing would cut port {port.number} of `{there}`, which is not in scope"
        for index in required.calls:
            call = program.calls[index]
            if call.source in admitted:
                continue
            if policy.accepts_drop is None:
                yield Rule.CLOSED, f"`{policy.name}` would drop the declared call of `{call.source}`"
            if call.source == there:
                yield Rule.CLOSED, f"a call of `{there}` to itself may come from its node, and pass"
            if (call.source, there) in self.noticed:
                yield (
                    Rule.CLOSED,
                    f"`{self.noticed[call.source, there]}` would repeat or count the dropped call of `{call.source}`",
                )

    def _pins(self, required: Requirement, place: Place) -> Iterator[tuple[Rule, str]]:
        for pinned in self.pins.get((required.policy.name, required.destination), ()):
            if pinned not in place.ends:
                yield Rule.PIN, f"`{required.policy.name}` is pinned at {pinned}"

    def _closing(self, required: Requirement, decision: Decision) -> Iterator[tuple[Rule, str]]:
        needed = (
            required.open
            and Reliance.CLOSED in decision.place.relies_on
            and required.destination not in self.program.externals
        )
        if needed and not decision.closes:
            yield (
                Rule.CLOSED,
                f"`{required.policy.name}` holds only if `{required.destination}` is closed, and is not marked so",
            )
        if decision.closes and not needed:
            yield (
                Rule.CLOSED,
                f"`{required.policy.name}` does not need `{required.destination}` closed, and is marked so",
            )

    def _tells_apart(self, policy: Policy) -> bool:
        if policy.name not in self.tells_apart:
            self.tells_apart[policy.name] = tells_callers_apart(self.program, policy)
        return self.tells_apart[policy.name]

    def _unrecognisable(self, policy: Policy) -> str | None:
        if not self.shared_addresses:
            return None
        if policy.name not in self.unrecognisable:
            self.unrecognisable[policy.name] = unrecognisable(self.program, policy)
        return self.unrecognisable[policy.name]


def _noticed(program: Program) -> dict[tuple[str, str], str]:
    noticed: dict[tuple[str, str], str] = {}
    for policy in program.policies:
        traits = policy.kind.traits
        repeated = policy.arguments.get("on", ())
        if traits.counts_dropped or (
            isinstance(repeated, tuple) and any(word in traits.repeats_dropped for word in repeated)
        ):
            noticed.update({program.calls[index][:2]: policy.name for index in policy.calls})
        if any(effect.verb is Verb.ROUTES for effect in policy.effects or ()):
            for target in service_arguments(policy):
                noticed.update({(program.calls[index].source, target): policy.name for index in policy.calls})
    return noticed
