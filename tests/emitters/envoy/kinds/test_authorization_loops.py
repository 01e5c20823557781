"""The check of questions without an end, on the real Envoy: with it off, one request asks hundreds of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.testbed.client import Request
from dsl.diagnostics.diagnostic import ProgramError
from tests.emitters.envoy.support import ENVOY, load, running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

APP = "service web, api, authz, judge { http 8080 }\ncall web -> api\n"
LOOPS = {
    "itself": "policy p = external_authorization(service: authz, timeout: 2s) on * -> *\n",
    "two": "policy p = external_authorization(service: authz, timeout: 2s) on * -> api, judge\n"
    "policy q = external_authorization(service: judge, timeout: 2s) on * -> authz\n",
}
MENDED = {
    "itself": "policy p = external_authorization(service: authz) on * -> * except authz\n",
    "two": "policy p = external_authorization(service: authz) on * -> api, judge except judge\n"
    "policy q = external_authorization(service: judge) on * -> authz\n",
}


@pytest.mark.parametrize("name", LOOPS)
def test_questions_about_questions_do_not_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProgramError, match="ADM420"):
        load(APP + LOOPS[name])
    monkeypatch.setattr("dsl.resolve.resolver.check_callouts", lambda *_: None)
    with running(APP + LOOPS[name], tmp_path) as app:
        assert app.call("web", "api").status == 403
        assert app.envoys.running["authz"].stats()["http.ingress/8080.downstream_rq_total"] > 20, (
            "in 2 s, on a busy machine"
        )


@pytest.mark.parametrize("name", MENDED)
def test_what_the_hint_says_asks_once(name: str, tmp_path: Path) -> None:
    with running(APP + MENDED[name], tmp_path) as app:
        assert app.call("web", "api", Request(headers=(("x-echo-id", name),))).status == 200
        # What `q` is about is a question of `p`: it is asked about once, too.
        asked = ["authz"] if name == "itself" else ["judge", "authz"]
        assert [seen.service for seen in app.echo.record.of(name)] == [*asked, "api"]
