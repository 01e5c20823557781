"""The connections that NetworkPolicies have to let through, from a program and the place of each decision.

    program, placement -> Network;  network.fate(Knock(...)) -> admitted, dropped, or either
                                    network.meets, network.handlers -> the judge of what a request then meets

From docs/rules.md (R7, `network`) and docs/interception.md, and without the emitted objects: which decisions need a
target closed, and which callers they admit there, is worked out here again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Place, Protocol
from tests.fidelity.kinds import words
from tests.fidelity.mesh.requests import declared
from tests.fidelity.selecting import policies_of
from tests.testbed.mesh import Family, Transport, Way

if TYPE_CHECKING:
    from dsl.program import Policy, Port, Program
    from solver.placement import Placement
    from tests.fidelity.judge import Handler, Inner, Run
    from tests.fidelity.judge import Place as At
    from tests.fidelity.mesh.requests import Asked
    from tests.fidelity.message import Answer, Message

GUARDS = ("allow", "deny")
"""The kinds that may be in the network."""


class Fate(StrEnum):
    ADMITTED = "admitted"
    DROPPED = "dropped"
    EITHER = "admitted or dropped"


class Knock(NamedTuple):
    """A connection, or a packet, to a number of a destination's pod."""

    source: str
    destination: str
    transport: Transport
    number: int
    """As the process has it: the target of a port."""
    family: Family = Family.IPV4
    sender: int = 0
    """Which replica of the source sends it."""
    replica: int | None = 0
    """Which one of the destination gets it; None: whichever the service address leads to."""

    def __str__(self) -> str:
        to = "" if self.replica is None else f"/{self.replica}"
        where = f"{self.source}/{self.sender} -> {self.destination}{to}:{self.number}"
        return f"{where} over {self.transport}, {self.family.value}"


