"""The operator's commands reach a running server, and nothing else does."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import threading
from typing import TYPE_CHECKING

import pytest

from admc.__main__ import main
from admc.base.exits import CommandError
from admc.serve.rollout.model import StepName
from tests.serve.always_ack import Agreeing, at, begun, close_all, following, hasten, planned
from tests.serve.server_process import served
from tests.serve.test_server import PROGRAM, folder, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["folder"]

NEWER = PROGRAM.replace("gold", "silver")


@pytest.mark.long
def test_an_abort_goes_back_and_stays_until_it_is_continued(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def command(*words: str, exits: int = 0) -> str:
        assert main(["rollout", *words, "--server", f"http://{server.ops}"]) == exits
        out, errors = capsys.readouterr()
        assert bool(out) is not bool(errors)
        return (errors or out).strip()

    def states() -> list[str]:
        return [event["state"][:8] for event in server.events("compiled")]

    with served(folder, "policies.adm", "--endpoints", "endpoints.json", "--state", "state") as server:
        server.until_event("compiled")
        (first,) = states()
        assert command("status") == f"`shop`: nothing is under way, and the active state is {first}"
        before = server.status()["adms"][0]["wanted"]
        write(folder / "policies.adm", NEWER)
        server.until(lambda: server.status()["adms"][0]["wanted"] != before)
        server.until(lambda: len(states()) == 2)
        second = states()[1]
        after = server.status()["adms"][0]["wanted"]
        aborted = f"`shop`: state {second} is aborted, and proxies go back to state {first}"
        goes_on = "a newer plan or `admc rollout continue` goes on"
        assert command("abort") == f"{aborted}; {goes_on}"
        assert server.status()["adms"][0]["wanted"] == before
        waits = f"the way back to state {first} waits for `web`: 0 of 1 proxies are connected"
        assert command("status") == f"`shop`: state {second} is aborted; {waits}; {goes_on}"
        assert command("abort", exits=1) == (
            f"error[ADM856]: the server did not abort the rollout\n  = because: state {second} is aborted already\n"
            "  = hint: `admc rollout status` shows what is under way\n\n1 error"
        )
        assert [event["command"] for event in server.events("rollout_command")] == ["abort"]
        server.stop()
    with served(folder, "policies.adm", "--endpoints", "endpoints.json", "--state", "state") as server:
        server.until_event("compiled")
        assert server.status()["adms"][0]["wanted"] == before
        assert command("continue") == f"`shop`: state {second} goes on"
        server.until(lambda: server.status()["adms"][0]["wanted"] == after)
        assert command("status").startswith("`shop`: the new plan is not in force everywhere yet")
        assert "because: no plan is aborted" in command("continue", exits=1)


@pytest.mark.long
def test_a_command_that_has_nothing_to_do_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        for command, cause in (
            ("abort", "no rollout is under way that could be taken back"),
            ("continue", "no plan is aborted"),
        ):
            assert main(["rollout", command, "--server", f"http://{server.ops}"]) == 1
            out, errors = capsys.readouterr()
            assert not out
            assert f"error[ADM856]: the server did not {command} the rollout\n  = because: {cause}\n" in errors
        assert not server.events("rollout_command")


def test_a_rollout_that_a_newer_plan_takes_back_is_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch)
    server = Agreeing()

    async def run() -> None:
        rollout = await begun(server, planned(tmp_path, "ingress"), None)
        async with following(rollout) as until:
            await rollout.accept(planned(tmp_path, "egress"))
            await until(lambda: at(rollout) == StepName.SENDERS)
            server.refuses = True
            server.declined = {each.version for name in server.groups if (each := server.store.current(name))}
            await rollout.accept(planned(tmp_path, "egress", "bronze"))
            assert rollout.state is not None
            assert rollout.state.back
            with pytest.raises(CommandError, match="did not continue") as caught:
                await rollout.continue_()
            assert caught.value.diagnostics[0].cause == "no plan is aborted"
            assert rollout.state.back
            assert (await rollout.abort()).endswith("`admc rollout continue` goes on")
            with pytest.raises(CommandError, match="did not abort"):
                await rollout.abort()
            assert (await rollout.continue_()).endswith(" goes on")

    asyncio.run(run())
    close_all()


@pytest.mark.long
def test_a_command_before_the_first_plan_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "policies.adm", "half of")
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("no_state_yet")
        assert main(["rollout", "abort", "--server", f"http://{server.ops}"]) == 1
        assert "because: no plan has been published yet" in capsys.readouterr().err
        assert main(["rollout", "--server", f"http://{server.ops}"]) == 0
        assert "ADM" not in (shown := capsys.readouterr().out)
        assert shown.strip()


@pytest.mark.parametrize("action", ["status", "abort", "continue"])
@pytest.mark.parametrize(
    ("server", "code"),
    [("http://127.0.0.1:9", "ADM823"), ("/run/admc.sock", "ADM801"), ("ftp://127.0.0.1", "ADM801")],
)
def test_a_server_that_cannot_be_reached_is_named(
    capsys: pytest.CaptureFixture[str], action: str, server: str, code: str
) -> None:
    assert main(["rollout", action, "--server", server]) == 1
    out, errors = capsys.readouterr()
    assert not out
    assert f"error[{code}]" in errors
    assert f"`{server}`" in errors


@pytest.mark.parametrize("action", ["status", "abort"])
def test_another_http_server_is_not_taken_for_admc(capsys: pytest.CaptureFixture[str], action: str) -> None:
    with other_server() as address:
        assert main(["rollout", action, "--server", address]) == 1
        assert f"error[ADM8{23 if action == 'status' else 24}]" in capsys.readouterr().err


@contextlib.contextmanager
def other_server() -> Iterator[str]:
    """It answers each request with 501."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.long
def test_only_a_client_that_means_it_commands(folder: Path) -> None:
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        for method, kind, status in (
            ("GET", "application/json", 405),
            ("POST", "text/plain", 415),
            ("POST", "application/x-www-form-urlencoded", 415),
            ("POST", "application/json", 409),
        ):
            connection = http.client.HTTPConnection(server.ops, timeout=10)
            connection.request(method, "/rollout/abort", headers={"Content-Type": kind})
            assert connection.getresponse().status == status
            connection.close()
