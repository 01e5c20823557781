"""Mistakes in what only shows where connections are redirected: packet filter rules, NetworkPolicies, peers' addresses.

All mutants share one bed: each has a destination of its own, and each kind of destination a twin that is left as it is
emitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import yaml

import dsl
from dsl.program import Protocol
from solver.place import place
from tests.fidelity.mesh import networks
from tests.fidelity.mesh.admitting import Network
from tests.fidelity.mesh.derive import requests
from tests.fidelity.mesh.judging import compare
from tests.fidelity.mesh.observing import observe, unlike
from tests.fidelity.mesh.requests import Asked
from tests.fidelity.mutants_edits import NothingChangedError, every
from tests.fidelity.requests import Ask
from tests.testbed.mesh import Family, Mesh, Mode
from tests.testbed.network_policies import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.program import Program
    from solver.placement import Placement
    from tests.fidelity.compare import Difference

Files = dict[str, bytes]
Objects = list[dict[str, Any]]
Kept = TypeVar("Kept", Files, Objects)
PATIENT: Final = 3.0
"""Seconds that a caller waits for an answer: some mutants let nothing through to the destination, for no caller."""
AT_ONCE: Final = 16
"""How many callers ask at the same time."""
ALL_ADDRESSES: Final = [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
RULES: Final = {Family.IPV4: "iptables.rules", Family.IPV6: "ip6tables.rules"}


class Shape(NamedTuple):
    """A destination and the policy that stands in front of it."""

    kind: str
    service: str
    policy: str
    side: str
    port: int
    """Where its process listens."""

    @property
    def protocol(self) -> str:
        return self.service.partition(" ")[0]


GUARD: Final = Shape("allow", "http 8080 -> 9080", "allow(callers: [a]) on * -> {0}", "ingress", 9080)
TCP_GUARD: Final = Shape("allow", "tcp 7000", "allow(callers: [a]) on * -> {0}", "ingress", 7000)
TAG: Final = Shape(
    "add_request_header",
    "http 8080 -> 9080",
    'add_request_header(name: "x-in", value: "policy") on * -> {0}',
    "egress",
    9080,
)


METERED: Final = TAG._replace(
    service="http 8080 -> 9080  http metrics 9081",
    policy='add_request_header(name: "x-in", value: "policy") on * -> {0}:8080',
)
"""A destination with a port that no policy is about, whose number follows that of the closed one."""

GUARDED: Final = Shape(
    "allow", "http 8080 -> 9080  http metrics 9081", "allow(callers: [a, office]) on * -> {0}:8080", "network", 9080
)
"""A guard in the network, of a service and of an outside party. No policy is about the other port."""
GUARDED_TWICE: Final = GUARDED._replace(policy="allow(callers: [a, office]) on * -> {0}")


@dataclass(frozen=True)
class Spot:
    """Where a mutant is in the bed."""

    name: str
    shape: Shape
    service: Mapping[Family, str]
    pod: Mapping[Family, str]
    callers: Mapping[Family, tuple[str, ...]]
    """Addresses of `a`."""


class MeshMutant(NamedTuple):
    about: str
    title: str
    shape: Shape
    files: Callable[[Files, Spot], Files] | None = None
    objects: Callable[[Objects, Spot], Objects] | None = None


class Noticed(NamedTuple):
    mutant: MeshMutant
    seen: str | None
    """The first difference, None where it survived."""


# ---- mistakes ----


def no_rules(*families: Family, only: str = "") -> Callable[[Files, Spot], Files]:
    """Rules for the destination are missing; with `only`, those that have this word."""

    def edit(files: Files, spot: Spot) -> Files:
        return _lines(files, spot, families, lambda line: None if only in line else line)

    return edit


def respelt(old: str, new: str, *families: Family) -> Callable[[Files, Spot], Files]:
    def edit(files: Files, spot: Spot) -> Files:
        return _lines(files, spot, families, lambda line: line.replace(old, new))

    return edit


def _lines(files: Files, spot: Spot, families: Iterable[Family], change: Callable[[str], str | None]) -> Files:
    """The rules about a destination: its own at ingress, at egress those that name its addresses."""
    found = dict(files)
    for family in families:
        own = f"{spot.name if spot.shape.side == 'ingress' else 'a'}/{RULES[family]}"
        about = f"--dport {spot.shape.port} " if spot.shape.side == "ingress" else ""
        wanted = [about] if about else [f"-d {spot.service[family]}/", f"-d {spot.pod[family]}/"]
        kept = []
        for line in files[own].decode().splitlines(keepends=True):
            changed = change(line) if any(each in line for each in wanted) else line
            kept += [changed] if changed is not None else []
        found[own] = "".join(kept).encode()
    return found


def no_way(address: Callable[[Spot], str], family: Family) -> Callable[[Files, Spot], Files]:
    """One address of the destination is not captured."""

    def edit(files: Files, spot: Spot) -> Files:
        return _lines(files, spot, [family], lambda line: None if f"-d {address(spot)}/" in line else line)

    return edit


def told(change: Callable[[dict[str, Any], Spot], dict[str, Any]]) -> Callable[[Files, Spot], Files]:
    """The destination's ADM has another configuration."""

    def edit(files: Files, spot: Spot) -> Files:
        own = f"{spot.name}/bootstrap.yaml"
        return {**files, own: yaml.safe_dump(change(yaml.safe_load(files[own]), spot), sort_keys=False).encode()}

    return edit


