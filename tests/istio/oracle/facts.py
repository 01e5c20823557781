"""What Istio's configuration of a mesh holds: the facts of the Go program, as an `Answer`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.istio.objects import Json
from tests.istio.oracle.answers import HTTP, INBOUND, OUTBOUND, TCP, Answer, Held, Place, Rule
from tests.istio.oracle.meshes import HEADLESS, Case

_RULE: Final = re.compile(r"(?:istio-ext-authz-.*?-?)?ns\[(.*)\]-policy\[(.*)\]-rule\[(\d+)\](.*)")
_KINDS: Final = {"virtual-service": "VirtualService", "destination-rule": "DestinationRule", "sidecar": "Sidecar"}
_REQUESTS: Final = ("header ", "url_path", "metadata")
"""Fields of rules that only HTTP has."""
_WEIGHT: Final = re.compile(r"^\d+% ")
BLACK_HOLE: Final = "BlackHoleCluster"
ADMITS: Final = "ALLOW"
ASKS: Final = "CUSTOM"
DRY_RUN: Final = "dry run of"


class UnreadableError(Exception):
    """The configuration has something that this module cannot place."""


class Known(NamedTuple):
    """What the documents of a mesh say of names in its configuration."""

    limits: Mapping[int, str]
    """The DestinationRule that sets a limit on connections."""
    addresses: Mapping[str, str]
    """Address -> host."""
    entries: Mapping[str, str]
    """Host -> its ServiceEntry."""
    authors: Mapping[str, str]
    """Name of an HTTP rule -> the VirtualService that has it. Istio names the one that delegates to it."""


def answer(case: Case, proxies: Mapping[str, Json]) -> Answer:
    """The answer of Istio about sidecars. Raises `UnreadableError`."""
    known = known_names(case)
    places: dict[Place, Held] = {}
    closed = set()
    for workload, facts in case.of_sidecars(proxies).items():
        places.update(_inbound(workload, facts, known))
        places.update(_outbound(workload, facts, known))
        if _is_closed(facts.get("outbound", ())):
            closed.add(workload)
    return Answer(places, frozenset(closed))


def known_names(case: Case) -> Known:
    limits: dict[int, str] = {}
    addresses = {service.address: service.host for service in case.services if service.address != HEADLESS}
    entries = {}
    authors = {}
    for document in case.istio:
        name = f"{document['metadata']['namespace']}/{document['metadata']['name']}"
        if document["kind"] == "DestinationRule":
            limits.update(dict.fromkeys(limits_in(document["spec"]), f"DestinationRule {name}"))
        elif document["kind"] == "VirtualService":
            authors.update(
                {rule["name"]: f"VirtualService {name}" for rule in document["spec"].get("http", ()) if "name" in rule}
            )
        elif document["kind"] == "ServiceEntry":
            for host in document["spec"]["hosts"]:
                entries[host] = f"ServiceEntry {name}"
                addresses.update(dict.fromkeys(document["spec"].get("addresses", ()), host))
    return Known(limits, addresses, entries, authors)


def limits_in(data: Any) -> Iterator[int]:
    """Yield the limits on connections in a part of a DestinationRule."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "maxConnections":
                yield value
            else:
                yield from limits_in(value)
    elif isinstance(data, list):
        for value in data:
            yield from limits_in(value)


# ---- inbound ----


def _inbound(workload: str, facts: Json, known: Known) -> Iterator[tuple[Place, Held]]:
    chains: dict[tuple[int, str], list[Json]] = defaultdict(list)
    for chain in facts.get("inbound", ()):
        chains[chain.get("port", 0), HTTP if chain.get("http") else TCP].append(chain)
    modes = {port: _mode([one for (other, _), listed in chains.items() if other == port for one in listed])
             for port, _ in chains}  # fmt: skip
    for (port, protocol), listed in chains.items():
        cluster = facts.get("clusters", {}).get(f"inbound|{port}||", {})
        rules, actions = _authorization(listed)
        held = Held(_limiting([cluster], known), (), rules, actions, modes[port])
        yield Place(workload, INBOUND, "", port, protocol), held


def _mode(chains: Iterable[Json]) -> str:
    has = {bool(chain.get("tls")) for chain in chains if chain.get("transport") != "tls" or chain.get("tls")}
    return {frozenset((True,)): "STRICT", frozenset((False,)): "DISABLE"}.get(frozenset(has), "PERMISSIVE")


def _authorization(chains: Iterable[Json]) -> tuple[frozenset[Rule], frozenset[str]]:
    """The rules of a port. Those of its filter chains are the same, with and without TLS."""
    answers = {_rules_of(chain.get("rules", ())) for chain in chains}
    if len(answers) != 1:
        raise UnreadableError(f"the filter chains of one port have {len(answers)} different rules")
    return answers.pop()


