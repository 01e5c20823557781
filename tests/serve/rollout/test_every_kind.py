"""Every kind that can change sides moves there and back, while callers send requests on old and new connections."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from admc.serve.publication.progress import moving
from admc.serve.rollout.diff import Diff
from admc.serve.rollout.model import Placed
from admc.testbed.envoys import envoy_binary
from dsl import load
from dsl.kinds.prelude import kinds
from dsl.program import Protocol, Side
from emitters.addresses.dialing import sender
from solver.place import place
from tests.serve.rollout.bed import Bed
from tests.serve.rollout.cases import CASE, CASES, CONNECTIONS, DELAY_SECONDS, FILES, QUOTA, Reply, program, wrong
from tests.serve.rollout.move import PORT

if TYPE_CHECKING:
    from pathlib import Path

    from admc.testbed.echo import Seen
    from tests.serve.rollout.cases import Ask, Case

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]
PAUSE_SECONDS = 0.003
"""Between two requests, so that they do not take all of the CPU."""


class Caller:
    """Repeats all requests of one service, on connections that it keeps or on new ones."""

    _ids = itertools.count()

    def __init__(self, bed: Bed, source: str, *, keeps: bool) -> None:
        self._asks = [(case, ask) for case in CASES for ask in case.asks if ask.source == source]
        self._dials = {case.destination: bed.egress(source, case.destination) for case, _ in self._asks}
        self._keeps = keeps
        self._open: dict[str, http.client.HTTPConnection] = {}
        self._stop = threading.Event()
        self.replies: list[Reply] = []
        self.failed: list[str] = []
        self.done = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def round(self) -> int:
        """The number of its requests before it begins again."""
        return len(self._asks)

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        for connection in self._open.values():
            connection.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for case, ask in self._asks:
                self._ask(case, ask)
                self.done += 1
                self._stop.wait(PAUSE_SECONDS)

    def _ask(self, case: Case, ask: Ask) -> None:
        connection = self._open.pop(case.destination, None)
        name, fresh = f"k{next(self._ids)}", connection is None
        try:
            if connection is None:
                connection = http.client.HTTPConnection("cart", timeout=10)
                connection.sock = self._dials[case.destination]()
            path = ask.path.replace("NAME", name)
            sent = {CASE: case.name, "x-echo-id": name, **dict(ask.headers)}
            begun = time.monotonic()
            connection.request(ask.method, path, ask.body or None, sent)
            got = connection.getresponse()
            headers, body = tuple(got.getheaders()), got.read()
            self.replies.append(Reply(case, ask, name, got.status, headers, body, time.monotonic() - begun))
            if self._keeps and not got.will_close:
                self._open[case.destination] = connection
                return
        except (OSError, http.client.HTTPException) as error:
            # A kept connection may be closed between two requests. The request has not arrived, and is sent again.
            idle = isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError)
            if fresh or not idle:
                self.failed.append(f"{case.name}: {error!r}")
        if connection is not None:
            connection.close()


class Connections:
    """Opens one connection after the other to each port where policies are about connections."""

    def __init__(self, bed: Bed, source: str) -> None:
        self._bed, self._source = bed, source
        self._stop = threading.Event()
        self.passed: dict[str, list[bool]] = {name: [] for name, *_, scope in CONNECTIONS if source in scope}
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def done(self) -> int:
        return sum(map(len, self.passed.values()))

    @property
    def round(self) -> int:
        return len(self.passed)

    def __enter__(self) -> Connections:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        address, own = self._bed.addresses.egress[self._source, "cart"], sender(self._bed.addresses, self._source)
        while not self._stop.wait(0.02):
            for index, (name, *_) in enumerate(CONNECTIONS):
                if name in self.passed:
                    self.passed[name].append(self._passes((address, PORT + 1 + index), own))

    @staticmethod
    def _passes(target: tuple[str, int], own: str) -> bool:
        try:
            with socket.create_connection(target, 10, (own, 0)) as wire:
                wire.sendall(b"hello\n")
                got = b""  # the first line of the service may arrive before a filter that waits for the caller decides
                while data := wire.recv(100):
                    got += data
                    if b"hello\n" in got:
                        return True
                return False
        except ConnectionError:
            return False


class Tally:
    """Sums of counters of all proxies. They include those of filters that are gone."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._last: dict[tuple[str, str], int] = {}
        self.total: Counter[str] = Counter()

    def update(self, *names: str) -> None:
        """Add what the counters with these endings have gained."""
        for service, envoy in self._bed.envoys.running.items():
            stats = {name: value for name, value in envoy.stats().items() if name.endswith(names)}
            for name, value in stats.items():
                before = self._last.get((service, name), 0)
                self.total[next(end for end in names if name.endswith(end))] += value - before * (value >= before)
            self._last = {key: value for key, value in self._last.items() if key[0] != service}
            self._last.update({(service, name): value for name, value in stats.items()})


COUNTED = ("rbac.counted/cart.allowed", "fault.delays_injected")
# Envoy's timers start from the time at which its event loop woke up (ADR 0016).
TIMER_SECONDS = 0.001


def test_every_kind_that_can_change_sides_is_a_case() -> None:
    able = {
        (name, protocol is Protocol.TCP)
        for name, declared in kinds().items()
        for protocol in frozenset(declared.kind.protocols) - {Protocol.GRPC}
        if len(declared.kind.sides) == len(Side)
    }
    tried = {(case.kind, False) for case in CASES} | {(kind, True) for _, kind, *_ in CONNECTIONS}
    assert able <= tried, able - tried
    assert {("mine", False), ("inner", False), ("own", True)} == tried - able, "kinds of users, with a template"


