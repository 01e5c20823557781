"""Checks the place of one decision by rules R3, R4, R5, R7, R8 and R10, each rule on its own.

Every check receives a requirement and its place in the placement, and returns violations of that place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain

from dsl.program import Place, Policy, Program, Reliance, Side
from solver.placement import Decision, Rule, Violation
from solver.verify.scope import DestinationFacts, Requirement, can_host, may_reject, tells_callers_apart, unrecognisable


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

    def check(self, required: Requirement, decision: Decision) -> Iterator[Violation]:
        """Violations of `decision.place`, each of which occurs once."""
        problems = chain(
            self._capability(required, decision.place),
            self._ingress(required) if Side.INGRESS in decision.place.sides else (),
            self._egress(required) if Side.EGRESS in decision.place.sides else (),
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
