"""Decides whether the result of each request is one that a program of its time allows.

    Timeline (when each program was written, and in force) + Request + arrivals -> Verdict

A request may meet a program from just before its text is written until all proxies have acknowledged a later one and
their workers have taken that over. If two programs have different filters for a policy, a request on an older
connection may meet the earlier one until proxies close the connection. Each request must show the effect of one of the
programs that it may meet.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.publication.publisher import SETTLE_SECONDS
from tests.serve.traffic.programs import ASPECTS, BURST, GRPC_UNAVAILABLE, Observed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from admc.testbed.echo import Seen
    from tests.serve.traffic.programs import Aspect, Variant
    from tests.testbed.callers import Request

MARGIN_SECONDS = 2.0
"""Added to the drain time of the proxies, which they count in whole seconds."""
FEW = "/few"
UNREACHABLE = (None, 503, GRPC_UNAVAILABLE)
"""The status of a request whose next hop does not run: without a response, or from the proxy before."""


@dataclass(slots=True)
class _Span:
    variant: Variant
    began: float
    ended: float = float("inf")


class Outage(NamedTuple):
    """A proxy does not run. Requests through it may fail; those that arrive meet their policies."""

    names: frozenset[str]
    began: float
    ended: float


class Cut(NamedTuple):
    """Connections are cut without notice to the client: the present request on one fails, or the next one."""

    names: frozenset[str]
    began: float
    ended: float
    status: int | None
    """The status of such a request."""
    opened: float = float("inf")
    """A caller's connection that was opened later is not cut."""


@dataclass
class Timeline:
    """When each program was in force, and when requests may fail. May be used from several threads."""

    drain_seconds: float
    spans: list[_Span] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrote(self, variant: Variant) -> None:
        """A program is about to be written where the server reads it."""
        with self._lock:
            self.spans.append(_Span(variant, time.monotonic()))

    def in_force(self, since: float = inf) -> None:
        """All proxies have enforced the latest program alone since `since`. All workers have served requests
        meanwhile. If that took longer than a worker may lag, the time counts from when they had."""
        with self._lock:
            now = time.monotonic()
            for span in self.spans[:-1]:
                span.ended = min(span.ended, max(min(since, now), now - SETTLE_SECONDS))

    @property
    def not_over(self) -> list[Variant]:
        """The programs that may be in force now: the latest one, and those since the last one that all proxies enforced
        alone."""
        return [span.variant for span in self.spans if span.ended == inf]

    def variants_between(self, began: float, ended: float) -> list[Variant]:
        """The programs of which a filter may be in force at some time within."""
        return [it.variant for it in self.spans if it.began <= ended and it.ended + SETTLE_SECONDS >= began]

    def possible_variants(self, aspect: Aspect, request: Request) -> list[Variant]:
        older = self.variants_between(request.began - self.drain_seconds - MARGIN_SECONDS, request.ended)
        if len({aspect.filters(variant) for variant in older}) > 1:
            return older
        return self.variants_between(request.began, request.ended)

    def in_outage(self, request: Request) -> bool:
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
    """The results of all requests. The lists have a sentence for each request."""

    requests: int = 0
    refused: int = 0
    """By a policy, as a program of its time says."""
    retried: int = 0
    """Sent on kept connections that were just closed; they did not arrive."""
    in_outage: int = 0
    """Failed while a proxy restarted."""
    cut: Counter[int | None] = field(default_factory=Counter)
    """Failed on connections that were cut, by status. Each test has a bound for them."""
    failed: list[str] = field(default_factory=list)
    unenforced: list[str] = field(default_factory=list)
    """Met a policy less often or more often than all programs of their time say, or with other arguments."""
    by_kind: Counter[str] = field(default_factory=Counter)
    strangers: Counter[int | None] = field(default_factory=Counter)
    """Requests of callers that no program admits, by status."""
    arrived: list[str] = field(default_factory=list)
    """A sentence for each of them that reached its destination."""

    @property
    def wrong(self) -> list[str]:
        return [*self.failed, *self.unenforced, *self.arrived]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.by_kind.items()))
        return (
            f"{self.requests} requests ({kinds}): {self.refused} refused by a policy, {self.retried} sent"
            f" again, {self.in_outage} failed while a proxy restarted, {self.cut.total()} on connections that were"
            f" cut, {len(self.failed)} failed,"
            f" {len(self.unenforced)} unenforced or doubled"
            f"{self._of_strangers if self.strangers else ''}"
        )

    @property
    def _of_strangers(self) -> str:
        met = ", ".join(f"{count} {status or 'without an answer'}" for status, count in self.strangers.most_common())
        return f"; {self.strangers.total()} requests of strangers ({met}): {len(self.arrived)} arrived"


