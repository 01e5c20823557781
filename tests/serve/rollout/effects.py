"""Policies that change sides at several destinations of one application, and callers that see what they do.

Each destination shows other effects. All of them move in one rollout, and each class checks all requests to its own.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from admc.serve.rollout.marker import MARKER
from admc.serve.rollout.model import Placed, StepName
from dsl import load_text
from solver.place import place
from tests.testbed.callers import (
    SECONDS,
    Caller,
    RequestSpec,
    http_connection,
    names_with_status,
    wait_for_answers,
)
from tests.testbed.ports import program_port

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import ExitStack

    from admc.testbed.echo import Seen
    from tests.serve.rollout.bed import Bed
    from tests.testbed.callers import Dial, Request

PORT: Final = program_port()
TO_SENDERS, TO_RECEIVER = "to senders", "to the receiver"
SIDES: Final = {TO_SENDERS: ("ingress", "egress"), TO_RECEIVER: ("egress", "ingress")}
PERMISSION_DENIED, RESOURCE_EXHAUSTED = 7, 8
QUOTA: Final = 5
NARROW, WIDE = 10, 1_000
BODY: Final = b"b" * 100
"""Above the one limit and below the other."""

PROGRAM: Final = """
app move
service shop, till, ordered, copied, spare, repeated, renamed, matched { http PORT }
service called { grpc PORT }
call shop, till -> called, ordered
call shop -> copied, spare, repeated, renamed, matched

policy slow    = timeout(after: 20s) on {shop, till} -> called
policy known   = allow(callers: [shop, till]) on * -> called
policy few     = rate_limit(requests: QUOTA, per: 1h) on shop -> called when header("x-few") == "1"
policy met     = add_request_header(name: "x-once", value: "1") on {shop, till} -> called
policy closed  = deny() on {shop, till} -> called when header("x-out") == "1"
pin known at SIDE
pin few at SIDE
pin met at SIDE
pin closed at SIDE

policy one   = add_request_header(name: "x-way", value: "one") on {shop, till} -> ordered
policy back1 = add_response_header(name: "x-back", value: "one") on {shop, till} -> ordered
policy two   = add_request_header(name: "x-way", value: "two") on {shop, till} -> ordered
policy back2 = add_response_header(name: "x-back", value: "two") on {shop, till} -> ordered
policy stop  = deny() on {shop, till} -> ordered when header("x-stop") == "1"
policy go    = set_request_header(name: "x-stop", value: "1") on {shop, till} -> ordered
policy three = add_request_header(name: "x-way", value: "three") on {shop, till} -> ordered
policy back3 = add_response_header(name: "x-back", value: "three") on {shop, till} -> ordered
policy last  = deny() on {shop, till} -> ordered when not header("x-stop") == "1"
policy four  = add_request_header(name: "x-way", value: "four") on {shop, till} -> ordered
policy back4 = add_response_header(name: "x-back", value: "four") on {shop, till} -> ordered
pin one at egress
pin back1 at egress
pin two at SIDE
pin back2 at SIDE
pin stop at SIDE
pin go at SIDE
pin three at SIDE
pin back3 at SIDE
pin last at ingress
pin four at ingress
pin back4 at ingress

policy counted = request_count() on shop -> copied
policy copies  = mirror(to: spare) on shop -> copied
policy logged  = access_log() on shop -> copied
pin counted at SIDE
pin logged at ingress

policy again  = retry(attempts: 3) on shop -> repeated
policy once   = add_request_header(name: "x-once", value: "1") on shop -> repeated
pin once at SIDE

policy sent    = request_count() on shop -> renamed
policy sinks   = buffer_limit(max: SINKSB) on shop -> renamed when path == "/sinks"
policy rises   = buffer_limit(max: RISESB) on shop -> renamed when path == "/rises"
policy nameNOW = add_request_header(name: "x-once", value: "1") on shop -> renamed
policy outNOW  = deny() on shop -> renamed when header("x-out") == "1"
pin sent at egress
pin sinks at SIDE
pin rises at SIDE
pin nameNOW at ingress
pin outNOW at ingress

policy leadNOW = add_request_header(name: "x-lead", value: "NOW") on shop -> matched
policy only    = deny() on shop -> matched when header("x-version") == "NOW"
pin leadNOW at egress
pin only at ingress

