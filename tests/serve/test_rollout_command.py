"""The operator's commands reach a running server, and nothing else does."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

from admc.__main__ import main
from tests.serve.server_process import served
from tests.serve.test_server import PROGRAM, folder, write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

__all__ = ["folder"]

NEWER = PROGRAM.replace("gold", "silver")


def test_an_abort_goes_back_and_stays_until_it_is_continued(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def command(*words: str) -> str:
        assert main(["rollout", *words, "--server", f"http://{server.ops}"]) == 0
        return capsys.readouterr().out.strip()

    with served(folder, "policies.adm", "--endpoints", "endpoints.json", "--state", "state") as server:
        server.until_event("compiled")
        assert command("abort") == "nothing is under way"
        assert command("continue") == "nothing was aborted"
        before = server.status()["adms"][0]["wanted"]
        write(folder / "policies.adm", NEWER)
        server.until(lambda: server.status()["adms"][0]["wanted"] != before)
        after = server.status()["adms"][0]["wanted"]
        assert command("abort").startswith("back to plan ")
        assert server.status()["adms"][0]["wanted"] == before
        assert command("status").startswith("a plan was aborted")
        server.stop()
    with served(folder, "policies.adm", "--endpoints", "endpoints.json", "--state", "state") as server:
        server.until_event("compiled")
        assert server.status()["adms"][0]["wanted"] == before
        assert command("continue") == "the plan goes on"
        server.until(lambda: server.status()["adms"][0]["wanted"] == after)
        assert command("status").startswith("the new plan is not in force everywhere yet")


def test_only_a_client_that_means_it_commands(folder: Path) -> None:
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        for method, kind, status in (
            ("GET", "application/json", 405),
            ("POST", "text/plain", 415),
            ("POST", "application/x-www-form-urlencoded", 415),
            ("POST", "application/json", 200),
        ):
            connection = http.client.HTTPConnection(server.ops, timeout=10)
            connection.request(method, "/rollout/abort", headers={"Content-Type": kind})
            assert connection.getresponse().status == status
            connection.close()
