"""The parts of a plan on which the configuration of an ADM depends.

    plan -> {service: Configuration}: equal values mean equal configurations, except for addresses of pods

A hop is one direction and port of an ADM. The configuration of a hop depends on these parts:

    always                        its policies in their order, and the port
    at ingress                    the callers in scope, since the ADM tells callers apart
    at egress to an external      the addresses of the external

Two policies that commute may change places without a difference for requests. Here the other order counts as another
configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Place, Side, callee

if TYPE_CHECKING:
    from collections.abc import Collection

    from admc.compile.plan.model import (
        ArgumentRow,
        DecisionPlan,
        ExternalRow,
        Plan,
        PolicyContent,
        PolicyRow,
        PortRow,
        ServiceRow,
    )


class Hop(NamedTuple):
    side: Side
    destination: str
    port: int


Configuration = tuple[tuple[Hop, object], ...]


def configurations(plan: Plan, of: Collection[str]) -> dict[str, Configuration]:
    """The configurations of the ADMs of the services `of`."""
    names = _names_of_hops(plan, of)
    parts = _Parts(plan)
    return {
        service: tuple((hop, parts.of(service, hop, names[service][hop])) for hop in sorted(names.get(service, ())))
        for service in of
    }


def _names_of_hops(plan: Plan, of: Collection[str]) -> dict[str, dict[Hop, set[str]]]:
    names: dict[str, dict[Hop, set[str]]] = {}
    for decision in plan.decisions:
        if Side.INGRESS in decision.place.sides and decision.destination in of:
            for hop in _ingress(decision):
                names.setdefault(decision.destination, {}).setdefault(hop, set()).add(decision.policy)
    for row in plan.enforcements:
        if row.place is Place.EGRESS and row.service is not None and row.service in of:
            hop = Hop(Side.EGRESS, row.destination, row.port)
            names.setdefault(row.service, {}).setdefault(hop, set()).add(row.policy)
    return names


def _ingress(decision: DecisionPlan) -> list[Hop]:
    return [Hop(Side.INGRESS, decision.destination, number) for number in decision.ports]


class _Parts:
    """Builds the parts of configurations, and each of them only once."""

    def __init__(self, plan: Plan) -> None:
        self._position = {row.name: index for index, row in enumerate(plan.policies)}
        self._policies = {row.name: row for row in plan.policies}
        self._services = {row.name: row for row in plan.services}
        self._externals = {row.name: row for row in plan.externals}
        self._made: dict[tuple[str, Side], object] = {}

    def of(self, service: str, hop: Hop, names: Collection[str]) -> object:
        ordered = sorted(names, key=lambda name: self._position[name])
        policies = tuple(self._policy(name, hop.side, service) for name in ordered)
        return policies, self._port(hop), self._replicas(service, hop, ordered), self._outside(hop)

    def _policy(self, name: str, side: Side, service: str) -> object:
        row = self._policies[name]
        if side is Side.EGRESS and row.content.judges_caller_alone:
            return self._judged(row, row.content, service)
        made = self._made.get((name, side))
        if made is None:
            made = self._made[name, side] = self._content(row, side)
        return made

    def _judged(self, row: PolicyRow, content: PolicyContent, service: str) -> object:
        """A guard at egress. Only whether it names the sender counts there, since the sender is the only caller."""
        named = [service in argument.value for argument in content.arguments if isinstance(argument.value, tuple)]
        return row.name, row.kind, named, content.when, content.template_sha256

    def _content(self, row: PolicyRow, side: Side) -> object:
        content = row.content
        scope = self._scope(content) if side is Side.INGRESS else ()
        arguments = tuple(
            (argument.name, argument.value, argument.sha256, self._called(argument)) for argument in content.arguments
        )
        return row.name, row.kind, arguments, content.when, content.template_sha256, scope

    def _scope(self, content: PolicyContent) -> object:
        """The callers in scope, with the addresses of externals among them."""
        named = (*content.sources, *content.excluded)
        outside = tuple(self._externals[name].cidrs for name in named if name in self._externals)
        return content.open, content.sources, content.excluded, outside

    def _called(self, argument: ArgumentRow) -> object:
        """The ports and hosts of the party that the ADM itself calls for an argument of type `service`."""
        if argument.type != "service":
            return None
        name, _port = callee(str(argument.value))
        service, external = self._services.get(name), self._externals.get(name)
        return (service and service.ports, external and (external.ports, external.hosts))

    def _port(self, hop: Hop) -> PortRow | None:
        row: ServiceRow | ExternalRow | None = self._services.get(hop.destination) or self._externals.get(
            hop.destination
        )
        return None if row is None else next((port for port in row.ports if port.number == hop.port), None)

    def _replicas(self, service: str, hop: Hop, names: Collection[str]) -> object:
        """The replicas of the ADM, if they share a limit, and whether the destination has several, if a sender chooses.

        None for each of the two that makes no difference.
        """
        contents = [self._policies[name].content for name in names]
        shared = any(content.state and not content.per_replica for content in contents)
        chosen = any(content.places == (Place.EGRESS,) for content in contents)
        own, destination = self._services.get(service), self._services.get(hop.destination)
        return (
            own.replicas if shared and own is not None else None,
            destination.replicas > 1 if chosen and destination is not None else None,
        )

    def _outside(self, hop: Hop) -> object:
        row = self._externals.get(hop.destination)
        return None if row is None else (row.hosts, row.cidrs)
