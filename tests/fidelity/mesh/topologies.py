"""A few shapes of an application, each with as many kinds as fit: every case has a port of its own at each receiver.

Several replicas at both ends, so that whatever depends on one process shows. Kinds that keep count of what they let
through are elsewhere (`test_limits`): how their share falls out depends on who gets which request.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Protocol, Side
from emitters.envoy import Mode as EmitMode
from emitters.envoy import emit
from emitters.errors import EmitError
from solver.place import place
from solver.placement import PlacementError
from tests.fidelity.cases import FIRST_PORT, TARGETS, Written
from tests.fidelity.mesh.beds import judge
from tests.fidelity.mesh.derive import possible
from tests.fidelity.mesh.requests import Asked, Route
from tests.fidelity.samples import FILES, KINDS, SAMPLES
from tests.fidelity.textbook import reference
from tests.testbed.mesh import Mode, Way
from tests.testbed.mesh.layout import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dsl.program import Program
    from tests.fidelity.compare import Difference
    from tests.fidelity.requests import Ask
    from tests.fidelity.textbook import reference
from tests.fidelity.samples import Sample

COUNTED = frozenset({"rate_limit", "connection_rate_limit", "circuit_breaking", "outlier_detection"})
LONGEST = 1.0
"""Seconds that an answer may be asked to take here: longer ones are tried on loopback, with many others beside them."""
ROUTES_EACH = 2
"""By how many ways each request of a sample goes; which ones, changes from case to case."""


class Edge(NamedTuple):
    """Calls to one destination, with their policies. Sources that are set together share one policy."""

    sources: tuple[str, ...]
    destination: str


class Topology(NamedTuple):
    name: str
    edges: tuple[Edge, ...]
    outside: tuple[str, ...] = ()
    """Those of its parties that are no services."""
    sides: tuple[Side, ...] = tuple(Side)


TOPOLOGIES = (
    Topology("chain", (Edge(("a",), "b"), Edge(("b",), "c"))),
    Topology("fan_in", (Edge(("a", "c"), "b"),)),
    Topology("fan_out", (Edge(("a",), "b"), Edge(("a",), "c"))),
    Topology("oneself", (Edge(("a",), "a"),)),
    Topology("outside_in", (Edge(("world",), "b"),), ("world",), (Side.INGRESS,)),
    Topology("outside_out", (Edge(("a",), "bank"),), ("bank",), (Side.EGRESS,)),
)


class Case(NamedTuple):
    """One policy on every edge of a topology."""

    protocol: Protocol
    policy: Written
    asks: tuple[Ask, ...]

    @property
    def label(self) -> str:
        return f"{self.protocol}: {self.policy.kind}@{self.policy.side}({self.policy.arguments})"


def text(topology: Topology, cases: Sequence[Case], taps: str, *, narrowed: bool = True) -> str:
    """The program of many cases: the n-th has port `FIRST_PORT + n`."""
    lines = [f"app {topology.name}", KINDS, "service judge { http 8001 }"]
    lines += ["service s { http 8001 }", "service sg { grpc 8002 }", "service st { tcp 8003 }"]
    ports = [f"  {case.protocol} p{index} {FIRST_PORT + index}" for index, case in enumerate(cases)]
    receivers = {edge.destination for edge in topology.edges}
    callers = {source for edge in topology.edges for source in edge.sources}
    for name in sorted(receivers | callers):
        own = ports if name in receivers else []
        if name in topology.outside:
            lines += [f"external {name} {{", *own, "}"] if own else [f"external {name}"]
        else:
            lines += [f"service {name} {{", *(own or ["  http 8000"]), "  replicas 2", "}"]
    for edge in topology.edges:
        for source in edge.sources:
            lines += [f"call {source} -> {edge.destination}:p{index}" for index in range(len(cases))]
    lines += [f"call {name} -> s, sg, st" for name in sorted(callers - set(topology.outside))]
    for index, case in enumerate(cases):
        for number, edge in enumerate(topology.edges):
            policy = case.policy
            arguments = policy.arguments.replace("TARGET", TARGETS[case.protocol]).replace("TAPS", taps)
            arguments = arguments.replace("[a]", f"[{edge.sources[0]}]").replace("[c]", "[judge]")
            sources = "*" if policy.scope == "*" else "{" + ", ".join(edge.sources) + "}"
            scope = f"{sources} -> {edge.destination}:p{index}"
            if narrowed and policy.side is not None:
                lines.append(f"@{policy.side}")
            lines.append(f"policy k{index}_{number} = {policy.kind}({arguments}) on {scope} {policy.when}".strip())
    return "\n".join([*lines, ""])


def load(written: str) -> Program:
    return dsl.load_text(written, "test.adm", FILES.__getitem__)


def candidates(topology: Topology) -> Iterator[Case]:
    """Every sample on every side and in every protocol that its kind and the topology know."""
    kinds = load(text(topology, [], "")).kinds
    for sample in SAMPLES:
        kind = kinds[sample.kind]
        if sample.kind in COUNTED or any(ask.together or _slow(ask) for ask in sample.asks):
            continue
        for protocol in Protocol:
            if protocol not in kind.protocols & sample.protocols:
                continue
            for side in topology.sides:
                if side in kind.sides:
                    written = Written(sample.kind, sample.arguments, sample.when, _scope(sample), side)
                    yield Case(protocol, written, tuple(replace(ask, source="a") for ask in sample.asks))


def _slow(ask: Ask) -> bool:
    delays = [float(each) for name, value in ask.headers if name == "x-echo-delay" for each in value.split(",")]
    return max(delays, default=0.0) > LONGEST


def _scope(sample: Sample) -> str:
    return "*" if sample.scope == "*" else "own"


def accepted(topology: Topology, taps: str, every: int = 1) -> tuple[list[Case], dict[str, str]]:
    """The cases that the compiler takes, and the codes of those that it refuses.

    With `every`, one in so many: which ones, differs between topologies.
    """
    taken: list[Case] = []
    refused: dict[str, str] = {}
    first = TOPOLOGIES.index(topology) % every
    for case in islice(candidates(topology), first, None, every):
        code = refusal(topology, case, taps)
        if code is None:
            taken.append(case)
        else:
            refused[case.label] = code
    return taken, refused


def refusal(topology: Topology, case: Case, taps: str) -> str | None:
    """The codes that the compiler refuses a case with; None where it takes it."""
    try:
        program = load(text(topology, [case], taps))
        placement = place(program)
        emit(program, placement, layout(program).addresses, EmitMode.REDIRECT)
    except (ProgramError, EmitError) as error:
        return ", ".join(sorted({each.code for each in error.diagnostics if each.severity.value == "error"}))
    except PlacementError as error:
        return ", ".join(sorted({f"ADM6{int(reason.rule[1:]):02}" for reason in error.reasons})) or "ADM6"
    return None


def requests(program: Program, topology: Topology, cases: Iterable[Case], routes: int) -> Iterator[Asked]:
    """Each request of each case on each edge, by some of the ways that there are."""
    turn = 0
    for index, case in enumerate(cases):
        for edge in topology.edges:
            port = next(
                port
                for port in (program.services.get(edge.destination) or program.externals[edge.destination]).ports
                if port.number == FIRST_PORT + index
            )
            for source in edge.sources:
                ways = possible(program, source, edge.destination, port)
                for ask in case.asks:
                    spoken = replace(ask, times=1).spoken(case.protocol)
                    for _ in range(ask.times if ask.times > 5 else routes):
                        turn += 1
                        yield Asked(source, edge.destination, port, spoken, _route(spoken, ways, turn))


def _route(ask: Ask, ways: Sequence[Route], turn: int) -> Route:
    """The next way. What is asked of each attempt in turn has to reach one process: by its pod's address."""
    in_turn = any(name in ("x-echo-status", "x-echo-delay") and "," in value for name, value in ask.headers)
    fitting = [each for each in ways if each.way is Way.POD] if in_turn else []
    chosen = fitting or ways
    return chosen[turn % len(chosen)]


def run(topology: Topology, cases: Sequence[Case], taps: str, mode: Mode) -> list[Difference]:
    """All differences of one topology with all its cases."""
    program = load(text(topology, cases, taps, narrowed=mode is not Mode.FULL))
    return judge(program, mode, lambda: requests(program, topology, cases, ROUTES_EACH))


def everyway(topology: Topology, cases: Sequence[Case], taps: str) -> Iterator[tuple[Mode, list[Difference]]]:
    """The same in each mode; in a full mesh each policy is where a textbook has it, so one of its sides will do."""
    for mode in Mode:
        own = in_a_full_mesh(topology, cases, taps) if mode is Mode.FULL else list(cases)
        if own:
            yield mode, run(topology, own, taps, mode)


def in_a_full_mesh(topology: Topology, cases: Sequence[Case], taps: str) -> list[Case]:
    """Those of the cases that have a textbook placement, each on one of its sides only."""
    either = {(each.protocol, each.policy._replace(side=None)): each for each in cases}
    return [each for each in either.values() if _has_textbook(topology, each, taps)]


def _has_textbook(topology: Topology, case: Case, taps: str) -> bool:
    return reference(load(text(topology, [case], taps, narrowed=False)), closing=True) is not None
