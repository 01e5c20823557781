"""Observations against the judge: every difference in words, none where the observation is one of the right outcomes.

Where chance or time leave several outcomes open, the judge goes on from all those that fit what was seen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Protocol
from tests.fidelity.judge import FAILED
from tests.fidelity.message import Fields, joined
from tests.fidelity.state import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.fidelity.harness import Observation, Observed
    from tests.fidelity.judge import Judge, Outcome
    from tests.fidelity.message import Sent, Sighting

EARLY, LATE = 0.02, 0.35
"""Seconds that an answer may come before its time (timers are coarse), and after it."""
DEVIATIONS = 5
"""How many standard deviations a share may be off: one run in two million is, by chance."""
TRANSPORT = frozenset(
    {"host", ":authority", ":method", ":path", ":scheme", ":status", "connection", "transfer-encoding", "keep-alive"}
    | {"te", "date", "server", "user-agent", "vary", "content-length", "content-type"}
    | {"grpc-status", "grpc-message", "grpc-encoding", "grpc-accept-encoding"}
)
"""Headers that belong to a connection or to the server's library, not to the policies. `vary` is a remark."""
GRPC_ONLY = frozenset({"accept-encoding"})
"""grpcio writes it by itself."""


def _host(sent: Sent) -> str:
    return next((value for name, value in sent.headers if name == "host"), f"{sent.destination}:{sent.port}")


class Difference(NamedTuple):
    """The expected value and the observed one."""

    about: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.about}: expected {self.expected}, seen {self.seen}"


@dataclass
class Verdict:
    differences: list[Difference] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.differences


def judged(judge: Judge, protocol: Protocol, observation: Observation, names: Iterable[str]) -> Verdict:
    """All differences of one case."""
    verdict = Verdict()
    worlds: list[World] = [World()]
    flips: dict[str, list[tuple[bool, float]]] = {}
    least: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for index, observed in enumerate(observation.requests):
        outcomes = [found for world in worlds for found in judge.outcomes(world, observed.sent, observed.beside)]
        wrong = [(differences(protocol, found, observed), found) for found in outcomes]
        fitting = [found for different, found in wrong if not different]
        if not fitting:
            nearest, found = min(wrong, key=lambda each: (len(each[0]), -each[1].chance))
            about = f"request {index} ({_described(observed)})"
            verdict.differences += [each._replace(about=f"{about}, {each.about}") for each in nearest]
            fitting = [found]
        worlds = _different(found.world for found in fitting)
        _note(flips, fitting)
        for name in {name for found in fitting for name in found.counted}:
            each = [found.counted.get(name, 0) for found in fitting]
            least[name] += min(each)
            most[name] += max(each)
    verdict.differences += _shares(flips)
    for name in names:
        counted = observation.counted.get(name, 0)
        if not least[name] <= counted <= most[name]:
            expected = str(least[name]) if least[name] == most[name] else f"{least[name]} to {most[name]}"
            verdict.differences.append(Difference(f"met by `{name}`", expected, str(counted)))
    return verdict


