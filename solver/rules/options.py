"""The places that each decision may take, and for every other place the rule that excludes it.

These rules concern one decision alone: R3, R4, R5, R7, R8 and R10. They are tried in a fixed order, from the
capabilities of a kind and its narrowing by the policy to pins. So the plan contains the reason that a user
would have to remove first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dsl.program import Mark, Pin, Place, Policy, Program, Verb
from solver.placement import Reason, Rule
from solver.rules.facts import EXTERNAL, INSIDE, NO_HOST, UNRELIABLE, ProgramFacts, marked
from solver.rules.network import NetworkPlace

ONE_END = (Place.INGRESS, Place.EGRESS)
ONE_PLACE = (*ONE_END, Place.NETWORK)
BOTH_ENDS = (Place.BOTH,)


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """One policy at one destination. `ingress`, `egress` and `network` are the reasons that exclude these places, or
    None."""

    policy: int
    destination: str
    calls: tuple[int, ...]
    ingress: Reason | None
    egress: Reason | None
    both: bool
    open: bool
    """The scope includes callers without a declared call (R7)."""
    ports: tuple[int, ...]
    closes: bool
    """At egress and in the network, the policy holds only if the destination is closed to undeclared callers (R7)."""
    offers_network: bool = False
    """The network is one of the places: the program offers it for such policies, or a pin asks for it."""
    network: Reason | None = None

    @property
    def offered(self) -> tuple[Place, ...]:
        """The places among which the rules and the objective choose. A kind that needs both ends has no choice."""
        if self.both:
            return BOTH_ENDS
        return ONE_PLACE if self.offers_network else ONE_END

    def blocked(self, place: Place) -> Reason | None:
        """The rule that excludes a place for this decision alone, or None. Both ends need each of the two."""
        if place is Place.BOTH:
            return self.ingress or self.egress
        if place is Place.NETWORK:
            return self.network
        return self.ingress if place is Place.INGRESS else self.egress


def senders(point: DecisionPoint, program: Program) -> list[str]:
    """Distinct sources of a decision's calls, in canonical order."""
    return list(dict.fromkeys(program.calls[index].source for index in point.calls))


def decision_points(program: Program, facts: ProgramFacts | None = None) -> list[DecisionPoint]:
    """Every decision of a program, sorted by (policy position, destination)."""
    facts = facts or ProgramFacts(program)
    pins: dict[str, dict[str, list[Pin]]] = {}
    for pin in program.pins:
        pins.setdefault(pin.policy, {}).setdefault(pin.destination, []).append(pin)
    points: list[DecisionPoint] = []
    network = NetworkPlace(program, facts)
    for position, policy in enumerate(program.policies):
        points.extend(_Options(position, policy, facts, network, pins.get(policy.name, {})).decision_points())
    return points


