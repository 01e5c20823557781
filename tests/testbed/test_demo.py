"""The demo on programs other than its own, and proof that it can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.compile.pipeline import compile_program
from tests.testbed import demo, probes
from tests.testbed.bed import RunningBed
from tests.testbed.envoys import envoy_binary
from tests.testbed.findings import Outcome
from tests.testbed.observe import calls, policies
from tests.testbed.probes import PROBES
from tests.testbed.site import Site

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("alone")
needs_envoy = pytest.mark.skipif(envoy_binary() is None, reason="there is no Envoy for this platform")

ADMITTING = ("allow", "split", "mirror")
"""Kinds that some callers or requests do not notice."""

EVERYTHING = """
app everything
external internet
service web { http 18080 }
service api, copy, canary, locked { http 18080 }
service grpc-api { grpc 19000 }
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
policy x1 = connection_rate_limit(connections: 3, per: 60s) on * -> db
@ingress
policy y1 = allow(callers: [web]) on * -> db
"""


@pytest.fixture
def everything(tmp_path: Path) -> Site:
    path = tmp_path / "policies.adm"
    path.write_text(EVERYTHING)
    compiled = compile_program(path)
    return Site(compiled.program, compiled.placement, tmp_path / "out")


@needs_envoy
@pytest.mark.parametrize("name", ["online_boutique", "bookinfo"])
def test_the_demo_sees_every_policy_of_another_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main([f"examples/{name}/policies.adm"]) == 0
    output = capsys.readouterr().out
    assert "calls answered as declared" in output
    assert Outcome.UNSEEN.value not in output
    assert Outcome.HIDDEN.value not in output


@needs_envoy
def test_probes_see_what_envoy_enforces(everything: Site) -> None:
    with RunningBed(everything, envoy_binary()) as bed:
        call_rows = list(calls(bed, everything.placement))
        policy_rows = list(policies(bed, everything.placement))
    assert [row for row in call_rows if row.finding.outcome is not Outcome.SEEN] == []
    assert [row for row in policy_rows if row.finding.outcome is not Outcome.SEEN] == []


def test_probes_see_that_nothing_is_enforced_without_envoy(everything: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same traffic with nobody between: a probe that found its policy here would find it anywhere."""
    monkeypatch.setattr(probes, "PATIENCE", 1.0)  # nothing can come late where nothing comes
    placement = replace(everything.placement, decisions=(), adms=(), closed=())
    bare = Site(everything.program, placement, everything.folder)
    with RunningBed(bare, None) as bed:
        rows = list(policies(bed, everything.placement))
    assert {row.kind for row in rows} >= set(PROBES) - {"jwt", "circuit_breaking"} - set(ADMITTING)
    assert [row for row in rows if row.finding.outcome is Outcome.SEEN and row.kind != "allow"] == []
    strangers = [row for row in rows if row.kind == "allow" and row.sources != ("web",)]
    assert strangers
    assert {row.finding.outcome for row in strangers} == {Outcome.WRONG}


@needs_envoy
def test_the_demo_ends_with_1_where_a_port_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "policies.adm"
    program.write_text("app a\nservice web { http 18080 }\n")
    compiled = compile_program(program)
    with RunningBed(Site(compiled.program, compiled.placement, tmp_path / "out"), None):
        assert demo.main([str(program)]) == 1
    assert "the demo cannot run: the echo service of `web` cannot listen" in capsys.readouterr().out


def test_the_demo_shows_the_findings_of_a_wrong_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "policies.adm"
    program.write_text("service web { http 18080 }\n")
    if envoy_binary() is not None:
        assert demo.main([str(program)]) == 1
        assert "ADM" in capsys.readouterr().out