def judge(
    timeline: Timeline,
    requests: Iterable[Request],
    arrived: Sequence[Seen],
    *,
    aspects: Sequence[Aspect] = ASPECTS,
    strangers: Iterable[Request] = (),
) -> Verdict:
    """`aspects` are the policies of the programs, by their effects. No program admits the requests of `strangers`."""
    named: dict[str, list[Seen]] = defaultdict(list)
    for seen in arrived:
        for name in seen.header("x-echo-id"):
            named[name].append(seen)
    verdict = Verdict()
    connected = Counter(seen.protocol for seen in arrived)["tcp"]
    for request in requests:
        verdict.requests += 1
        verdict.by_kind[request.spec.protocol] += 1
        arrivals = tuple(map(_headers, named.get(request.name, ())))
        if request.spec.protocol == "tcp":  # connections have no names, so they are counted in all
            arrivals = ({},) if request.status else ()
            connected -= len(arrivals)
        observed = Observed(request.status, arrivals, _lower(request.answer))
        away, cut = request.status in UNREACHABLE and timeline.in_outage(request), timeline.is_cut(request)
        if request.lost or away or cut:
            if request.lost and not arrivals:
                verdict.retried += 1
            elif away:
                verdict.in_outage += 1
            elif cut:
                verdict.cut[request.status] += 1
            else:
                verdict.failed.append(_sentence(request, "arrived, and its answer was lost"))
            shown = [it for it in aspects if arrivals and not it.is_guard and it.name != "said"]
        else:
            shown = [it for it in aspects if arrivals or it.is_guard]
        verdict.refused += request.status in (403, 429)
        for aspect in shown:
            if aspect.concerns(request.spec):
                _compare(timeline, request, observed, aspect, verdict)
    if connected > verdict.in_outage + len(verdict.failed):
        verdict.unenforced.append(f"{connected} more connections reached their destination than had an answer")
    for request in strangers:
        verdict.strangers[request.status] += 1
        if request.name in named:
            verdict.arrived.append(_sentence(request, "a stranger's request arrived"))
    return verdict


def _compare(timeline: Timeline, request: Request, observed: Observed, aspect: Aspect, verdict: Verdict) -> None:
    expected = {aspect.expected(variant, request.spec) for variant in timeline.possible_variants(aspect, request)}
    found = [each for each in aspect.observed(observed) if each not in expected]
    if not found:
        return
    sentence = _sentence(request, f"{aspect.name}: {found[0]} is none of {sorted(map(str, expected))}")
    should_pass = aspect.is_guard and not observed.arrivals and all(arrivals for _, arrivals in expected)
    cut = aspect.is_guard and (request.error or request.status == 503)
    (verdict.failed if should_pass or cut else verdict.unenforced).append(sentence)


def admitted(timeline: Timeline, requests: Iterable[Request]) -> tuple[int, int, list[str]]:
    """Of a quota whose buckets are never filled again: how many requests passed, how many may have passed, and requests
    with another status."""
    asked = [it for it in requests if it.spec.path == FEW]
    wrong = [
        _sentence(it, f"status {it.status}")
        for it in asked
        if it.status not in (200, 429) and not timeline.in_outage(it)
    ]
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


def _sentence(request: Request, what: str) -> str:
    spec = request.spec
    return (
        f"{request.began:.3f} to {request.ended:.3f} (connection of {request.opened:.3f}) {spec.protocol}"
        f" {' and '.join(sorted(request.ends))} -> {spec.destination}{spec.path} {dict(spec.headers) or ''}: {what}"
        f" {request.error}"
    )
