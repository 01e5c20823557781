"""What a retry repeats and what an ejection counts is the same whether the receiver has an ADM or not.

Each word of `on` alone meets each way in which a receiver fails, directly and behind an ADM. `python -m
tests.emitters.envoy.kinds.test_failures_behind_an_adm` prints the table.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from admc.testbed.client import Reply, Request, Target, send
from admc.testbed.envoys import Envoys
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy import Mode, emit
from emitters.envoy.failure_marks import FAILED
from tests.emitters.envoy.failing import Failing
from tests.emitters.envoy.support import ENVOY, load, private, running, soon, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

WORDS: Final = (
    "unavailable",
    "connect_failure",
    "reset",
    "refused_stream",
    "gateway_error",
    "server_error",
    "cancelled",
    "deadline_exceeded",
    "internal",
    "resource_exhausted",
)
ATTEMPTS: Final = 3
BOTH: Final = ("down", "reset_before", "reset_after", "closed_after", "half", "garbage")
STREAMS: Final = ("refused", "stream_reset", "stream_cancel", "goaway", "no_status")
STATUSES: Final = ("200", "429", "499", "500", "502", "503", "504")
CODES: Final = ("0", "1", "2", "4", "8", "13", "14")
WAYS: Final = {
    "http": (*BOTH, "two_lengths", "early_end", *STATUSES),
    "h2c": (*BOTH, *STREAMS, *STATUSES),
    "grpc": (*BOTH, *STREAMS, *CODES),
}
PORTS: Final = {"http": 8001, "h2c": 8001, "grpc": 8002}
SERVICES: Final = ("alone", "behind", "down_alone", "down_behind")
TEXT: Final = (
    "service caller { http 8000 }\n"
    + "".join(f"service {name} {{ http web 8001  grpc rpc 8002 }}\n" for name in SERVICES)
    + "".join(f"call caller -> {name}:web, {name}:rpc\n" for name in SERVICES)
    + "".join(
        f"policy on_{word} = retry(attempts: {ATTEMPTS}, on: [{word}], backoff: 1ms) "
        f'on caller -> {{{", ".join(SERVICES)}}} when path == "/{word}/Call"\n'
        for word in WORDS
    )
    + "@ingress\npolicy seen = request_count() on * -> {behind, down_behind}\n"
)
BODY: Final = b"x" * 100
_NAMES: Final = map(str, itertools.count())
VARYING: Final = frozenset(("connection", "content-length", "date"))
"""Headers that need not be equal: whether a failure came before the whole request, the length of its text, the time."""
REPEATED: Final = "retried and the latest "
"""What Envoy says of an attempt that it repeated itself."""


class Outcome(NamedTuple):
    """What one request came to. `repeats` is what the sender's ADM counts where there is no receiver to see them."""

    attempts: int
    repeats: int
    status: int | str
    headers: tuple[tuple[str, str], ...]
    body: str


class Live(NamedTuple):
    """The caller's and the receivers' ADMs, and the receivers."""

    targets: Mapping[tuple[str, int], Target]
    receivers: tuple[Failing, ...]
    envoys: Envoys

    def ask(self, receiver: str, protocol: str, way: str, word: str) -> Outcome:
        name = next(_NAMES)
        port = PORTS[protocol]
        place = f"down_{receiver}" if way == "down" else receiver
        headers = (("x-fail", way), ("x-name", name))
        counter = f"cluster.egress/{place}_{port}.upstream_rq_retry"
        before = self.count(counter) if way == "down" else 0
        reply = send(protocol, self.targets[place, port], Request("POST", f"/{word}/Call", headers, BODY))
        repeats = self.count(counter) - before if way == "down" else 0
        attempts = sum(each.attempts[name] for each in self.receivers)
        body = reply.body.decode("latin-1").replace(REPEATED, "")
        return Outcome(attempts, repeats, reply.label if reply.status is None else reply.status, _shown(reply), body)

    def count(self, name: str) -> int:
        return self.envoys.running["caller"].stats().get(name, 0)


def _shown(reply: Reply) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted(
            (name.lower(), value.replace(REPEATED, "")) for name, value in reply.headers if name.lower() not in VARYING
        )
    )


