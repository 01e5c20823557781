"""Probes are exact, and say nothing where their verdict would depend on the speed of the machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from admc.compile.pipeline import compile_program
from admc.testbed import trial
from admc.testbed.client import Reply, Request
from admc.testbed.envoys import envoy_binary
from admc.testbed.findings import ProbeOutcome
from admc.testbed.loopback import LoopbackLayout
from admc.testbed.probes import faults, limits, resilience, telemetry
from admc.testbed.testbed import Testbed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PROGRAM = """
app shop
service web {{ http 18080 }}
service api, copy {{ http 18080 }}
call web -> api, copy
policy p = {policy} on web -> api
"""


def program_with(tmp_path: Path, policy: str) -> Any:
    path = tmp_path / "policies.adm"
    path.write_text(PROGRAM.format(policy=policy))
    return compile_program(path)


class Bucket:
    """A quota that is right, or not, in front of a machine that sends so many requests a second."""

    timeouts = 0

    def __init__(self, program: Any, burst: int, rate: float, sends: float, at_once: float) -> None:
        self.program = program
        self._burst, self._rate = burst, rate
        self._every, self._every_at_once = 1 / sends, 1 / at_once
        self.now = 0.0
        self.refill()

    def refill(self, *_: object) -> None:
        self._tokens, self._seen = float(self._burst), self.now

    def send(self, *_: object, **__: object) -> Reply:
        return self._reply(self._every)

    def concurrently(self, _: object, requests: Sequence[Request]) -> list[Reply]:
        return [self._reply(self._every_at_once) for _ in requests]

    def _reply(self, every: float) -> Reply:
        self.now += every
        self._tokens = min(self._burst, self._tokens + (self.now - self._seen) * self._rate)
        self._seen = self.now
        if self._tokens < 1:
            return Reply(429)
        self._tokens -= 1
        return Reply(200)


@pytest.mark.parametrize(
    ("requests", "bucket", "outcome"),
    [
        (5, (5, 5 / 60), ProbeOutcome.ENFORCED),
        (5, (4, 5 / 60), ProbeOutcome.NOT_ENFORCED),
        (5, (9, 5 / 60), ProbeOutcome.NOT_ENFORCED),
    ],
)
def test_a_slow_bucket_is_emptied_by_one_request_after_another(
    requests: int, bucket: tuple[int, float], outcome: ProbeOutcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_with(tmp_path, f"rate_limit(requests: {requests}, per: 60s)").program
    assert quota_of(program, Bucket(program, *bucket, 500, 2000), monkeypatch).outcome is outcome


def quota_of(program: Any, bed: Bucket, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(limits.time, "monotonic", lambda: bed.now)

    def sleep(seconds: float) -> None:
        bed.now += seconds

    monkeypatch.setattr(limits.time, "sleep", sleep)
    return limits.quota(bed, program.policies[0], [(program.calls[0], Request())])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("at_once", "bucket", "outcome"),
    [
        (5000, (10, 1000), ProbeOutcome.ENFORCED),
        (5000, (3, 100), ProbeOutcome.NOT_ENFORCED),
        (5000, (40, 10_000), ProbeOutcome.NOT_ENFORCED),
        (600, (10, 1000), ProbeOutcome.NOT_OBSERVABLE),
    ],
    ids=["right", "too small", "too large", "a machine that is too slow"],
)
def test_a_bucket_that_refills_faster_than_requests_are_sent(
    at_once: float, bucket: tuple[int, float], outcome: ProbeOutcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_with(tmp_path, "rate_limit(requests: 10, per: 10ms)").program
    finding = quota_of(program, Bucket(program, *bucket, 500, at_once), monkeypatch)
    assert finding.outcome is outcome
    if outcome is ProbeOutcome.NOT_OBSERVABLE:
        assert finding.observed.startswith("its bucket refills faster (10 in 10 ms) than requests can be sent here")


class Counting:
    """Each request is answered, and leaves so many lines, counts and copies."""

    timeouts = 0

    def __init__(self, program: Any, each: int, seconds: Callable[[int], float] = lambda _: 0.001) -> None:
        self.program = program
        self._each, self._seconds = each, seconds
        self._sent = 0
        self.record = self

    def send(self, *_: object, **__: object) -> Reply:
        self._sent += 1
        return Reply(200, body=ANSWER, seconds=self._seconds(self._sent))

    def of(self, _: str) -> list[Any]:
        class Seen:
            service = "copy"

        return [Seen()] * (self._each * min(self._sent, 1))

    def logged(self, *_: object) -> int:
        return self._sent * self._each

    counted = logged

    def allowance(self, *_: object) -> int:
        return 1000

    def wait(self, found: Callable[[], object], _: float | None = None) -> None:
        found()


ANSWER = b'{"service": "api", "port": 18080, "method": "GET", "path": "/", "headers": [], "body": ""}'


@pytest.mark.parametrize(("each", "right"), [(0, False), (1, True), (2, False), (3, False)])
@pytest.mark.parametrize(
    ("policy", "probe"),
    [
        ("access_log()", telemetry.log),
        ("request_count()", telemetry.count),
        ("mirror(to: copy)", resilience.mirror),
    ],
)
def test_one_line_one_count_and_one_copy(policy: str, probe: Any, each: int, right: bool, tmp_path: Path) -> None:
    program = program_with(tmp_path, policy).program
    finding = probe(Counting(program, each), program.policies[0], program.calls[0], Request())
    assert finding.outcome is (ProbeOutcome.ENFORCED if right else ProbeOutcome.NOT_ENFORCED), finding


class Late(Counting):
    """The line, or the count, of an earlier request comes while a probe waits."""

    _earlier = 0

    def logged(self, *_: object) -> int:
        return self._sent * self._each + self._earlier

    counted = logged

    def wait(self, found: Callable[[], object], _: float | None = None) -> None:
        self._earlier = 1
        found()


@pytest.mark.parametrize(("policy", "probe"), [("access_log()", telemetry.log), ("request_count()", telemetry.count)])
def test_a_late_line_of_an_earlier_request_does_not_count(policy: str, probe: Any, tmp_path: Path) -> None:
    program = program_with(tmp_path, policy).program
    finding = probe(Late(program, 1), program.policies[0], program.calls[0], Request())
    assert finding.outcome is ProbeOutcome.ENFORCED, finding


@pytest.mark.parametrize(
    ("policy", "seconds", "outcome"),
    [
        ("fault_delay(delay: 2ms)", 0.003, ProbeOutcome.NOT_OBSERVABLE),
        ("fault_delay(delay: 50ms)", 0.051, ProbeOutcome.ENFORCED),
        ("fault_delay(delay: 50ms)", 0.003, ProbeOutcome.NOT_ENFORCED),
        ("fault_delay(delay: 50ms, percent: 50%)", 0.060, ProbeOutcome.NOT_OBSERVABLE),
        ("fault_delay(delay: 300ms, percent: 50%)", 0.310, ProbeOutcome.ENFORCED),
    ],
)
def test_a_short_delay_is_not_judged(policy: str, seconds: float, outcome: ProbeOutcome, tmp_path: Path) -> None:
    program = program_with(tmp_path, policy).program
    bed: Any = Counting(program, 1, lambda _: seconds)
    assert faults.delay(bed, program.policies[0], program.calls[0], Request()).outcome is outcome


def test_one_late_answer_of_a_busy_machine_is_no_delay(tmp_path: Path) -> None:
    program = program_with(tmp_path, "fault_delay(delay: 50ms)").program
    bed: Any = Counting(program, 1, lambda number: 0.2 if number == 1 else 0.003)
    assert faults.delay(bed, program.policies[0], program.calls[0], Request()).outcome is ProbeOutcome.NOT_ENFORCED


@pytest.mark.long
@pytest.mark.skipif(envoy_binary() is None, reason="there is no Envoy for this platform")
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("policy", ["rate_limit(requests: 500, per: 100ms)", "rate_limit(requests: 20, per: 5ms)"])
def test_a_right_quota_of_a_real_envoy_is_never_called_wrong(policy: str, tmp_path: Path) -> None:
    compiled = program_with(tmp_path, policy)
    layout = LoopbackLayout(compiled.program, compiled.placement, tmp_path / "out")
    started = time.monotonic()
    with Testbed(layout, envoy_binary()) as bed:
        (row,) = trial.policies(bed, compiled.placement)
    assert row.finding.outcome in (ProbeOutcome.ENFORCED, ProbeOutcome.NOT_OBSERVABLE), row
    assert time.monotonic() - started < 60
