"""Probes find each policy that a real Envoy enforces, and find that it is not enforced where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.compile.pipeline import compile_program
from admc.testbed import trial
from admc.testbed.client import Reply
from admc.testbed.envoys import envoy_binary
from admc.testbed.findings import DOUBT, STRANGER, ProbeFinding, ProbeOutcome, rejected, too_rare, tries
from admc.testbed.loopback import LoopbackLayout
from admc.testbed.probes import PROBES
from admc.testbed.testbed import Testbed
from admc.testbed.trial import LATE_TRIES, calls, policies

if TYPE_CHECKING:
    from pathlib import Path

alone = pytest.mark.usefixtures("alone")
needs_envoy = pytest.mark.skipif(envoy_binary() is None, reason="there is no Envoy for this platform")

ADMITTING = ("allow",)
"""Kinds that declared callers do not notice."""

EVERYTHING = """
app everything
external internet
service web { http 18080 }
service api, copy, canary, locked, strict { http 18080 }
service grpc-api, authz { grpc 19000 }
service db { tcp 15432 }
call internet -> web
call web -> api, copy, canary, locked, strict, grpc-api, db
policy q1 = rate_limit(requests: 5, per: 60s) on internet -> web
policy l1 = access_log() on internet -> web
policy c1 = compression() on internet -> web
policy o1 = cors(origins: ["https://*.a.example"]) on internet -> web when path starts_with "/cors"
policy b1 = buffer_limit(max: 1KB) on web -> api
policy h1 = set_request_header(name: "x-set", value: "one") on web -> api
policy h2 = add_request_header(name: "x-add", value: "two") on web -> api
policy h3 = remove_request_header(name: "x-remove") on web -> api
policy h4 = set_response_header(name: "x-set", value: "one") on web -> api
policy h5 = add_response_header(name: "x-add", value: "two") on web -> api
policy h6 = remove_response_header(name: "x-remove") on web -> api
policy p1 = rewrite_path(prefix: "/old/", to: "/new/") on web -> api when header("x-old") == "yes"
policy m1 = mirror(to: copy) on web -> api when header("x-copy") == "yes"
policy r1 = retry(attempts: 3) on web -> api when header("x-retry") == "yes"
policy t1 = timeout(after: 200ms) on web -> api when header("x-budget") == "yes"
policy s1 = split(to: canary, percent: 50%) on web -> api when header("x-canary") == "yes"
policy d1 = fault_delay(delay: 300ms) on web -> grpc-api when header("x-late") == "yes"
policy f1 = fault_abort(status: 503) on web -> grpc-api when header("x-fail") == "yes"
policy n1 = deny() on web -> locked
policy n2 = normal_paths() on web -> strict
policy a1 = allow(callers: [web]) on * -> grpc-api
policy u1 = request_count() on web -> grpc-api
policy e1 = external_authorization(service: authz) on web -> api when header("x-auth") == "yes"
policy x1 = connection_rate_limit(connections: 3, per: 60s) on * -> db
@ingress
policy y1 = allow(callers: [web]) on * -> db
"""


@pytest.fixture
def everything(tmp_path: Path) -> LoopbackLayout:
    path = tmp_path / "policies.adm"
    path.write_text(EVERYTHING)
    compiled = compile_program(path)
    return LoopbackLayout(compiled.program, compiled.placement, tmp_path / "out")


@pytest.mark.long
@needs_envoy
@alone
def test_probes_find_what_envoy_enforces(everything: LoopbackLayout) -> None:
    with Testbed(everything, envoy_binary()) as bed:
        call_rows = list(calls(bed, everything.placement))
        policy_rows = list(policies(bed, everything.placement))
    assert [row for row in call_rows if row.finding.outcome is not ProbeOutcome.ENFORCED] == []
    assert [row for row in policy_rows if row.finding.outcome is not ProbeOutcome.ENFORCED] == []


@pytest.mark.long
@alone
def test_probes_find_nothing_enforced_without_envoy(everything: LoopbackLayout) -> None:
    """The same requests without a proxy: a probe that finds its policy here would find it anywhere."""
    placement = replace(everything.placement, decisions=(), adms=(), closed=())
    bare = LoopbackLayout(everything.program, placement, everything.folder)
    with Testbed(bare, None, patience=1.0) as bed:
        rows = list(policies(bed, everything.placement))
    assert {row.kind for row in rows} >= {*PROBES, "rate_limit", "connection_rate_limit"} - {"jwt", "circuit_breaking"}
    admitting = [row for row in rows if row.kind in ADMITTING and row.sources == ("web",)]
    assert {row.finding.outcome for row in rows if row not in admitting} == {ProbeOutcome.NOT_ENFORCED}
    undeclared = [row for row in rows if row.kind == "allow" and row.sources != ("web",)]
    assert undeclared


SHARES = """
app shares
service web, api, copy, canary, other { http 18080 }
service db { tcp 15432 }
call web -> api, copy, canary, other, db
call api, copy, canary, other -> db
policy m1 = mirror(to: copy, percent: 10%) on web -> api when header("x-copy") == "yes"
policy s1 = split(to: canary, percent: 10%) on web -> api when header("x-canary") == "yes"
policy s2 = split(to: canary, percent: 0.001%) on web -> other when header("x-rare") == "yes"
policy f1 = fault_abort(status: 503, percent: 2%) on web -> api when header("x-fail") == "yes"
policy f2 = fault_abort(status: 200) on web -> api when header("x-well") == "yes"
@ingress
policy y1 = allow(callers: [web, api, copy, canary, other]) on * -> db
"""


@pytest.fixture
def shares(tmp_path: Path) -> LoopbackLayout:
    path = tmp_path / "policies.adm"
    path.write_text(SHARES)
    compiled = compile_program(path)
    return LoopbackLayout(compiled.program, compiled.placement, tmp_path / "out")


@needs_envoy
@alone
def test_a_small_share_is_found_and_one_that_may_not_show_is_not_judged(shares: LoopbackLayout) -> None:
    with Testbed(shares, envoy_binary()) as bed:
        rows = list(policies(bed, shares.placement))
    assert {row.policy for row in rows if row.finding.outcome is ProbeOutcome.NOT_OBSERVABLE} == {"s2"}
    assert {row.finding.outcome for row in rows if row.policy != "s2"} == {ProbeOutcome.ENFORCED}
    assert {row.sources for row in rows if row.policy == "y1"} >= {("web",), (STRANGER,)}


@pytest.mark.long
@alone
def test_a_small_share_and_an_unknown_address_are_missed_without_envoy(shares: LoopbackLayout) -> None:
    placement = replace(shares.placement, decisions=(), adms=(), closed=())
    with Testbed(LoopbackLayout(shares.program, placement, shares.folder), None, patience=0.2) as bed:
        rows = list(policies(bed, shares.placement))
    found = {row.policy: row.finding.outcome for row in rows if row.policy != "y1" or row.sources == (STRANGER,)}
    assert found == dict.fromkeys(("s1", "m1", "f1", "f2", "y1"), ProbeOutcome.NOT_ENFORCED) | {
        "s2": ProbeOutcome.NOT_OBSERVABLE
    }


@pytest.mark.parametrize("percent", [0.5, 1.0, 10.0, 50.0, 99.0])
def test_a_share_that_is_missing_is_no_chance(percent: float) -> None:
    assert (1 - percent / 100) ** tries(percent) <= DOUBT
    assert too_rare(percent, tries(percent)) is None
    assert too_rare(percent, tries(percent) - 1) is not None


@pytest.mark.parametrize("percent", [0.0, 0.001])
def test_a_share_that_hardly_shows_is_not_observable(percent: float) -> None:
    finding = too_rare(percent, 1500)
    assert finding is not None
    assert finding.outcome is ProbeOutcome.NOT_OBSERVABLE


TWO_PORTS = """
app ports
service web { http 18080 }
service api { http one 18080 -> 19000  http two 18081 -> 19000 }
call web -> api:one, api:two
policy h1 = set_request_header(name: "x-set", value: "one") on web -> api:one
policy h2 = set_request_header(name: "x-set", value: "two") on web -> api:two
"""


@needs_envoy
@alone
@pytest.mark.parametrize("side", ["ingress", "egress"])
def test_two_ports_of_a_service_may_lead_to_one_target(side: str, tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    path.write_text(TWO_PORTS.replace("policy", f"@{side}\npolicy"))
    compiled = compile_program(path)
    layout = LoopbackLayout(compiled.program, compiled.placement, tmp_path / "out")
    with Testbed(layout, envoy_binary()) as bed:
        rows = [*calls(bed, compiled.placement), *policies(bed, compiled.placement)]
    assert [row.finding.outcome for row in rows] == [ProbeOutcome.ENFORCED] * 4


@pytest.mark.parametrize(
    ("protocol", "reply", "expected"),
    [
        ("http", Reply(403), True),
        ("http", Reply(None, error="connection closed"), False),
        ("grpc", Reply(7, grpc=True), True),
        ("grpc", Reply(None, error="connection closed", grpc=True), False),
        ("grpc", Reply(14, grpc=True), False),
        ("tcp", Reply(None, error="connection closed"), True),
        ("tcp", Reply(None, error="connection refused"), False),
    ],
)
def test_a_broken_connection_is_a_rejection_for_tcp_alone(
    protocol: str, reply: Reply, expected: bool, everything: LoopbackLayout
) -> None:
    call = next(call for call in everything.program.calls if call.port.protocol.value == protocol)
    assert rejected(call, reply) is expected


@alone
def test_nothing_is_sent_when_the_time_is_over(everything: LoopbackLayout) -> None:
    placement = replace(everything.placement, decisions=(), adms=(), closed=())
    with Testbed(LoopbackLayout(everything.program, placement, everything.folder), None, until=0.0) as bed:
        rows = [*calls(bed, everything.placement), *policies(bed, everything.placement)]
        assert bed.record.all() == ()
    assert {row.finding.outcome for row in rows} == {ProbeOutcome.NOT_TRIED}


class SlowBed:
    """Counts the probes; the first `late` of them meet a timeout."""

    def __init__(self, late: int) -> None:
        self.late, self.timeouts, self.probes = late, 0, 0

    def probe(self) -> ProbeFinding:
        self.probes += 1
        self.timeouts += self.probes <= self.late
        return ProbeFinding(
            ProbeOutcome.NOT_ENFORCED if self.probes <= max(self.late, 1) else ProbeOutcome.ENFORCED, ""
        )

    def check(self, *, closely: bool = False) -> None:
        pass


@pytest.mark.parametrize(
    ("late", "probes", "outcome"),
    [
        (0, 1, ProbeOutcome.NOT_ENFORCED),
        (1, 2, ProbeOutcome.ENFORCED),
        (LATE_TRIES - 1, LATE_TRIES, ProbeOutcome.ENFORCED),
        (LATE_TRIES, LATE_TRIES, ProbeOutcome.NOT_ENFORCED),
    ],
)
def test_a_probe_that_meets_a_timeout_is_repeated(late: int, probes: int, outcome: ProbeOutcome) -> None:
    """A service of a busy machine may be late; without a timeout, the first finding counts."""
    bed = SlowBed(late)
    finding = trial._tried(bed, bed.probe)  # type: ignore[arg-type]
    assert (bed.probes, finding.outcome) == (probes, outcome)
