"""Small random programs that meet every rule, for the tests that compare the solver with an exhaustive search.

All choices come from one `random.Random`: a seeded one gives the same programs on every run, and Hypothesis can hand in
one of its own and then shrinks what it finds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
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
    effect,
    external,
    hops,
    hosts,
    kind,
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
EJECT = kind("eject", ingress=None, egress=Stage.CLUSTER, counts_refused_connections=True)
"""Without effects: what keeps others from the ingress is not their order."""
ALLOW = kind("allow", effects=[effect(Verb.REJECTS)], guard=True, takes={"callers": "caller"})

RANGES: Sequence[Sequence[str]] = (
    [],
    ["10.9.0.0/16"],
    ["10.9.0.0/16"],
    ["0.0.0.0/0"],
    ["0.0.0.0/1", "128.0.0.0/1"],
    ["128.0.0.0/1", "0.0.0.0/2"],
)


class Case(NamedTuple):
    program: Program
    costs: Costs
    previous: Previous | None


def case(rng: random.Random, *, priced: bool | None = None) -> Case:
    """A program with at least one decision, its costs and, sometimes, an earlier plan.

    `priced`: with costs of hops or without any costs; None leaves it to chance.
    """
    # Half of the programs are easy to place, so that there is something to choose; the rest break rules everywhere.
    harsh = rng.choice([0.15, 1.0])
    parties = _parties(rng, harsh)
    calls = _calls(rng, parties)
    specs = [_spec(rng, f"p{n}", parties, calls, harsh) for n in range(rng.randint(1 if harsh == 1 else 2, 5))]
    objective = rng.choice(OBJECTIVES)
    rates = {call: rng.choice(RATES) for call in calls if rng.random() < 0.7}
    whole = program(parties, calls, specs, (), objective, rates)
    while oracle.count(whole) > MAX_ASSIGNMENTS and len(specs) > 1:
        specs.pop()
        whole = program(parties, calls, specs, (), objective, rates)
    pins = []
    every = tasks(whole)
    if every and rng.random() < 0.15:
        task = rng.choice(every)
        pins.append((task.policy.name, rng.choice([INGRESS, EGRESS]), task.destination))
    whole = program(parties, calls, specs, pins, objective, rates)
    previous = None
    if rng.random() < 0.25:
        previous = Previous(
            {task.key: (rng.choice([INGRESS, EGRESS]),) for task in every if rng.random() < 0.8},
            frozenset(name for name in sorted(whole.services) if rng.random() < 0.5),
        )
    return Case(whole, _costs(rng, whole, priced), previous)


def _parties(rng: random.Random, harsh: float) -> list[Service | External]:
    found: list[Service | External] = []
    capacities = rng.random() < 0.5
    for name in "abcdef"[: rng.randint(2, 6)]:
        every = [(WEB,), (WEB, ADMIN), (WEB, RAW), (WEB, ALIAS), (RAW,), (RAW, RAW_ALIAS)]
        ports = rng.choices(every, [72, 7, 6, 4, 8, 3])[0]
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
