"""Quotas with several senders and replicas, and kinds that depend on a clock: totals, shares, the order of timeouts.

The replicas of the enforcing service share a quota evenly. So no window admits more than the whole, and as much as
that where every replica receives enough requests for its share.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import pytest

import dsl
from admc.testbed.client import Request
from dsl.program import Protocol
from solver.place import place
from tests.fidelity.mesh.beds import bed, judge
from tests.fidelity.mesh.derive import possible
from tests.fidelity.mesh.requests import Asked, spread
from tests.fidelity.requests import GRPC_PATH, Ask, delay
from tests.testbed.mesh import Family, Mode, Way
from tests.testbed.mesh.needed import AS_COMPILED_LONG, NEEDS_MESH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.testbed.client import Reply
    from dsl.program import Program
    from tests.testbed.mesh import Mesh

pytestmark = [pytest.mark.long, NEEDS_MESH]

SENDERS = "service a { http 80  replicas 2 }\nservice c { http 80 }\n"
REFUSED = {"429", "RESOURCE_EXHAUSTED", "connection closed"}


class Quota(NamedTuple):
    """A quota of `TOKENS`, and which replicas keep it: those of the receiver, or of its only sender."""

    name: str
    protocol: Protocol
    receivers: int
    line: str
    sources: tuple[str, ...]
    shares: int


TOKENS = 24
QUOTAS = (
    Quota("http in, two replicas", Protocol.HTTP, 2, "@ingress\npolicy q = rate_limit({n}) on * -> b", ("a", "c"), 2),
    Quota("http in, three replicas", Protocol.HTTP, 3, "@ingress\npolicy q = rate_limit({n}) on * -> b", ("a", "c"), 3),
    Quota("grpc in, two replicas", Protocol.GRPC, 2, "@ingress\npolicy q = rate_limit({n}) on * -> b", ("a", "c"), 2),
    Quota("http out, two senders", Protocol.HTTP, 3, "@egress\npolicy q = rate_limit({n}) on a -> b", ("a",), 2),
    Quota("grpc out, two senders", Protocol.GRPC, 2, "@egress\npolicy q = rate_limit({n}) on a -> b", ("a",), 2),
    Quota("tcp in, two replicas", Protocol.TCP, 2, "@ingress\npolicy q = connection_rate_limit({n}) on * -> b",
          ("a", "c"), 2),
    Quota("tcp out, two senders", Protocol.TCP, 2, "@egress\npolicy q = connection_rate_limit({n}) on a -> b",
          ("a",), 2),
)  # fmt: skip


def _program(quota: Quota, per: str) -> Program:
    what = "connections" if quota.protocol is Protocol.TCP else "requests"
    return dsl.load_text(
        f"app limits\n{SENDERS}service b {{ {quota.protocol} 80 -> 8080  replicas {quota.receivers} }}\n"
        + "".join(f"call {source} -> b\n" for source in quota.sources)
        + quota.line.format(n=f"{what}: {TOKENS}, per: {per}")
        + "\n"
    )


def _ways(mesh: Mesh, quota: Quota) -> Iterator[dict[str, object]]:
    """All senders, both families, each pod in turn."""
    ends = [(name, place) for name in quota.sources for place in range(len(mesh.layout.of(name)))]
    for receiver in range(quota.receivers):
        for source, sender in ends:
            for family in Family:
                yield {
                    "source": source, "source_replica": sender, "way": Way.POD, "family": family, "replica": receiver
                }  # fmt: skip


def _send(mesh: Mesh, quota: Quota, way: dict[str, object]) -> Reply:
    request = Request("POST", GRPC_PATH) if quota.protocol is Protocol.GRPC else Request()
    return mesh.request(destination="b", request=request, **way)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", AS_COMPILED_LONG)
@pytest.mark.parametrize("quota", QUOTAS, ids=lambda quota: quota.name)
def test_the_whole_is_let_through_once_by_all_ways_together(quota: Quota, mode: Mode) -> None:
    program = _program(quota, "1h")
    with bed(program, mode) as mesh:
        ways = list(_ways(mesh, quota))
        # An even share for each sender and each receiver, several times over.
        labels = [
            _send(mesh, quota, way).label for way in islice(cycle(ways), ceil(3 * TOKENS / len(ways)) * len(ways))
        ]
        counts = Counter(labels)
        good = counts["200"] + counts["OK"]
        assert good == TOKENS, counts
        assert set(counts) <= {"200", "OK"} | REFUSED
        arrived = Counter(each.place for each in mesh.arrivals("b"))
        assert sum(arrived.values()) == TOKENS
        if "@ingress" in quota.line:
            assert set(arrived.values()) == {TOKENS // quota.shares}


@pytest.mark.parametrize("quota", QUOTAS, ids=lambda quota: quota.name)
def test_one_replica_alone_gets_its_share_and_no_more(quota: Quota) -> None:
    program = _program(quota, "1h")
    with bed(program, Mode.COMPILED) as mesh:
        ways = [way for way in _ways(mesh, quota) if way["replica"] == 0 and way["source_replica"] == 0]
        labels = [_send(mesh, quota, way).label for way in islice(cycle(ways), 2 * TOKENS)]
        assert sum(label in ("200", "OK") for label in labels) == TOKENS // quota.shares


class Answer(NamedTuple):
    """What became of a request, which met its quota some time between these two."""

    share: object
    began: float
    ended: float
    good: bool


@pytest.mark.parametrize("quota", [QUOTAS[0], QUOTAS[3], QUOTAS[5]], ids=lambda quota: quota.name)
def test_no_window_lets_more_through_than_it_should_nor_less(quota: Quota) -> None:
    """All callers send far more than is allowed, for some seconds, until each share is used up."""
    seconds, patience = 4.0, 60.0
    program = _program(quota, "1s")
    keeper = "replica" if "@ingress" in quota.line else "source_replica"
    answers: list[Answer] = []
    with bed(program, Mode.COMPILED) as mesh:
        ways = list(_ways(mesh, quota))
        began = time.monotonic()

        def enough() -> bool:
            took = time.monotonic() - began
            if took < seconds or took >= patience:
                return took >= patience
            return len({each.share for each in answers if not each.good}) == quota.shares

        def hammer(way: dict[str, object]) -> None:
            while not enough():
                asked = time.monotonic()
                label = _send(mesh, quota, way).label
                assert label in {"200", "OK"} | REFUSED
                answers.append(Answer(way[keeper], asked, time.monotonic(), label in {"200", "OK"}))

        with ThreadPoolExecutor(len(ways)) as pool:
            list(pool.map(hammer, ways))
        took = time.monotonic() - began
        arrived = sorted(each.at for each in mesh.arrivals("b"))
    assert len(arrived) <= TOKENS * (1 + ceil(took))
    for index, at in enumerate(arrived):  # of any second: what was saved, what comes back, and what began before it
        assert sum(1 for other in arrived[index:] if other < at + 1) <= 3 * TOKENS
    refused = [each for each in answers if not each.good]
    assert len({each.share for each in refused}) == quota.shares, "a quota that is not used up shows nothing"
    for one in refused:  # none is, unless the whole share was taken within a second
        near = (each for each in answers if each.ended >= one.began - 1 and each.began <= one.ended)
        assert sum(each.good and each.share == one.share for each in near) >= TOKENS // quota.shares


TIMES = """\
app times
service a {{ http 80  replicas 2 }}
service b {{
  {p} p0 80
  {p} p1 81
  {p} p2 82
  {p} p3 83
  {p} p4 84
  {p} p5 85
  {p} p6 86
  replicas 2
}}
service s {{ {p} 80  replicas 2 }}
service t {{ {p} 80 }}
call a -> b:p0, b:p1, b:p2, b:p3, b:p4, b:p5, b:p6, s, t
policy wait_0  = timeout(after: 300ms)      on a -> b:p0
policy slow_0  = fault_delay(delay: 700ms)  on a -> b:p0
policy slow_1  = fault_delay(delay: 500ms)  on a -> b:p1
policy wait_1  = timeout(after: 300ms)      on a -> b:p1
policy wait_2  = timeout(after: 500ms)                                        on a -> b:p2
policy again_2 = retry(attempts: 4, on: [unavailable], backoff: 1ms)          on a -> b:p2
policy again_3 = retry(attempts: 2, on: [gateway_error, reset], backoff: 1ms) on a -> b:p3
policy wait_3  = timeout(after: 300ms)                                        on a -> b:p3
policy again_4 = retry(attempts: 3, on: [unavailable], backoff: 1ms) on a -> b:p4
policy seen_4  = request_count()                                     on a -> b:p4
policy copy_5  = mirror(to: t, percent: 50%) on a -> b:p5
policy some_5  = split(to: s, percent: 30%)  on a -> b:p5
policy seen_6  = request_count()                                     on a -> b:p6
policy again_6 = retry(attempts: 3, on: [unavailable], backoff: 1ms) on a -> b:p6
"""


def _times(program: Program, protocol: Protocol) -> Iterator[Asked]:
    """For each port, what shows who gives up first, or how many attempts, copies and shares there are."""
    bad, good = (14, 0) if protocol is Protocol.GRPC else (503, 200)

    def failing(*statuses: int, after: float = 0) -> Ask:
        return Ask((("x-echo-status", ",".join(map(str, statuses))), ("x-echo-delay", str(after))))

    asks = {
        "p0": [Ask()], "p1": [Ask()],
        "p2": [failing(bad, after=0.2), failing(bad, bad, good), Ask()],
        "p3": [delay(0.6, 0.0), delay(0.6), Ask()],
        "p4": [failing(bad), failing(bad, good)], "p5": [Ask(times=60)],
        "p6": [failing(bad), failing(bad, good)],
    }  # fmt: skip
    turn = 0
    for port in program.services["b"].ports:
        ways = possible(program, "a", "b", port)
        for ask in asks[str(port.name)]:
            fitting = tuple(each for each in ways if each.way is Way.POD or not ask.headers)
            for each, route in spread([ask.spoken(protocol)], fitting, turn):
                yield Asked("a", "b", port, each, route)
            turn += ask.times + 1


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("protocol", [Protocol.HTTP, Protocol.GRPC])
def test_who_gives_up_first_and_how_often_is_tried(protocol: Protocol, mode: Mode) -> None:
    program = dsl.load_text(TIMES.format(p=protocol))
    differences = judge(program, mode, lambda: _times(program, protocol))
    assert not differences, "\n".join(map(str, differences))


def test_attempts_are_counted_where_a_quota_follows_a_retry() -> None:
    """Four tokens for each of two replicas: three attempts of the first request, one of the second."""
    program = dsl.load_text(
        f"app attempts\n{SENDERS}service b {{ http 80  replicas 2 }}\ncall a -> b\n"
        "policy again = retry(attempts: 3, on: [unavailable], backoff: 1ms) on a -> b\n"
        "policy quota = rate_limit(requests: 8, per: 1h) on a -> b\n"
    )
    assert {decision.policy: decision.place.value for decision in place(program).decisions} == {
        "again": "egress", "quota": "ingress"
    }  # fmt: skip
    with bed(program, Mode.COMPILED) as mesh:
        failing = Request(headers=(("x-echo-status", "503"),))
        labels = [mesh.request("a", "b", failing, way=Way.POD, replica=replica).label for replica in (0, 0, 0, 1, 1, 1)]
        assert labels == ["503", "429", "429"] * 2
        assert Counter(each.place for each in mesh.arrivals("b")) == {"b/0": 4, "b/1": 4}