class _Options:
    """The options of one policy. Facts that hold for all its destinations are computed once."""

    def __init__(
        self,
        position: int,
        policy: Policy,
        facts: ProgramFacts,
        network: NetworkPlace,
        pins: Mapping[str, list[Pin]],
    ) -> None:
        self.position = position
        self.policy = policy
        self.facts = facts
        self.network = network
        self.pins = pins
        kind = policy.kind
        self.capability = {place: _capability(policy, place) for place in ONE_END}
        # A kind that declares no effects may reject.
        rejects = policy.effects is None or any(effect.verb is Verb.REJECTS for effect in policy.effects)
        self.must_rely = kind.guard or rejects
        names_callers = any(
            parameter.type.name == "caller"
            or (parameter.type.element is not None and parameter.type.element.name == "caller")
            for parameter in kind.parameters
        )
        self.tells_apart = names_callers or not policy.open_sources or len(policy.sources) < facts.everyone
        self.unknown_name = facts.unknown_name(policy)
        self.offers_network = policy.kind.network and facts.program.network_policies is not None

    def decision_points(self) -> Iterator[DecisionPoint]:
        policy = self.policy
        runs = self._runs()
        if not policy.open_sources and not policy.kind.guard:
            for destination, calls in runs.items():
                yield self._point(destination, calls, False, self._called(calls))
            return
        for destination in policy.destinations:
            calls = runs.get(destination, ())
            ports = self.facts.ports(policy, destination)
            if ports and (policy.open_sources or self._missing(calls, ports)):
                yield self._point(destination, calls, True, ports)
            elif calls:
                yield self._point(destination, calls, False, self._called(calls))

    def _called(self, calls: tuple[int, ...]) -> tuple[int, ...]:
        """Ports of some calls, ascending."""
        declared = self.facts.program.calls
        if len(calls) == 1:
            return (declared[calls[0]].port.number,)
        return tuple(sorted({declared[index].port.number for index in calls}))

    def _missing(self, calls: tuple[int, ...], ports: tuple[int, ...]) -> bool:
        """Whether some selected source has no declared call to some port in scope."""
        return len(calls) < len(self.policy.sources) * len(ports)

    def _runs(self) -> dict[str, tuple[int, ...]]:
        """The policy's calls by destination."""
        calls = self.policy.calls
        runs: dict[str, tuple[int, ...]] = {}
        at = 0
        while at < len(calls):
            destination = self.facts.program.calls[calls[at]].destination
            end = bisect_left(calls, self.facts.runs[destination][1], at)
            runs[destination] = calls[at:end]
            at = end
        return runs

    def _point(self, destination: str, calls: tuple[int, ...], opened: bool, ports: tuple[int, ...]) -> DecisionPoint:
        external = destination in self.facts.program.externals
        closes = opened and not external
        flags = 0
        known = self.facts.sender_flags
        for call in calls:
            flags |= known[call]
        ingress = self.capability[Place.INGRESS] or self._ingress(destination, external, ports)
        egress = (
            self.capability[Place.EGRESS]
            or (self._egress(calls, flags) if flags else None)
            or self._state(destination, calls)
            or (self._closed(destination, calls) if closes else None)
        )
        offers_network, network = self.offers_network, None
        if self.pins:
            ingress = ingress or self._pin(destination, Place.INGRESS)
            egress = egress or self._pin(destination, Place.EGRESS)
            offers_network |= any(pin.place is Place.NETWORK for pin in self.pins.get(destination, ()))
        if offers_network:
            network = self.network.of_policy(self.policy) or self.network.at(self.policy, destination, calls, ports)
            network = network or self._pin(destination, Place.NETWORK)
        return DecisionPoint(
            self.position,
            destination,
            calls,
            ingress,
            egress,
            self.policy.kind.both,
            opened,
            ports,
            closes,
            offers_network,
            network,
        )

    def _ingress(self, destination: str, external: bool, ports: tuple[int, ...]) -> Reason | None:
        facts = self.facts
        if external:
            message = f"`{destination}` is outside the mesh, so calls to it are enforced at their senders"
            return Reason(Rule.OUTSIDE, message, (facts.program.externals[destination].span, self.policy.span))
        hidden = facts.host(destination) or facts.hides_refusals(destination, ports, self.policy)
        if hidden is not None or not self.tells_apart:
            return hidden
        if self.policy.kind.guard and not self.policy.open_sources and destination in self.policy.sources:
            message = (
                f"`{self.policy.name}` judges calls of `{destination}` to itself, "
                "and such calls may come from the address of its node"
            )
            return Reason(Rule.CLOSED, message, (self.policy.span,))
        return self.unknown_name or facts.unknown_caller(destination)

    def _egress(self, calls: tuple[int, ...], flags: int) -> Reason | None:
        facts = self.facts
        program = facts.program
        policy = self.policy
        if flags & EXTERNAL:
            call = program.calls[facts.first(calls, EXTERNAL)]
            message = f"`{call.source}` is outside the mesh, so its calls are enforced at ingress"
            return Reason(Rule.OUTSIDE, message, (call.span, program.externals[call.source].span, policy.span))
        if flags & INSIDE:
            return facts.inside(facts.first(calls, INSIDE))
        if flags & NO_HOST:
            return facts.host(program.calls[facts.first(calls, NO_HOST)].source)
        if flags & UNRELIABLE and self.must_rely:
            sender = program.services[program.calls[facts.first(calls, UNRELIABLE)].source]
            message = f"{marked(sender, Mark.UNTRUSTED)}, so `{policy.name}` cannot be left to its egress"
            return Reason(Rule.CLOSED, message, (sender.place(Mark.UNTRUSTED), policy.span))
        return None

    def _state(self, destination: str, calls: tuple[int, ...]) -> Reason | None:
        policy = self.policy
        kind = policy.kind
        if kind.per_replica:
            message = f"`{kind.name}` is a limit of each replica of `{destination}`, so only its ingress can enforce it"
            return Reason(Rule.STATE, message, (policy.span, *kind.declaration))
        if not kind.state or not calls:
            return None
        declared = self.facts.program.calls
        first, last = declared[calls[0]], declared[calls[-1]]  # calls are sorted by source
        if first.source == last.source:
            return None
        message = (
            f"`{policy.name}` counts all callers of `{destination}` together, "
            f"and both `{first.source}` and `{last.source}` call it"
        )
        return Reason(Rule.STATE, message, (policy.span, first.span, last.span))

    def _closed(self, destination: str, calls: tuple[int, ...]) -> Reason | None:
        if self.policy.kind.guard and not calls:
            message = (
                f"`{self.policy.name}` is a guard and applies to no declared call to `{destination}`, "
                "so it is enforced at ingress"
            )
            return Reason(Rule.CLOSED, message, (self.policy.span,))
        return self.facts.closable(destination)

    def _pin(self, destination: str, place: Place) -> Reason | None:
        taken = Place.BOTH if self.policy.kind.both else place
        for pin in self.pins.get(destination, ()):
            if pin.place not in taken.ends:
                message = f"`{self.policy.name}` is pinned at {pin.place} of `{destination}`"
                return Reason(Rule.PIN, message, (pin.span, self.policy.span))
        return None


def _capability(policy: Policy, place: Place) -> Reason | None:
    """Why the annotations exclude a place. Both ends are allowed by a kind that needs both."""
    kind = policy.kind
    if kind.both or place in policy.places:
        return None
    if place not in kind.places:
        message = f"`{kind.name}` works at {_listed(kind.places)} only"
        return Reason(Rule.CAPABILITY, message, (policy.span, *kind.declaration))
    message = f"`{policy.name}` is narrowed to {_listed(policy.places)}"
    return Reason(Rule.CAPABILITY, message, (policy.narrowing or policy.span, policy.span))


def _listed(places: frozenset[Place]) -> str:
    return " or ".join(place for place in Place if place in places)
