"""An index of one plan: the policies that a request meets, and the requests that a policy meets.

    Plan -> PlanIndex

`calls` are the calls that the program declares. The source `*` stands for all callers without a declared call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from admc.compile.plan.model import DecisionPlan, Plan, PolicyContent, PolicyRow, PortRow, ServiceRow
from admc.review.diff.closed_targets import admitted_parties, closed_targets, named_callers
from admc.review.diff.model import CallName
from admc.review.diff.parties import networks
from dsl.program import Place, Protocol

UNDECLARED = "*"
MOST_UNDECLARED = 1000
"""Findings name at most this many undeclared calls for one policy. All declared calls, and `*`, are named."""

Endpoint = tuple[str, int]
"""A destination and a port."""


def has_source(content: PolicyContent, name: str) -> bool:
    """Whether a caller is in the scope of a policy."""
    return name not in content.excluded if content.open else name in content.sources


class PlanIndex:
    """The rows of one plan by policy, call, destination and service."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows: Mapping[str, PolicyRow] = {row.name: row for row in plan.policies}
        self.position: Mapping[str, int] = {row.name: index for index, row in enumerate(plan.policies)}
        self.services: Mapping[str, ServiceRow] = {row.name: row for row in plan.services}
        self.externals = {row.name: row for row in plan.externals}
        self.closed_targets = closed_targets(plan)
        """The targets at which a NetworkPolicy closes a destination, by destination."""
        self.calls = frozenset(CallName(row.source, row.destination, row.port) for row in plan.calls)
        self.met: dict[str, set[CallName]] = {row.name: set() for row in plan.policies}
        """The declared calls that meet a policy, by policy."""
        self.at_egress: dict[tuple[str, str], list[CallName]] = {}
        """The calls on which the sender's ADM enforces a policy, by policy and destination."""
        for row in plan.enforcements:
            if row.source == UNDECLARED:
                continue
            call = CallName(row.source, row.destination, row.port)
            self.met.setdefault(row.policy, set()).add(call)
            if row.place is Place.EGRESS:
                self.at_egress.setdefault((row.policy, row.destination), []).append(call)
        self.decisions: dict[str, dict[str, DecisionPlan]] = {row.name: {} for row in plan.policies}
        for decision in plan.decisions:
            self.decisions.setdefault(decision.policy, {})[decision.destination] = decision
        self._open: dict[str, frozenset[Endpoint]] = {}
        self._guarded: dict[str, frozenset[Endpoint]] = {}
        self._undeclared: dict[int, dict[str, list[CallName]]] = {}

    @cached_property
    def closed_at(self) -> frozenset[Endpoint]:
        """The ports that a NetworkPolicy closes to undeclared callers: each port whose target is closed."""
        return frozenset(
            (destination, port.number)
            for destination, targets in self.closed_targets.items()
            for port in self.ports_of(destination)
            if port.target in targets
        )

    def closes(self, destination: str, port: PortRow) -> bool:
        """Whether a NetworkPolicy of this plan refuses undeclared callers of a port of the other plan: they dial its
        number, and reach what listens at its target."""
        number_is_closed = (destination, port.number) in self.closed_at
        return number_is_closed or port.target in self.closed_targets.get(destination, ())

    @cached_property
    def admitted_senders(self) -> Mapping[str, frozenset[str]]:
        """The parties that NetworkPolicies name, by closed destination: those that they admit to a closed port."""
        senders: dict[str, set[str]] = {name: set() for name in self.closed_targets}
        for (destination, _target), parties in self._admitted.items():
            senders[destination].update(parties)
        return {name: frozenset(its) for name, its in senders.items()}

    @cached_property
    def _admitted(self) -> Mapping[tuple[str, int], frozenset[str]]:
        """The parties that a NetworkPolicy admits, by closed destination and target."""
        return admitted_parties(self.plan)

    @cached_property
    def admitted_at(self) -> Mapping[Endpoint, frozenset[str]]:
        """The parties that a NetworkPolicy admits, by closed port."""
        return {
            (destination, port.number): self._admitted.get((destination, port.target), frozenset())
            for destination in self.closed_targets
            for port in self.ports_of(destination)
            if (destination, port.number) in self.closed_at
        }

    def admits_at(self, party: str, destination: str, port: PortRow) -> bool:
        """Whether a NetworkPolicy of this plan admits a party to a port of the other plan."""
        by_number = self.admitted_at.get((destination, port.number), frozenset())
        return party in by_number or party in self._admitted.get((destination, port.target), ())

    def content(self, policy: str) -> PolicyContent:
        return self.rows[policy].content

    @cached_property
    def calls_from(self) -> Mapping[str, list[CallName]]:
        """The declared calls by sender."""
        calls: dict[str, list[CallName]] = {}
        for call in sorted(self.calls):
            calls.setdefault(call.source, []).append(call)
        return calls

    @cached_property
    def policies_at(self) -> Mapping[CallName, list[str]]:
        """The policies that a declared call meets, in declared order."""
        policies: dict[CallName, list[str]] = {}
        for row in self.plan.policies:
            for call in self.met[row.name]:
                policies.setdefault(call, []).append(row.name)
        return policies

    @cached_property
    def open_at(self) -> Mapping[Endpoint, list[str]]:
        """The policies that all undeclared callers of a port meet, in declared order."""
        policies: dict[Endpoint, list[str]] = {}
        for row in self.plan.policies:
            for endpoint in self.open(row.name):
                policies.setdefault(endpoint, []).append(row.name)
        return policies

    @cached_property
    def guarded_at(self) -> Mapping[Endpoint, list[str]]:
        """The guards that name their sources, by port: the sources meet them also without a declared call."""
        guards: dict[Endpoint, list[str]] = {}
        for row in self.plan.policies:
            for endpoint in self.guarded(row.name):
                guards.setdefault(endpoint, []).append(row.name)
        return guards

    def open(self, policy: str) -> frozenset[Endpoint]:
        """The ports at which undeclared callers meet a policy, except callers that its scope leaves out."""
        endpoints = self._open.get(policy)
        if endpoints is None:
            content = self.content(policy)
            endpoints = self._open[policy] = frozenset(
                (decision.destination, port)
                for decision in self.decisions.get(policy, {}).values()
                if decision.open and content.open and decision.destination not in self.externals
                for port in decision.ports
            )
        return endpoints

    def guarded(self, policy: str) -> frozenset[Endpoint]:
        """The ports at which a guard that names its sources meets them, with a declared call or without.

        Empty for every other policy.
        """
        content = self.content(policy)
        if content.open or not content.guard:
            return frozenset()
        endpoints = self._guarded.get(policy)
        if endpoints is None:
            endpoints = self._guarded[policy] = frozenset(
                (destination, port)
                for destination in content.destinations
                if destination not in self.externals
                for port in self.ports(content, destination)
            )
        return endpoints

    def ports_of(self, destination: str) -> tuple[PortRow, ...]:
        party = self.services.get(destination) or self.externals.get(destination)
        return () if party is None else party.ports

    def ports(self, content: PolicyContent, destination: str) -> Iterable[int]:
        """The ports of a destination that a policy selects and on which it can be enforced."""
        return (
            port.number
            for port in self.ports_of(destination)
            if port.protocol in content.protocols
            and (content.ports is None or port.number in content.ports)
            and (content.when is None or port.protocol is not Protocol.TCP)
        )

    def has_port(self, destination: str, port: int) -> bool:
        """Whether a destination has this port."""
        return any(row.number == port for row in self.ports_of(destination))

    def is_party(self, name: str) -> bool:
        return name in self.services or name in self.externals

    def declares(self, call: CallName) -> bool:
        return call in self.calls

    def met_undeclared(self, other: PlanIndex) -> Mapping[str, list[CallName]]:
        """Calls that only the other plan declares, by the policies that they meet as undeclared calls in this plan."""
        calls_by_policy = self._undeclared.get(id(other))
        if calls_by_policy is None:
            calls_by_policy = self._undeclared[id(other)] = {}
            for call in other.calls - self.calls:
                for policy in self.meets(call):
                    calls_by_policy.setdefault(policy, []).append(call)
        return calls_by_policy

    def undeclared(self, call: CallName) -> list[str]:
        """The policies that a request meets if its call is not declared, in declared order."""
        endpoint = (call.destination, call.port)
        names = (*self.open_at.get(endpoint, ()), *self.guarded_at.get(endpoint, ()))
        return sorted((name for name in names if self.selects(name, call.source)), key=self.position.__getitem__)

    def selects(self, policy: str, source: str) -> bool:
        """Whether a policy applies to requests of a caller that has no declared call."""
        content = self.content(policy)
        return (content.open or content.guard) and has_source(content, source)

    def applies(self, policy: str | None, call: CallName) -> bool:
        """Whether a request of this caller meets a policy. The call may be declared or not."""
        if policy is None or policy not in self.rows:
            return False
        if call in self.met[policy]:
            return True
        if call in self.calls:
            return False
        endpoint = (call.destination, call.port)
        here = endpoint in self.open(policy) or endpoint in self.guarded(policy)
        return here and self.selects(policy, call.source)

    def meets(self, call: CallName) -> list[str]:
        """The policies that a request of this caller meets, in declared order. The call may be declared or not."""
        if call in self.calls:
            return self.policies_at.get(call, [])
        return self.undeclared(call)

    # ---- guards that judge the caller alone ----

    def admits(self, policy: str) -> frozenset[str] | None:
        """The callers that a guard admits, if it judges the caller alone. None for every other policy."""
        content = self.content(policy)
        if not content.judges_caller_alone:
            return None
        return named_callers(content)

    @cached_property
    def singled_out(self) -> Mapping[str, list[str]]:
        """The policies that treat an undeclared caller differently from other undeclared callers, by its name."""
        policies: dict[str, list[str]] = {}
        for row in self.plan.policies:
            content = row.content
            named = content.excluded if content.open else content.sources if content.guard else ()
            for name in {*named, *(self.admits(row.name) or ())}:
                policies.setdefault(name, []).append(row.name)
        return policies

    @cached_property
    def strangers(self) -> frozenset[str]:
        """The names of callers with an unknown address: externals without addresses that may call, else `*`."""
        calling = {row.source for row in self.plan.calls}
        names = (name for name, row in self.externals.items() if not row.cidrs and (name in calling or not row.ports))
        return frozenset(names) or frozenset((UNDECLARED,))

    @cached_property
    def unknown(self) -> frozenset[str]:
        """The externals that any undeclared caller may be: those without addresses, and those with all addresses."""
        everywhere = (
            name for name, row in self.externals.items() if any(not network.prefixlen for network in networks(row))
        )
        return (self.strangers - {UNDECLARED}) | frozenset(everywhere)

    def refusing(self, call: CallName) -> str | None:
        """A guard that refuses every request of this call, if there is one. The call may be declared or not."""
        known_as = self.unknown | {UNDECLARED} if call.source == UNDECLARED else {call.source}
        for name in self.meets(call):
            admitted, content = self.admits(name), self.content(name)
            if admitted is None or content.when is not None:
                continue
            if known_as.isdisjoint(admitted) and known_as.isdisjoint(content.excluded):
                return name
        return None

    def refuses(self, call: CallName) -> bool:
        """Whether every request of this call is refused: by a guard, or undeclared at a closed port."""
        return (call not in self.calls and self.closed_to(call)) or self.refusing(call) is not None

    def closed_to(self, call: CallName) -> bool:
        """Whether a NetworkPolicy refuses an undeclared call: its port is closed, and its caller not admitted there."""
        admitted = self.admitted_at.get((call.destination, call.port))
        return admitted is not None and call.source not in admitted
