"""Requests from a program alone: each declared call by every way, each policy hit and missed, uninvited callers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from admc.testbed.matching import candidates, meeting, missing
from dsl.program import Protocol
from dsl.selecting import holds
from tests.fidelity.kinds import ENCODINGS, GRPC_WORDS, HTTP_WORDS, number, seconds, text, whole, words
from tests.fidelity.mesh.requests import Asked, Route, routes, spread
from tests.fidelity.requests import GRPC_PATH, Ask, answer_header, delay, header, status
from tests.fidelity.selecting import called, policies_of
from tests.testbed.mesh.layout import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.testbed.client import Request
    from dsl.program import Call, Policy, Port, Program

SHARES = 60
"""Requests that show a percentage."""
QUOTAS = frozenset({"rate_limit", "connection_rate_limit"})
STRIDE = 3
"""One of so many ways of an undeclared caller is tried: families take turns, so an even number would miss one."""
BEYOND = 4
"""Requests more than a quota lets through."""


def requests(program: Program) -> tuple[Asked, ...]:
    """In the order in which they are to be sent: what empties a quota comes last."""
    first: list[Asked] = []
    last: list[Asked] = []
    for call in program.calls:
        first += _on(program, call, list(_plain(program, call)))
        for policy in policies_of(program, call.source, call.destination, call.port):
            base = meeting(program, call, policy)
            if base is not None:
                hits = [_over(_ask(base, call.port), each) for each in biting(policy, call.port)]
                (last if policy.kind.name in QUOTAS else first).extend(_on(program, call, hits))
            avoided = missing(program, call, policy)
            if avoided is not None and policy.match is not None:
                first += _on(program, call, [_ask(avoided, call.port)])
    return (*first, *uninvited(program), *last)


def _on(program: Program, call: Call, asks: list[Ask]) -> Iterator[Asked]:
    ways = possible(program, call.source, call.destination, call.port)
    for ask, route in spread([each.spoken(call.port.protocol) for each in asks], ways):
        yield Asked(call.source, call.destination, call.port, ask, route)


def possible(program: Program, source: str, destination: str, port: Port) -> tuple[Route, ...]:
    """All ways, but for families that an end does not have."""

    places = layout(program)
    ends = [places.of(source)[0], places.of(destination)[0]]
    return tuple(
        each
        for each in routes(program, source, destination, port)
        if all(end.address(each.family) is not None for end in ends)
    )


def _plain(program: Program, call: Call) -> Iterator[Ask]:
    """A request that meets as little as possible, by every way."""
    request = meeting(program, call, None)
    assert request is not None  # any request will do
    ways = possible(program, call.source, call.destination, call.port)
    yield replace(_ask(request, call.port), times=len(ways))


def _ask(request: Request, port: Port) -> Ask:
    if port.protocol is Protocol.TCP:
        return Ask()
    return Ask(request.headers, request.method, request.path)


def _over(base: Ask, ask: Ask) -> Ask:
    """What a policy's match wants, and what its kind wants; where both speak of the path, the kind's comes after."""
    merged = ask.besides(base)
    return replace(merged, times=ask.times)


def uninvited(program: Program) -> Iterator[Asked]:
    """Callers that no call declares, on every port of every destination that has policies.

    Only where each policy that selects them means every caller: of others nothing is promised (rule R7).
    """
    declared = {(call.source, call.destination, call.port.number) for call in program.calls}
    for destination in sorted({name for policy in program.policies for name in policy.destinations}):
        service = program.services.get(destination)
        if service is None:
            continue
        for port in service.ports:
            for source in _strangers(program, destination, port, declared):
                found = policies_of(program, source, destination, port)
                if not all(each.open_sources for each in found):
                    continue
                ways = possible(program, source, destination, port)
                asks = [each.spoken(port.protocol) for each in _attempts(found, destination, port)]
                for turn, (ask, _) in enumerate(spread(asks, ways)):
                    for route in ways[turn % STRIDE :: STRIDE]:
                        yield Asked(source, destination, port, ask, route)


def _strangers(program: Program, destination: str, port: Port, declared: set[tuple[str, str, int]]) -> Iterator[str]:
    """One of each sort: a service, one on the host's network, an outside party."""
    sorts = (
        [name for name, each in program.services.items() if not each.host_network],
        [name for name, each in program.services.items() if each.host_network],
        list(program.externals),
    )
    for names in sorts:
        found = [name for name in names if name != destination and (name, destination, port.number) not in declared]
        yield from found[:1]