def unknown(of: Callable[[Spot], Iterable[str]]) -> Callable[[Files, Spot], Files]:
    """Addresses of the caller that the ADM takes for those of another one."""

    def change(bootstrap: dict[str, Any], spot: Spot) -> dict[str, Any]:
        gone = set(of(spot))
        unused = {False: "192.0.2.1", True: "2001:db8::1"}
        return every("address_prefix", lambda each: unused[":" in each] if each in gone else each)(bootstrap)

    return told(change)


def _forwarded(bootstrap: dict[str, Any], spot: Spot) -> dict[str, Any]:
    """The ADM trusts a forwarded caller address."""
    return every("principals", lambda each: [{"remote_ip": one["direct_remote_ip"]} for one in each])(bootstrap)


def _without(objects: Objects, spot: Spot) -> Objects:
    return [each for each in objects if _of(each) != spot.name]


def _all_callers(objects: Objects, spot: Spot) -> Objects:
    return [
        _admitted(each, lambda rule: {**rule, "from": ALL_ADDRESSES}) if _of(each) == spot.name else each
        for each in objects
    ]


def peers(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Callable[[Objects, Spot], Objects]:
    """Other senders."""

    def edit(objects: Objects, spot: Spot) -> Objects:
        def admitted(rule: dict[str, Any]) -> dict[str, Any]:
            return {**rule, "from": change(rule["from"])}

        return [_admitted(each, admitted) if _of(each) == spot.name else each for each in objects]

    return edit


def _rogue_too(own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pods = next(peer for peer in own if "podSelector" in peer)
    return [*own, {**pods, "podSelector": {"matchLabels": {"app": "rogue"}}}]


def _any_namespace(own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**peer, "namespaceSelector": {}} if "podSelector" in peer else peer for peer in own]


def _wider(own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Networks that are twice as large."""
    return [
        {"ipBlock": {"cidr": str(ip_network(peer["ipBlock"]["cidr"]).supernet())}} if "ipBlock" in peer else peer
        for peer in own
    ]


def added(**port: Any) -> Callable[[Objects, Spot], Objects]:
    """A rule that admits every caller to one more port."""

    def edit(objects: Objects, spot: Spot) -> Objects:
        def ruled(policy: dict[str, Any]) -> dict[str, Any]:
            return {**policy, "spec": {**policy["spec"], "ingress": [*policy["spec"]["ingress"], {"ports": [port]}]}}

        return [ruled(each) if _of(each) == spot.name else each for each in objects]

    return edit


def _other_pods(objects: Objects, spot: Spot) -> Objects:
    other = {"matchLabels": {"app": "idle"}}
    return [
        {**each, "spec": {**each["spec"], "podSelector": other}} if _of(each) == spot.name else each for each in objects
    ]


def _service_port(objects: Objects, spot: Spot) -> Objects:
    """The port that callers know, instead of the one that pods listen on."""

    def ported(rule: dict[str, Any]) -> dict[str, Any]:
        return {**rule, "ports": [{**each, "port": 8080} for each in rule["ports"]]}

    return [_admitted(each, ported) if _of(each) == spot.name else each for each in objects]


def _cut(objects: Objects, spot: Spot) -> Objects:
    """The destination is closed at every port."""
    return [
        _ruled(each, lambda rule: [rule] if "from" in rule else []) if _of(each) == spot.name else each
        for each in objects
    ]


def ranged(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Objects, Spot], Objects]:
    """Other ranges of the ports that every caller is admitted to."""

    def opened(rule: dict[str, Any]) -> list[dict[str, Any]]:
        return [rule if "from" in rule else {"ports": [change(each) for each in rule["ports"]]}]

    def edit(objects: Objects, spot: Spot) -> Objects:
        return [_ruled(each, opened) if _of(each) == spot.name else each for each in objects]

    return edit


def _first_alone(each: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in each.items() if name != "endPort"}


def _longer(each: dict[str, Any]) -> dict[str, Any]:
    return {**each, "endPort": min(each["endPort"] + 1, 65535)}


def _later(each: dict[str, Any]) -> dict[str, Any]:
    return {**each, "port": each["port"] + 1}


def _of(policy: Mapping[str, Any]) -> str:
    return str(policy["spec"]["podSelector"]["matchLabels"]["app"])


def _admitted(policy: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Other rules that name senders."""
    return _ruled(policy, lambda rule: [change(rule) if "from" in rule else rule])


def _ruled(policy: dict[str, Any], change: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> dict[str, Any]:
    rules = [new for rule in policy["spec"]["ingress"] for new in change(rule)]
    return {**policy, "spec": {**policy["spec"], "ingress": rules}}


V4, V6 = Family.IPV4, Family.IPV6
REDIRECTION, CLOSING, PEERS = "a redirect rule", "a NetworkPolicy", "a caller's address"
GUARD_ALONE: Final = "a NetworkPolicy that alone enforces a guard"
MUTANTS: Final = (
    MeshMutant(REDIRECTION, "none for IPv6", GUARD, no_rules(V6)),
    MeshMutant(REDIRECTION, "none for IPv4", GUARD, no_rules(V4)),
    MeshMutant(REDIRECTION, "the gate is left, nothing is redirected", GUARD, no_rules(V4, V6, only="REDIRECT")),
    MeshMutant(REDIRECTION, "another port", GUARD, respelt("--dport 9080 ", "--dport 9081 ", V4)),
    MeshMutant(REDIRECTION, "to the other listener", GUARD, respelt("--to-ports 15006", "--to-ports 15001", V4, V6)),
    MeshMutant(REDIRECTION, "none for IPv6", TCP_GUARD, no_rules(V6)),
    MeshMutant(REDIRECTION, "the port that callers know", GUARD, respelt("--dport 9080 ", "--dport 8080 ", V4, V6)),
    MeshMutant(REDIRECTION, "none for the service address", TAG, no_way(lambda spot: spot.service[V4], V4)),
    MeshMutant(REDIRECTION, "none for the pod address", TAG, no_way(lambda spot: spot.pod[V6], V6)),
    MeshMutant(REDIRECTION, "none for IPv6", TAG, no_rules(V6)),
    MeshMutant(REDIRECTION, "to the other listener", TAG, respelt("--to-ports 15001", "--to-ports 15006", V4)),
    MeshMutant(CLOSING, "none", TAG, None, _without),
    MeshMutant(CLOSING, "admits all callers", TAG, None, _all_callers),
    MeshMutant(CLOSING, "admits one more", TAG, None, peers(_rogue_too)),
    MeshMutant(CLOSING, "the port that callers know", TAG, None, _service_port),
    MeshMutant(CLOSING, "a range ends with the closed port", TAG, None, ranged(_longer)),
    MeshMutant(CLOSING, "a range begins one later", METERED, None, ranged(_later)),
    MeshMutant(CLOSING, "other ports are closed as well", METERED, None, _cut),
    MeshMutant(GUARD_ALONE, "none", GUARDED, None, _without),
    MeshMutant(GUARD_ALONE, "admits all callers", GUARDED, None, _all_callers),
    MeshMutant(GUARD_ALONE, "admits one more", GUARDED, None, peers(_rogue_too)),
    MeshMutant(GUARD_ALONE, "admits a namesake of another namespace", GUARDED, None, peers(_any_namespace)),
    MeshMutant(GUARD_ALONE, "lacks a service", GUARDED, None, peers(lambda own: own[1:])),
    MeshMutant(GUARD_ALONE, "lacks an address of an outside party", GUARDED, None, peers(lambda own: own[:-1])),
    MeshMutant(GUARD_ALONE, "an `ipBlock` that is too wide", GUARDED, None, peers(_wider)),
    MeshMutant(GUARD_ALONE, "the port that callers know", GUARDED, None, _service_port),
    MeshMutant(GUARD_ALONE, "a range begins one later", GUARDED, None, ranged(_later)),
    MeshMutant(GUARD_ALONE, "ranges are their first numbers", GUARDED, None, ranged(_first_alone)),
    MeshMutant(GUARD_ALONE, "udp is open", GUARDED, None, added(protocol="UDP", port=9080)),
    MeshMutant(GUARD_ALONE, "sctp is open", GUARDED, None, added(protocol="SCTP", port=9080)),
    MeshMutant(GUARD_ALONE, "one of two targets is open", GUARDED_TWICE, None, added(protocol="TCP", port=9081)),
    MeshMutant(GUARD_ALONE, "for the pods of another service", GUARDED, None, _other_pods),
    MeshMutant(PEERS, "one replica is unknown", GUARD, unknown(lambda spot: spot.callers[V4][1:])),
    MeshMutant(PEERS, "IPv6 is unknown", GUARD, unknown(lambda spot: spot.callers[V6])),
    MeshMutant(PEERS, "IPv6 is unknown", TCP_GUARD, unknown(lambda spot: spot.callers[V6])),
    MeshMutant(PEERS, "a forwarded address is believed", GUARD, told(_forwarded)),
)


# ---- the bed ----

PARTIES: Final = (
    "service a { http 8000  replicas 2 }",
    "service rogue, idle { http 8000 }",
    'service namesake { http 8000  namespace back  labels { app = "a" } }',
    'external office { cidr "10.9.0.0/16"  cidr "fd00:9::/48" }',
    'external beside { cidr "10.8.0.0/16"  cidr "fd00:8::/48" }',
)
SEED: Final = 1
"""Of the ways by which the callers of guards in the network come."""


def text(shapes: Sequence[Shape]) -> str:
    """One destination for each shape; `a` calls them all, the others none."""
    names = [f"d{index}" for index in range(len(shapes))]
    lines = ["app mutants", "network_policies enforced", *PARTIES]
    for name, shape in zip(names, shapes, strict=True):
        lines += [
            f"service {name} {{ {shape.service} }}",
            f"call a -> {name}:{shape.service.split()[1]}",
            *([f"@{shape.side}"] if shape.side != "network" else [f"pin p_{name} at network"]),
            f"policy p_{name} = {shape.policy.format(name)}",
        ]
    return "\n".join([*lines, ""])


class MutatedMesh(Mesh):
    """A bed with mistakes, each at its own destination."""

    def __init__(self, program: Program, placement: Placement, chosen: Sequence[MeshMutant]) -> None:
        super().__init__(program, placement, Mode.COMPILED, refusal=Refusal.DROP)
        self._chosen = chosen

    def spot(self, index: int) -> Spot:
        name = f"d{index}"
        callers = {family: tuple(self.place("a", each).address(family) or "" for each in (0, 1)) for family in Family}
        return Spot(
            name,
            self._chosen[index].shape,
            {family: self.layout.service_address(name, family) or "" for family in Family},
            {family: self.place(name).address(family) or "" for family in Family},
            callers,
        )

    def _files(self) -> Files:
        found = super()._files()
        for index, mutant in enumerate(self._chosen):
            if mutant.files is not None:
                found = _changed(mutant, found, mutant.files(found, self.spot(index)))
        return found

    def _policies(self, emitted: Files) -> Objects:
        found = [dict(each) for each in super()._policies(emitted)]
        for index, mutant in enumerate(self._chosen):
            if mutant.objects is not None:
                found = _changed(mutant, found, mutant.objects(found, self.spot(index)))
        return found


def _changed(mutant: MeshMutant, before: Kept, after: Kept) -> Kept:
    if before == after:
        raise NothingChangedError(f"{mutant.about}: {mutant.title}: nothing to change")
    return after


def run(chosen: Sequence[MeshMutant] = MUTANTS) -> tuple[list[Noticed], list[str]]:
    """What came of each mutant, and how their twins differ: not at all, if anything is proven."""
    twins = list(dict.fromkeys(mutant.shape for mutant in chosen))
    shapes = [*(mutant.shape for mutant in chosen), *twins]
    program = dsl.load_text(text(shapes))
    placement = place(program)
    guarded = [f"d{index}" for index, shape in enumerate(shapes) if shape.side == "network"]
    with MutatedMesh(program, placement, chosen) as mesh:
        network = Network(program, placement)
        asks = [each for each in (*requests(program), *_forged(mesh)) if each.destination not in guarded]
        asks += networks.requests(program, placement, SEED, guarded)
        seen = observe(mesh, asks, network, patience=PATIENT, at_once=AT_ONCE)
        found = compare(program, seen, Mode.COMPILED, network).differences
        found += unlike(mesh, list(networks.knocks(program, placement, SEED, guarded)), network, PATIENT)
    noticed = []
    for index, mutant in enumerate(chosen):
        own = _about(found, f"d{index}")
        noticed.append(Noticed(mutant, own[0] if own else None))
    return noticed, [each for index in range(len(twins)) for each in _about(found, f"d{len(chosen) + index}")]


def _forged(mesh: Mesh) -> Iterator[Asked]:
    """A caller that forges the address of an admitted one in a header."""
    friend = mesh.place("a").address(Family.IPV4) or ""
    lie = Ask((("x-forwarded-for", friend),))
    for name, service in mesh.program.services.items():
        if name.startswith("d") and service.ports[0].protocol is Protocol.HTTP:
            yield Asked("rogue", name, service.ports[0], lie)


def _about(found: Sequence[Difference], name: str) -> list[str]:
    pattern = re.compile(rf"(-> |`|'){name}\b")
    return [str(each) for each in found if pattern.search(each.about)]