class Network:
    """Of one placement. Without a placement nothing is closed.

    Names alone say who gets in: a correct placement closes no target where an outside party would get in by the larger
    network of another one (R7). Programs here have no two parties with equal networks.
    """

    def __init__(self, program: Program, placement: Placement | None) -> None:
        self._program = program
        decisions = placement.decisions if placement is not None else ()
        self._places = {(each.policy, each.destination): each.place for each in decisions}
        self._needs: dict[tuple[str, int], list[frozenset[str]]] = {}
        """The parties that each decision admits at a target that it needs closed."""
        for (name, destination), place in self._places.items():
            service = program.services.get(destination)
            policy = program.policy_by_name[name]
            if service is None or place is Place.INGRESS or not self._is_open(policy, destination):
                continue
            for target in {port.target for port in self._ports(policy, destination)}:
                admitted = self._named(policy) if place is Place.NETWORK else self._declared(destination, target)
                self._needs.setdefault((destination, target), []).append(admitted)

    @property
    def closed(self) -> frozenset[tuple[str, int]]:
        """Destinations, each with a target that is closed."""
        return frozenset(self._needs)

    def fate(self, knock: Knock) -> Fate:
        """What becomes of it on its way."""
        needs = self._needs.get((knock.destination, knock.number))
        if needs is None or self._is_on_a_node(knock.source):
            return Fate.ADMITTED
        if knock.transport is Transport.TCP and all(knock.source in admitted for admitted in needs):
            return Fate.ADMITTED
        if knock.source != knock.destination:
            return Fate.DROPPED
        # Kubernetes keeps no pod from itself.
        return (
            Fate.EITHER if knock.replica is None else Fate.ADMITTED if knock.replica == knock.sender else Fate.DROPPED
        )

    def of(self, asked: Asked) -> Fate:
        """What becomes of the connection of a request."""
        route = asked.route
        replica = None if route.way is Way.SERVICE else route.replica
        to = (asked.source, asked.destination, Transport.TCP, asked.port.target)
        return self.fate(Knock(*to, route.family, route.sender, replica))

    def meets(self, program: Program, source: str, destination: str, port: Port) -> tuple[Policy, ...]:
        """The policies on a call that gets through, or is dropped on its way: a guard in the network does something
        to a call that it refuses alone. What no NetworkPolicy keeps out meets no policy of the senders."""
        uninvited = source == destination and source not in self._declared(destination, port.target)
        past = (destination, port.target) in self._needs and (uninvited or self._is_on_a_node(source))

        def is_met(policy: Policy) -> bool:
            place = self._places.get((policy.name, destination), Place.INGRESS)
            if place is Place.INGRESS:
                return True
            return not past and (place is not Place.NETWORK or self._refuses(policy, source, destination))

        found = list(filter(is_met, policies_of(program, source, destination, port)))
        drop = next((at for at, policy in enumerate(found) if self._is_in_the_network(policy, destination)), len(found))
        # The sender's own timeout ends the wait of a dropped call, also if it is declared after the guard.
        after = sorted(found[drop:], key=lambda policy: policy.kind.name != "timeout")
        return (*found[:drop], *after)

    def meets_senders(self, asked: Asked) -> bool:
        """Whether the ADM of the caller enforces a policy on the request."""
        met = policies_of(self._program, asked.source, asked.destination, asked.port)
        places = {self._places.get((policy.name, asked.destination)) for policy in met}
        return declared(self._program, asked) and not places.isdisjoint((Place.EGRESS, Place.BOTH))

    def is_direct(self, asked: Asked) -> bool:
        """Whether no ADM of the placement reads the request: no policy of its port is at an ADM on its way."""
        at_receiver = (
            policy
            for policy in self._program.policies
            if self._places.get((policy.name, asked.destination)) in (Place.INGRESS, Place.BOTH)
        )
        return not self.meets_senders(asked) and not any(
            asked.protocol in policy.kind.protocols and (policy.ports is None or asked.port.number in policy.ports)
            for policy in at_receiver
        )

    def handlers(self, every: Mapping[str, Handler]) -> Mapping[str, Handler]:
        """What each kind does, here."""
        return {**every, **{kind: partial(self._guard, every[kind]) for kind in GUARDS}}

    def _guard(self, usual: Handler, run: Run, policy: Policy, at: At, message: Message, inner: Inner) -> Answer:
        if not self._is_in_the_network(policy, at.destination):
            return usual(run, policy, at, message, inner)
        run.wait(inf)  # until the first that waits gives up
        raise AssertionError("no caller here waits for ever")

    def _is_in_the_network(self, policy: Policy, destination: str) -> bool:
        return self._places.get((policy.name, destination)) is Place.NETWORK

    def _refuses(self, policy: Policy, source: str, destination: str) -> bool:
        return source not in (destination, *self._named(policy))

    def _is_on_a_node(self, source: str) -> bool:
        service = self._program.services.get(source)
        return service is not None and service.host_network

    def _is_open(self, policy: Policy, destination: str) -> bool:
        """Whether callers without a declared call are in its scope (R7)."""
        if policy.open_sources:
            return True
        numbers = {port.number for port in self._ports(policy, destination)}
        declared = {(call.source, call.port.number) for call in self._program.calls if call.destination == destination}
        ways = {(source, number) for source in policy.sources for number in numbers}
        return policy.kind.guard and not ways <= declared

    def _ports(self, policy: Policy, destination: str) -> list[Port]:
        """The ports in scope."""
        return [
            port
            for port in self._program.services[destination].ports
            if (policy.ports is None or port.number in policy.ports)
            and port.protocol in policy.kind.protocols
            and not (policy.match is not None and port.protocol is Protocol.TCP)
        ]

    def _named(self, policy: Policy) -> frozenset[str]:
        return frozenset(words(policy, "callers")) if policy.kind.name == "allow" else frozenset()

    def _declared(self, destination: str, target: int) -> frozenset[str]:
        return frozenset(
            call.source for call in self._program.calls if (call.destination, call.port.target) == (destination, target)
        )
