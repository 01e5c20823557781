"""Probes find each policy that a real Envoy enforces, and find that it is not enforced where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.compile.pipeline import compile_program
from admc.testbed.envoys import envoy_binary
from admc.testbed.findings import Outcome
from admc.testbed.loopback import LoopbackLayout
from admc.testbed.probes import PROBES
from admc.testbed.testbed import Testbed
from admc.testbed.trial import calls, policies

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("alone")
needs_envoy = pytest.mark.skipif(envoy_binary() is None, reason="there is no Envoy for this platform")

ADMITTING = ("allow",)
"""Kinds that declared callers do not notice."""

EVERYTHING = """
app everything
external internet
service web { http 18080 }
service api, copy, canary, locked { http 18080 }
service grpc-api, authz { grpc 19000 }
service db { tcp 15432 }
call internet -> web
call web -> api, copy, canary, locked, grpc-api, db
policy q1 = rate_limit(requests: 5, per: 60s) on internet -> web
policy l1 = access_log() on internet -> web
policy c1 = compression() on internet -> web
policy o1 = cors(origins: ["https://a.example"]) on internet -> web when path starts_with "/cors"
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


@needs_envoy
def test_probes_find_what_envoy_enforces(everything: LoopbackLayout) -> None:
    with Testbed(everything, envoy_binary()) as bed:
        call_rows = list(calls(bed, everything.placement))
        policy_rows = list(policies(bed, everything.placement))
    assert [row for row in call_rows if row.finding.outcome is not Outcome.ENFORCED] == []
    assert [row for row in policy_rows if row.finding.outcome is not Outcome.ENFORCED] == []


def test_probes_find_nothing_enforced_without_envoy(everything: LoopbackLayout) -> None:
    """The same requests without a proxy: a probe that finds its policy here would find it anywhere."""
    placement = replace(everything.placement, decisions=(), adms=(), closed=())
    bare = LoopbackLayout(everything.program, placement, everything.folder)
    with Testbed(bare, None, patience=1.0) as bed:
        rows = list(policies(bed, everything.placement))
    assert {row.kind for row in rows} >= {*PROBES, "rate_limit", "connection_rate_limit"} - {"jwt", "circuit_breaking"}
    admitting = [row for row in rows if row.kind in ADMITTING and row.sources == ("web",)]
    assert {row.finding.outcome for row in rows if row not in admitting} == {Outcome.NOT_ENFORCED}
    undeclared = [row for row in rows if row.kind == "allow" and row.sources != ("web",)]
    assert undeclared


def test_nothing_is_sent_when_the_time_is_over(everything: LoopbackLayout) -> None:
    placement = replace(everything.placement, decisions=(), adms=(), closed=())
    with Testbed(LoopbackLayout(everything.program, placement, everything.folder), None, until=0.0) as bed:
        rows = [*calls(bed, everything.placement), *policies(bed, everything.placement)]
        assert bed.record.all() == ()
    assert {row.finding.outcome for row in rows} == {Outcome.NOT_TRIED}
