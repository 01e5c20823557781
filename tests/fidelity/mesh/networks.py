"""Random applications whose guards may be in the network: callers of every sort, and destinations drawn one by one.

    run(seed, mode): drawn(seed) -> requests(...), knocks(...) -> judge -> differences

What tells callers apart is close together: networks that are neighbours, labels that others have too, in the same
namespace or in another one, ports beside each other, and two that lead to one target.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Place, Protocol
from emitters.envoy import Mode as EmitMode
from emitters.envoy import emit
from emitters.errors import EmitError
from emitters.kubernetes import network_policies
from solver.place import place
from solver.placement import PlacementError
from tests.fidelity.mesh.admitting import Fate, Knock, Network
from tests.fidelity.mesh.beds import judge
from tests.fidelity.mesh.derive import biting, possible
from tests.fidelity.mesh.requests import Asked, declared
from tests.fidelity.requests import GRPC_PATH, Ask
from tests.fidelity.selecting import policies_of
from tests.testbed.mesh import Family, Transport
from tests.testbed.mesh.layout import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from dsl.program import Port, Program
    from solver.placement import Placement
    from tests.fidelity.compare import Difference
    from tests.testbed.mesh import Mode

CALLERS = """\
external office { cidr "10.9.0.0/16"  cidr "fd00:9::/48" }
external beside { cidr "10.8.0.0/16"  cidr "fd00:8::/48" }
external world
service a { http 8000  replicas 2 }
service b { http 8000  namespace back  labels { app = "b"  tier = "1" } }
service c { http 8000  labels { app = "c"  tier = "1" } }
service namesake { http 8000  namespace back  labels { app = "a" } }
"""
INVITED = ("a", "b", "c", "office")
"""Those of them that calls and guards name. Some of these have no call to a port that admits them."""
MAIN = "http main 80 -> 8080"
TWIN = "http twin 81 -> 8080"
OTHERS = ("http metrics 9100", "tcp raw 8081", "tcp last 65535", "grpc rpc 9090", "http below 8079")
SIDES = ("ingress", "egress")
POLICIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ('set_request_header(name: "x-in", value: "policy")', SIDES),
    ('set_response_header(name: "x-out", value: "policy")', SIDES),
    ("request_count()", SIDES),
    ("timeout(after: 300ms)", ()),
    ("timeout(after: 400ms)", ()),
)
"""Other policies, each with the sides that it may be narrowed to."""
DESTINATIONS = 4
TRIES = 200
OPEN_TRIES = 3
"""From how many callers each number that is open to all is tried."""


def drawn(seed: int) -> Program:
    """An application with at least one guard in the network; the same seed gives the same one."""
    rng = random.Random(seed)  # noqa: S311
    while True:
        head = _head(rng)
        blocks = []
        for number in range(DESTINATIONS):
            tries = (_destination(rng, f"d{number}") for _ in range(TRIES))
            blocks.append(next(block for block in tries if _placed(head + block) is not None))
        text = "".join([head, *blocks])
        placement = _placed(text)
        if placement is not None and any(each.place is Place.NETWORK for each in placement.decisions):
            return dsl.load_text(text)


def run(seed: int, mode: Mode) -> list[Difference]:
    """All differences of one application."""
    program = drawn(seed)
    placement, names = place(program), destinations(program)
    asks = tuple(requests(program, placement, seed, names))
    return judge(program, mode, lambda: asks, tuple(knocks(program, placement, seed, names)))


def _placed(text: str) -> Placement | None:
    """None where the compiler refuses it."""
    try:
        program = dsl.load_text(text)
        placement = place(program)
        network_policies(program, placement)
        emit(program, placement, layout(program).addresses, EmitMode.REDIRECT)
    except (ProgramError, PlacementError, EmitError):
        return None
    return placement


def _head(rng: Random) -> str:
    lines = ["app drawn", "network_policies enforced"]
    if rng.random() < 0.5:
        lines += ["service agent { http 8000  host_network }", "accept host_network"]
    if rng.random() < 0.2:
        lines.append(
            'external inner { cidr "10.9.1.0/24"  cidr "fd00:9:0:1::/64" }'
        )  # where no NetworkPolicy can admit `office` without it
    return "\n".join([*lines, CALLERS])


def _destination(rng: Random, name: str) -> str:
    """A service with its calls and policies."""
    ports = [MAIN, *([TWIN] if rng.random() < 0.6 else []), *rng.sample(OTHERS, rng.randint(0, 3))]
    names = [port.split()[1] for port in ports]
    body = [*ports, f"replicas {rng.randint(1, 2)}"]
    if rng.random() < 0.3:
        body.append("no adm")
    if rng.random() < 0.4:
        body.append("namespace back")
    if rng.random() < 0.4:
        body.append(f'labels {{ app = "{name}"  tier = "1" }}')
    lines = [f"service {name} {{", *(f"  {item}" for item in body), "}"]
    callers: dict[str, list[str]] = {}
    for caller in (*INVITED, name):
        called = {port for port in names if rng.random() < (0.1 if caller == name else 0.4)}
        if called & {"main", "twin"} and rng.random() < 0.9:
            called |= {"main", "twin"} & set(names)  # a NetworkPolicy cannot tell two ports of one target apart
        for port in sorted(called):
            lines.append(f"call {caller} -> {name}:{port}")
            callers.setdefault(port, []).append(caller)
    policies = [_guard(rng, name, names, callers) for _ in range(rng.randint(1, 2))]
    policies += [_other(rng, name, names, callers) for _ in range(rng.randint(1, 2))]
    rng.shuffle(policies)
    lines += [policy.format(f"{name}_{index}") for index, policy in enumerate(policies)]
    return "\n".join([*lines, ""])


def _guard(rng: Random, name: str, names: list[str], callers: dict[str, list[str]]) -> str:
    """Mostly of those with a call; a few admit others as well, or refuse declared calls."""
    some = set(names if rng.random() < 0.2 else rng.sample(names, rng.randint(1, max(1, len(names) - 1))))
    chosen = [port for port in names if port in some or (port == "twin" and "main" in some)]
    invited = sorted({caller for port in chosen for caller in callers.get(port, ())})
    admitted = {caller for caller in invited if rng.random() < 0.75} | {c for c in INVITED if rng.random() < 0.25}
    kind = f"allow(callers: [{', '.join(sorted(admitted))}])" if admitted and rng.random() < 0.8 else "deny()"
    refuses = kind == "deny()" or not admitted.issuperset(invited)
    at = "".join(f"@{side}\n" for side in SIDES if rng.random() < 0.08)
    drop = " accept drop" if refuses and invited and not at and rng.random() < 0.8 else ""
    pin = "\npin {0} at network" if not at and rng.random() < 0.2 else ""
    scope = ", ".join(f"{name}:{port}" for port in chosen) if chosen != names else name
    return f"{at}policy {{0}} = {kind} on * -> {scope}{drop}{pin}"


def _other(rng: Random, name: str, names: list[str], callers: dict[str, list[str]]) -> str:
    port = rng.choice(names)
    senders = sorted(callers.get(port, ()))
    sources = f"{{{{{', '.join(senders)}}}}}" if senders and rng.random() < 0.4 else "*"
    kind, sides = rng.choice(POLICIES)
    at = f"@{rng.choice(sides)}\n" if sides and rng.random() < 0.5 else ""
    return f"{at}policy {{0}} = {kind} on {sources} -> {name}:{port}"


def destinations(program: Program) -> list[str]:
    return [name for name in program.services if name.startswith("d")]


def _callers(program: Program) -> list[str]:
    return [name for name in (*program.services, *program.externals) if not name.startswith("d")]


def requests(program: Program, placement: Placement, seed: int, names: Iterable[str]) -> Iterator[Asked]:
    """From each party to each port of these destinations, in both families, and what shows the policies on its way."""
    rng = random.Random(seed)  # noqa: S311
    network = Network(program, placement)
    for name in names:
        for port in program.services[name].ports:
            for source in (*_callers(program), name):
                ways = possible(program, source, name, port)
                for ask in _asks(program, source, name, port):
                    routes = [rng.choice([way for way in ways if way.family is family]) for family in Family]
                    asked = [Asked(source, name, port, ask, route) for route in routes]
                    promised = [each for each in asked if _is_promised(program, network, each)]
                    # Those that a sender's ADM waits for wait one after another.
                    slow = any(network.of(each) is Fate.DROPPED and network.meets_senders(each) for each in promised)
                    yield from promised[:1] if slow else promised


def _asks(program: Program, source: str, destination: str, port: Port) -> Iterator[Ask]:
    plain = Ask(path=GRPC_PATH if port.protocol is Protocol.GRPC else "/")
    yield plain.spoken(port.protocol)
    if port.protocol is not Protocol.TCP:
        for policy in policies_of(program, source, destination, port):
            if not policy.kind.guard:
                yield from (ask.besides(plain).spoken(port.protocol) for ask in biting(policy, port))


def _is_promised(program: Program, network: Network, asked: Asked) -> bool:
    """Of callers without a call, policies say something only if they are about every caller (R7)."""
    if network.of(asked) is not Fate.ADMITTED:
        return network.of(asked) is Fate.DROPPED
    met = policies_of(program, asked.source, asked.destination, asked.port)
    return declared(program, asked) or all(policy.open_sources for policy in met)


def knocks(program: Program, placement: Placement, seed: int, names: Iterable[str]) -> Iterator[Knock]:
    """Numbers where no service listens, over every transport: who gets there, and who does not."""
    rng = random.Random(seed)  # noqa: S311
    closed = Network(program, placement).closed
    plan = layout(program)
    for name in names:
        service = program.services[name]
        listened = {port.target for port in service.ports}
        near = {at + step for port in service.ports for at in (port.number, port.target) for step in (-1, 0, 1)}
        sources = _callers(program)
        for number in sorted(each for each in near | {1, 65535} if 1 <= each <= 65535):
            for transport in Transport:
                if transport is Transport.TCP and number in listened:
                    continue  # `requests` ask there
                every = (name, number) in closed
                for source in sources if every else rng.sample(sources, OPEN_TRIES):
                    yield Knock(
                        source,
                        name,
                        transport,
                        number,
                        rng.choice(list(Family)),
                        rng.randrange(len(plan.of(source))),
                        rng.randrange(service.replicas),
                    )
