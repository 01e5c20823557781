"""Kinds that change headers, paths and bodies of requests and responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.testbed import echo
from admc.testbed.client import Request
from admc.testbed.findings import Bed, ProbeFinding, described, judged, reach, unobservable
from admc.testbed.matching import missing
from admc.testbed.probes.arguments import integer, listed, text
from dsl.selecting import holds
from dsl.values.origins import ANY, admits, admitted, subdomains

if TYPE_CHECKING:
    from admc.testbed.client import Reply
    from dsl.program import Call, Policy

ENCODINGS = {"gzip": "gzip", "brotli": "br", "zstd": "zstd"}
OTHER_ORIGIN = "https://other.example"


def request_header(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    name, kind = text(policy, "name"), policy.kind.name
    if not any(key == name for key, _ in request.headers):  # otherwise the match compares this header
        request = request.with_headers((name, "given"))
    reply = reach(bed, call, request)
    sent = described(call, request)
    if kind == "remove_request_header":
        return _header(reply, sent, f"`{name}` does not arrive", name, "", kind, arrived=True)
    value = text(policy, "value")
    outside = missing(bed.program, call, policy)
    beside = None if outside is None else reach(bed, call, outside)
    finding = _header(reply, sent, f"`{name}: {value}` arrives", name, value, kind, arrived=True)
    if beside is None or beside.seen is None:
        return finding
    there = value in beside.seen.header(name)
    return finding._replace(observed=f"{finding.observed}; {'also' if there else 'not'} outside its match")


def response_header(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    name, kind = text(policy, "name"), policy.kind.name
    reply = reach(bed, call, request.with_headers((echo.HEADER, f"{name}=given")))
    sent = f"{described(call, request)}; the service sends `{name}`"
    if kind == "remove_response_header":
        return _header(reply, sent, f"`{name}` does not come back", name, "", kind, arrived=False)
    value = text(policy, "value")
    return _header(reply, sent, f"`{name}: {value}` comes back", name, value, kind, arrived=False)


def _header(reply: Reply, sent: str, expected: str, name: str, value: str, kind: str, *, arrived: bool) -> ProbeFinding:
    """Judge a header: of the request as the service received it (`arrived`), or of the response."""
    if reply.seen is None:
        return judged(False, sent, expected, f"no answer from the service: {reply.label}")
    values = reply.seen.header(name) if arrived else reply.header(name)
    if kind.startswith("remove_"):
        right = not values
    elif kind.startswith("set_"):
        right = values == (value,)
    else:
        right = value in ", ".join(values).split(", ")
    verb = "arrived" if arrived else "came back"
    return judged(right, sent, expected, f"`{name}: {', '.join(values)}` {verb}" if values else f"no `{name}` {verb}")


def rewrite(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    prefix, to = text(policy, "prefix"), text(policy, "to")
    path = f"{prefix or '/'}item"
    request = Request(request.method, path, request.headers, request.body)
    if not holds(policy.match, request):
        return unobservable("its match leaves no path to rewrite")
    reply = reach(bed, call, request)
    arrived = reply.seen.path if reply.seen else reply.label
    wanted = "/" + (to + path[len(prefix) :]).lstrip("/")
    return judged(arrived == wanted, described(call, request), f"`{wanted}` arrives", f"`{arrived}` arrived")


def cors(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    origins, methods = listed(policy, "origins"), listed(policy, "methods")
    patterns = [str(origin) for origin in origins]
    pattern = next((pattern for pattern in patterns if pattern != ANY), ANY)
    origin = admitted(pattern)
    other = pattern.replace("://*.", "://not", 1) if subdomains(pattern) else OTHER_ORIGIN

    def allowed(of: str) -> str:
        headers = (*request.headers, ("origin", of), ("access-control-request-method", str(methods[0])))
        reply = bed.send(call, Request("OPTIONS", request.path, headers))
        return ", ".join(reply.header("access-control-allow-origin"))

    first, second = allowed(origin), allowed(other)
    open_to_all = any(admits(pattern, other) for pattern in patterns)
    return judged(
        bool(first) and (open_to_all or not second),
        f"preflight from {origin}, and from {other}",
        "both are allowed" if open_to_all else "the first is allowed, the second not",
        f"allowed: `{first or 'none'}`, and `{second or 'none'}`",
    )


def compression(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    encoding = ENCODINGS[text(policy, "algorithm")]
    size = integer(policy, "min_size") + 4000
    plain = bed.send(call, request.with_headers((echo.BODY, str(size))))
    packed = bed.send(call, request.with_headers((echo.BODY, str(size)), ("accept-encoding", encoding)))
    right = packed.header("content-encoding") == (encoding,) and not plain.header("content-encoding")
    encodings = ", ".join(packed.header("content-encoding")) or "no encoding"
    return judged(
        right and len(packed.body) < len(plain.body),
        f"{described(call, request)}, without and with `accept-encoding: {encoding}`",
        f"the second answer is {encoding}",
        f"{len(plain.body)} bytes, and {len(packed.body)} ({encodings})",
    )
