"""Why a guard cannot be left to the NetworkPolicy of its destination alone (the place `network`, R4 and R7).

The NetworkPolicy closes each port in scope to all but the callers that the guard admits. It judges a connection by the
addresses of pods, or by ranges of addresses, and it can only admit: it sees no request, and it leaves out no caller. A
caller that it refuses gets no answer. The conditions are those of `docs/rules.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsl.program import Call, Mark, Policy, Program, Verb
from solver.placement import Reason, Rule
from solver.rules.facts import ProgramFacts, callers, has_addresses, marked, targets


class NetworkPlace:
    """The answers for one program."""

    def __init__(self, program: Program, facts: ProgramFacts) -> None:
        self.program = program
        self.facts = facts
        self._on_a_node = next((service for service in program.services.values() if service.host_network), None)
        self._reacting = _reacting(program)

    def of_policy(self, policy: Policy) -> Reason | None:
        """The reason that is the same at each destination, or None."""
        kind = policy.kind
        if not kind.network:
            message = f"`{kind.name}` judges more than the caller, which a NetworkPolicy cannot do"
            return Reason(Rule.CAPABILITY, message, (policy.span, *kind.declaration))
        if policy.narrowing is not None:
            message = f"`{policy.name}` is narrowed to {min(policy.places)}"
            return Reason(Rule.CAPABILITY, message, (policy.narrowing, policy.span))
        if policy.match is not None:
            message = f"`{policy.name}` has a match, and a NetworkPolicy sees no requests"
            return Reason(Rule.CAPABILITY, message, (policy.span,))
        if not policy.open_sources or len(policy.sources) < self.facts.everyone:
            message = f"`{policy.name}` is not for all callers, and a NetworkPolicy cannot leave out some of them"
            return Reason(Rule.CAPABILITY, message, (policy.span,))
        if self.program.network_policies is None:
            message = "the program does not say `network_policies enforced`, so a NetworkPolicy alone may do nothing"
            return Reason(Rule.CLOSED, message, (policy.span,))
        return self._passes_on_its_node(policy) or self._unnamed(policy)

    def at(self, policy: Policy, destination: str, calls: Sequence[int], ports: Sequence[int]) -> Reason | None:
        """The reason at one destination, or None. `calls` and `ports` are those of the decision."""
        program = self.program
        if destination in program.externals:
            message = f"`{destination}` is outside the mesh, and no NetworkPolicy of the cluster closes it"
            return Reason(Rule.OUTSIDE, message, (program.externals[destination].span, policy.span))
        return (
            self.facts.closable(destination)
            or self._shared_target(policy, destination, ports)
            or self._refused(policy, [program.calls[index] for index in calls])
        )

    def _passes_on_its_node(self, policy: Policy) -> Reason | None:
        service = self._on_a_node
        if service is None or self.program.accepts_host_network is not None:
            return None
        message = f"{marked(service, Mark.HOST_NETWORK)}, and passes the NetworkPolicies of pods on its node"
        return Reason(Rule.CLOSED, message, (service.place(Mark.HOST_NETWORK), policy.span))

    def _unnamed(self, policy: Policy) -> Reason | None:
        """Why a NetworkPolicy cannot name a caller that the policy admits, with or without a declared call."""
        for name in callers(policy):
            external = self.program.externals.get(name)
            if external is not None and not has_addresses(external):
                message = f"`{policy.name}` admits `{name}`, whose addresses are not known"
                return Reason(Rule.CLOSED, message, (external.span, policy.span))
            inside = next(iter(self.facts.smaller_only(name, callers(policy))), None)
            if external is not None and inside is not None:
                message = f"`{policy.name}` admits `{name}`, and a NetworkPolicy would admit `{inside}` inside it"
                return Reason(Rule.CLOSED, message, (external.span, self.program.externals[inside].span, policy.span))
            service = self.program.services.get(name)
            if service is not None and service.host_network:
                message = (
                    f"`{policy.name}` admits `{name}`, which is on the host's network and has no address of its own"
                )
                return Reason(Rule.CLOSED, message, (service.place(Mark.HOST_NETWORK), policy.span))
        return None

    def _shared_target(self, policy: Policy, destination: str, ports: Sequence[int]) -> Reason | None:
        """Why closing the ports in scope would close another port, which has the same target."""
        service = self.program.services[destination]
        closed = {port.target: port.number for port in service.ports if port.number in ports}
        for port in service.ports:
            if port.number not in ports and port.target in closed:
                message = (
                    f"ports {closed[port.target]} and {port.number} of `{destination}` have one target, and "
                    f"`{policy.name}` is not for port {port.number}"
                )
                return Reason(Rule.CLOSED, message, (policy.span, service.span))
        return None

    def _refused(self, policy: Policy, calls: Sequence[Call]) -> Reason | None:
        """Why a declared call that the policy refuses may not be dropped."""
        admitted = frozenset(callers(policy))
        for call in calls:
            if call.source in admitted:
                continue
            message = f"`{policy.name}` refuses the declared call from `{call.source}`, and a NetworkPolicy drops it"
            if policy.accepts_drop is None:
                return Reason(Rule.CLOSED, message, (call.span, policy.span))
            if call.source == call.destination:
                message = f"{message}, but not if it comes from its own node"
                return Reason(Rule.CLOSED, message, (call.span, policy.span))
            other = self._reacting.get((call.source, call.destination))
            if other is not None:
                message = f"{message}, and `{other.name}` repeats, counts or redirects such calls"
                return Reason(Rule.CLOSED, message, (call.span, policy.span, other.span))
        return None


def spared(policy: Policy, program: Program) -> frozenset[str] | None:
    """The callers of which a guard of the network refuses nothing, or None if the policy is no such guard (R6)."""
    if not policy.kind.network or policy.narrowing is not None or policy.match is not None:
        return None
    everyone = len(program.services) + len(program.externals)
    if not policy.open_sources or len(policy.sources) < everyone or program.network_policies is None:
        return None
    return frozenset(callers(policy))


def _repeats_dropped(policy: Policy) -> bool:
    words = policy.arguments.get("on")
    return isinstance(words, tuple) and not set(policy.kind.traits.repeats_dropped).isdisjoint(words)


def _reacting(program: Program) -> dict[tuple[str, str], Policy]:
    """(source, destination) of a call -> a policy that repeats or counts a connection of it without an answer.

    A `split` sends requests of another call to its target, with the retries and the counts of that call.
    """
    reacting: dict[tuple[str, str], Policy] = {}
    for policy in program.policies:
        notices = policy.kind.traits.counts_dropped or _repeats_dropped(policy)
        splits = any(effect.verb is Verb.ROUTES for effect in policy.effects or ())
        for index in policy.calls if notices or splits else ():
            call = program.calls[index]
            if notices:
                reacting.setdefault((call.source, call.destination), policy)
            for target in targets(policy) if splits else ():
                reacting.setdefault((call.source, target), policy)
    return reacting