def _attempts(policies: tuple[Policy, ...], destination: str, port: Port) -> Iterator[Ask]:
    """A plain request, and one for each policy that meets it."""
    yield Ask(path=GRPC_PATH if port.protocol is Protocol.GRPC else "/")
    for policy in policies:
        if policy.match is None:
            continue
        fitting = (each for each in candidates(policies, destination, port) if holds(policy.match, each))
        request = next(fitting, None)
        if request is not None:
            yield _ask(request, port)


def biting(policy: Policy, port: Port) -> tuple[Ask, ...]:
    """Requests on which a policy of this kind does what it is for, and some on which it has nothing to do."""
    kind = policy.kind.name
    grpc = port.protocol is Protocol.GRPC
    if kind in QUOTAS:
        return (Ask(times=whole(policy, "burst") + BEYOND),)
    if kind == "retry":
        statuses = GRPC_WORDS if grpc else HTTP_WORDS
        bad = min(min(statuses[word]) for word in words(policy, "on") if word in statuses)
        good = 0 if grpc else 200
        return (Ask((("x-echo-status", f"{bad},{good}"),)), Ask((("x-echo-status", str(bad)),)))
    if kind == "timeout":
        after = seconds(policy, "after")
        return (delay(after + 0.4), delay(after / 4))
    if kind == "mirror":
        return (Ask(times=2 if number(policy, "percent") == 100 else SHARES),)
    if kind in ("split", "fault_delay", "fault_abort"):
        return (Ask(times=1 if policy.arguments.get("percent") == 100 else SHARES),)
    if kind == "buffer_limit":
        most = int(number(policy, "max"))
        return (Ask(method="POST", body=b"b" * most), Ask(method="POST", body=b"b" * (most + 1)))
    return _headers(policy)


def _headers(policy: Policy) -> tuple[Ask, ...]:
    kind = policy.kind.name
    if kind.endswith("_request_header"):
        return (Ask(), header(text(policy, "name"), "client"))
    if kind.endswith("_response_header"):
        return (Ask(), answer_header(text(policy, "name"), "server"))
    if kind == "rewrite_path":
        prefix = text(policy, "prefix")
        return (Ask(path=f"{prefix or '/'}x?q=1"), Ask(path=f"/else{prefix}"))
    if kind == "cors":
        origin = header("origin", words(policy, "origins")[0])
        return (
            origin,
            header("origin", "https://elsewhere.example"),
            replace(origin.plus(("access-control-request-method", "POST")), method="OPTIONS"),
        )
    if kind == "compression":
        encoding = header("accept-encoding", ENCODINGS[text(policy, "algorithm")])
        return (encoding.plus(("x-echo-body", "4000")), Ask(), encoding.plus(("x-echo-status", "404")))
    if kind == "same_site":
        also = text(policy, "also")
        return tuple(
            replace(header("origin", f"https://{site}"), method=method)
            for site in ("evil.example", also)
            for method in ("GET", "POST")
        )
    if kind == "bandwidth":
        return (header("x-echo-body", str(int(number(policy, "kib_per_second") * 1024 * 1.8))), Ask())
    assert not called(policy), f"no request is known that shows a `{kind}`"
    return (Ask(), *((status(404),) if kind == "access_log" else ()))
