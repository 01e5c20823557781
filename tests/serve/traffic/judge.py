"""Which programs a request may have met, and whether it fared as they say.

    Timeline (what was written when, and in force when) + Request + arrivals -> Verdict

A program may be met from just before its text is there until all proxies have acknowledged a later one and their
workers have taken it over. A policy whose filters are not the same in two programs may be met on older connections for
as long as proxies leave those open. What all of these programs agree on, every request has to show.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.rollout.publisher import SETTLE_SECONDS
from tests.serve.traffic.programs import ASPECTS, BURST, GRPC_UNAVAILABLE, Observed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from admc.testbed.echo import Seen
    from tests.serve.traffic.programs import Aspect, Variant
    from tests.testbed.callers import Request

MARGIN_SECONDS = 2.0
"""Added to the proxies' own drain time, which they count in whole seconds from when they begin."""
FEW = "/few"
UNREACHABLE = (None, 503, GRPC_UNAVAILABLE)
"""How a request ends whose next hop is away: by itself, or by the word of the proxy before."""


@dataclass(slots=True)
class _Span:
    variant: Variant
    began: float
    ended: float = float("inf")


class Outage(NamedTuple):
    """Somebody's proxy is away: requests through it may fail, and no more than that."""

    names: frozenset[str]
    began: float
    ended: float


class Cut(NamedTuple):
    """Connections are cut of which nobody can be told: the request that is under way on one fails, or the next."""

    names: frozenset[str]
    began: float
    ended: float
    status: int | None
    """How such a request ends."""
    opened: float = float("inf")
    """No caller's connection is cut that was made later."""


@dataclass
class Timeline:
    """Safe to use from several threads."""

    drain_seconds: float
    spans: list[_Span] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrote(self, variant: Variant) -> None:
        """To be called before the text is where the server reads it."""
        with self._lock:
            self.spans.append(_Span(variant, time.monotonic()))

    def in_force(self, since: float = inf) -> None:
        """The latest program is in force everywhere, and no other: now, or `since` then if proxies' workers, which have
        all gone round meanwhile, were not held up for longer than they may be."""
        with self._lock:
            now = time.monotonic()
            for span in self.spans[:-1]:
                span.ended = min(span.ended, max(min(since, now), now - SETTLE_SECONDS))

    def between(self, began: float, ended: float) -> list[Variant]:
        """The programs that a filter that is in force may be of, at some time within."""
        return [it.variant for it in self.spans if it.began <= ended and it.ended + SETTLE_SECONDS >= began]

    def possible(self, aspect: Aspect, request: Request) -> list[Variant]:
        older = self.between(request.began - self.drain_seconds - MARGIN_SECONDS, request.ended)
        if len({aspect.filters(variant) for variant in older}) > 1:
            return older
        return self.between(request.began, request.ended)

    def away(self, request: Request) -> bool:
        return any(
            it.names & request.ends and it.began <= request.ended and it.ended >= request.began for it in self.outages
        )

    def is_cut(self, request: Request) -> bool:
        return any(
            it.status == request.status
            and request.opened <= it.opened
            and it.names & request.ends
            and it.began <= request.ended
            and it.ended >= request.began
            for it in self.cuts
        )


@dataclass
class Verdict:
    """How all requests fared. Each list is a sentence for each request."""

    requests: int = 0
    refused: int = 0
    """By a policy that says so."""
    asked_again: int = 0
    """On kept connections that were closed meanwhile: they arrived nowhere."""
    while_away: int = 0
    """Failed while a proxy was being started again."""
    cut: Counter[int | None] = field(default_factory=Counter)
    """Failed on connections that were cut, by status. How many may is for the test to say."""
    failed: list[str] = field(default_factory=list)
    unenforced: list[str] = field(default_factory=list)
    """They met a policy less often, or more often, than any program of their time says, or with other arguments."""
    by_kind: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.by_kind.items()))
        return (
            f"{self.requests} requests ({kinds}): {self.refused} refused as a policy says, {self.asked_again} asked"
            f" again, {self.while_away} failed at a proxy that was away, {self.cut.total()} on connections that were"
            f" cut, {len(self.failed)} failed,"
            f" {len(self.unenforced)} unenforced or doubled"
        )


