"""One probe for each built-in kind: traffic that makes the policy show, and what has to come of it.

What is expected is read from the policy's own arguments. A kind without a probe is reported as not observable, never
as seen.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from admc.testbed import echo
from admc.testbed.client import Request
from admc.testbed.findings import (
    TRIES,
    Bed,
    Finding,
    denies,
    identified,
    is_split,
    judged,
    reach,
    refused,
    seen,
    unseen,
    wrong,
)
from admc.testbed.matching import holds, missing, policies_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from admc.testbed.client import Reply
    from dsl.program import Call, Policy, Value

    Probe = Callable[[Bed, Policy, Call, Request], Finding]
    GroupProbe = Callable[[Bed, Policy, Sequence[tuple[Call, Request]]], Finding]

T = TypeVar("T")

MOST_REQUESTS = 1500
"""A bucket larger than this is not emptied for a demonstration."""


PATIENCE = 60.0
"""Seconds within which whatever comes behind an answer comes on a busy machine: a copy, a line, a number."""


def by_then(found: Callable[[], T], seconds: float) -> T:
    """What there is as soon as there is something, or when the time is over."""
    deadline = time.monotonic() + seconds
    while not (there := found()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return there


def integer(value: Value) -> int:
    assert isinstance(value, int)
    return value


def text(value: Value) -> str:
    assert isinstance(value, str)
    return value


# ---- limits: one probe for all callers of a destination, since they share one bucket (R5) ----


def quota(bed: Bed, policy: Policy, asked: Sequence[tuple[Call, Request]]) -> Finding:
    """`burst` requests are answered, from all callers together, and the next one is not."""
    tcp = policy.kind.name == "connection_rate_limit"
    per_period = integer(policy.arguments["connections" if tcp else "requests"])
    burst, period = integer(policy.arguments["burst"]), integer(policy.arguments["per"]) / 1e6
    if burst > MOST_REQUESTS:
        return unseen(f"its bucket of {burst} is too large to empty here")
    bed.refill(policy, asked[0][0].destination)
    started, answered, last = time.monotonic(), 0, ""
    while answered <= 2 * burst + 20:
        call, request = asked[answered % len(asked)]
        reply = bed.send(call, request)
        if not reply.ok:
            last = reply.label
            break
        answered += 1
    earned = per_period * (time.monotonic() - started) / period + 1
    expected = {"tcp": ("connection closed",), "grpc": ("RESOURCE_EXHAUSTED",), "http": ("429",)}
    callers = f" from {len(asked)} callers together" if len(asked) > 1 else ""
    rate = f"{per_period} in {period:g} s"
    right = last in expected[asked[0][0].port.protocol.value] and burst <= answered <= burst + earned
    return judged(right, f"{answered} answered{callers}, then {last or 'no end'}; {burst} at once, {rate}")


# ---- who may call ----


def guard(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    """`allow` and `deny`: the scope's callers are let through or refused as the policy says."""
    reply = bed.send(call, asked)
    if not denies(policy, call.source):
        return judged(reply.ok, f"`{call.source}` is let through: {reply.label}")
    if not refused(reply):
        return wrong(f"`{call.source}` got {reply.label} and should have been refused")
    evidence = f"`{call.source}` is refused: {reply.label}"
    beside = missing(bed.program, call, policy)
    if beside is None or any(
        denies(each, call.source) and holds(each.match, beside) for each in policies_on(bed.program, call)
    ):
        return seen(evidence)
    other = bed.send(call, beside)
    return judged(other.ok, f"{evidence}; outside its match: {other.label}")