def test_every_kind_moves_there_and_back(tmp_path: Path) -> None:
    (tmp_path / "taps").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    old, new = placed(tmp_path, "ingress"), placed(tmp_path, "egress")
    assert set(moving(old.placement, new.placement)) == {
        *(case.name for case in CASES),
        *(f"{name}_raw" for name, *_ in CONNECTIONS),
    }
    assert Diff(old, new).moved >= {"cart", "shop", "till"}
    assert ENVOY is not None
    with Bed(old, tmp_path, ENVOY) as bed:
        tally = Tally(bed)
        with ExitStack() as stack:
            callers = [
                stack.enter_context(Caller(bed, source, keeps=keeps))
                for source, keeps in (("shop", True), ("shop", False), ("till", True), ("till", False))
            ]
            connections = [stack.enter_context(Connections(bed, source)) for source in ("shop", "till")]
            once_more([*callers, *connections])
            for ends in ((old, new), (new, old)):
                for _ in bed.follow(*ends):
                    once_more([*callers, *connections])
                    tally.update(*COUNTED)
        tally.update(*COUNTED)
        until_written(bed, callers, tmp_path)
        time.sleep(0.2)  # a second line of a request would be written by now
        judge(bed, callers, tally, tmp_path)
        judge_connections(bed, connections)


def placed(folder: Path, side: str) -> Placed:
    path = folder / f"{side}.adm"
    path.write_text(program(side, PORT, str(folder / "taps")))
    loaded = load(path)
    return Placed(loaded, place(loaded))


def once_more(callers: list[Caller | Connections]) -> None:
    """Wait until each caller has sent all of its requests again."""
    wanted = [caller.done + caller.round + 1 for caller in callers]
    until = time.monotonic() + 60
    while any(caller.done < count for caller, count in zip(callers, wanted, strict=True)):
        assert time.monotonic() < until
        time.sleep(0.01)


def until_written(bed: Bed, callers: list[Caller], folder: Path) -> None:
    """Wait for the logs and taps of the last responses."""
    asked = Counter(reply.case.name for caller in callers for reply in caller.replies)
    until = time.monotonic() + 60
    while logged(bed).total() < asked["logged"] or whole(folder) < asked["tapped"]:
        assert time.monotonic() < until
        time.sleep(0.05)


def whole(folder: Path) -> int:
    """How many files of taps are complete."""
    found = 0
    for path in (folder / "taps").iterdir():
        with suppress(ValueError):
            json.loads(path.read_bytes())
            found += 1
    return found


def judge(bed: Bed, callers: list[Caller], tally: Tally, folder: Path) -> None:
    assert [reason for caller in callers for reason in caller.failed] == []
    replies = [reply for caller in callers for reply in caller.replies]
    arrived: dict[str, list[Seen]] = defaultdict(list)
    asked = Counter[str]()
    for seen in bed.services.record.all():
        if seen.protocol == "tcp":
            continue
        (name,) = seen.header("x-echo-id")
        asked[name] += seen.service == "judge"
        if seen.service != "judge":
            arrived[name].append(seen)
    found = [
        f"{reply.case.name} by {reply.ask.source}: {said}"
        for reply in replies
        for said in wrong(reply, arrived[reply.name], asked[reply.name])
    ]
    assert found == [], Counter(found).most_common(20)
    of = {case.name: [reply for reply in replies if reply.case is case] for case in CASES}
    assert tally.total == {COUNTED[0]: len(of["counted"]), COUNTED[1]: len(of["waits"])}
    assert min(reply.seconds for reply in of["waits"]) >= DELAY_SECONDS - TIMER_SECONDS
    assert logged(bed) == Counter(reply.name for reply in of["logged"])
    assert tapped(folder) == Counter(reply.name for reply in of["tapped"])
    # Each bucket is full once, and is never filled again. The first is one; each way has one at both ends in `prepare`,
    # and one at the new end at rest. The present plan empties those of the steps as far as requests meet them.
    assert sum(reply.status == 200 for reply in of["quota"]) in range(3 * QUOTA, (1 + 3 + 3) * QUOTA + 1)
    assert {reply.status for reply in of["quota"]} == {200, 429}


def logged(bed: Bed) -> Counter[str]:
    """How many lines the log has of each request."""
    outputs = [envoy.output.read_text() for envoy in bed.envoys.running.values()]
    lines = [json.loads(line) for output in outputs for line in output.splitlines()]
    return Counter(line["path"].removeprefix("/") for line in lines if line["policy"] == "logged")


def tapped(folder: Path) -> Counter[str]:
    """How many files there are of each request."""
    found = Counter[str]()
    for path in (folder / "taps").iterdir():
        headers = json.loads(path.read_bytes())["http_buffered_trace"]["request"]["headers"]
        found.update(header["value"] for header in headers if header["key"] == "x-echo-id")
    return found


def judge_connections(bed: Bed, callers: list[Connections]) -> None:
    shop, till = (caller.passed for caller in callers)
    assert not any(till["known"])
    assert not any(shop["shut"])
    assert not any(shop["own"])
    assert all(shop["known"])
    assert all(shop["noted"])
    outputs = [envoy.output.read_text() for envoy in bed.envoys.running.values()]
    lines = [json.loads(line) for output in outputs for line in output.splitlines()]
    # A connection that is made while both sides hold meets it twice.
    assert sum(line["policy"] == "noted_raw" for line in lines) in range(len(shop["noted"]), 2 * len(shop["noted"]) + 1)
    # While both ends enforce it, a connection needs a token of each. A chain shares the bucket of an older one that is
    # still draining, so there may be one bucket in all.
    assert QUOTA <= sum(shop["few"]) <= 3 * QUOTA
