"""Small random programs that meet every rule, for the tests that compare the solver with an exhaustive search.

All choices come from one `random.Random`: a seeded one gives the same programs on every run, and Hypothesis can hand in
one of its own and then shrinks what it finds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dsl.match import And, Comparison, Field, Match, Not, Operator, Or
from dsl.program import (
    Effect,
    Element,
    External,
    Kind,
    Metric,
    Place,
    Port,
    Program,
    Protocol,
    Service,
    Side,
    Stage,
    Verb,
)
from solver.placement import Cost, Costs, Hop, Previous
from tests.solver import oracle
from tests.solver.build import (
    EGRESS,
    EVERYONE,
    INGRESS,
    Spec,
    Task,
    effect,
    external,
    hops,
    hosts,
    kind,
    offered,
    program,
    service,
    tasks,
)

MAX_ASSIGNMENTS = 256
"""More than these are not worth an exhaustive search in a test that makes hundreds."""

WEB = Port(8080, Protocol.HTTP, 8080)
ADMIN = Port(9000, Protocol.HTTP, 9000)
ALIAS = Port(8081, Protocol.HTTP, WEB.target)
RAW = Port(7000, Protocol.TCP, 7000)
RAW_ALIAS = Port(7001, Protocol.TCP, RAW.target)

OBJECTIVES: Sequence[tuple[Metric, ...]] = (
    (Metric.ADMS, Metric.OVERHEAD),
    (Metric.ADMS, Metric.OVERHEAD),
    (Metric.SIDECARS, Metric.OVERHEAD),
    (Metric.SIDECARS, Metric.ADMS),
    (Metric.CPU,),
    (Metric.LATENCY, Metric.ADMS),
    (Metric.ADMS, Metric.LATENCY, Metric.CPU),
    (Metric.ADMS, Metric.HOPS),
    (Metric.HOPS, Metric.CLOSED),
    (Metric.CLOSED, Metric.SIDECARS),
    (Metric.OVERHEAD,),
    (Metric.OVERHEAD, Metric.ADMS),
)
RATES = (0.00001, 0.1, 1.0, 1.0, 2.5, 40.0)
"""Requests a second; the least is none in an hour."""
EFFECTS: Sequence[Effect] = (
    effect(Verb.READS, Element.PATH),
    effect(Verb.READS, Element.HEADER),
    effect(Verb.READS, Element.HEADER, "x-a"),
    effect(Verb.READS, Element.STATUS),
    effect(Verb.WRITES, Element.PATH),
    effect(Verb.WRITES, Element.HEADER, "x-a"),
    effect(Verb.WRITES, Element.HEADER, "x-b"),
    effect(Verb.WRITES, Element.RESPONSE_HEADER, "x-c"),
    effect(Verb.WRITES, Element.RESPONSE_BODY),
    effect(Verb.REJECTS),
    effect(Verb.DELAYS),
    effect(Verb.REPEATS),
    effect(Verb.COUNTS),
    effect(Verb.COUNTS),
    effect(Verb.TIMES_OUT),
)
COMPARISONS: Sequence[tuple[Comparison, Effect]] = (
    (Comparison(Field("path"), Operator.EQUALS, "/a"), effect(Verb.READS, Element.PATH)),
    (Comparison(Field("path"), Operator.EQUALS, "/b"), effect(Verb.READS, Element.PATH)),
    (Comparison(Field("path"), Operator.NOT_EQUALS, "/a"), effect(Verb.READS, Element.PATH)),
    (Comparison(Field("path"), Operator.STARTS_WITH, "/a"), effect(Verb.READS, Element.PATH)),
    (Comparison(Field("header", "x-a"), Operator.EQUALS, "1"), effect(Verb.READS, Element.HEADER, "x-a")),
    (Comparison(Field("header", "x-a"), Operator.EQUALS, "2"), effect(Verb.READS, Element.HEADER, "x-a")),
)
MIRROR = kind("mirror", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.COPIES)], takes={"to": "service"})
SPLIT = kind("split", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.ROUTES)], takes={"to": "service"})
AUTHZ = kind("authz", effects=[effect(Verb.REJECTS)], guard=True, takes={"service": "service"})
EJECT = kind("eject", ingress=None, egress=Stage.CLUSTER, counts_refused_connections=True, counts_dropped=True)
"""Without effects: what keeps others from the ingress is not their order."""
ALLOW = kind("allow", effects=[effect(Verb.REJECTS)], guard=True, takes={"callers": "caller"})
ADMIT = kind("admit", effects=[effect(Verb.REJECTS)], guard=True, takes={"callers": "[caller]"}, network=True)
REFUSE = kind("refuse", effects=[effect(Verb.REJECTS)], guard=True, network=True)
AGAIN = kind(
    "again",
    ingress=None,
    egress=Stage.ROUTING,
    effects=[effect(Verb.REPEATS)],
    takes={"on": "[one_of]"},
    repeats_dropped=("connect_failure", "reset"),
)
REPEATED: Sequence[tuple[str, ...]] = (("connect_failure",), ("reset", "retriable"), ("retriable",), ())
"""Without `retriable` and nothing at all, the words are for connections without an answer."""

RANGES: Sequence[Sequence[str]] = (
    [],
    ["10.9.0.0/16"],
    ["10.9.0.0/16"],
    ["0.0.0.0/0"],
    ["0.0.0.0/1", "128.0.0.0/1"],
    ["128.0.0.0/1", "0.0.0.0/2"],
)


PORTS = ((WEB,), (WEB, ADMIN), (WEB, RAW), (WEB, ALIAS), (RAW,), (RAW, RAW_ALIAS), (WEB, ALIAS, ADMIN))
MOSTLY_ONE_PORT = (72, 7, 6, 4, 8, 3, 0)
WITH_SHARED_TARGETS = (50, 10, 8, 12, 8, 6, 6)


class Case(NamedTuple):
    program: Program
    costs: Costs
    previous: Previous | None


def case(rng: random.Random, *, priced: bool | None = None, network: bool | None = None) -> Case:
    """A program with at least one decision, its costs and, sometimes, an earlier plan.

    `priced`: with costs of hops or without any costs. `network`: with guards that a NetworkPolicy may enforce, or
    without. None leaves it to chance.
    """
    if network is None:
        network = rng.random() < 0.5
    # Half of the programs are easy to place, so that there is something to choose; the rest break rules everywhere.
    harsh = rng.choice([0.15, 1.0])
    parties = _parties(rng, harsh, WITH_SHARED_TARGETS if network else MOSTLY_ONE_PORT)
    calls = _calls(rng, parties)
    if network:
        specs = _specs_of_a_network(rng, parties, calls, harsh)
        if rng.random() < 0.15:
            parties.append(service("g", host_network=True))
    else:
        specs = [_spec(rng, f"p{n}", parties, calls, harsh) for n in range(rng.randint(1 if harsh == 1 else 2, 5))]
    said = {
        "network_policies": network and rng.random() < 0.6,
        "accepts_host_network": network and rng.random() < 0.6,
    }
    objective = rng.choice(OBJECTIVES)
    rates = {call: rng.choice(RATES) for call in calls if rng.random() < 0.7}
    specs = [_legal(spec, parties, calls) for spec in specs]
    whole = program(parties, calls, specs, (), objective, rates, **said)
    while oracle.count(whole) > MAX_ASSIGNMENTS and len(specs) > 1:
        specs.pop()
        whole = program(parties, calls, specs, (), objective, rates, **said)
    pins = []
    every = tasks(whole)
    if every and rng.random() < 0.15:
        task = rng.choice(every)
        pins.append((task.policy.name, _any(rng, task), task.destination))
    whole = program(parties, calls, specs, pins, objective, rates, **said)
    previous = None
    if rng.random() < 0.25:
        previous = Previous(
            {task.key: _any(rng, task) for task in every if rng.random() < 0.8},
            frozenset(name for name in sorted(whole.services) if rng.random() < 0.5),
        )
    return Case(whole, _costs(rng, whole, priced), previous)


def _legal(spec: Spec, parties: Sequence[Service | External], calls: Sequence[tuple[str, str, int]]) -> Spec:
    """Without its match if a call in its scope is of a `tcp` port: the language refuses that (ADM409)."""
    if spec.match is None:
        return spec
    alone = program(parties, calls, [spec])
    if all(alone.calls[index].port.protocol is not Protocol.TCP for index in alone.policies[0].calls):
        return spec
    return replace(spec, match=None, reads=())


def _any(rng: random.Random, task: Task) -> Place:
    return rng.choice([INGRESS, EGRESS] if task.policy.kind.both else offered(task))


def _parties(rng: random.Random, harsh: float, weights: Sequence[int]) -> list[Service | External]:
    found: list[Service | External] = []
    capacities = rng.random() < 0.5
    for name in "abcdef"[: rng.randint(2, 6)]:
        ports = rng.choices(PORTS, weights)[0]
        found.append(
            service(
                name,
                *ports,
                replicas=rng.randint(1, 3),
                hosts_adm=rng.random() > 0.12 * harsh,
                trusted=rng.random() > 0.12 * harsh,
                host_network=rng.random() < 0.06 * harsh,
                capacity=rng.choice([0.00002, 0.00005, 0.001]) if capacities and rng.random() < 0.5 else None,
            )
        )
    if rng.random() < 0.5 * harsh:
        found.append(external("x", cidrs=rng.choice(RANGES)))
        if rng.random() < 0.2:
            found.append(external("x_part", cidrs=["10.9.1.0/24"]))
    if rng.random() < 0.3 * harsh:
        found.append(external("y", WEB, cidrs=["10.8.0.0/16"] if rng.random() < 0.5 else []))
    return found


def _calls(rng: random.Random, parties: Sequence[Service | External]) -> list[tuple[str, str, int]]:
    density = rng.choice([0.2, 0.35, 0.5])
    return [
        (source.name, destination.name, port.number)
        for source in parties
        for destination in parties
        if isinstance(source, Service) or isinstance(destination, Service)
        for port in destination.ports
        if rng.random() < (density if source is not destination else 0.1)
    ]


def _spec(
    rng: random.Random,
    name: str,
    parties: Sequence[Service | External],
    calls: list[tuple[str, str, int]],
    harsh: float,
) -> Spec:
    """A policy line; adds the call that a mirror or a split needs."""
    names = [party.name for party in parties]
    services = [party.name for party in parties if isinstance(party, Service)]
    served = [party.name for party in parties if party.ports]
    inner = [(source, destination) for source, destination, _ in calls if source in services]
    if inner and rng.random() < 0.12:
        source, destination = rng.choice(inner)
        target = rng.choice(services)
        port = next(party.ports[0].number for party in parties if party.name == target)
        if (source, target, port) not in calls:
            calls.append((source, target, port))
        return Spec(name, rng.choice([MIRROR, SPLIT]), {source}, {destination}, {"to": target})

    sources: str | list[str] = EVERYONE
    excluded = frozenset[str]()
    how = rng.random()
    if how < 0.08:
        excluded = frozenset({rng.choice(names)})
    elif how < 0.6:
        sources = rng.sample(names, min(len(names), rng.choice([1, 1, 2, 3])))
    destinations: str | list[str] = EVERYONE
    if rng.random() > 0.12:
        destinations = rng.sample(served, min(len(served), rng.choice([1, 1, 1, 2])))

    if rng.random() < 0.06:
        return Spec(name, AUTHZ, sources, destinations, {"service": rng.choice(services)}, excluded=excluded)
    if rng.random() < 0.06:
        return Spec(name, ALLOW, sources, destinations, {"callers": names[0]}, excluded=excluded)
    raw = [there for _, there, port in calls if port in (RAW.number, RAW_ALIAS.number)]
    if raw and rng.random() < 0.2:
        ports = rng.choice([None, frozenset({RAW.number}), frozenset({RAW_ALIAS.number})])
        return Spec(name, EJECT, sources, {rng.choice(raw)}, ports=ports, excluded=excluded)
    of = _kind(rng, name, harsh)
    match, reads = _match(rng)
    places = [place for place in (Place.INGRESS, Place.EGRESS) if place in of.places]
    return Spec(
        name,
        of,
        sources,
        destinations,
        place=rng.choice(places) if not of.both and rng.random() < 0.12 * harsh else None,
        match=match,
        reads=reads,
        ports=frozenset({rng.choice([WEB, ADMIN]).number}) if rng.random() < 0.05 else None,
        excluded=excluded,
    )


def _specs_of_a_network(
    rng: random.Random, parties: Sequence[Service | External], calls: list[tuple[str, str, int]], harsh: float
) -> list[Spec]:
    """Guards that a NetworkPolicy may enforce, policies that meet them, and others; in any order."""
    served = [party for party in parties if party.ports]
    shared = [party for party in served if len({port.target for port in party.ports}) < len(party.ports)]
    for there in shared:
        # A destination can be closed only if its callers dial all the ports of a target, or none of them.
        if rng.random() < 0.7:
            callers = {source for source, to, _ in calls if to == there.name}
            more = [(source, there.name, port.number) for source in sorted(callers) for port in there.ports]
            calls.extend(call for call in more if call not in calls)
    called = [party for party in served if any(there == party.name for _, there, _ in calls)]
    guarded = rng.choice(shared if shared and rng.random() < 0.4 else called or served)
    specs = [_guard(rng, guarded, parties, calls, harsh) for _ in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.3:
        specs.append(_guard(rng, rng.choice(served), parties, calls, harsh))
    senders = sorted({source for source, there, _ in calls if there == guarded.name})
    if senders and rng.random() < 0.35:
        sources: str | list[str] = EVERYONE if rng.random() < 0.3 else [rng.choice(senders)]
        if rng.random() < 0.65:
            specs.append(Spec("", AGAIN, sources, {guarded.name}, {"on": rng.choice(REPEATED)}))
        else:
            specs.append(Spec("", EJECT, sources, {guarded.name}))
    for at in range(rng.choice([0, 1, 1, 2])):
        other = _spec(rng, f"k{at}", parties, calls, harsh)
        if other.kind is not EJECT and rng.random() < 0.6:
            other = replace(other, destinations={guarded.name})
        specs.append(other)
    rng.shuffle(specs)
    return [replace(spec, name=f"p{at}") for at, spec in enumerate(specs)]


def _guard(
    rng: random.Random,
    there: Service | External,
    parties: Sequence[Service | External],
    calls: Sequence[tuple[str, str, int]],
    harsh: float,
) -> Spec:
    names = [party.name for party in parties]
    numbers = [port.number for port in there.ports]
    ports = frozenset({rng.choice(numbers)}) if len(numbers) > 1 and rng.random() < 0.3 else None
    senders = sorted({source for source, to, port in calls if to == there.name and (ports is None or port in ports)})
    how = rng.random()
    if how < 0.5:
        callers = senders
    elif how < 0.7:
        callers = sorted({*senders, rng.choice(names)})
    elif how < 0.9:
        callers = sorted(rng.sample(names, rng.randint(1, len(names))))
    else:
        callers = []
    match, reads = (None, ()) if rng.random() < 1 - 0.1 * harsh else _match(rng)
    scope = rng.random()
    sources: str | list[str] = EVERYONE
    if scope < 0.1 * harsh:
        sources = rng.sample(names, rng.randint(1, len(names)))
    excluded = frozenset({rng.choice(names)}) if 0.5 < scope < 0.5 + 0.1 * harsh else frozenset[str]()
    of, arguments = (REFUSE, {}) if rng.random() < 0.25 else (ADMIT, {"callers": tuple(callers)})
    return Spec(
        "",
        of,
        sources,
        {there.name},
        arguments,
        place=rng.choice([INGRESS, EGRESS]) if rng.random() < 0.1 * harsh else None,
        match=match,
        reads=reads,
        ports=ports,
        excluded=excluded - {there.name},
        accepts_drop=rng.random() < 0.35,
    )


def _kind(rng: random.Random, name: str, harsh: float) -> Kind:
    effects = None if rng.random() < 0.06 else [rng.choice(EFFECTS) for _ in range(rng.choice([0, 1, 1, 2]))]
    ranked = effects is not None and any(e.verb in (Verb.REPEATS, Verb.TIMES_OUT) for e in effects)
    ingress: Stage | None = rng.choices([Stage.FILTER, Stage.UPSTREAM, Stage.CLUSTER], [8, 1, 1])[0]
    egress: Stage | None = Stage.ROUTING if ranked and rng.random() < 0.7 else ingress
    both = rng.random() < 0.05 * harsh
    if not both:
        only = rng.random()
        if only < 0.15 * harsh or (egress is Stage.ROUTING and rng.random() < 0.7):
            ingress = None
        elif only < 0.25 * harsh:
            egress = None
    return kind(
        f"k{name}",
        ingress=ingress,
        egress=egress,
        effects=effects,
        both=both,
        guard=rng.random() < 0.15 * harsh,
        state=rng.random() < 0.25 * harsh,
        per_replica=not both and rng.random() < 0.05 * harsh,
    )


def _match(rng: random.Random) -> tuple[Match | None, tuple[Effect, ...]]:
    if rng.random() < 0.7:
        return None, ()
    one, other = rng.choice(COMPARISONS), rng.choice(COMPARISONS)
    how = rng.random()
    if how < 0.6:
        return one[0], (one[1],)
    if how < 0.75:
        return Not(one[0]), (one[1],)
    return rng.choice([And, Or])((one[0], other[0])), (one[1], other[1])


def _costs(rng: random.Random, whole: Program, priced: bool | None) -> Costs:
    """Costs of hosting, of enforcements and, mostly, of hops; some are missing."""
    if priced is False or (priced is None and rng.random() < 0.5):
        return Costs()
    passable = sorted({hop for task in tasks(whole) for side in Side for hop in hops(whole, task, side)})
    dear = rng.choice([5, 40] if priced else [0, 5, 40])
    return Costs(
        adm={name: _cost(rng, 20) for name in whole.services},
        enforcement={
            (host, side, *task.key): _cost(rng, 20)
            for task in tasks(whole)
            for side in Side
            for host in hosts(whole, task, side)
            if rng.random() < 0.9
        },
        known=rng.random() < 0.8,
        hop={Hop(*hop): _cost(rng, dear) for hop in passable if dear and rng.random() < 0.9},
    )


def _cost(rng: random.Random, most: int) -> Cost:
    """Whole micro-cores, so that equal sums occur, and now and then a few nano-cores."""
    return Cost(rng.randint(0, most) * 1_000 + rng.choice([0, 0, 0, 1]), rng.randint(0, most))
