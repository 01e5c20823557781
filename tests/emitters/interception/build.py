"""Programs and placements by hand: what an emitter does must not depend on what the solver would have chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.program import Call, External, Kind, Metric, Place, Policy, Port, Program, Protocol, Service, Side, Stage
from dsl.text import SourceText, Span
from emitters.kubernetes import Admitted, ClosedTargets
from solver.placement import Adm, Decision, ObjectiveValue, Placement, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOURCE = SourceText("policies.adm", "app sample\n")
HERE = Span(SOURCE, 0, 10)

LIMIT = Kind(
    "limit",
    (),
    frozenset(Protocol),
    {Side.INGRESS: Stage.FILTER, Side.EGRESS: Stage.FILTER},
    HERE,
)


def port(number: int, target: int | None = None, protocol: Protocol = Protocol.HTTP, name: str | None = None) -> Port:
    return Port(number, protocol, target or number, name)


def service(name: str, *ports: Port, **more: object) -> Service:
    return Service(name, ports or (port(80, 8080),), HERE, **more)  # type: ignore[arg-type]


def external(name: str, *ports: Port, hosts: Iterable[str] = (), cidrs: Iterable[str] = ()) -> External:
    return External(name, HERE, tuple(ports), tuple(hosts), tuple(cidrs))


def policy(name: str, sources: Iterable[str], destinations: Iterable[str], calls: Iterable[int] = ()) -> Policy:
    return Policy(
        name=name,
        kind=LIMIT,
        arguments={},
        places=frozenset({Place.INGRESS, Place.EGRESS}),
        sources=frozenset(sources),
        open_sources=False,
        destinations=tuple(sorted(destinations)),
        calls=tuple(calls),
        effects=(),
        span=HERE,
    )


def program(
    parties: Iterable[Service | External],
    calls: Iterable[tuple[str, str] | tuple[str, str, int]],
    policies: Iterable[str] = (),
    app: str = "sample",
) -> Program:
    """`calls` are (source, destination[, port number]); the first port where none is given."""
    parties = tuple(parties)
    services = {item.name: item for item in parties if isinstance(item, Service)}
    externals = {item.name: item for item in parties if isinstance(item, External)}
    found = []
    for source, destination, *number in calls:
        ports = (services.get(destination) or externals[destination]).ports
        chosen = next(item for item in ports if not number or item.number == number[0])
        found.append(Call(source, destination, chosen, HERE))
    found.sort(key=lambda call: (call.destination, call.source, call.port.number))
    return Program(
        app=app,
        services=dict(sorted(services.items())),
        externals=dict(sorted(externals.items())),
        calls=tuple(found),
        kinds={"limit": LIMIT},
        policies=tuple(policy(name, (), ()) for name in policies),
        pins=(),
        objective=(Metric.ADMS, Metric.OVERHEAD),
        inputs=(),
        source=SOURCE,
    )


def placement(
    of: Program, decisions: Mapping[tuple[str, str], str], open_: Iterable[tuple[str, str]] = ()
) -> Placement:
    """`decisions` is (policy, destination) -> "ingress", "egress" or "ingress egress".

    Each takes in every call to its destination; one in `open_` also every port of it, and closes it at egress.
    """
    open_ = frozenset(open_)
    position = {item.name: index for index, item in enumerate(of.policies)}
    made = []
    ingress: dict[str, set[str]] = {}
    egress: dict[str, set[str]] = {}
    for (name, destination), words in sorted(decisions.items(), key=lambda item: (position[item[0][0]], item[0][1])):
        place = Place.BOTH if len(words.split()) > 1 else Place(words)
        calls = tuple(index for index, call in enumerate(of.calls) if call.destination == destination)
        numbers = {of.calls[index].port.number for index in calls}
        is_open = (name, destination) in open_
        if is_open:
            numbers |= {item.number for item in of.services[destination].ports}
        closes = is_open and Side.EGRESS in place.sides
        ruled_out = {other: None for other in (Place.INGRESS, Place.EGRESS) if other not in place.ends}
        made.append(
            Decision(
                name, destination, place, calls, ruled_out, open=is_open, ports=tuple(sorted(numbers)), closes=closes
            )
        )
        if Side.INGRESS in place.sides:
            ingress.setdefault(destination, set()).add(name)
        if Side.EGRESS in place.sides:
            for index in calls:
                egress.setdefault(of.calls[index].source, set()).add(name)
    hosts = sorted(set(ingress) | set(egress))
    return Placement(
        decisions=tuple(made),
        adms=tuple(
            Adm(
                host,
                tuple(sorted(ingress.get(host, ()), key=position.__getitem__)),
                tuple(sorted(egress.get(host, ()), key=position.__getitem__)),
            )
            for host in hosts
        ),
        closed=tuple(sorted({decision.destination for decision in made if decision.closes})),
        status=Status.OPTIMAL,
        objectives=(ObjectiveValue("adms", len(hosts), len(hosts)),),
    )


def closed_at(of: Program, name: str, *targets: int) -> ClosedTargets:
    """The closing of one destination at some targets, to all but the declared senders of one program."""
    senders = {
        target: frozenset(call.source for call in of.calls if (call.destination, call.port.target) == (name, target))
        for target in sorted(targets)
    }
    return ClosedTargets(of, {target: Admitted(of, its) for target, its in senders.items()})


def wholly_closed(of: Program, *names: str) -> dict[str, ClosedTargets]:
    """The closing of destinations at the targets of all of their ports."""
    return {name: closed_at(of, name, *(port.target for port in of.services[name].ports)) for name in names}
