"""The mesh of a plan as a graph: its parties, the calls between them, and where policies are enforced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from admc.compile.plan.model import AdmPlan, CallRow, Closed, Enforcement, ExternalRow, Plan, PolicyRow, ServiceRow
from admc.review.diff.written import rate_text, size_text
from admc.review.report.model import Key
from dsl.program import Place, Protocol

ANY: Final = "*"
"""The source of an enforcement for callers that the program does not declare."""
LEGEND: Final = (
    Key("adm", "hosts an ADM"),
    Key("service", "a service without an ADM"),
    Key("nohost", "a service that cannot host one"),
    Key("database", "tcp only, such as a database"),
    Key("external", "outside the mesh"),
    Key("closed", "closed to callers that are not declared"),
    Key("ingress", "enforced at ingress"),
    Key("egress", "enforced at egress"),
    Key("both", "enforced at both"),
    Key("network", "enforced by a NetworkPolicy alone"),
    Key("mixed", "enforced by a NetworkPolicy alone, and by ADMs"),
    Key("plain", "a call without a policy"),
)


class Mesh:
    """Look-ups over one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @cached_property
    def services(self) -> Mapping[str, ServiceRow]:
        return {service.name: service for service in self.plan.services}

    @cached_property
    def externals(self) -> Mapping[str, ExternalRow]:
        return {external.name: external for external in self.plan.externals}

    @cached_property
    def adms(self) -> Mapping[str, AdmPlan]:
        return {adm.service: adm for adm in self.plan.adms}

    @cached_property
    def closed(self) -> Mapping[str, Closed]:
        return {closed.destination: closed for closed in self.plan.closed}

    @cached_property
    def policies(self) -> Mapping[str, PolicyRow]:
        return {policy.name: policy for policy in self.plan.policies}

    @cached_property
    def index(self) -> Mapping[str, int]:
        return {policy.name: at for at, policy in enumerate(self.plan.policies)}

    @cached_property
    def enforced(self) -> Mapping[tuple[str, str], list[Enforcement]]:
        """The enforcements by source and destination, in declared order of the policies."""
        enforcements: dict[tuple[str, str], list[Enforcement]] = {}
        for enforcement in self.plan.enforcements:
            enforcements.setdefault((enforcement.source, enforcement.destination), []).append(enforcement)
        for listed in enforcements.values():
            listed.sort(
                key=lambda enforcement: (enforcement.port, self.index.get(enforcement.policy, 0), enforcement.place)
            )
        return enforcements

    @cached_property
    def calls(self) -> Mapping[tuple[str, str], list[CallRow]]:
        """The calls by source and destination; the calls of a pair are in the order of their ports."""
        calls: dict[tuple[str, str], list[CallRow]] = {}
        for call in self.plan.calls:
            calls.setdefault((call.source, call.destination), []).append(call)
        return dict(sorted(calls.items()))

    @cached_property
    def parties(self) -> tuple[str, ...]:
        """The names of all parties: externals, then services."""
        return (*sorted(self.externals), *sorted(self.services))

    @cached_property
    def callers(self) -> Mapping[str, list[str]]:
        callers: dict[str, list[str]] = {}
        for source, destination in self.calls:
            callers.setdefault(destination, []).append(source)
        return callers

    @cached_property
    def callees(self) -> Mapping[str, list[str]]:
        callees: dict[str, list[str]] = {}
        for source, destination in self.calls:
            callees.setdefault(source, []).append(destination)
        return callees

    def shape(self, name: str) -> str:
        if name in self.externals:
            return "external"
        service = self.services.get(name)
        tcp = service is not None and service.ports and all(port.protocol is Protocol.TCP for port in service.ports)
        return "database" if tcp and name not in self.callees else "service"

    def hosts(self, name: str) -> bool:
        service = self.services.get(name)
        return service is None or service.can_host

    def replicas(self, name: str) -> int:
        return self.services[name].replicas if name in self.services else 1

    @cached_property
    def in_network(self) -> Mapping[str, list[str]]:
        """The policies that only the NetworkPolicy of a destination enforces, in declared order."""
        policies: dict[str, dict[str, None]] = {}
        for decision in self.plan.decisions:
            if decision.place is Place.NETWORK:
                policies.setdefault(decision.destination, {})[decision.policy] = None
        return {name: sorted(listed, key=lambda policy: self.index.get(policy, 0)) for name, listed in policies.items()}

    @property
    def legend(self) -> tuple[Key, ...]:
        """The looks. Those of the network are left out where no policy is there."""
        return tuple(key for key in LEGEND if self.in_network or key.look not in ("network", "mixed"))

    def look(self, pair: tuple[str, str]) -> str:
        places = {enforcement.place for enforcement in self.enforced.get(pair, ())}
        if not places:
            return "plain"
        if Place.NETWORK in places:
            return "mixed" if len(places) > 1 else "network"
        return "both" if len(places) > 1 else next(iter(places)).value

    def traffic(self, pair: tuple[str, str]) -> Iterator[tuple[int, str]]:
        """The ports of the calls of a pair, with the known rate and size: `24/s, 420B`."""
        for call in self.calls.get(pair, ()):
            known = (rate_text(call.rate), size_text(call.size))
            yield call.port, ", ".join(text for text in known if text)