def differences(protocol: Protocol, outcome: Outcome, observed: Observed) -> list[Difference]:
    """The differences of one request from one outcome; empty where it is that outcome."""
    found: list[Difference] = []
    answer, reply = outcome.answer, observed.reply
    broke = reply.status is None and answer.failure != "" and not answer.at_sender
    if answer.status != reply.status and not broke:
        found.append(Difference("status", str(answer.status), f"{reply.status} {reply.error}".strip()))
    elif protocol is not Protocol.TCP and not broke:
        if (protocol is Protocol.HTTP and not answer.encoding) or (protocol is Protocol.GRPC and answer.status == 0):
            by = reply.seen.service if reply.seen else None
            if by != answer.by:
                found.append(Difference("answered by", str(answer.by or "a policy"), str(by or "a policy")))
            if reply.seen and by == observed.sent.destination and protocol is Protocol.HTTP:
                spoken = "h2c" if any(name == ":status" for name, _ in reply.headers) else "http/1.1"
                if reply.seen.protocol != spoken:
                    found.append(Difference("version of HTTP at the service", spoken, reply.seen.protocol))
        expected, seen = _carried(protocol, answer.headers), _carried(protocol, reply.headers)
        if answer.by is None:
            seen = {
                name: value for name, value in seen.items() if name in expected or name.startswith(("x-", "access-"))
            }
        if answer.failure and not answer.at_sender:
            seen.pop(FAILED, None)
        if expected != seen:
            found.append(Difference("response headers", *_unlike(expected, seen)))
        if answer.by is not None and ("server", "envoy") in [(name.lower(), value) for name, value in reply.headers]:
            found.append(Difference("`server` of the answer", "the service's own, if any", "envoy"))
    expected_seen = sorted(_sighted(protocol, each) for each in outcome.sightings)
    really_seen = sorted(_sighted(protocol, each) for each in observed.sightings)
    if expected_seen != really_seen:
        found.append(Difference("servers saw", *_unlike_lists(expected_seen, really_seen)))
    hosts = {value for each in observed.sightings for name, value in each.headers if name == "host"}
    if protocol is Protocol.HTTP and hosts - {_host(observed.sent)}:
        found.append(Difference("`host` at the servers", "as it was sent", ", ".join(sorted(hosts))))
    if not outcome.seconds - EARLY <= reply.seconds <= outcome.seconds + outcome.late + LATE:
        found.append(Difference("time", f"about {outcome.seconds * 1000:.0f} ms", f"{reply.seconds * 1000:.0f} ms"))
    return found


def _sighted(protocol: Protocol, seen: Sighting) -> tuple[str, str, str, str, int]:
    where = f"{seen.service}:{seen.port}"
    if protocol is Protocol.TCP:
        return where, "", "", "", 0
    headers = " ".join(f"{name}={value!r}" for name, value in sorted(_carried(protocol, seen.headers).items()))
    return where, seen.method, seen.path, headers, seen.body


def _carried(protocol: Protocol, headers: Fields) -> dict[str, str]:
    left_out = TRANSPORT | GRPC_ONLY if protocol is Protocol.GRPC else TRANSPORT
    found = joined(tuple((name.lower(), value) for name, value in headers))
    return {name: value for name, value in found.items() if name not in left_out}


def _unlike(expected: dict[str, str], seen: dict[str, str]) -> tuple[str, str]:
    names = sorted(name for name in expected | seen if expected.get(name) != seen.get(name))
    return tuple(  # type: ignore[return-value]
        ", ".join(f"`{name}: {each[name]}`" if name in each else f"no `{name}`" for name in names)
        for each in (expected, seen)
    )


def _unlike_lists(expected: Sequence[object], seen: Sequence[object]) -> tuple[str, str]:
    left, right = Counter(map(str, expected)), Counter(map(str, seen))
    return f"{len(expected)}: {sorted((left - right).elements())}", f"{len(seen)}: {sorted((right - left).elements())}"


def _described(observed: Observed) -> str:
    sent = observed.sent
    headers = " ".join(f"{name}:{value[:24]}" for name, value in sent.headers if name != "x-echo-id")
    return f"{sent.source} {sent.method} {sent.path} {headers} {len(sent.body)}B".replace("  ", " ")


def _different(worlds: Iterable[World]) -> list[World]:
    found: list[World] = []
    for world in worlds:
        if world not in found:
            found.append(world)
    return found


def _note(flips: dict[str, list[tuple[bool, float]]], fitting: Sequence[Outcome]) -> None:
    """Record the result of a random decision that the observation proves."""
    for about in {flip.about for found in fitting for flip in found.flips if flip.chance is not None}:
        fell = {(flip.yes, flip.chance) for found in fitting for flip in found.flips if flip.about == about}
        if len(fell) == 1 and all(any(flip.about == about for flip in found.flips) for found in fitting):
            ((yes, chance),) = fell
            assert chance is not None
            flips.setdefault(about, []).append((yes, chance))


def _shares(flips: dict[str, list[tuple[bool, float]]]) -> list[Difference]:
    found = []
    for about, fell in flips.items():
        expected = sum(chance for _, chance in fell)
        spread = DEVIATIONS * sqrt(sum(chance * (1 - chance) for _, chance in fell))
        yes = sum(yes for yes, _ in fell)
        if abs(yes - expected) > max(spread, 1):
            found.append(Difference(f"{about}, of {len(fell)}", f"{expected:.0f} ± {spread:.0f}", str(yes)))
    return found
