"""What was seen in a bed against what must be: every difference in words, each policy's effect by name.

State is kept for a policy and a destination, so each destination is judged by itself, together with whatever its
policies send on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Protocol
from tests.fidelity.compare import Difference, judged
from tests.fidelity.harness import Observation, Observed
from tests.fidelity.judge import Judge
from tests.fidelity.mesh.admitting import Fate
from tests.fidelity.mesh.own import HANDLERS, serve
from tests.fidelity.mesh.requests import declared
from tests.fidelity.message import Sent
from tests.fidelity.selecting import called, policies_of
from tests.fidelity.state import World
from tests.testbed.mesh import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dsl.program import Program
    from tests.fidelity.judge import Outcome
    from tests.fidelity.mesh.admitting import Network
    from tests.fidelity.mesh.observing import Found, Run
    from tests.fidelity.mesh.requests import Asked

COUNTING = frozenset({"access_log", "request_count"})
DROPPED = "no answer in time"


def counting(program: Program) -> tuple[str, ...]:
    """The policies that leave a mark of each request that they meet."""
    return tuple(policy.name for policy in program.policies if policy.kind.name in COUNTING)


def without_policies(program: Program) -> Program:
    """The same application with no mesh."""
    return replace(program, policies=(), pins=())


class Compared(NamedTuple):
    """What came of a run."""

    differences: list[Difference]
    late: list[tuple[Asked, Difference]]
    """Requests that were right but for the time that they took: a busy machine may be to blame."""


def compare(program: Program, seen: Run, mode: Mode, network: Network) -> Compared:
    """All differences of one run. An undeclared caller that is dropped meets no policy, at neither end."""
    meant = without_policies(program) if mode is Mode.NONE else program
    found = [difference for each in seen.requests if (difference := _authority(each)) is not None]
    inside: list[Found] = []
    for each in seen.requests:
        fate = network.of(each.asked)
        if fate is Fate.DROPPED and not declared(program, each.asked):
            if each.reply.status is not None or each.reply.error != DROPPED or each.sightings:
                found.append(Difference(f"uninvited, {each.asked}", "dropped", f"{each.reply.label}"))
        elif fate is not Fate.EITHER:
            inside.append(each)
    late: list[tuple[Asked, Difference]] = []
    judge = Judge(meant, serve, network.handlers(HANDLERS), network.meets)
    for group in groups(program, {each.asked.destination for each in inside}):
        of_group = [each for each in inside if each.asked.destination in group]
        for protocol in Protocol:
            own = [each for each in of_group if each.asked.protocol is protocol]
            if own:
                compared = _judged(judge, protocol, own, group, seen)
                found += compared.differences
                late += compared.late
    return Compared(found + _connections(seen), late)


def _judged(judge: Judge, protocol: Protocol, own: Sequence[Found], group: Collection[str], seen: Run) -> Compared:
    several = {each.asked.protocol for each in seen.requests if each.asked.destination in group}
    names = counting(judge.program) if len(several) == 1 else ()
    counted = {
        name: sum(value for (of, destination), value in seen.counted.items() if of == name and destination in group)
        for name in names
    }
    requests = tuple(Observed(each.sent, each.reply, each.sightings, 0) for each in own)
    verdict = judged(judge, protocol, Observation(requests, counted), names)
    found: list[Difference] = []
    of_request: dict[int, list[Difference]] = {}
    for each in verdict.differences:
        if each.about.endswith("`host` at the servers"):
            continue  # compared with what this very request said, by `_authority`
        if each.about.startswith("request "):
            number = int(each.about.removeprefix("request ").partition(" ")[0])
            of_request.setdefault(number, []).append(each._replace(about=f"{own[number].asked}: {each.about}"))
        else:
            found.append(each._replace(about=f"{sorted(group)}: {each.about}"))
    late = []
    for number, differences in of_request.items():
        if all(each.about.endswith(", time") for each in differences):
            late.append((own[number].asked, differences[0]))
        else:
            found += differences
    return Compared(found, late)


def _authority(each: Found) -> Difference | None:
    """The service reads what the client wrote, whatever it is."""
    if each.asked.protocol is not Protocol.HTTP:
        return None
    hosts = {value for seen in each.sightings for name, value in seen.headers if name == "host"}
    if hosts - {each.asked.authority}:
        return Difference(f"{each.asked}: `host` at the servers", each.asked.authority, ", ".join(sorted(hosts)))
    return None


def _connections(seen: Run) -> list[Difference]:
    """Connections have no names: an unexpected one has no known caller, but their number is known."""
    greeted = Counter(
        (of.service, of.port) for each in seen.requests if each.asked.protocol is Protocol.TCP for of in each.sightings
    )
    return [
        Difference(f"connections that reached `{name}:{port}`", str(greeted[name, port]), str(number))
        for (name, port), number in seen.connections.items()
        if number != greeted[name, port]
    ]


def groups(program: Program, destinations: Iterable[str]) -> list[frozenset[str]]:
    """Destinations, each with those that its policies send requests to."""
    found: list[frozenset[str]] = []
    for name in sorted(destinations):
        own = {name, *(to for policy in program.policies if name in policy.destinations for to in called(policy))}
        touching = [group for group in found if group & own]
        found = [group for group in found if group not in touching]
        found.append(frozenset(own.union(*touching)))
    return found


def unseen(program: Program, asks: Sequence[Asked]) -> list[str]:
    """Policies that none of these requests shows: without them the judge would say the same of each.

    Everything is asked at once, and a quota bites when it is empty; so a fresh judge per policy goes through all.
    """
    silent = []
    for policy in program.policies:
        others = replace(program, policies=tuple(each for each in program.policies if each is not policy))
        about = [each for each in asks if policy in policies_of(program, each.source, each.destination, each.port)]
        if not _differs(program, others, about):
            silent.append(policy.name)
    return silent


def _differs(program: Program, others: Program, asks: Sequence[Asked]) -> bool:
    one, other = (Judge(each, serve, HANDLERS) for each in (program, others))
    worlds = [World(), World()]
    for number, asked in enumerate(asks):
        sent = as_sent(asked, number)
        left, right = (judge.outcomes(world, sent) for judge, world in zip((one, other), worlds, strict=True))
        if set(map(_told, left)) != set(map(_told, right)):
            return True
        worlds = [left[0].world, right[0].world]
        for world in worlds:
            world.arrivals.clear()
    return False


def as_sent(asked: Asked, number: int = 0) -> Sent:
    """The request as the judge takes it, at a time of its own."""
    ask = asked.ask
    return Sent(
        asked.source, asked.destination, asked.port.number, ask.method, ask.path, ask.headers, ask.body, number * 1e-6
    )


def _told(outcome: Outcome) -> tuple[object, ...]:
    """The part of an outcome that an outside observer sees."""
    met = tuple(sorted(item for item in outcome.counted.items() if item[1]))
    return outcome.answer, outcome.sightings, met, round(outcome.seconds, 2)
