"""`admc serve` over TLS with a real Envoy: configured as documented, renewed while it runs, closed to other clients."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import yaml
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from admc.__main__ import main
from admc.testbed.envoys import Envoys, envoy_binary
from tests.serve.pki import Authority, Pair
from tests.serve.server_process import served
from tests.serve.test_server import write
from xds_server.resources.types import LISTENER

if TYPE_CHECKING:
    from tests.serve.server_process import Served

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

PROGRAM = """
app shop

service web  { http 8080  namespace shop }
service cart { http 8081  namespace shop }

call web -> cart

policy tier = set_request_header(name: "x-tier", value: "silver") on web -> cart
"""
NAME = "admc.admc-system.svc"
ADMIN = "spiffe://cluster.local/ns/ops/sa/admin"
SERVERS = Authority("servers")
CLIENTS = Authority("clients")


def documented(folder: Path) -> dict[str, Any]:
    """The transport socket that the documentation shows, with the files of a folder."""
    text = (Path(__file__).parents[2] / "docs" / "identity.md").read_text()
    shown = text[text.index("```yaml\ntransport_socket:") :].split("```")[1].removeprefix("yaml\n")
    found: dict[str, Any] = yaml.safe_load(shown.replace("/run/identity", str(folder)))
    return found


def over_tls(emitted: Path, folder: Path, identity: Pair, port: int) -> Path:
    """An emitted bootstrap whose cluster of the server speaks TLS."""
    files = folder / "identity"
    files.mkdir()
    (files / "tls.crt").write_bytes(identity.certificate)
    (files / "tls.key").write_bytes(identity.key)
    (files / "ca.crt").write_bytes(SERVERS.certificate)
    content = yaml.safe_load(emitted.read_text())
    (cluster,) = [item for item in content["static_resources"]["clusters"] if item["name"] == "xds"]
    cluster.update(documented(files))
    address = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
    address["socket_address"]["port_value"] = port
    path = folder / "bootstrap.json"
    path.write_text(json.dumps(content))
    return path


def channel(server: Served, pair: Pair) -> grpc.Channel:
    credentials = grpc.ssl_channel_credentials(SERVERS.certificate, pair.key, pair.certificate)
    options = [("grpc.ssl_target_name_override", NAME), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.secure_channel(server.xds, credentials, options)


def clients_seen_by(server: Served, pair: Pair) -> list[str] | grpc.StatusCode:
    """The nodes that the client status service shows, or the reason why it shows none."""
    with channel(server, pair) as found:
        try:
            answer = csds_pb2_grpc.ClientStatusDiscoveryServiceStub(found).FetchClientStatus(
                csds_pb2.ClientStatusRequest(), timeout=60
            )
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return [config.node.cluster for config in answer.config]


def is_serving(server: Served, pair: Pair) -> bool:
    with channel(server, pair) as found:
        answer = health_pb2_grpc.HealthStub(found).Check(health_pb2.HealthCheckRequest(), timeout=60)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def test_an_envoy_over_tls_from_start_to_revocation(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(PROGRAM)
    assert main(["compile", str(program), "--emit", str(tmp_path / "out")]) == 0
    (host,) = [path.parent.name for path in (tmp_path / "out").glob("*/bootstrap-xds.yaml")]
    own = f"spiffe://cluster.local/ns/shop/sa/{host}"
    identities = tmp_path / "identities.json"
    identities.write_text(json.dumps({"services": {host: [own]}}))
    SERVERS.issue(dns=(NAME,)).write(tmp_path, "server")
    (tmp_path / "clients.crt").write_bytes(CLIENTS.certificate)
    admin, proxy = CLIENTS.issue(ADMIN), CLIENTS.issue(own)
    options = [
        "--mode", "explicit", "--tls-cert", "server.crt", "--tls-key", "server.key", "--tls-client-ca", "clients.crt",
        "--identities", "identities.json", "--admin", ADMIN,
    ]  # fmt: skip
    assert ENVOY is not None
    with ExitStack() as stack:
        server = stack.enter_context(served(tmp_path, "policies.adm", *options, plaintext=False))
        server.until_event("compiled")
        server.until(lambda: is_serving(server, admin))
        envoys = stack.enter_context(Envoys(tmp_path / "logs", ENVOY))
        port = int(server.xds.rpartition(":")[2])
        emitted = tmp_path / "out" / host / "bootstrap-xds.yaml"
        envoys.start({host: over_tls(emitted, tmp_path, proxy, port)})
        server.until(lambda: server.status()["adms"][0]["in_sync"])
        (node,) = server.status()["adms"][0]["nodes"]
        assert node["identity"] == own
        assert server.metric("admc_xds_connected_clients") == 1
        assert server.metric("admc_ready") == 1

        # The status that users see.
        capsys.readouterr()
        assert main(["status", "--server", f"http://{server.ops}", "--detailed-exitcode"]) == 0
        assert "1 ADM; 1 proxy" in capsys.readouterr().out
        assert clients_seen_by(server, admin) == [host]
        assert clients_seen_by(server, proxy) is grpc.StatusCode.PERMISSION_DENIED

        # A client with the same certificate and another `node.cluster` gets the same, and the server logs it.
        assert server.events("claims_another") == []
        with channel(server, proxy) as found:
            node = base_pb2.Node(id="strange", cluster="elsewhere")
            request = discovery_pb2.DiscoveryRequest(node=node, type_url=LISTENER)
            stream = ads_pb2_grpc.AggregatedDiscoveryServiceStub(found).StreamAggregatedResources(iter([request]))
            server.until_event("claims_another")
            stream.cancel()
        (event,) = server.events("claims_another")
        said = {key: event[key] for key in ("node", "claimed", "service", "identity")}
        assert said == {"node": "strange", "claimed": "elsewhere", "service": host, "identity": own}
        server.until(lambda: len(server.status()["adms"][0]["nodes"]) == 1)
        assert server.status()["adms"][0]["nodes"][0]["claimed"] == host

        # An invalid certificate changes nothing; a valid one is used. Neither affects the proxy.
        write(tmp_path / "server.crt", "half")
        server.until(lambda: server.metric("admc_tls_reload_errors_total") == 1)
        assert is_serving(server, admin)
        SERVERS.issue(dns=(NAME,)).write(tmp_path, "server")
        server.until(lambda: server.metric("admc_tls_reloads_total") == 1)
        assert is_serving(server, admin)

        # Errors in the identities file are reported and change nothing.
        for name in ("wep", "wip"):
            write(identities, json.dumps({"services": {name: []}}))
            server.until(lambda name=name: f"`{name}`" in server.status()["server"]["why"])
        assert server.status()["adms"][0]["in_sync"]
        assert not server.events("identities_read")

        # The proxy no longer has that identity: its stream ends, and a new one is denied.
        write(identities, '{"services": {}}')
        server.until(lambda: not server.status()["adms"][0]["nodes"])
        server.until(lambda: 'reason="unmapped"' in server.get("/metrics")[1])
        server.until_event("identities_read")
        assert server.status()["server"]["why"] == ""
        write(identities, json.dumps({"services": {host: [own]}}))
        server.until(lambda: server.status()["adms"][0]["in_sync"])
        assert server.stop() == 0


def test_a_second_server_at_the_tls_port_ends_with_an_error(tmp_path: Path, alone: None) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "admc", "serve", str(program), "--mode", "explicit", "--plaintext"]
    with served(tmp_path, "policies.adm", "--mode", "explicit") as server:
        for taken, xds, ops in ((server.xds, server.xds, "127.0.0.1:0"), (server.ops, "127.0.0.1:0", server.ops)):
            found = subprocess.run(
                [*command, "--xds", xds, "--ops", ops], capture_output=True, text=True, timeout=60, check=False
            )
            assert found.returncode == 1
            assert f"cannot listen at `{taken}`" in found.stderr
            assert "Traceback" not in found.stderr