@contextlib.contextmanager
def bed(folder: Path, text: str = TEXT) -> Iterator[Live]:
    """A program whose services fail as requests ask, but for those that are down."""
    program, placement = load(text)
    addresses = private(loopback(program))
    targets = {
        (dial.destination, dial.number): Target(dial.sender, dial.address, dial.port, dial.destination)
        for dial in dials(program, placement, addresses)
    }
    assert ENVOY is not None
    with contextlib.ExitStack() as stack:
        receivers = tuple(
            stack.enter_context(Failing(bind.address, bind.port))
            for bind in binds(program, placement, addresses)
            if bind.service in ("alone", "behind")
        )
        envoys = stack.enter_context(Envoys(folder, ENVOY))
        envoys.start(written(program, placement, addresses, folder))
        assert not {"alone", "down_alone"} & set(envoys.running)
        yield Live(targets, receivers, envoys)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with bed(tmp_path_factory.mktemp("failures")) as found:
        yield found


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("protocol", WAYS)
def test_a_retry_repeats_the_same_with_and_without_an_adm_at_the_receiver(live: Live, protocol: str, word: str) -> None:
    different = {}
    for way in WAYS[protocol]:
        alone, behind = (live.ask(receiver, protocol, way, word) for receiver in ("alone", "behind"))
        if alone != behind:
            different[way] = (alone, behind)
    assert not different


@pytest.mark.parametrize("word", WORDS)
def test_no_service_behind_an_adm_can_look_like_one_that_cannot_be_reached(live: Live, word: str) -> None:
    for protocol, statuses in (("http", ("200", "500", "503")), ("h2c", ("200", "503")), ("grpc", ("0", "13", "14"))):
        for status in statuses:
            plain, forged = (live.ask("behind", protocol, way, word) for way in (status, f"forged_{status}"))
            assert plain == forged


def test_a_caller_without_an_adm_sees_the_mark(tmp_path: Path) -> None:
    text = (
        "service a { http 8000 }\nservice b { http 8001 }\ncall a -> b\n@ingress\npolicy p = request_count() on a -> b"
    )
    with running(text, tmp_path, without=("b",)) as live:
        reply = live.call("a", "b")
        assert reply.status == 503
        (mark,) = reply.header(FAILED)
        assert mark.startswith("upstream_reset_before_response_started{remote_connection_failure")


SPLIT: Final = (
    "service caller { http 8000 }\n"
    "service alone, behind { http web 8001  grpc rpc 8002 }\n"
    "call caller -> alone:web, alone:rpc, behind:web, behind:rpc\n"
    + "".join(
        f"policy on_{word} = retry(attempts: {ATTEMPTS}, on: [{word}], backoff: 1ms) "
        f'on caller -> alone when path == "/{word}/Call"\n'
        for word in WORDS
    )
    + "policy web = split(to: behind:8001, percent: 100%) on caller -> alone:web\n"
    + "policy rpc = split(to: behind:8002, percent: 100%) on caller -> alone:rpc\n"
    + "@ingress\npolicy seen = request_count() on * -> behind\n"
)


def test_the_target_of_a_split_is_asked_as_often_as_a_service_without_an_adm(live: Live, tmp_path: Path) -> None:
    with bed(tmp_path, SPLIT) as split:
        for protocol, word in itertools.product(("h2c", "grpc"), ("unavailable", "reset", "refused_stream")):
            for way in ("reset_after", "refused", "garbage"):
                alone, behind = (each.ask("alone", protocol, way, word) for each in (live, split))
                assert alone == behind, (protocol, word, way)


