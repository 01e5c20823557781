"""What the judge of `tests/fidelity` lets through in HEAD that it refuses or counts in BASE.

The judge reads the documents alone and shares no code with the compiler. NetworkPolicies are no part of it: a closed
destination refuses all callers that are not declared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.fidelity.judge import Behaviour, Judge
from tests.fidelity.kinds import HANDLERS
from tests.fidelity.message import Sent
from tests.fidelity.samples import ORIGIN, TOKEN
from tests.fidelity.state import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dsl.program import Program
    from tests.diff.protection.plans import Compiled
    from tests.fidelity.judge import Outcome
    from tests.fidelity.message import Fields, Sighting

TIMES: Final = 4
"""How often each request is sent where there are quotas: more often than any of these admits at once."""
STRANGER: Final = "stranger"
"""A caller that no program knows."""
ASKS: Final[tuple[tuple[str, str, Fields, bytes], ...]] = (
    *(("GET", path, (), b"") for path in ("/old/a", "/new/a", "/a")),
    ("GET", "/new/a", (("x-in", "client"),), b""),
    ("GET", "/old/a", (("x-in", "set"),), b""),
    ("POST", "/old/a", (("x-in", "client"), TOKEN), b"b" * 100),
    ("GET", "/new/a", (TOKEN,), b""),
    ("OPTIONS", "/a", (("origin", ORIGIN), ("access-control-request-method", "POST")), b""),
)
COUNTING: Final = frozenset(("request_count", "access_log", "tap"))


class Breach(NamedTuple):
    """A request that HEAD treats less strictly."""

    sent: Sent
    text: str


class Treated(NamedTuple):
    """What becomes of one request, sent several times."""

    through: int
    """How many of them reach a service at most."""
    counted: Mapping[str, int]
    """Of the first, if it may reach a service: how often each counting policy counts it at least."""


@dataclass(frozen=True)
class Side:
    """One program with the destinations that its placement closes."""

    compiled: Compiled

    @property
    def program(self) -> Program:
        return self.compiled.program

    def declares(self, sent: Sent) -> bool:
        return any(
            (call.source, call.destination, call.port.number) == sent[:3] for call in self.compiled.program.calls
        )

    def treats(self, sent: Sent, times: int, pause: float) -> Treated:
        program = self.program
        if not self.declares(sent):
            if sent.destination in self.compiled.placement.closed:
                return Treated(0, {})
            # Undeclared calls meet guards and policies for every caller (docs/language.md).
            applying = tuple(policy for policy in program.policies if policy.kind.guard or policy.open_sources)
            program = replace(program, policies=applying)
        judge = Judge(program, _serve, HANDLERS)
        worlds, through, counted = [World()], 0, None
        for index in range(times):
            at = index * pause
            outcomes = [each for world in worlds for each in judge.outcomes(world, sent._replace(at=at, answered=at))]
            passed = [each for each in outcomes if _reaches(each)]
            if counted is None:
                counted = _least(program, passed)
            through += bool(passed)
            worlds = [each.world for each in (passed or outcomes)[:2]]
        return Treated(through, counted or {})


def breaches(base: Compiled, head: Compiled, renamed: Mapping[str, str]) -> Iterator[Breach]:
    """Requests that BASE refuses or counts, and that HEAD lets through or does not count."""
    one, other = Side(base), Side(head)
    quotas = any(policy.kind.state for side in (one, other) for policy in side.program.policies)
    waves = ((TIMES, 0.001), (TIMES, 70.0)) if quotas else ((1, 0.0),)
    for sent in _requests(one, other):
        if one.declares(sent) and not other.declares(sent):
            continue  # gone with its call
        for times, pause in waves:
            before, after = one.treats(sent, times, pause), other.treats(sent, times, pause)
            if after.through > before.through:
                yield Breach(sent, f"{before.through} of {times} were let through, now {after.through}")
            elif after.through:
                for name, count in before.counted.items():
                    now = after.counted.get(renamed.get(name, name), 0)
                    if now < count:
                        yield Breach(sent, f"`{name}` counted it {count} times, now {now}")


def _requests(one: Side, other: Side) -> Iterator[Sent]:
    before, after = one.program.services, other.program.services
    callers = (
        *(name for name in before if name in after and name not in ("s", "judge")),
        "internet",
        "office",
        STRANGER,
    )
    for destination in before:
        ports = {port.number for port in before[destination].ports} & {
            port.number for port in after.get(destination, before[destination]).ports
        }
        if destination not in after or destination == "judge":
            continue
        for port in sorted(ports):
            for source in callers:
                for method, path, headers, body in ASKS:
                    if source != destination:
                        yield Sent(source, destination, port, method, path, headers, body)


def _reaches(outcome: Outcome) -> bool:
    """A service answers: no policy, and not the authorization service with a refusal."""
    return outcome.answer.by not in (None, "judge")


def _least(program: Program, outcomes: Sequence[Outcome]) -> dict[str, int]:
    names = [policy.name for policy in program.policies if policy.kind.name in COUNTING]
    totals = [Counter(outcome.counted) for outcome in outcomes]
    return {name: min(total[name] for total in totals) for name in names} if totals else {}


def _serve(seen: Sighting, _count: int) -> Behaviour:
    """Every service answers at once; the authorization service refuses some requests."""
    refuses = seen.service == "judge" and ("x-in", "client") in seen.headers
    return Behaviour(403 if refuses else None)