// Without redirection, the listeners of both ends have to exist before policies move to them.
policy breaker = circuit_breaking(max_requests: 1000) on {shop, till} -> called
policy limit   = circuit_breaking(max_connections: 1000) on shop -> {copied, repeated, renamed}
"""


def placed(side: str, number: int) -> Placed:
    """The one plan (0) or the other (1)."""
    values = {"SIDE": side, "NOW": number, "SINKS": (WIDE, NARROW)[number], "RISES": (NARROW, WIDE)[number]}
    text = PROGRAM
    for key, value in {"PORT": PORT, "QUOTA": QUOTA, **values}.items():
        text = text.replace(key, str(value))
    program = load_text(text)
    return Placed(program, place(program))


def repeat(dial: Dial, headers: Mapping[str, str], protocol: str = "http", *, keep: bool = True) -> Caller:
    """One of many callers, which leave the proxies some time."""
    spec = RequestSpec("shop", "cart", protocol, "/", tuple(headers.items()))
    return Caller(dial, (spec,), keep=keep, pause=0.04)


class Destination:
    """One destination and its callers."""

    callers: Sequence[Caller] = ()
    """They call from before the rollout until after it."""

    def at(self, step: StepName | None) -> None:
        """All proxies have a step, or (None) the new plan."""

    def check(self, arrived: Sequence[Seen]) -> None:
        """All requests were answered, and these arrived."""
        raise NotImplementedError


class Called(Destination):
    """gRPC calls: of services that may pass and may not, with a quota, and of callers outside of the application."""

    OUTSIDE: Final = "127.255.254.253"
    """No service and no external party has this address."""
    CLOSED: Final = {
        TO_SENDERS: (StepName.PREPARE, StepName.SENDERS),
        TO_RECEIVER: (StepName.RECEIVERS, StepName.RELEASE),
    }
    """The first and the last step in which the receiver refuses callers outside. In the others a NetworkPolicy has to
    refuse them."""

    def __init__(self, bed: Bed, direction: str, forged: Collection[str], stack: ExitStack) -> None:
        shop, till = bed.egress("shop", "called"), bed.egress("till", "called")
        address = bed.addresses.service_addresses("called")[0]
        self._first, self._last = self.CLOSED[direction]
        self._stack = stack
        self._passed = [repeat(shop, {}, "grpc"), repeat(till, {MARKER: "1"}, "grpc")]
        self._refused = [repeat(each, {"x-out": "1"}, "grpc") for each in (shop, till)]
        self._counted = repeat(shop, {"x-few": "1"}, "grpc")
        self._outside = [
            repeat(lambda: socket.create_connection((address, PORT), SECONDS, (self.OUTSIDE, 0)), {MARKER: it}, "grpc")
            for it in forged
        ]
        self.callers = [*self._passed, *self._refused, self._counted]

    def at(self, step: StepName | None) -> None:
        if step is self._first:
            for each in self._outside:
                self._stack.enter_context(each)
        if step is self._last:
            wait_for_answers(self._outside, 3)
            self._stack.close()

    def check(self, arrived: Sequence[Seen]) -> None:
        names = names_with_status(self._passed, 0)
        names_with_status(self._refused, PERMISSION_DENIED)
        names_with_status(self._outside, PERMISSION_DENIED)
        admitted = [each.name for each in self._counted.answered if each.status == 0]
        assert {each.status for each in self._counted.answered} == {0, RESOURCE_EXHAUSTED}
        # A full bucket in each new filter chain: of either plan by itself, and of either plan in the rollout.
        # The caller may not have emptied the last one: it reaches it when Envoy closes its connection.
        assert len(admitted) in range(3 * QUOTA, 4 * QUOTA + 1)
        assert sorted(each.header("x-echo-id")[0] for each in arrived) == sorted([*names, *admitted])
        assert {each.header("x-once") for each in arrived} == {("1",)}
        assert {each.protocol for each in arrived} == {"grpc"}
        # At rest a header of that name is one like any other.
        assert {each.header(MARKER) for each in arrived} <= {(), ("1",)}
        # The proxies have closed connections of older filter chains.
        assert all(each.connections >= 2 for each in self._passed)


class Ordered(Destination):
    """Effects that show in which order a request, and its response, met them."""

    WAY: Final = ("one", "two", "three", "four")

    def __init__(self, bed: Bed, stack: ExitStack) -> None:
        shop, till = bed.egress("shop", "ordered"), bed.egress("till", "ordered")
        self._passed = [repeat(shop, {}), repeat(till, {}, "h2c"), repeat(till, {}, keep=False)]
        self._refused = [repeat(shop, {"x-stop": "1"}), repeat(till, {"x-stop": "1"}, "h2c")]
        self.callers = [*self._passed, *self._refused]
        self._older = [http_connection(each) for each in (shop, till)]
        for each in self._older:
            stack.callback(each.close)
        self._on_older: list[tuple[int, list[str]]] = []

    def ask_on_older(self) -> None:
        """A request on each of two connections that are older than the rollout."""
        for each in self._older:
            each.request("GET", "/", headers={"x-older": "1"})
            response = each.getresponse()
            response.read()
            self._on_older.append((response.status, response.headers.get_all("x-back", [])))

    def check(self, arrived: Sequence[Seen]) -> None:
        names = names_with_status(self._passed, 200)
        names_with_status(self._refused, 403)
        older = [each for each in arrived if each.header("x-older")]
        assert sorted(name for each in arrived for name in each.header("x-echo-id")) == sorted(names)
        assert len(arrived) == len(names) + len(older)
        assert {each.header("x-way") for each in arrived} == {self.WAY}
        # Responses meet them in the opposite order. A refusal passes only those before the policy that refuses.
        back = self.WAY[::-1]
        assert _backs(self._passed) == {back}
        assert _backs(self._refused) == {("two", "one")}
        assert self._on_older == [(200, list(back))] * len(older)
        assert len(older) == 2 * len(self._older), "in the old plan, and while chains of `prepare` replace its own"


def _backs(callers: Sequence[Caller]) -> set[tuple[str, ...]]:
    return {request.header("x-back") for each in callers for request in each.answered}


class Copied(Destination):
    """Copies, and the log, of requests whose marker no application and no log may have."""

    def __init__(self, bed: Bed, secret: str, stack: ExitStack) -> None:
        dial = bed.egress("shop", "copied")
        self._own = [repeat(dial, {}), repeat(dial, {MARKER: ""})]
        # These know the value, and write it in other ways. No caller can know it before `senders`.
        self._forging = [repeat(dial, {MARKER.upper(): secret}), repeat(dial, {MARKER.title(): f"{secret},{secret}"})]
        self._forged: list[Request] = []
        """Their requests before the last step. After it the header is one like any other."""
        self._stack = stack
        self.callers = self._own

    def at(self, step: StepName | None) -> None:
        if step is StepName.SENDERS:
            for each in self._forging:
                self._stack.enter_context(each)
        if step not in (StepName.PREPARE, None):
            wait_for_answers(self._forging, 3)
        if step is StepName.RELEASE:
            self._forged = [request for each in self._forging for request in each.answered]

    def check(self, arrived: Sequence[Seen]) -> None:
        """`arrived`: the requests and their copies."""
        names = [*names_with_status(self._own, 200), *(each.name for each in self._forged)]
        names_with_status(self._forging, 200)
        assert self._forged
        own = set(names)
        for service in ("copied", "spare"):
            found = [each for each in arrived if each.service == service and own & set(each.header("x-echo-id"))]
            assert {name for each in found for name in each.header("x-echo-id")} == own
            assert len(found) == len(own)
            assert not any(any(each.header(MARKER)) for each in found)

    @property
    def forging(self) -> set[str]:
        """The names of all requests with a value that a caller wrote."""
        return {request.name for each in self._forging for request in each.made}


class Repeated(Destination):
    """Attempts, each of which meets the policies once."""

    def __init__(self, bed: Bed) -> None:
        self.callers = [repeat(bed.egress("shop", "repeated"), {"x-echo-status": "503,200"})]

    def check(self, arrived: Sequence[Seen]) -> None:
        assert len(arrived) == 2 * len(names_with_status(self.callers, 200))
        assert {each.header("x-once") for each in arrived} == {("1",)}


class Matched(Destination):
    """A policy that gets another `when` in a filter chain that keeps its name, while another one changes at senders."""

    def __init__(self, bed: Bed) -> None:
        dial = bed.egress("shop", "matched")
        self.callers = [
            repeat(dial, {"x-version": version}, keep=keep) for version in ("0", "1") for keep in (True, False)
        ]

    def check(self, arrived: Sequence[Seen]) -> None:
        answered = [request for each in self.callers for request in each.answered]
        assert {request.status for request in answered} == {200, 403}
        passed = [request.name for request in answered if request.status == 200]
        assert sorted(name for each in arrived for name in each.header("x-echo-id")) == sorted(passed)
        # The old plan refuses version 0, and the new one version 1.
        assert {(*each.header("x-version"), *each.header("x-lead")) for each in arrived} == {("0", "1"), ("1", "0")}


class Renamed(Destination):
    """Policies that get another name, and limits of two filters each: one gets narrower, and one wider."""

    SWITCH: Final = {TO_SENDERS: StepName.SENDERS, TO_RECEIVER: StepName.RELEASE}
    """The first step in which requests meet the new plan."""

    def __init__(self, bed: Bed, direction: str) -> None:
        self._dial = bed.egress("shop", "renamed")
        self._switch = self.SWITCH[direction]
        self._passed = [repeat(self._dial, {}), repeat(self._dial, {}, keep=False)]
        self._refused = [repeat(self._dial, {"x-out": "1"})]
        self.callers = [*self._passed, *self._refused]
        self._limits: dict[StepName | None, tuple[int, int]] = {}

    def at(self, step: StepName | None) -> None:
        self._limits[step] = (self._post("/sinks"), self._post("/rises"))

    def _post(self, path: str) -> int:
        """The status of a request with a body, on a connection of its own."""
        connection = http_connection(self._dial)
        connection.request("POST", path, BODY, {"x-body": "1"})
        status = connection.getresponse().status
        connection.close()
        return status

    def check(self, arrived: Sequence[Seen]) -> None:
        has_switched = False
        for step, statuses in self._limits.items():
            has_switched = has_switched or step is self._switch
            assert statuses == ((413, 200) if has_switched else (200, 413)), step
        assert list(self._limits) == [*StepName, None]
        names_with_status(self._refused, 403)
        plain = [each for each in arrived if not each.header("x-body")]
        assert len(plain) == len(names_with_status(self._passed, 200))
        assert len(arrived) == len(plain) + len(self._limits)
        assert {each.header("x-once") for each in arrived} == {("1",)}