def test_another_on_is_another_route_table_and_nothing_else() -> None:
    text = "service a, b { http 8001 }\ncall a -> b\npolicy again = retry(on: [%s], attempts: 2) on a -> b"
    found = []
    for on in ("unavailable", "reset", "internal, connect_failure"):
        program, placement = load(text % on)
        (adm,) = emit(program, placement, loopback(program), Mode.EXPLICIT)
        found.append(adm)
    first, *others = found
    for other in others:
        assert (first.listeners, first.clusters, first.extensions) == (
            other.listeners,
            other.clusters,
            other.extensions,
        )
        assert first.routes != other.routes


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_listener_of_a_receiver_says_what_failed_whatever_its_policies_are(protocol: str) -> None:
    text = f"service a {{ http 8000 }}\nservice b {{ {protocol} 8001 }}\ncall a -> b\n@ingress\npolicy p = %s on a -> b"
    for policy in (
        "request_count()",
        "deny()",
        "circuit_breaking(max_requests: 3)",
        "rate_limit(requests: 1, per: 1s)",
    ):
        program, placement = load(text % policy)
        (adm,) = emit(program, placement, loopback(program), Mode.EXPLICIT)
        (listener,) = adm.listeners.values()
        assert FAILED in str(listener)
        (table,) = adm.routes.values()
        assert FAILED in table.virtual_hosts[0].response_headers_to_remove  # type: ignore[attr-defined]


# ---- ejections ----

ERRORS_IN_A_ROW: Final = 3
EJECTION: Final = f"""
service caller {{ http 8000 }}
service alone, behind {{ http web 8001  grpc rpc 8002 }}
call caller -> alone:web, alone:rpc, behind:web, behind:rpc
policy cut = outlier_detection(
  consecutive_errors: {ERRORS_IN_A_ROW}, interval: 20ms, ejection: 400ms, max_ejected: 100%
) on caller -> {{alone, behind}}
@ingress
policy seen = request_count() on * -> behind
"""
NO_ERRORS: Final = ("429", "8")
ERRORS: Final = {
    "http": ("reset_before", "reset_after", "garbage", "500", "503", "429"),
    "h2c": ("refused", "stream_reset", "goaway", "no_status"),
    "grpc": ("reset_after", "refused", "stream_reset", "no_status", "13", "14", "8"),
}


@pytest.fixture(scope="module")
def ejecting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with bed(tmp_path_factory.mktemp("ejections"), EJECTION) as found:
        yield found


@pytest.mark.parametrize("protocol", WAYS)
def test_an_ejection_counts_the_same_with_and_without_an_adm_at_the_receiver(ejecting: Live, protocol: str) -> None:
    well = CODES[0] if protocol == "grpc" else STATUSES[0]
    for receiver, way in itertools.product(("alone", "behind"), ERRORS[protocol]):
        place = f"{receiver}_{PORTS[protocol]}"
        counter = f"cluster.egress/{place}/cut.outlier_detection.ejections_enforced_consecutive_5xx"

        def ask(way: str, times: int, receiver: str = receiver) -> set[str]:
            return {str(ejecting.ask(receiver, protocol, way, "x").status) for _ in range(times)}

        def ejections(counter: str = counter) -> int:
            return ejecting.count(counter)

        soon(lambda: ask(well, 1) == {well})
        before = ejections()
        ask(way, ERRORS_IN_A_ROW - 1)
        assert ask(well, 1) == {well}, (receiver, way)
        ask(way, ERRORS_IN_A_ROW)
        if way in NO_ERRORS:
            time.sleep(0.3)
            assert ejections() == before, (receiver, way)
        else:
            soon(lambda: ejections() == before + 1)  # noqa: B023


def table(live: Live) -> Iterator[str]:
    """Lines of Markdown: attempts and status of each word and way, directly and behind an ADM."""
    for protocol, ways in WAYS.items():
        yield f"\n{protocol}, attempts and status: directly, behind an ADM\n"
        yield f"| fails by | {' | '.join(WORDS)} |"
        yield "|---" * (len(WORDS) + 1) + "|"
        for way in ways:
            cells = []
            for word in WORDS:
                alone, behind = (live.ask(receiver, protocol, way, word) for receiver in ("alone", "behind"))
                shown = [f"{each.attempts or each.repeats + 1} {each.status}" for each in (alone, behind)]
                cells.append(shown[0] if alone == behind else " / ".join(shown) + " DIFFERENT")
            yield f"| {way} | {' | '.join(cells)} |"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, bed(Path(folder)) as found:
        for line in table(found):
            sys.stdout.write(line + "\n")