def _rules_of(filters: Iterable[Json]) -> tuple[frozenset[Rule], frozenset[str]]:
    rules: set[Rule] = set()
    actions = set()
    for one in filters:
        for name, fields in one["fields"].items():
            match = _RULE.fullmatch(name)
            if match is None:
                raise UnreadableError(f"the rule `{name}` has no name of a policy")
            action = _action(name, one)
            actions.add(action)
            if fields != ["never"]:
                reads = any(field.removeprefix("not ").startswith(_REQUESTS) for field in fields)
                rules.add(Rule(action, f"{match[1]}/{match[2]}", int(match[3]), reads))
        if one["action"] == ADMITS:
            actions.add(_action("", one))
    return frozenset(rules), frozenset(actions)


def policies_of(chain: Json) -> frozenset[str]:
    """The AuthorizationPolicies of a filter chain that can change the fate of a request."""
    made = set()
    for rules in chain.get("rules", ()):
        for name, fields in rules["fields"].items():
            match = _RULE.fullmatch(name)
            if match is not None and (fields != ["never"] or rules["action"] == ADMITS):
                made.add(f"{match[1]}/{match[2]}")
    return frozenset(made)


def _action(name: str, rules: Json) -> str:
    if name.startswith("istio-ext-authz"):
        return ASKS
    action = str(rules["action"]).replace("LOG", "AUDIT")
    return f"{DRY_RUN} {action}" if rules.get("shadow") else action


# ---- outbound ----


def _outbound(workload: str, facts: Json, known: Known) -> Iterator[tuple[Place, Held]]:
    used = used_clusters(facts)
    for virtual_host in facts.get("routes", ()):
        host, _, port = virtual_host["name"].rpartition(":")
        if not port.isdigit():
            continue
        routes = [route for route in virtual_host.get("routes", ()) if route.get("resource")]
        place = Place(workload, OUTBOUND, host, int(port), HTTP)
        yield place, _held(place, routes, facts, used, known)
    chains: dict[Place, list[Json]] = defaultdict(list)
    for chain in facts.get("outbound", ()):
        for host in hosts_of(chain, known):
            chains[Place(workload, OUTBOUND, host, chain["port"], TCP)].append(chain)
    for place, listed in chains.items():
        yield place, _held(place, [chain for chain in listed if chain.get("resource")], facts, used, known)


def _held(place: Place, parts: list[Json], facts: Json, used: frozenset[str], known: Known) -> Held:
    clusters = facts.get("clusters", {})
    main = clusters.get(f"outbound|{place.port}||{place.host}")
    subsets = [
        cluster
        for name, cluster in clusters.items()
        if name in used and name.split("|")[0::3] == ["outbound", place.host] and name.split("|")[1] == str(place.port)
    ]
    resources = _limiting([main or {}, *subsets], known) | {named(part["resource"]) for part in parts}
    if main is not None and place.host in known.entries:
        resources |= {known.entries[place.host]}
    names = tuple(dict.fromkeys(part["name"] for part in parts if part.get("name")))
    return Held(frozenset(resources), names, tls=(main or {}).get("tls", ""))


def used_clusters(facts: Json) -> frozenset[str]:
    """The clusters that a route or a filter chain of the proxy sends to."""
    routes = [route for host in facts.get("routes", ()) for route in host.get("routes", ())]
    names = [name for part in (*routes, *facts.get("outbound", ())) for name in part.get("clusters", ())]
    names += [name for route in routes for name in route.get("mirrors", ())]
    return frozenset(_WEIGHT.sub("", name) for name in names)


def hosts_of(chain: Json, known: Known) -> list[str]:
    """The hosts that a filter chain is for."""
    if chain["listener"] == "virtualOutbound":
        return []
    if chain["address"] in known.addresses:
        return [known.addresses[chain["address"]]]
    if chain.get("names"):
        return list(chain["names"])
    networks = [network.partition("/")[0] for network in chain.get("networks", ())]
    hosts = [known.addresses[network] for network in networks if network in known.addresses]
    if hosts:
        return hosts
    clusters = [_WEIGHT.sub("", name) for name in chain.get("clusters", ())]
    if clusters == ["PassthroughCluster"] or clusters == [BLACK_HOLE]:
        return []
    raise UnreadableError(f"the filter chain of {chain['listener']} to {clusters} has no host")


def _limiting(clusters: Iterable[Json], known: Known) -> frozenset[str]:
    """The DestinationRules whose limits the clusters have."""
    numbers = {cluster.get("connections", 0) for cluster in clusters} - {0}
    return frozenset(known.limits[number] for number in numbers)


def named(path: str) -> str:
    kind, _, name = path.partition(" ")
    return f"{_KINDS[kind]} {name}"


def _is_closed(chains: Iterable[Json]) -> bool:
    """Whether calls to destinations that no resource declares are refused."""
    return any(
        chain["listener"] == "virtualOutbound" and chain.get("clusters") == [BLACK_HOLE]
        for chain in chains
        if chain.get("port") == 15001
    )
