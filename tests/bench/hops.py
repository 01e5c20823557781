"""What each place saves: ADMs, closed destinations and request hops, counted and not measured.

The programs are the examples as they are, and four sets of policies on five of their graphs. Each has a count for a
full mesh (a sidecar in each service that can host one, in the way of each declared call at both ends), for a placement
with ingress and egress, and for one that may also leave guards to NetworkPolicies. A request hop is a request a
second that passes an ADM, by the declared rates of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

import dsl
from admc.compile.explain.answers import stating_network_policies
from dsl.program import Place, Program, Protocol
from solver.hops import HOUR
from solver.place import place
from solver.verify.verifier import verify

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
GRAPHS: Final = ("bookinfo", "emojivoto", "hotel_reservation", "online_boutique", "social_network")


class Counted(NamedTuple):
    adms: int
    closed: int
    hops: int
    """Requests a second that pass ADMs, rounded."""


class Row(NamedTuple):
    program: str
    full: Counted
    two: Counted
    """With ingress and egress, also of a program that offers the network."""
    network: Counted | None
    """With the network, too; None if no guard of the program may be there."""


def full_mesh(program: Program) -> Counted:
    """A sidecar in each service that can host one: each declared call passes one at both of its ends."""
    hosts = {name for name, service in program.services.items() if service.can_host}
    hops = sum(((call.source in hosts) + (call.destination in hosts)) * _rate(call.rate) for call in program.calls)
    return Counted(len(hosts), 0, round(hops))


def placed(program: Program) -> Counted:
    placement = place(program)
    assert verify(program, placement) == ()
    levels = {level.metric: level.value for level in placement.objectives}
    return Counted(len(placement.adms), len(placement.closed), round(levels["hops"] / HOUR))


def _rate(rate: float | None) -> float:
    return 1.0 if rate is None else rate


def row(name: str, program: Program) -> Row:
    without = without_network(program)
    stated = stating_network_policies(without)
    return Row(name, full_mesh(program), placed(without), None if stated is None else placed(stated))


def without_network(program: Program) -> Program:
    """The program without `network_policies enforced`."""
    policies = tuple(replace(policy, places=policy.places - {Place.NETWORK}) for policy in program.policies)
    return replace(program, policies=policies, network_policies=None)


# ---- sets of policies on a graph ----


def allow_lists(program: Program) -> Iterator[str]:
    """Each service that services call admits the senders of its declared calls."""
    callers: dict[str, set[str]] = {}
    for call in program.calls:
        callers.setdefault(call.destination, set()).add(call.source)
    for number, (destination, names) in enumerate(sorted(callers.items())):
        if destination in program.services and names.isdisjoint(program.externals):
            yield f"policy list_{number} = allow(callers: [{', '.join(sorted(names))}]) on * -> {destination}"


def attempts(program: Program) -> Iterator[str]:
    """A timeout and a retry on each call that carries requests between services."""
    carrying = [
        call for call in program.calls if call.port.protocol is not Protocol.TCP and call.source in program.services
    ]
    for number, call in enumerate(carrying):
        scope = f"on {call.source} -> {call.destination}:{call.port.number}"
        yield f"policy limit_{number} = timeout(after: 1s) {scope}"
        yield f"policy again_{number} = retry(attempts: 2, on: [unavailable]) {scope}"


def with_quota(program: Program) -> Iterator[str]:
    """Both, with a quota on what externals call."""
    yield from allow_lists(program)
    yield from attempts(program)
    called = sorted(
        {
            (call.source, call.destination, call.port.number)
            for call in program.calls
            if call.source in program.externals and call.port.protocol is not Protocol.TCP
        }
    )
    for number, (source, destination, port) in enumerate(called):
        yield f"policy quota_{number} = rate_limit(requests: 1000, per: 1s) on {source} -> {destination}:{port}"


def logs(_program: Program) -> Iterator[str]:
    yield "policy log = access_log(format: json) on * -> *"


SETS: Final[dict[str, Callable[[Program], Iterator[str]]]] = {
    "allow-lists": allow_lists,
    "timeouts and retries": attempts,
    "both, and an edge quota": with_quota,
    "a log of every call": logs,
}


def on_graph(graph: Program, policies: Callable[[Program], Iterator[str]]) -> Program:
    """A program with the services and calls of another one, and with these policies."""
    lines = [f"app {graph.app}"]
    for external in graph.externals.values():
        ports = "  ".join(f"{port.protocol} {port.number}" for port in external.ports)
        hosts = "  ".join(f'host "{name}"' for name in external.hosts)
        lines.append(f"external {external.name}{f' {{ {ports}  {hosts} }}' if ports or hosts else ''}")
    for service in graph.services.values():
        ports = "  ".join(f"{port.protocol} {port.number}" for port in service.ports)
        lines.append(f"service {service.name} {{ {ports}{'' if service.hosts_adm else '  no adm'} }}")
    for call in graph.calls:
        rate = "" if call.rate is None else f" {{ rate {call.rate:g}/s }}"
        lines.append(f"call {call.source} -> {call.destination}:{call.port.number}{rate}")
    return dsl.load_text("\n".join([*lines, *policies(graph)]) + "\n")


def rows() -> list[Row]:
    loaded = {path.parent.name: dsl.load(path) for path in sorted(EXAMPLES.glob("*/policies.adm"))}
    found = [row(name, program) for name, program in loaded.items()]
    return found + [
        row(f"{name}: {title}", on_graph(loaded[name], policies)) for title, policies in SETS.items() for name in GRAPHS
    ]


def table(found: Sequence[Row]) -> list[str]:
    """The table of docs/places.md: each cell is ADMs, closed destinations, request hops a second."""
    lines = ["| program | full mesh | ingress and egress | and `network` |", "|---|---|---|---|"]
    for one in found:
        cells = (one.full, one.two, one.network)
        lines.append(f"| {one.program} | {' | '.join(_cell(cell) for cell in cells)} |")
    return lines


def _cell(counted: Counted | None) -> str:
    return "no guard may be there" if counted is None else f"{counted.adms}, {counted.closed}, {counted.hops:,}"


def hops(console: Console) -> None:
    printed = Table(title="ADMs, closed destinations, request hops a second", title_justify="left")
    for name in ("program", "full mesh", "ingress and egress", "and network"):
        printed.add_column(name)
    for one in rows():
        printed.add_row(one.program, *(_cell(cell) for cell in (one.full, one.two, one.network)))
    console.print(printed)


PAGE: Final = Path(__file__).parents[2] / "docs/places.md"
START: Final = "| program |"


def page() -> str:
    """The page with its table counted anew."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(START)
    return before + "\n".join(table(rows())) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