def token(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    """`jwt`: without a token there is no way in."""
    reply = bed.send(call, asked)
    return judged(reply.label in ("401", "UNAUTHENTICATED"), f"without a token: {reply.label}")


# ---- resilience ----

RETRIED = {
    "http": {"unavailable": 503, "gateway_error": 502, "server_error": 500},
    "grpc": {
        "unavailable": 14,
        "cancelled": 1,
        "deadline_exceeded": 4,
        "internal": 13,
        "resource_exhausted": 8,
    },
}


def retry(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    """A service that always fails is asked as often as `attempts` says."""
    conditions = policy.arguments["on"]
    assert isinstance(conditions, tuple)
    statuses = RETRIED[call.port.protocol.value]
    status = next((statuses[str(each)] for each in conditions if each in statuses), None)
    if status is None:
        return unseen("an echo service cannot fail in the way that it retries on")
    attempts = integer(policy.arguments["attempts"])
    identity, request = identified(asked.with_headers((echo.STATUS, str(status))))
    reply = bed.send(call, request)
    copies = {str(p.arguments["to"]) for p in policies_on(bed.program, call) if p.kind.name == "mirror"}
    arrived = sum(each.service not in copies for each in bed.record.of(identity))
    return judged(arrived == attempts, f"{arrived} attempts of {attempts}, then {reply.label}")


def timeout(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    """A service that takes its time is not waited for. Where a retry is declared before it, each attempt is cut."""
    after = integer(policy.arguments["after"]) / 1e6
    attempts = 1
    for other in policies_on(bed.program, call):
        if other.kind.name == "retry" and holds(other.match, asked):
            attempts = max(attempts, integer(other.arguments["attempts"]))
    delay = min(after * attempts * 2 + 1, echo.MAX_DELAY)
    if delay <= after:
        return unseen(f"nobody waits {after:.0f} s here")
    identity, request = identified(asked.with_headers((echo.DELAY, str(delay))))
    reply = bed.send(call, request, timeout=delay + 5)
    if is_split(bed.program, call) and (arrived := bed.record.of(identity)) and arrived[0].service != call.destination:
        return timeout(bed, policy, call, asked)  # this one took the other branch
    right = reply.label in ("504", "DEADLINE_EXCEEDED", "UNAVAILABLE") and after * 0.9 <= reply.seconds < delay
    return judged(right, f"{reply.label} after {reply.seconds * 1000:.0f} ms; the service takes {delay:.1f} s")


def breaker(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    """`circuit_breaking`: of more requests at once than it lets through, some are refused."""
    most = policy.arguments["max_requests"]
    if not isinstance(most, int) or most > 50:
        return unseen("only a small `max_requests` can be reached here")
    replies = bed.concurrently(call, [asked.with_headers((echo.DELAY, "1"))] * (most + 5))
    through = sum(reply.ok for reply in replies)
    labels = sorted({reply.label for reply in replies if not reply.ok})
    right = 1 <= through <= most and set(labels) <= {"503", "UNAVAILABLE"} and len(labels) == 1
    return judged(
        right, f"{through} of {len(replies)} at once answered, the rest {', '.join(labels)}; the limit is {most}"
    )


def split(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    """About the declared share reaches the other service."""
    to, percent = text(policy.arguments["to"]), float(str(policy.arguments["percent"]))
    total = min(200, bed.allowance(call, asked))
    services = [reply.seen.service for reply in (bed.send(call, asked) for _ in range(total)) if reply.seen]
    share = 100 * services.count(to) / total
    spread = 500 * ((percent / 100) * (1 - percent / 100) / total) ** 0.5  # five standard deviations
    right = len(services) == total and abs(share - percent) <= spread
    return judged(right, f"{services.count(to)} of {total} requests reached `{to}`; {percent:g}% is declared")


def mirror(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    """The other service gets a copy, and the caller the original's answer."""
    to, percent = text(policy.arguments["to"]), float(str(policy.arguments["percent"]))
    replies: dict[str, Reply] = {}

    def copied() -> str:
        """The identity of a request of which a copy has come, be it late."""
        return next((name for name in replies if any(each.service == to for each in bed.record.of(name))), "")

    for _ in range(1 if percent == 100 else TRIES):
        identity, request = identified(asked)
        replies[identity] = bed.send(call, request)
        if by_then(copied, 0.05):
            break
    name = by_then(copied, PATIENCE)
    if not name:
        return wrong(f"no copy reached `{to}`")
    reply, number = replies[name], [*replies].index(name) + 1
    by = reply.seen.service if reply.seen else reply.label
    return judged(reply.ok and by != to, f"`{by}` answered and `{to}` got a copy (request {number})")


# ---- what requests and responses carry ----


def request_header(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    name, kind = text(policy.arguments["name"]), policy.kind.name
    given = (*((key, value) for key, value in asked.headers if key != name), (name, "given"))
    selected = any(key == name for key, _ in asked.headers)
    request = asked if selected else Request(asked.method, asked.path, given, asked.body)
    reply = reach(bed, call, request)
    if reply.seen is None:
        return wrong(f"no answer from the service: {reply.label}")
    values = reply.seen.header(name)
    if kind == "remove_request_header":
        return judged(not values, f"`{name}` {'was removed' if not values else 'arrived: ' + ', '.join(values)}")
    value = text(policy.arguments["value"])
    arrived = ", ".join(values)
    right = values == (value,) if kind == "set_request_header" else value in arrived.split(", ")
    return judged(right, f"`{name}: {arrived}` arrived{_beside(bed, policy, call, name, value)}")


def _beside(bed: Bed, policy: Policy, call: Call, name: str, value: str) -> str:
    """What a request outside the policy's match shows, as far as there is one."""
    outside = missing(bed.program, call, policy)
    if outside is None:
        return ""
    reply = reach(bed, call, outside)
    if reply.seen is None:
        return ""
    return "; also outside its match" if value in reply.seen.header(name) else "; not outside its match"


def response_header(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    name, kind = text(policy.arguments["name"]), policy.kind.name
    reply = reach(bed, call, asked.with_headers((echo.HEADER, f"{name}=given")))
    if reply.seen is None:
        return wrong(f"no answer from the service: {reply.label}")
    values = reply.header(name)
    if kind == "remove_response_header":
        return judged(not values, f"`{name}` {'was removed' if not values else 'came: ' + ', '.join(values)}")
    value = text(policy.arguments["value"])
    came = ", ".join(values)
    right = values == (value,) if kind == "set_response_header" else value in came.split(", ")
    return judged(right, f"`{name}: {came}` came back")


def rewrite(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    prefix, to = text(policy.arguments["prefix"]), text(policy.arguments["to"])
    path = f"{prefix or '/'}item"
    request = Request(asked.method, path, asked.headers, asked.body)
    if not holds(policy.match, request):
        return unseen("its match leaves no path to rewrite")
    reply = reach(bed, call, request)
    arrived = reply.seen.path if reply.seen else reply.label
    wanted = "/" + (to + path[len(prefix) :]).lstrip("/")
    return judged(arrived == wanted, f"`{path}` arrived as `{arrived}`")


def cors(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    origins, methods = policy.arguments["origins"], policy.arguments["methods"]
    assert isinstance(origins, tuple)
    assert isinstance(methods, tuple)
    origin = next((str(each) for each in origins if "*" not in str(each)), "https://any.example")
    headers = (("origin", origin), ("access-control-request-method", str(methods[0])))
    asks = Request("OPTIONS", asked.path, (*asked.headers, *headers))
    stranger = Request("OPTIONS", asked.path, (*asked.headers, ("origin", "https://stranger.example"), headers[1]))
    allowed = bed.send(call, asks).header("access-control-allow-origin")
    other = bed.send(call, stranger).header("access-control-allow-origin")
    right = bool(allowed) and ("*" in origins or not other)
    return judged(
        right, f"`{origin}` is told `{', '.join(allowed) or 'nothing'}`, a stranger `{', '.join(other) or 'nothing'}`"
    )


def compression(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    word = {"gzip": "gzip", "brotli": "br", "zstd": "zstd"}[text(policy.arguments["algorithm"])]
    size = integer(policy.arguments["min_size"]) + 4000
    plain = bed.send(call, asked.with_headers((echo.BODY, str(size))))
    packed = bed.send(call, asked.with_headers((echo.BODY, str(size)), ("accept-encoding", word)))
    right = packed.header("content-encoding") == (word,) and not plain.header("content-encoding")
    right = right and len(packed.body) < len(plain.body)
    return judged(
        right, f"{len(plain.body)} bytes became {len(packed.body)} ({', '.join(packed.header('content-encoding'))})"
    )


def buffer(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    most = integer(policy.arguments["max"])
    if most > 8 << 20:
        return unseen("its limit is too large to exceed here")
    small = reach(bed, call, Request("POST", asked.path, asked.headers, b"x" * min(most, 1000)))
    large = reach(bed, call, Request("POST", asked.path, asked.headers, b"x" * (most + 1000)))
    return judged(small.ok and large.label == "413", f"{most + 1000} bytes: {large.label}; a small body: {small.label}")


# ---- faults ----


def delay(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    after, percent = integer(policy.arguments["delay"]) / 1e6, float(str(policy.arguments["percent"]))
    for sent in range(1, (1 if percent == 100 else TRIES) + 1):
        reply = bed.send(call, asked, timeout=after + 10)
        if reply.seconds >= after * 0.95:
            return seen(f"{reply.label} after {reply.seconds * 1000:.0f} ms (request {sent})")
    return wrong(f"no request waited {after * 1000:.0f} ms")


def abort(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    status, percent = integer(policy.arguments["status"]), float(str(policy.arguments["percent"]))
    for sent in range(1, (1 if percent == 100 else TRIES) + 1):
        reply = bed.send(call, asked)
        if not reply.ok:
            right = reply.grpc or reply.label == str(status)
            return judged(right, f"{reply.label} without reaching the service (request {sent})")
    return wrong(f"no request was answered {status}")


# ---- seeing ----


def log(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    before = bed.logged(policy, call)
    bed.send(call, asked)
    more = by_then(lambda: bed.logged(policy, call) - before, PATIENCE)
    return judged(more >= 1, f"{more} {'line' if more == 1 else 'lines'} logged")


def count(bed: Bed, policy: Policy, call: Call, asked: Request) -> Finding:
    before = bed.counted(policy, call)
    sent = 3
    for _ in range(sent):
        bed.send(call, asked)
    by_then(lambda: bed.counted(policy, call) - before >= sent, PATIENCE)
    more = bed.counted(policy, call) - before
    return judged(more == sent, f"{more} requests counted of {sent}")


PROBES: dict[str, Probe] = {
    "allow": guard,
    "deny": guard,
    "jwt": token,
    "retry": retry,
    "timeout": timeout,
    "circuit_breaking": breaker,
    "split": split,
    "mirror": mirror,
    "set_request_header": request_header,
    "add_request_header": request_header,
    "remove_request_header": request_header,
    "set_response_header": response_header,
    "add_response_header": response_header,
    "remove_response_header": response_header,
    "rewrite_path": rewrite,
    "cors": cors,
    "compression": compression,
    "buffer_limit": buffer,
    "fault_delay": delay,
    "fault_abort": abort,
    "access_log": log,
    "request_count": count,
}

GROUP_PROBES: dict[str, GroupProbe] = {"rate_limit": quota, "connection_rate_limit": quota}

REASONS = {
    "outlier_detection": "it ejects one of several endpoints, and a service has one here",
    "load_balancing": "it chooses between endpoints, and a service has one here",
    "external_authorization": "the echo services do not speak Envoy's authorization protocol",
    "tap": "nobody reads what it writes",
    "lua": "only its author knows what it does",
    "wasm": "only its author knows what it does",
}


def why_unseen(policy: Policy) -> str:
    if not policy.kind.prelude:
        return "a kind of the program's own: only its author knows what it does"
    return REASONS.get(policy.kind.name, "there is no probe for this kind")
