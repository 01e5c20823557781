"""Cases, and programs that hold many of them: each case has a port of its own, so that few Envoys run all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Protocol, Side
from emitters.addresses import loopback
from emitters.envoy import Mode, emit
from emitters.errors import EmitError
from solver.place import place
from solver.placement import PlacementError
from tests.fidelity.samples import FILES, KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.program import Program
    from solver.placement import Placement
    from tests.fidelity.requests import Ask

FIRST_PORT = 9000
TAPS = "/tmp/admc-fidelity"  # noqa: S108 - never opened: only its name is compiled where nothing runs
TARGETS = {Protocol.HTTP: "s", Protocol.GRPC: "sg", Protocol.TCP: "st"}
PARTIES = ("a", "b", "c", "d", "e")
"""The services of all cases."""
TWO_CALLERS: tuple[tuple[str, str], ...] = (("a", "b"), ("c", "b"))


class Written(NamedTuple):
    """One policy of a case."""

    kind: str
    arguments: str
    when: str = ""
    scope: str = "a"
    side: Side | None = None
    """Its side; None: the compiler's choice."""
    to: tuple[str, ...] = ("b",)


@dataclass(frozen=True)
class Case:
    """Policies on a few calls, and the requests on them. All its calls are to a port of its own."""

    name: str
    """A name of the language."""
    protocol: Protocol
    policies: tuple[Written, ...]
    asks: tuple[Ask, ...]
    calls: tuple[tuple[str, str], ...] = TWO_CALLERS
    """Sources and destinations, of `PARTIES`."""
    wire: str = ""
    """The clients' protocol where it is not the port's own: `h2c` is HTTP/2 on an http port."""
    enforced: bool = False
    """The program says `network_policies enforced`: a guard may be in the network. Nothing enforces it there on
    loopback, so all callers here are such as it admits (`tests.fidelity.mesh.networks` has the others)."""

    @property
    def spoken(self) -> str:
        return self.wire or self.protocol.value

    @property
    def down(self) -> bool:
        """No service listens where its requests go."""
        return any(("x-echo-fail", "down") in ask.headers for ask in self.asks)

    @property
    def destinations(self) -> tuple[str, ...]:
        return tuple(sorted({destination for _, destination in self.calls}))

    @property
    def label(self) -> str:
        each = (f"{policy.kind}{f'@{policy.side}' if policy.side else ''}" for policy in self.policies)
        return f"{self.spoken}: {' then '.join(each)}"

    @property
    def key(self) -> str:
        """The label with arguments."""
        each = (f"{one.kind}{f'@{one.side}' if one.side else ''}({one.arguments})" for one in self.policies)
        return f"{self.protocol}: {' then '.join(each)}"

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}_{index}_{policy.kind}" for index, policy in enumerate(self.policies))

    def lines(self, port: str, taps: str, *, narrowed: bool = True) -> list[str]:
        lines = []
        for name, policy in zip(self.names(), self.policies, strict=True):
            if narrowed and policy.side is not None:
                lines.append(f"@{policy.side}")
            arguments = policy.arguments.replace("TARGET", TARGETS[self.protocol]).replace("TAPS", taps)
            arguments = arguments.replace("PORT", port)
            to = ", ".join(f"{destination}:{port}" for destination in policy.to)
            lines.append(f"policy {name} = {policy.kind}({arguments}) on {policy.scope} -> {to} {policy.when}".strip())
        return lines


def text(cases: Sequence[Case], taps: str = TAPS, *, narrowed: bool = True, policies: bool = True) -> str:
    """The program of many cases: the n-th has port `FIRST_PORT + n` of its destinations."""
    services = []
    for party in PARTIES:
        own = [index for index, case in enumerate(cases) if party in case.destinations]
        ports = [f"  {cases[index].protocol} p{index} {FIRST_PORT + index}" for index in own]
        services.append("\n".join([f"service {party} {{", "  http own 8000", *ports, "}"]))
    calls = [
        f"call {source} -> {destination}:p{index}"
        for index, case in enumerate(cases)
        for source, destination in case.calls
    ]
    callers = sorted({"a", *(source for case in cases for source, _ in case.calls if case.calls != TWO_CALLERS)})
    lines = [line for index, case in enumerate(cases) for line in case.lines(f"p{index}", taps, narrowed=narrowed)]
    return "\n".join(
        [
            "app fidelity",
            *(["network_policies enforced"] if any(case.enforced for case in cases) else ()),
            *services,
            "service s, judge { http 8001 }",
            "service sg { grpc 8002 }",
            "service st { tcp 8003 }",
            *calls,
            f"call {', '.join(callers)} -> s, sg, st",
            KINDS,
            *(lines if policies else ()),
            "",
        ]
    )


def load(program: str) -> Program:
    return dsl.load_text(program, "test.adm", FILES.__getitem__)


def compiled(case: Case) -> Placement | str:
    """The compiler's placement of a case alone, or the code that it refuses the case with."""
    try:
        program = load(text([case]))
        placement = place(program)
        emit(program, placement, loopback(program), Mode.EXPLICIT)
    except (ProgramError, EmitError) as error:
        return ", ".join(sorted({each.code for each in error.diagnostics if each.severity.value == "error"}))
    except PlacementError as error:
        return ", ".join(sorted({f"ADM6{int(reason.rule[1:]):02}" for reason in error.reasons})) or "ADM6"
    return placement


def accepted(cases: Iterable[Case]) -> tuple[dict[str, Placement], dict[str, str]]:
    """Placements of the cases that the compiler accepts, and the codes of those that it refuses, by name."""
    taken: dict[str, Placement] = {}
    refused: dict[str, str] = {}
    for case in cases:
        found = compiled(case)
        if isinstance(found, str):
            refused[case.name] = found
        else:
            taken[case.name] = found
    return taken, refused
