"""Large applications for benchmarks and tests: seeded, of any size, with a correct placement by construction.

The call graph grows like real ones: every service is called by an earlier one, most likely by one that calls many
already, and the calls beyond that go from the busy to the favourites (`powerlaw`); `uniform` ones have no shape at all.
Some leaves are databases on tcp, some of which host no ADM.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Literal

Shape = Literal["powerlaw", "uniform"]

ENTRIES = 5
"""Services that the outside calls."""
SKEW = 0.8
"""Favourite number n is called in proportion to n ** -SKEW: a power law with exponent 1 + 1 / SKEW."""
BUSY = 0.5
"""The same for who calls: less skewed."""


@dataclass(frozen=True)
class Application:
    """A call graph: services by number, the first of them entries. Leaves make no calls."""

    names: tuple[str, ...]
    protocols: tuple[str, ...]
    hosts: tuple[bool, ...]
    calls: tuple[tuple[int, int], ...]

    def callers(self) -> list[list[int]]:
        """Who calls each service."""
        found: list[list[int]] = [[] for _ in self.names]
        for source, destination in self.calls:
            found[destination].append(source)
        return found


def application(services: int, calls: int, seed: int, shape: Shape = "powerlaw") -> Application:
    """A call graph with this many services and calls."""
    rng = random.Random(seed)  # noqa: S311
    if shape == "uniform":
        protocols = tuple(rng.choice(("http", "grpc")) for _ in range(services))
        edges = _fill({}, calls, rng, _Urn(range(services)), _Urn(range(services)))
    else:
        leaves = {at for at in range(ENTRIES, services) if rng.random() < 0.2}
        protocols = tuple("tcp" if at in leaves else rng.choice(("http", "grpc", "grpc")) for at in range(services))
        inner = [at for at in range(services) if at not in leaves]
        edges = {}
        chances: list[int] = []  # a service is in here once, and once more for every call that it makes
        for at in range(services):
            if at >= ENTRIES:
                caller = rng.choice(chances)
                edges[caller, at] = None
                chances.append(caller)
            if at not in leaves:
                chances.append(at)
        everyone = list(range(services))
        rng.shuffle(inner)
        rng.shuffle(everyone)
        edges = _fill(edges, calls, rng, _Urn(inner, BUSY), _Urn(everyone, SKEW))
    hosts = tuple(protocol != "tcp" or rng.random() < 0.5 for protocol in protocols)
    width = len(str(services))
    names = tuple(f"{'db' if p == 'tcp' else 'svc'}_{at:0{width}}" for at, p in enumerate(protocols))
    return Application(names, protocols, hosts, tuple(sorted(edges)))


class _Urn:
    """Services to draw from, number n of them in proportion to n ** -skew."""

    def __init__(self, services: Sequence[int], skew: float = 0.0) -> None:
        self.services = services
        self.weights = list(accumulate(n**-skew for n in range(1, len(services) + 1)))

    def draw(self, rng: random.Random, some: int) -> list[int]:
        return rng.choices(self.services, cum_weights=self.weights, k=some)


def _fill(
    edges: dict[tuple[int, int], None], calls: int, rng: random.Random, sources: _Urn, destinations: _Urn
) -> dict[tuple[int, int], None]:
    """Adds random calls until there are enough."""
    if calls > len(sources.services) * (len(destinations.services) - 1) // 2:
        raise ValueError("too many calls for so few services")
    while len(edges) < calls:
        some = calls - len(edges)
        for source, destination in zip(sources.draw(rng, some), destinations.draw(rng, some), strict=True):
            if source != destination:
                edges[source, destination] = None
    return edges


def generate(services: int, calls: int, policies: int, seed: int, shape: Shape = "powerlaw") -> str:
    """Program text with policies of several kinds on single destinations and on sets."""
    app = application(services, calls, seed, shape)
    return "\n".join([*_declarations(app, keep_hosts=False), "", *_policies(app, policies, seed), ""])


def cover(services: int, calls: int, seed: int, shape: Shape = "powerlaw") -> str:
    """The same graph with one policy that may sit at either side of every call: a minimum vertex cover."""
    app = application(services, calls, seed, shape)
    return "\n".join([*_declarations(app, keep_hosts=True), "", "policy log = access_log() on * -> *", ""])


def _declarations(app: Application, *, keep_hosts: bool) -> Iterator[str]:
    yield "app generated"
    yield "external internet"
    yield 'external office { cidr "10.9.0.0/16" }'
    for at, (name, protocol, hosts) in enumerate(zip(app.names, app.protocols, app.hosts, strict=True)):
        port = {"http": 8080, "grpc": 9090, "tcp": 5432}[protocol]
        refuses = "" if hosts or keep_hosts else "  no adm"
        yield f"service {name} {{ {protocol} {port}  replicas {1 + at % 3}{refuses} }}"
    entries = ", ".join(app.names[:ENTRIES])
    yield f"call internet -> {entries} {{ rate 100/s  size 400B }}"
    yield f"call office -> {app.names[0]} {{ rate 2/s  size 400B }}"
    by_source: dict[int, list[int]] = {}
    for source, destination in app.calls:
        by_source.setdefault(source, []).append(destination)
    for source, destinations in by_source.items():
        called = ", ".join(app.names[at] for at in destinations)
        yield f"call {app.names[source]} -> {called} {{ rate {5 + source % 40}/s  size {200 + source % 900}B }}"


def _policies(app: Application, wanted: int, seed: int) -> Iterator[str]:
    """Policy lines that always fit: what must sit at senders comes first, what must sit at receivers last.

    So whatever may sit at either side finds the receiver open, and declared order is kept there. A database that
    hosts no ADM gets only what its senders can take over.
    """
    rng = random.Random(seed + 1)  # noqa: S311
    callers = app.callers()
    inner = [at for at in range(ENTRIES, len(app.names)) if app.protocols[at] != "tcp" and callers[at]]
    bases = [at for at in range(ENTRIES, len(app.names)) if app.protocols[at] == "tcp"]
    single = [at for at in bases if len(callers[at]) == 1 or app.hosts[at]]
    number = count(1)

    def policy(kind: str, arguments: str, scope: str) -> str:
        return f"policy p{next(number)}_{kind} = {kind}({arguments}) on {scope}"

    at_senders = wanted // 5
    at_receivers = wanted // 20
    for destination in rng.sample(inner, min(at_senders, len(inner))):
        source = rng.choice(callers[destination])
        scope = f"{app.names[source]} -> {app.names[destination]}"
        yield rng.choice(
            (
                lambda scope=scope: policy("retry", "attempts: 3", scope),
                lambda scope=scope: policy("timeout", "after: 250ms", scope),
                lambda scope=scope: policy("load_balancing", "policy: least_request", scope),
            )
        )()
    for _ in range(wanted - min(at_senders, len(inner)) - min(at_receivers, len(inner))):
        roll = rng.random()
        if roll < 0.25:
            yield policy("rate_limit", "requests: 100, per: 1s", f"* -> {app.names[rng.choice(inner)]}")
        elif roll < 0.35 and single:
            yield policy("connection_rate_limit", "connections: 50, per: 1s", f"* -> {app.names[rng.choice(single)]}")
        elif roll < 0.45 and bases:
            yield policy("access_log", "", f"* -> {_set(app, rng, bases)}")
        elif roll < 0.60:
            yield policy("request_count", "", f"* -> {_set(app, rng, inner)}")
        elif roll < 0.75:
            yield policy("set_request_header", 'name: "x-tier", value: "gold"', f"* -> {_set(app, rng, inner)}")
        elif roll < 0.85:
            destination = rng.choice(inner)
            some = sorted(rng.sample(callers[destination], max(1, len(callers[destination]) // 2)))[:20]
            sources = ", ".join(app.names[at] for at in some)
            yield policy("access_log", "format: text", f"{{{sources}}} -> {app.names[destination]}")
        else:
            destination = rng.choice(inner)
            known = ", ".join(app.names[at] for at in callers[destination][:20])
            yield policy("allow", f"callers: [{known}]", f"* -> {app.names[destination]}")
    for destination in rng.sample(inner, min(at_receivers, len(inner))):
        yield policy("circuit_breaking", "max_pending: 100", f"* -> {app.names[destination]}")


def _set(app: Application, rng: random.Random, among: Sequence[int]) -> str:
    """A set of 2 to 20 destinations."""
    chosen = sorted(rng.sample(among, min(len(among), rng.randint(2, 20))))
    return "{" + ", ".join(app.names[at] for at in chosen) + "}"
