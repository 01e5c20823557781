"""What each kind of the prelude does to a request that meets it. From docs/kinds.md.

A handler gets the request as outer policies left it, and `inner`: everything inside of it, down to the service.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dsl.program import Protocol
from tests.fidelity.judge import GaveUpError, Place
from tests.fidelity.message import Answer, Message
from tests.fidelity.selecting import target
from tests.fidelity.state import Bucket
from tests.fidelity.tokens import verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.program import Policy
    from tests.fidelity.judge import Handler, Inner, Run

OK, CANCELLED, UNKNOWN, DEADLINE, DENIED, EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, LOST, UNAUTHENTICATED = (
    *(0, 1, 2, 4, 7, 8, 12, 13, 14, 15, 16),
)
SERVER_ERRORS: Final = frozenset({UNKNOWN, DEADLINE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, LOST})
"""Results that count against an endpoint."""
TRANSLATED: Final = {400: INTERNAL, 401: UNAUTHENTICATED, 403: DENIED, 404: UNIMPLEMENTED} | dict.fromkeys(
    (429, 502, 503, 504), UNAVAILABLE
)
"""HTTP status -> gRPC status, as gRPC itself defines it."""
NOTICED: Final = 0.3
"""Seconds until an ADM has surely ejected an endpoint."""
LONGEST: Final = 300.0
"""Seconds that an ejection may grow to."""
KEPT: Final = 64 << 20
"""A longer body is sent once."""


def refusal(place: Place, status: int, code: int | None = None) -> Answer:
    """A policy's own answer, in the caller's protocol."""
    if place.port.protocol is Protocol.TCP:
        return Answer(None)
    if place.grpc:
        return Answer(TRANSLATED.get(status, UNKNOWN) if code is None else code)
    return Answer(status)


def seconds(policy: Policy, name: str) -> float:
    return number(policy, name) / 1e6


def number(policy: Policy, name: str) -> float:
    value = policy.arguments[name]
    assert isinstance(value, int | float)
    return value


def whole(policy: Policy, name: str) -> int:
    value = policy.arguments[name]
    assert isinstance(value, int)
    return value


def text(policy: Policy, name: str) -> str:
    value = policy.arguments[name]
    assert isinstance(value, str)
    return value


def words(policy: Policy, name: str) -> tuple[str, ...]:
    value = policy.arguments[name]
    assert isinstance(value, tuple)
    return tuple(str(each) for each in value)


# ---- limits ----


def quota(amount: str) -> Handler:
    def handler(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
        bucket = run.world.buckets.get((policy.name, place.destination))
        if bucket is None:
            burst = whole(policy, "burst")
            bucket = Bucket(burst, whole(policy, amount), seconds(policy, "per"), burst, burst, run.now, run.latest)
            run.world.buckets[policy.name, place.destination] = bucket
        bucket.refill(run.now)
        sure = 1.0 if bucket.least >= 1 else 0.0 if bucket.most_by(run.latest) < 1 else None
        if run.choices.flip(f"{policy.name} has a token", sure):
            bucket.least, bucket.most = max(0.0, bucket.least - 1), bucket.most - 1
            return inner(message)
        bucket.most = min(bucket.most, 0.999)
        return refusal(place, 429, EXHAUSTED)

    return handler


def circuit_breaking(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """Of simultaneous requests the limit admits as many as it says; which ones is undetermined."""
    most = policy.arguments["max_requests"]
    if run.beside == 0 or not isinstance(most, int) or place.port.protocol is Protocol.TCP:
        return inner(message)
    inside = run.world.inside.setdefault((policy.name, place.destination), 0)
    still_to_come = run.beside + 1 - run.world.asked.get((policy.name, place.destination), 0)
    run.world.asked[policy.name, place.destination] = run.beside + 2 - still_to_come
    certain = 0.0 if inside >= most else 1.0 if still_to_come <= most - inside else None
    if not run.choices.flip(f"{policy.name} lets it in", certain):
        return refusal(place, 503)
    run.world.inside[policy.name, place.destination] = inside + 1
    return inner(message)


def buffer_limit(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message) if len(message.body) <= number(policy, "max") else refusal(place, 413)


# ---- access ----


def allow(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message) if place.source in words(policy, "callers") else refusal(place, 403)


def deny(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return refusal(place, 403)


def normal_paths(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """Refused is what a reader of RFC 3986 would write in another way, or with fewer slashes."""
    path = message.path.partition("?")[0]
    dotted = any(segment in (".", "..") for segment in path.split("/"))
    escapes = re.findall("%([0-9A-Fa-f]{2})", path)
    needless = any(re.fullmatch("[A-Za-z0-9._~-]", chr(int(each, 16))) or each != each.upper() for each in escapes)
    return refusal(place, 400) if dotted or needless or "//" in path else inner(message)


def jwt(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    refused = verdict(policy.arguments, message.values("authorization"))
    return inner(message) if refused is None else refusal(place, refused)


def external_authorization(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """The ADM itself sends the check, so no policy applies to that call. Without an answer in time it rejects.

    The page does not say what a rejected caller receives; the helper's own answer counts as right.
    """
    helper, port = target(run.program, policy.arguments["service"])
    asked = replace(message, body=b"")
    said: Answer | None = None
    with run.until(seconds(policy, "timeout")) as deadline:
        try:
            said = run.arrive(Place(place.source, helper, port), asked)
        except GaveUpError as gave_up:
            if gave_up.deadline is not deadline:
                raise
    if said is None or said.status is None or said.status >= 500:
        return inner(message) if policy.arguments["fail_open"] else refusal(place, 403)
    if said.status == 200:
        return inner(message)
    return replace(refusal(place, said.status), by=helper)


# ---- resilience ----

HTTP_WORDS: Final[Mapping[str, frozenset[int]]] = {
    "unavailable": frozenset({503}),
    "gateway_error": frozenset({502, 503, 504}),
    "server_error": frozenset(range(500, 600)),
    "cancelled": frozenset({499}),
    "deadline_exceeded": frozenset({504}),
    "internal": frozenset({500}),
    "resource_exhausted": frozenset({429}),
}
GRPC_WORDS: Final[Mapping[str, frozenset[int]]] = {
    "unavailable": frozenset({UNAVAILABLE}),
    "gateway_error": frozenset({UNAVAILABLE}),
    "server_error": frozenset({INTERNAL, UNAVAILABLE}),
    "cancelled": frozenset({CANCELLED}),
    "deadline_exceeded": frozenset({DEADLINE}),
    "internal": frozenset({INTERNAL}),
    "resource_exhausted": frozenset({EXHAUSTED}),
}
FAILURES: Final[Mapping[str, frozenset[str]]] = {
    "unavailable": frozenset({"connect", "refused"}),
    "connect_failure": frozenset({"connect"}),
    "refused_stream": frozenset({"refused"}),
    **dict.fromkeys(("reset", "gateway_error", "server_error"), frozenset({"connect", "refused", "lost"})),
}
"""Failures of a service that are no answers, and that a word repeats, whether the service has an ADM or not."""
UNANSWERED: Final = frozenset({"gateway_error", "server_error", "deadline_exceeded", "reset"})
"""Retry conditions that include an attempt without an answer."""


def retry(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    conditions = words(policy, "on")
    statuses = GRPC_WORDS if place.grpc else HTTP_WORDS
    attempts = whole(policy, "attempts") if len(message.body) <= KEPT else 1
    nowhere = True
    for attempt in range(attempts):
        answer = inner(message)
        nowhere = nowhere and answer.nowhere
        if answer.committed:
            again = False
        elif answer.failure:
            again = any(answer.failure in FAILURES.get(word, ()) for word in conditions)
        elif answer.gave_up:
            again = any(word in UNANSWERED for word in conditions)
        else:
            again = any(answer.status in statuses.get(word, ()) for word in conditions)
        if not again or attempt == attempts - 1:
            return replace(answer, nowhere=nowhere)
        run.late += seconds(policy, "backoff") * 2**attempt
    raise AssertionError("a retry makes one attempt at least")


def timeout(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    with run.until(seconds(policy, "after")) as deadline:
        try:
            return inner(message)
        except GaveUpError as gave_up:
            if gave_up.deadline is not deadline:
                raise
    return replace(refusal(place, 504, DEADLINE), gave_up=True)


def outlier_detection(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """The only replica stays unless all may be ejected. An endpoint returns at a check after its time, which grows."""
    if number(policy, "max_ejected") < 100:
        return inner(message)
    key = (policy.name, place.destination)
    if key in run.world.ejected:
        since, early, sure = run.world.ejected[key]
        back = 0.0 if run.now < early else 1.0 if run.now > sure else None
        if run.now - since < NOTICED:
            if run.choices.flip(f"{policy.name} goes on for a moment", None):
                return inner(message)
            return replace(refusal(place, 503), nowhere=True)
        if not run.choices.flip(f"{policy.name} has it back", back):
            return replace(refusal(place, 503), nowhere=True)
        del run.world.ejected[key]
    answer: Answer | None = None
    try:
        answer = inner(message)
    finally:
        bad = answer is None or _is_error(place, answer)
        run.world.errors[key] = run.world.errors.get(key, 0) + 1 if bad else 0
        if run.world.errors[key] >= whole(policy, "consecutive_errors"):
            time = seconds(policy, "ejection")
            run.world.ejections[key] = run.world.ejections.get(key, 0) + 1
            longest = min(run.world.ejections[key] * time, max(time, LONGEST)) + seconds(policy, "interval")
            run.world.ejected[key] = (run.now, run.now + time, run.now + longest)
            run.world.errors[key] = 0
    return answer


def _is_error(place: Place, answer: Answer) -> bool:
    if answer.status is None:
        return True
    if answer.committed:
        return False
    return answer.status in SERVER_ERRORS if place.grpc else answer.status >= 500


def load_balancing(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """Chooses among replicas, which all answer alike."""
    return inner(message)


def mirror(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """Copies a request when it is sent on: a request without an endpoint has no copy."""
    if not run.choices.flip(f"{policy.name} copies", number(policy, "percent") / 100):
        return inner(message)
    began = run.now
    answer: Answer | None = None
    try:
        answer = inner(message)
    finally:
        if answer is None or not answer.nowhere:
            to, port = target(run.program, policy.arguments["to"])
            with run.aside():
                run.now = began
                run.call(place.source, to, port, message)
    return answer


def split(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    """Its choice holds for every attempt of a retry around it."""
    if policy.name not in run.chosen:
        run.chosen[policy.name] = run.choices.flip(f"{policy.name} goes elsewhere", number(policy, "percent") / 100)
    if run.chosen[policy.name]:
        to, port = target(run.program, policy.arguments["to"])
        return run.call(place.source, to, port, message)
    return inner(message)


# ---- messages ----


def set_request_header(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    name = text(policy, "name")
    return inner(message.without(name).plus(name, text(policy, "value")))


def add_request_header(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message.plus(text(policy, "name"), text(policy, "value")))


def remove_request_header(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message.without(text(policy, "name")))


def set_response_header(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    name = text(policy, "name")
    return inner(message).without(name).plus(name, text(policy, "value"))


def add_response_header(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message).plus(text(policy, "name"), text(policy, "value"))


def remove_response_header(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    return inner(message).without(text(policy, "name"))


def rewritten(path: str, prefix: str, to: str) -> str:
    """Only a path is rewritten, and what comes of it is one: it begins with one slash."""
    if not path.startswith("/") or not path.startswith(prefix):
        return path
    return "/" + (to + path[len(prefix) :]).lstrip("/")


def rewrite_path(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    path = rewritten(message.path, text(policy, "prefix"), text(policy, "to"))
    return inner(replace(message, path=path))


def admitted(listed: str, origin: str) -> bool:
    """An origin by itself; all; or the subdomains of a host, by labels."""
    scheme, starred, host = listed.partition("://*.")
    if not starred:
        return listed in ("*", origin)
    sent, there, name = origin.partition("://")
    labels = name.removesuffix(f".{host}").split(".")
    return bool(there) and sent == scheme and name.endswith(f".{host}") and all(map(_is_label, labels))


def _is_label(text: str) -> bool:
    return bool(text) and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in text)


def cors(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    origin = ",".join(message.values("origin"))
    origins = words(policy, "origins")
    if not origin or not any(admitted(each, origin) for each in origins):
        return inner(message)
    given = [("access-control-allow-origin", origin)]
    if policy.arguments["credentials"]:
        given.append(("access-control-allow-credentials", "true"))
    if words(policy, "expose"):
        given.append(("access-control-expose-headers", ",".join(words(policy, "expose"))))
    if message.method == "OPTIONS" and any(message.values("access-control-request-method")):
        for name, argument in (("methods", "methods"), ("headers", "headers")):
            if words(policy, argument):
                given.append((f"access-control-allow-{name}", ",".join(words(policy, argument))))
        given.append(("access-control-max-age", str(int(seconds(policy, "max_age")))))
        return Answer(200, tuple(given))
    answer = inner(message)
    for name, value in given:
        answer = answer.without(name).plus(name, value)
    return answer


PART: Final = 206
"""The status of a part of something: its range is in bytes of the whole as it is without compression."""
ENCODINGS: Final = {"gzip": "gzip", "brotli": "br", "zstd": "zstd"}


def compression(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    answer = inner(message)
    encoding = ENCODINGS[text(policy, "algorithm")]
    accepted = [part.strip() for value in message.values("accept-encoding") for part in value.split(",")]
    part = answer.status == PART and not place.grpc
    if part or encoding not in accepted or answer.encoding or answer.size < number(policy, "min_size"):
        return answer
    return replace(answer.without("content-encoding").plus("content-encoding", encoding), encoding=encoding)


# ---- faults, telemetry ----


def fault_delay(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    if run.choices.flip(f"{policy.name} delays", number(policy, "percent") / 100):
        run.wait(seconds(policy, "delay"))
    return inner(message)


def fault_abort(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    if run.choices.flip(f"{policy.name} aborts", number(policy, "percent") / 100):
        return refusal(place, whole(policy, "status"))
    return inner(message)


def counting(run: Run, policy: Policy, place: Place, message: Message, inner: Inner) -> Answer:
    run.counted[policy.name] += 1
    return inner(message)


HANDLERS: Final[Mapping[str, Handler]] = {
    "rate_limit": quota("requests"),
    "connection_rate_limit": quota("connections"),
    "circuit_breaking": circuit_breaking,
    "buffer_limit": buffer_limit,
    "allow": allow,
    "deny": deny,
    "jwt": jwt,
    "normal_paths": normal_paths,
    "external_authorization": external_authorization,
    "retry": retry,
    "timeout": timeout,
    "outlier_detection": outlier_detection,
    "load_balancing": load_balancing,
    "mirror": mirror,
    "split": split,
    "set_request_header": set_request_header,
    "add_request_header": add_request_header,
    "remove_request_header": remove_request_header,
    "set_response_header": set_response_header,
    "add_response_header": add_response_header,
    "remove_response_header": remove_response_header,
    "rewrite_path": rewrite_path,
    "cors": cors,
    "compression": compression,
    "fault_delay": fault_delay,
    "fault_abort": fault_abort,
    "access_log": counting,
    "request_count": counting,
    "tap": counting,
}
"""`lua`, `wasm` and kinds of one's own do what their program says: a test that uses one brings its handler."""
