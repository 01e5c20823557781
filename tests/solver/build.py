"""Small programs and placements for tests, built without the language and without the solver.

A `Spec` says what a policy line says; `program` resolves it naively, so that a test of the solver does not rest on the
resolver. `placement` turns places into a whole placement the same way, by going through every request there is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsl.match import Match
from dsl.program import (
    Call,
    Effect,
    Element,
    External,
    Kind,
    Metric,
    Parameter,
    ParameterType,
    Pin,
    Place,
    Policy,
    Port,
    Program,
    Protocol,
    Service,
    Side,
    Stage,
    Traits,
    Value,
    Verb,
)
from dsl.text import SourceText, Span
from solver.placement import Adm, Cost, Costs, Decision, Hop, ObjectiveValue, Placement, Reason, Rule, Status

INGRESS, EGRESS, NETWORK = Place.INGRESS, Place.EGRESS, Place.NETWORK
EVERYONE = "*"


def kind(
    name: str,
    *,
    ingress: Stage | None = Stage.FILTER,
    egress: Stage | None = Stage.FILTER,
    effects: Sequence[Effect] | None = (),
    protocols: Collection[Protocol] = tuple(Protocol),
    takes: Mapping[str, str] | None = None,
    both: bool = False,
    guard: bool = False,
    state: bool = False,
    per_replica: bool = False,
    counts_refused_connections: bool = False,
    repeats_dropped: Sequence[str] = (),
    counts_dropped: bool = False,
    network: bool = False,
) -> Kind:
    """A kind of the test's own; `takes` are parameters by name with the name of their type, `[caller]` for a list.

    A kind of the network judges the caller alone.
    """
    sides = {side: stage for side, stage in ((Side.INGRESS, ingress), (Side.EGRESS, egress)) if stage is not None}
    return Kind(
        name=name,
        parameters=tuple(Parameter(n, _type(t), optional=False) for n, t in (takes or {}).items()),
        protocols=frozenset(protocols),
        sides=sides,
        span=_line(f"kind {name}"),
        both=both,
        guard=guard,
        state=state,
        per_replica=per_replica,
        effects=None if effects is None else tuple(effects),
        traits=Traits(
            judges_caller_alone=network,
            counts_refused_connections=counts_refused_connections,
            repeats_dropped=tuple(repeats_dropped),
            counts_dropped=counts_dropped,
        ),
        network=network,
    )


def _type(name: str) -> ParameterType:
    return ParameterType("list", ParameterType(name[1:-1])) if name.startswith("[") else ParameterType(name)


def effect(verb: Verb, element: Element | None = None, *names: str) -> Effect:
    return Effect(verb, element, frozenset(names) or None)


@dataclass(frozen=True)
class Spec:
    """One policy line: the kind, who calls, what is called, and the rest of it."""

    name: str
    kind: Kind
    sources: str | Collection[str]
    destinations: str | Collection[str]
    arguments: Mapping[str, Value] = field(default_factory=dict)
    place: Place | None = None
    match: Match | None = None
    reads: tuple[Effect, ...] = ()
    ports: frozenset[int] | None = None
    excluded: frozenset[str] = frozenset()
    accepts_drop: bool = False


def service(name: str, *ports: Port, **fields: object) -> Service:
    return Service(name, ports or (Port(8080, Protocol.HTTP, 8080),), _line(f"service {name}"), **fields)  # type: ignore[arg-type]


def external(name: str, *ports: Port, cidrs: Sequence[str] = ()) -> External:
    return External(name, _line(f"external {name}"), ports, (), tuple(cidrs))


def program(
    parties: Iterable[Service | External],
    calls: Iterable[tuple[str, str] | tuple[str, str, int]],
    policies: Iterable[Spec],
    pins: Iterable[tuple[str, Place, str]] = (),
    objective: Sequence[Metric] = (Metric.ADMS, Metric.OVERHEAD),
    rates: Mapping[tuple[str, str, int], float] | None = None,
    *,
    network_policies: bool = False,
    accepts_host_network: bool = False,
) -> Program:
    """The program that these lines mean. A call without a port takes the first one. `rates` are of calls by source,
    destination and port number."""
    rates = rates or {}
    everyone = {party.name: party for party in sorted(parties, key=lambda party: party.name)}
    services = {name: party for name, party in everyone.items() if isinstance(party, Service)}
    externals = {name: party for name, party in everyone.items() if isinstance(party, External)}
    edges = set()
    for source, destination, *number in calls:
        ports = {port.number: port for port in everyone[destination].ports}
        edges.add((destination, source, ports[number[0] if number else next(iter(ports))]))
    declared = tuple(
        Call(
            source,
            destination,
            port,
            _line(f"call {source} -> {destination}:{port.number}"),
            rates.get((source, destination, port.number)),
        )
        for destination, source, port in sorted(edges, key=lambda edge: (edge[0], edge[1], edge[2].number))
    )
    resolved = tuple(_policy(spec, everyone, declared, enforced=network_policies) for spec in policies)
    return Program(
        app="test",
        services=services,
        externals=externals,
        calls=declared,
        kinds={policy.kind.name: policy.kind for policy in resolved},
        policies=resolved,
        pins=tuple(
            Pin(name, there, place, _line(f"pin {name} at {place} on * -> {there}")) for name, place, there in pins
        ),
        objective=tuple(objective),
        inputs=(),
        source=SourceText("test.adm", ""),
        network_policies=_line("network_policies enforced") if network_policies else None,
        accepts_host_network=_line("accept host_network") if accepts_host_network else None,
    )


def _policy(
    spec: Spec, everyone: Mapping[str, Service | External], declared: tuple[Call, ...], *, enforced: bool
) -> Policy:
    sources = frozenset(everyone if spec.sources == EVERYONE else spec.sources) - spec.excluded
    destinations = sorted(everyone if spec.destinations == EVERYONE else spec.destinations)
    destinations = [name for name in destinations if everyone[name].ports and name not in spec.excluded]
    places = spec.kind.places if spec.place is None else frozenset({spec.place})
    if not enforced or spec.match is not None or spec.excluded or spec.sources != EVERYONE:
        places -= {NETWORK}
    return Policy(
        name=spec.name,
        kind=spec.kind,
        arguments=spec.arguments,
        places=places,
        sources=sources,
        open_sources=spec.sources == EVERYONE,
        destinations=tuple(destinations),
        calls=tuple(
            index
            for index, call in enumerate(declared)
            if call.source in sources
            and call.destination in destinations
            and (spec.ports is None or call.port.number in spec.ports)
        ),
        effects=None if spec.kind.effects is None else (*spec.kind.effects, *spec.reads),
        span=_line(f"policy {spec.name}"),
        ports=spec.ports,
        match=spec.match,
        narrowing=None if spec.place is None else _line(f"@{spec.place}"),
        accepts_drop=_line("accept drop") if spec.accepts_drop else None,
    )


def _line(text: str) -> Span:
    return Span(SourceText("test.adm", text), 0, len(text))


class Task(NamedTuple):
    """A decision that has to be taken."""

    policy: Policy
    destination: str
    calls: tuple[int, ...]
    open: bool
    ports: tuple[int, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.policy.name, self.destination


def tasks(program: Program) -> list[Task]:
    """Every decision that docs/rules.md asks for, found by looking at every call for every policy."""
    return [
        task
        for policy in program.policies
        for destination in sorted(policy.destinations)
        if (task := _task(program, policy, destination)) is not None
    ]


def _task(program: Program, policy: Policy, destination: str) -> Task | None:
    def selected(port: Port) -> bool:
        return policy.ports is None or port.number in policy.ports

    calls = [
        (index, call)
        for index, call in enumerate(program.calls)
        if call.destination == destination and call.source in policy.sources and selected(call.port)
    ]
    party = program.services.get(destination) or program.externals[destination]
    ports = sorted(
        p.number
        for p in party.ports
        if selected(p)
        and p.protocol in policy.kind.protocols
        and not (policy.match is not None and p.protocol is Protocol.TCP)
    )
    made = {(call.source, call.port.number) for _, call in calls}
    strangers = [(source, port) for source in policy.sources for port in ports if (source, port) not in made]
    is_open = bool(ports) and (policy.open_sources or (policy.kind.guard and bool(strangers)))
    if not calls and not is_open:
        return None
    covered = ports if is_open else sorted({call.port.number for _, call in calls})
    return Task(policy, destination, tuple(index for index, _ in calls), is_open, tuple(covered))


Assignment = Mapping[tuple[str, str], Place]


def placement(program: Program, places: Assignment, costs: Costs | None = None) -> Placement:
    """The whole placement that follows from a place for each decision, right or wrong."""
    decisions, closed = [], set()
    work: dict[str, dict[Side, list[str]]] = {}
    costs = costs or Costs()
    for task in tasks(program):
        taken = places[task.key]
        closes = needs_closing(program, task, taken)
        if closes:
            closed.add(task.destination)
        decisions.append(
            Decision(
                policy=task.policy.name,
                destination=task.destination,
                place=taken,
                calls=task.calls,
                ruled_out={
                    place: Reason(Rule.COVERAGE, "not taken")
                    for place in explained(program, task)
                    if place is not taken
                },
                open=task.open,
                ports=task.ports,
                closes=closes,
            )
        )
        for side in taken.sides:
            for host in hosts(program, task, side):
                if host not in program.services:
                    continue  # an external hosts nothing, whatever the places say
                listed = work.setdefault(host, {Side.INGRESS: [], Side.EGRESS: []})[side]
                if task.policy.name not in listed:
                    listed.append(task.policy.name)
    adms = tuple(Adm(name, tuple(work[name][Side.INGRESS]), tuple(work[name][Side.EGRESS])) for name in sorted(work))
    values = figures(program, places, costs)
    return Placement(
        decisions=tuple(decisions),
        adms=adms,
        closed=tuple(sorted(closed)),
        status=Status.OPTIMAL,
        objectives=tuple(
            ObjectiveValue(metric, values[metric], values[metric]) for metric in minimized(program, costs)
        ),
    )


def offered(task: Task) -> list[Place]:
    """The places that an assignment may give to a decision, right or wrong."""
    if task.policy.kind.both:
        return [Place.BOTH]
    return [INGRESS, EGRESS, NETWORK] if task.policy.kind.network else [INGRESS, EGRESS]


def explained(program: Program, task: Task) -> list[Place]:
    """The places of which a placement says why they are not taken, if they are not."""
    if task.policy.kind.both:
        return []
    pinned = any((pin.policy, pin.destination, pin.place) == (*task.key, NETWORK) for pin in program.pins)
    in_question = pinned or (task.policy.kind.network and program.network_policies is not None)
    return [INGRESS, EGRESS, NETWORK] if in_question else [INGRESS, EGRESS]


def needs_closing(program: Program, task: Task, place: Place) -> bool:
    """Whether a NetworkPolicy has to close the destination of an open decision that is enforced there."""
    beyond = place is NETWORK or EGRESS in place.ends
    return beyond and task.open and task.destination in program.services


def minimized(program: Program, costs: Costs) -> list[Metric]:
    """All levels of the objective, as docs/language.md lists them."""
    named = list(program.objective)
    measured = bool(costs.known or costs.adm or costs.enforcement or costs.hop)
    wanted = Metric.OVERHEAD in named or (measured and Metric.CPU not in named)
    if len(named) > 1 and named[-1] is Metric.OVERHEAD:
        named.remove(Metric.OVERHEAD)
    for metric in (Metric.CLOSED, Metric.OVERHEAD, Metric.HOPS):
        if metric not in named and (metric is not Metric.OVERHEAD or wanted):
            named.append(metric)
    return named


def figures(program: Program, places: Assignment, costs: Costs) -> dict[Metric, int]:
    """The value of every metric, by going through every request that is enforced somewhere."""
    hosting, closed, passed = set(), set(), set()
    cpu = latency = 0
    for task in tasks(program):
        if needs_closing(program, task, places[task.key]):
            closed.add(task.destination)
        for side in places[task.key].sides:
            for host in hosts(program, task, side):
                if host in program.services:
                    hosting.add(host)
                    share = costs.enforcement.get((host, side, *task.key), Cost())
                    cpu, latency = cpu + share.cpu, latency + share.latency
            passed |= hops(program, task, side)
    for host in hosting:
        base = costs.adm.get(host, Cost())
        cpu, latency = cpu + base.cpu, latency + base.latency
    requests = 0
    for host, side, destination, port in passed:
        base = costs.hop.get(Hop(host, side, destination, port), Cost())
        cpu, latency = cpu + base.cpu, latency + base.latency
        for call in program.calls:
            passes = side is Side.INGRESS or call.source == host
            if passes and (call.destination, call.port.number) == (destination, port):
                requests += round((1.0 if call.rate is None else call.rate) * 60 * 60)
    return {
        Metric.ADMS: len(hosting),
        Metric.SIDECARS: sum(program.services[host].replicas for host in hosting),
        Metric.CPU: cpu,
        Metric.OVERHEAD: cpu,
        Metric.LATENCY: latency,
        Metric.CLOSED: len(closed),
        Metric.HOPS: requests,
    }


def hops(program: Program, task: Task, side: Side) -> set[tuple[str, Side, str, int]]:
    """(service, side, destination, port) of every hop that a decision at `side` needs."""
    if side is Side.INGRESS:
        found = {(task.destination, side, task.destination, port) for port in task.ports}
    else:
        there = task.destination
        found = {(program.calls[i].source, side, there, program.calls[i].port.number) for i in task.calls}
    return {hop for hop in found if hop[0] in program.services}


def hosts(program: Program, task: Task, side: Side) -> list[str]:
    """Who does the work of a decision at one side."""
    if side is Side.INGRESS:
        return [task.destination]
    return sorted({program.calls[index].source for index in task.calls})


def everywhere(program: Program, choose: Callable[[Task], Place]) -> Assignment:
    """Both ends where the kind needs both, and what `choose` says elsewhere."""
    return {task.key: Place.BOTH if task.policy.kind.both else choose(task) for task in tasks(program)}
