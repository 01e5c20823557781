"""The content of a picture of a placement, independent of its format.

All formats are made from one `Scene`, so that a mermaid diagram and an SVG of one plan agree. An SVG of a large scene
shows a part of it (`around_adms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Place, Side

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsl.program import Program
    from solver.placement import Adm, Placement


class Sitting(NamedTuple):
    """One policy at one service. `destinations` are those of its enforcement at egress; empty elsewhere."""

    policy: str
    place: Place
    destinations: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.policy} → {', '.join(self.destinations)}" if self.destinations else self.policy


@dataclass(frozen=True, slots=True)
class SceneNode:
    """A service or an external."""

    name: str
    external: bool = False
    replicas: int = 1
    adm: bool = False
    can_host: bool = True
    closed: bool = False
    """At some of its ports, a NetworkPolicy admits its declared senders only."""
    policies: tuple[Sitting, ...] = ()
    """The policies that the NetworkPolicy of the service enforces without an ADM, then those of its ADM in its order:
    at ingress, then at egress."""


class Edge(NamedTuple):
    """All calls from one node to another, whatever the port. Indices are into `Scene.nodes`."""

    source: int
    destination: int
    ingress: tuple[str, ...]
    """Policies enforced on these calls at the destination, in declared order."""
    egress: tuple[str, ...]
    """Policies enforced on these calls at the source, in declared order."""
    network: tuple[str, ...] = ()
    """Policies that only the destination's NetworkPolicy enforces on these calls, in declared order."""

    @property
    def enforced(self) -> bool:
        return bool(self.ingress or self.egress or self.network)

    @property
    def places(self) -> tuple[tuple[Place, tuple[str, ...]], ...]:
        """The policies by place, in the order in which a request meets them; without places that have none."""
        listed = ((Place.EGRESS, self.egress), (Place.NETWORK, self.network), (Place.INGRESS, self.ingress))
        return tuple((place, policies) for place, policies in listed if policies)


@dataclass(frozen=True, slots=True)
class Scene:
    app: str
    nodes: tuple[SceneNode, ...]
    """Externals by name, then services by name."""
    edges: tuple[Edge, ...]
    """Sorted by source and destination."""
    hidden: int = 0
    """Services that were left out because there are too many to draw."""
    hidden_adms: int = 0
    hidden_hosts: int = 0
    """Hidden services that can host an ADM."""

    @property
    def services(self) -> int:
        return sum(not node.external for node in self.nodes) + self.hidden

    @property
    def hosts(self) -> int:
        """The number of services that can host an ADM, with which the number of ADMs is compared."""
        return sum(node.can_host and not node.external for node in self.nodes) + self.hidden_hosts

    @property
    def adms(self) -> int:
        return sum(node.adm for node in self.nodes) + self.hidden_adms


def place_text(place: Place, policies: Sequence[str]) -> str:
    """Policies with their place: `a, b at ingress`, or `a in the network`."""
    return f"{', '.join(policies)} {'in the network' if place is Place.NETWORK else f'at {place}'}"


def scene(program: Program, placement: Placement) -> Scene:
    """The whole placement as nodes and edges."""
    adms = {adm.service: adm for adm in placement.adms}
    closed = frozenset(placement.closed)
    towards: dict[tuple[str, str], set[str]] = {}
    at: dict[tuple[str, str], dict[Place, set[str]]] = {}
    network: dict[str, set[str]] = {}
    for call in program.calls:
        at.setdefault(
            (call.source, call.destination), {Place.INGRESS: set(), Place.EGRESS: set(), Place.NETWORK: set()}
        )
    for decision in placement.decisions:
        if decision.place is Place.NETWORK:
            network.setdefault(decision.destination, set()).add(decision.policy)
        for index in decision.calls:
            call = program.calls[index]
            for place in decision.place.ends:
                at[call.source, call.destination][place].add(decision.policy)
            if Side.EGRESS in decision.place.sides:
                towards.setdefault((call.source, decision.policy), set()).add(call.destination)
    position = {policy.name: index for index, policy in enumerate(program.policies)}
    names = [*sorted(program.externals), *sorted(program.services)]
    nodes = []
    for name in names:
        if name in program.externals:
            nodes.append(SceneNode(name, external=True))
            continue
        service = program.services[name]
        adm = adms.get(name)
        nodes.append(
            SceneNode(
                name,
                replicas=service.replicas,
                adm=adm is not None,
                can_host=service.can_host,
                closed=name in closed,
                policies=(
                    *(
                        Sitting(policy, Place.NETWORK)
                        for policy in sorted(network.get(name, ()), key=position.__getitem__)
                    ),
                    *(_sittings(adm, towards) if adm else ()),
                ),
            )
        )
    index_of = {name: index for index, name in enumerate(names)}
    edges = sorted(
        Edge(
            index_of[source],
            index_of[destination],
            *(
                tuple(sorted(places[place], key=position.__getitem__))
                for place in (Place.INGRESS, Place.EGRESS, Place.NETWORK)
            ),
        )
        for (source, destination), places in at.items()
    )
    return Scene(program.app, tuple(nodes), tuple(edges))


def _sittings(adm: Adm, towards: Mapping[tuple[str, str], set[str]]) -> tuple[Sitting, ...]:
    inbound = tuple(Sitting(policy, Place.INGRESS) for policy in adm.ingress)
    return inbound + tuple(
        Sitting(policy, Place.EGRESS, tuple(sorted(towards.get((adm.service, policy), ())))) for policy in adm.egress
    )


def around_adms(whole: Scene, limit: int) -> Scene:
    """The part of a large scene that is about policies, with at most `limit` nodes.

    One service with policies after another is kept, those with most policies first, each with the other ends of its
    enforced calls, while there is room. Calls without an enforcement are left out. A scene within the limit is kept as
    it is.
    """
    if len(whole.nodes) <= limit:
        return whole
    partners: dict[int, list[int]] = {}
    for edge in whole.edges:
        if edge.egress:
            partners.setdefault(edge.source, []).append(edge.destination)
        if edge.ingress or edge.network:
            partners.setdefault(edge.destination, []).append(edge.source)
    hosts = [index for index, node in enumerate(whole.nodes) if node.adm or node.policies]
    hosts.sort(key=lambda index: (-len(whole.nodes[index].policies), index))
    kept: set[int] = set()
    for host in hosts:
        for index in (host, *sorted(partners.get(host, ()))):
            if len(kept) < limit:
                kept.add(index)
    order = sorted(kept)
    new = {old: index for index, old in enumerate(order)}
    return Scene(
        whole.app,
        tuple(whole.nodes[index] for index in order),
        tuple(
            edge._replace(source=new[edge.source], destination=new[edge.destination])
            for edge in whole.edges
            if edge.source in new and edge.destination in new and edge.enforced
        ),
        hidden=sum(not node.external for i, node in enumerate(whole.nodes) if i not in kept),
        hidden_adms=sum(node.adm for i, node in enumerate(whole.nodes) if i not in kept),
        hidden_hosts=sum(node.can_host and not node.external for i, node in enumerate(whole.nodes) if i not in kept),
    )