def judge(timeline: Timeline, requests: Iterable[Request], arrived: Sequence[Seen]) -> Verdict:
    named: dict[str, list[Seen]] = defaultdict(list)
    for seen in arrived:
        for name in seen.header("x-echo-id"):
            named[name].append(seen)
    verdict = Verdict()
    connected = Counter(seen.protocol for seen in arrived)["tcp"]
    for request in requests:
        verdict.requests += 1
        verdict.by_kind[request.ask.protocol] += 1
        arrivals = tuple(map(_headers, named.get(request.name, ())))
        if request.ask.protocol == "tcp":  # nothing in a connection says whose it is, so these are counted in all
            arrivals = ({},) if request.status else ()
            connected -= len(arrivals)
        observed = Observed(request.status, arrivals, _lower(request.answer))
        away, cut = request.status in UNREACHABLE and timeline.away(request), timeline.is_cut(request)
        if request.lost or away or cut:
            if request.lost and not arrivals:
                verdict.asked_again += 1
            elif away:
                verdict.while_away += 1
            elif cut:
                verdict.cut[request.status] += 1
            else:
                verdict.failed.append(_said(request, "arrived, and its answer was lost"))
            aspects = [it for it in ASPECTS if arrivals and not it.guards and it.name != "said"]
        else:
            aspects = [it for it in ASPECTS if arrivals or it.guards]
        verdict.refused += request.status in (403, 429)
        for aspect in aspects:
            if aspect.about(request.ask):
                _compare(timeline, request, observed, aspect, verdict)
    if connected > verdict.while_away + len(verdict.failed):
        verdict.unenforced.append(f"{connected} more connections reached their destination than were answered")
    return verdict


def _compare(timeline: Timeline, request: Request, observed: Observed, aspect: Aspect, verdict: Verdict) -> None:
    expected = {aspect.does(variant, request.ask) for variant in timeline.possible(aspect, request)}
    found = [each for each in aspect.seen(observed) if each not in expected]
    if not found:
        return
    sentence = _said(request, f"{aspect.name}: {found[0]} is none of {sorted(map(str, expected))}")
    should_pass = aspect.guards and not observed.arrivals and all(arrivals for _, arrivals in expected)
    cut = aspect.guards and (request.error or request.status == 503)
    (verdict.failed if should_pass or cut else verdict.unenforced).append(sentence)


def admitted(timeline: Timeline, requests: Iterable[Request]) -> tuple[int, int, list[str]]:
    """Of a quota whose buckets are never filled again: how many requests passed, how many may have passed, and requests
    with another status."""
    asked = [it for it in requests if it.ask.path == FEW]
    wrong = [_said(it, f"status {it.status}") for it in asked if it.status not in (200, 429) and not timeline.away(it)]
    return sum(it.status == 200 for it in asked), BURST * buckets(timeline), wrong


def buckets(timeline: Timeline) -> int:
    """How many buckets the quota may have had. Each new filter chain has one, and each proxy that restarts. A plan that
    moves the quota changes filter chains three times: at both ends in `prepare`, and at the new end in the plan."""
    sides = [span.variant.cart for span in timeline.spans]
    moves = sum(one != other for one, other in pairwise(sides))
    return len(sides) + 2 * moves + len(timeline.outages)


def _headers(seen: Seen) -> dict[str, tuple[str, ...]]:
    return _lower(seen.headers)


def _lower(headers: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers:
        found[name.lower()] = (*found.get(name.lower(), ()), value)
    return found


def _said(request: Request, what: str) -> str:
    ask = request.ask
    return (
        f"{request.began:.3f} to {request.ended:.3f} (connection of {request.opened:.3f}) {ask.protocol}"
        f" {' and '.join(sorted(request.ends))} -> {ask.destination}{ask.path} {dict(ask.headers) or ''}: {what}"
        f" {request.error}"
    )
