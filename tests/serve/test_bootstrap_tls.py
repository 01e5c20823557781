"""Real Envoys connect to `admc serve` over TLS with emitted bootstraps, and use renewed files."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from admc.__main__ import main
from admc.serve.auth.tokens import LEEWAY
from admc.testbed.envoys import Envoys, envoy_binary
from tests.serve.pki import Authority
from tests.serve.server_process import served
from tests.serve.test_identity import RSA, jwk, signed, written
from tests.testbed.ports import server_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.server_process import Served

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

NAME = "admc.admc-system.svc"
PROGRAM = """
app shop

service web    { http 8080  namespace shop }
service search { http 8081  namespace shop }

call web -> search

@ingress
policy tier = set_request_header(name: "x-tier", value: "silver") on web -> search
"""
OWN = "spiffe://cluster.local/ns/shop/sa/search"
PORT = server_port()
SECONDS = (3.0, 30.0, 120.0)
"""How long a token holds by itself: a longer one for a slower machine. It may be used for as long as clocks may differ
besides."""


def renew(folder: Path, **files: bytes) -> None:
    """As Kubernetes does: new files in a new folder, and one link that is moved into place."""
    version = folder / f"..{time.monotonic_ns()}"
    version.mkdir(parents=True)
    for name, content in files.items():
        (version / name).write_bytes(content)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..next").symlink_to(version.name)
    (folder / "..next").replace(folder / "..data")


def emitted(folder: Path, *options: str) -> Path:
    program = folder / "policies.adm"
    program.write_text(PROGRAM)
    server = ["--xds", f"127.0.0.1:{PORT}", "--xds-name", NAME, "--xds-ca", f"{folder}/own/ca"]
    assert main(["compile", str(program), "--emit", str(folder / "out"), *server, *options]) == 0
    return folder / "out" / "search" / "bootstrap-xds.yaml"


def nodes(server: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.status()["adms"][0]["nodes"] if server.status()["adms"] else []
    return found


def in_sync(server: Served, identity: str) -> bool:
    return [each["identity"] for each in nodes(server)] == [identity] and bool(server.status()["adms"][0]["in_sync"])


def until_in_sync(server: Served, identity: str) -> None:
    server.until(lambda: in_sync(server, identity))


def test_certificates_of_both_ends_are_renewed_without_a_restart(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--xds-cert", f"{tmp_path}/own/cert", "--xds-key", f"{tmp_path}/own/key")
    bootstrap = emitted(tmp_path, *files)
    options = ("--mode", "explicit", "--tls-cert", "server.crt", "--tls-key", "server.key", "--tls-client-ca", "ca.crt")

    def issued() -> None:
        """New certificates of unknown authorities."""
        servers, clients = Authority("servers"), Authority("clients")
        servers.issue(dns=(NAME,)).write(tmp_path, "server")
        (tmp_path / "ca.crt").write_bytes(clients.certificate)
        pair = clients.issue(OWN)
        renew(tmp_path / "own", ca=servers.certificate, cert=pair.certificate, key=pair.key)

    issued()
    assert ENVOY is not None
    with ExitStack() as stack:
        envoys = stack.enter_context(Envoys(tmp_path / "logs", ENVOY))
        for first in (True, False):
            if not first:
                issued()
            with served(tmp_path, "policies.adm", *options, xds=f"127.0.0.1:{PORT}", plaintext=False) as server:
                server.until_event("compiled")
                if first:
                    envoys.start({"search": bootstrap})
                until_in_sync(server, OWN)
                assert [each["id"] for each in nodes(server)] == [envoys.running["search"].node]
                assert server.stop() == 0


def test_a_token_is_sent_and_renewed_without_a_restart(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = Authority("servers")
    servers.issue(dns=(NAME,)).write(tmp_path, "server")
    keys = written(tmp_path, jwk(RSA.public_key(), kid="one"))
    bootstrap = emitted(tmp_path, "--xds-token", f"{tmp_path}/token/token")
    renew(tmp_path / "own", ca=servers.certificate)
    options = ("--mode", "explicit", "--tls-cert", "server.crt", "--tls-key", "server.key")
    tokens = ("--token-keys", str(keys), "--token-audience", "admc")
    subject = "system:serviceaccount:shop:search"
    assert ENVOY is not None
    with ExitStack() as stack:
        server = stack.enter_context(
            served(tmp_path, "policies.adm", *options, *tokens, xds=f"127.0.0.1:{PORT}", plaintext=False)
        )
        server.until_event("compiled")
        envoys = stack.enter_context(Envoys(tmp_path / "logs", ENVOY))
        for seconds in SECONDS:
            until = time.time() + seconds
            renew(tmp_path / "token", token=signed(exp=until).encode())
            if not envoys.running:
                envoys.start({"search": bootstrap})
            server.until(lambda until=until: in_sync(server, subject) or time.time() > until + LEEWAY, 300)  # type: ignore[misc]
            if in_sync(server, subject):
                break
        assert in_sync(server, subject) or time.time() < until + LEEWAY, "the machine is too slow for any token"

        # The stream ends when its token expires, and the next one begins with the current token.
        renew(tmp_path / "token", token=signed(exp=time.time() + 3600.0).encode())
        server.until(lambda: time.time() > until + LEEWAY + 2.0 and bool(nodes(server)))
        until_in_sync(server, subject)
        assert 'admc_xds_streams_total{why="unauthenticated"}' in server.get("/metrics")[1].lower()
        assert signed().encode()[:20] not in (tmp_path / "serve.log").read_bytes()


WRONG = {
    "no folder": (["--xds", "a:1"], "needs `--emit DIR`"),
    "no server": (["--emit", "out", "--xds-ca", "/ca"], "needs `--xds HOST:PORT`"),
    "no port": (["--emit", "out", "--xds", "a"], "needs a host and a port"),
    "no TLS": (["--emit", "out", "--xds", "a:1", "--xds-token", "/t"], "`--xds-token` is for TLS"),
    "no key": (["--emit", "out", "--xds", "a:1", "--xds-ca", "/ca", "--xds-cert", "/c"], "go together"),
    "both": (
        [
            *[
                "--emit",
                "out",
                "--xds",
                "a:1",
                "--xds-ca",
                "/ca",
                "--xds-cert",
                "/c",
                "--xds-key",
                "/k",
                "--xds-token",
                "/t",
            ]
        ],
        "a certificate or a token, not both",
    ),
    "part of a path": (["--emit", "out", "--xds", "a:1", "--xds-ca", "ca"], "needs the absolute path of a file"),
    "a script": (
        ["--emit", "out", "--xds", "a:1", "--xds-ca", "/ca", "--xds-token", '/t"'],
        "needs the absolute path of a file",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_options_that_do_not_go_together_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies.adm").write_text(PROGRAM)
    options, words = WRONG[name]
    assert main(["compile", "policies.adm", *options]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
