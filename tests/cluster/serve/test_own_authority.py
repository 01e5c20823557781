"""A server that makes its authority and certificate itself at a real API server, and real Envoys in a rotation."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.authority.authorities import RECORD, Authorities, advanced, from_data, to_data
from admc.kubernetes.cluster.authority.keeper import LOOK_SECONDS
from admc.kubernetes.cluster.authority.schedule import DAY, SHOWN_SECONDS, Step
from admc.kubernetes.inject.containers import CONFIG_FOLDER, TOKEN_FOLDER
from admc.testbed.envoys import LAUNCHER, envoy_binary
from emitters.interception.pod import PodCaptures
from emitters.ports import ADMIN_PORT, STARTUP_PORT
from tests.cluster.serve.installation import PROGRAM
from tests.cluster.serve.test_takeover import LONG
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.cluster.serve.installation import Installation
    from tests.serve.server_process import Served

AT_EGRESS = PROGRAM.replace("SIDE", "egress")
ENVOY = envoy_binary()
SOON = 2 * LOOK_SECONDS + 10


def secret_path(shop: Installation) -> str:
    return f"/api/v1/namespaces/{shop.system}/secrets/admc-{shop.name}-authority"


def secrets_named(shop: Installation) -> list[dict[str, Any]]:
    items = shop.api.request("GET", f"/api/v1/namespaces/{shop.system}/secrets")["items"]
    return [item for item in items if item["metadata"]["name"] == f"admc-{shop.name}-authority"]


def stored(shop: Installation) -> Authorities:
    data = shop.api.request("GET", secret_path(shop))["data"]
    return from_data({name: base64.b64decode(value) for name, value in data.items()})


def store(shop: Installation, authorities: Authorities) -> None:
    data = {name: base64.b64encode(value).decode() for name, value in to_data(authorities).items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"admc-{shop.name}-authority"}, "data": data}
    shop.api.apply(secret_path(shop), {**body, "type": "admc.dev/authority"})


def config_map(shop: Installation) -> Mapping[str, str]:
    path = f"/api/v1/namespaces/{shop.namespace}/configmaps"
    for item in shop.api.request("GET", path)["items"]:
        if item["metadata"]["name"] == f"admc-{shop.name}":
            data: Mapping[str, str] = item["data"]
            return data
    return {}


def shown(port: int, bundle: str) -> bytes:
    """The certificate that the server shows to a client that trusts these authorities. Raises `ssl.SSLError`."""
    context = ssl.create_default_context(cadata=bundle)
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        der = wrapped.getpeercert(binary_form=True)
    assert der is not None
    return ssl.DER_cert_to_PEM_cert(der).encode()


def check_no_key_in(log: str, *all_authorities: Authorities) -> None:
    assert "PRIVATE KEY" not in log
    for authorities in all_authorities:
        for name, content in to_data(authorities).items():
            if name.endswith(".key"):
                assert not any(line in log for line in content.decode().splitlines())


def test_the_authority_is_made_once_and_outlives_the_replica(shop: Installation) -> None:
    port = free_port()
    with shop.server(own_authority=True) as server:
        first = stored(shop)
        assert server.events("authority_step")[0]["step"] == "create"
        assert shown(shop.port, first.bundle) == first.serving.certificate_pem
        shop.program(AT_EGRESS)
        shop.until(lambda: config_map(shop).get("ca.crt") == first.bundle)
        with shop.server(own_authority=True, port=port, stands_by=True) as standby:
            standby.until_event("kept_state_ready")
            shop.api.request("DELETE", secret_path(shop))
            shop.until(lambda: secrets_named(shop), SOON)
            assert to_data(stored(shop)) == to_data(first)
            server.until_event("authority_renewed")
            server.stop(signal.SIGTERM)
            standby.listens()
            assert shown(port, first.bundle) == first.serving.certificate_pem
            standby.until(lambda: standby.events("compiled"), LONG)
            assert not standby.events("authority_step")
            check_no_key_in(server.log.read_text() + standby.log.read_text(), first)


class Envoy:
    """As a pod runs it, from a ConfigMap of the server, with ports of its own."""

    def __init__(self, shop: Installation, pod: str, files: Mapping[str, str], folder: Path) -> None:
        folder.mkdir()
        (folder / "token").write_text(shop.token(pod))
        # Envoy resolves `localhost` to ::1 first, where the server of the tests does not listen.
        own = {
            "address: localhost": "address: 127.0.0.1",
            str(ADMIN_PORT): str(free_port()),
            str(STARTUP_PORT): str(free_port()),
        }
        own |= {CONFIG_FOLDER: str(folder), TOKEN_FOLDER: str(folder)}
        for name, content in files.items():
            (folder / name).write_text(re.sub("|".join(own), lambda match: own[match[0]], content))
        command = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), str(ENVOY)]
        command += ["-c", str(folder / "bootstrap.yaml"), "--service-node", pod, "--service-cluster", "web"]
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"],
                stdout=log,
                stderr=log,
            )


@contextlib.contextmanager
def envoy(shop: Installation, pod: str, files: Mapping[str, str]) -> Iterator[Envoy]:
    running = Envoy(shop, pod, files, shop.folder / pod)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def node(server: Served, pod: str) -> dict[str, Any] | None:
    for adm in server.status()["adms"]:
        for row in adm["nodes"]:
            if row["id"] == pod and row["acknowledged"]:
                found: dict[str, Any] = row
                return found
    return None


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_envoys_keep_their_streams_through_a_rotation_and_new_ones_connect(shop: Installation) -> None:
    shop.pod("web-2", "web", "10.77.0.3", PodCaptures(frozenset(), frozenset({8081})))
    now, names = time.time(), ("localhost", f"admc-{shop.name}.{shop.system}.svc")
    names += (f"admc-{shop.name}-webhook.{shop.system}.svc",)
    old = advanced(None, Step.CREATE, shop.name, names, now - 250 * DAY)
    old = advanced(old, Step.RENEW, shop.name, names, now - DAY)
    store(shop, old)
    with shop.server(own_authority=True) as server:
        shop.program(AT_EGRESS)
        # The next authority is in the ConfigMaps, and the one before it signs.
        shop.until(lambda: config_map(shop).get("ca.crt", "").count("BEGIN CERTIFICATE") == 2)
        both = config_map(shop)
        assert shown(shop.port, both["ca.crt"]) == old.serving.certificate_pem
        with envoy(shop, "web-1", {**both, "ca.crt": old.bundle}):
            before = server.until(lambda: node(server, "web-1"))
            shop.until(lambda: stored(shop).next_shown is not None, SOON)

            # A day passes.
            data = to_data(stored(shop))
            record = json.loads(data[RECORD])
            data[RECORD] = json.dumps(record | {"next_shown": int(record["next_shown"] - SHOWN_SECONDS)}).encode()
            store(shop, from_data(data))
            server.until(lambda: server.events("certificate_renewed"), SOON)
            new = stored(shop)
            assert new.signer.certificate != old.signer.certificate
            assert shown(shop.port, both["ca.crt"]) == new.serving.certificate_pem
            with pytest.raises(ssl.SSLCertVerificationError):
                shown(shop.port, old.bundle)

            with envoy(shop, "web-2", both):
                server.until(lambda: node(server, "web-2"))
                shop.program(AT_EGRESS.replace("gold", "silver"))
                server.until(
                    lambda: (row := node(server, "web-1")) and row["in_sync"] and row["wanted"] != before["wanted"]
                )
                after = node(server, "web-1")
            assert after is not None
            assert (after["since"], after["address"]) == (before["since"], before["address"])
        steps = [event["step"] for event in server.events("authority_step")]
        assert steps == ["make_next", "note_shown", "promote"]
        assert server.metric("admc_tls_reloads_total") == 1
        assert server.metric("admc_tls_certificate_expiry_timestamp_seconds") > now + 29 * DAY
        check_no_key_in(server.log.read_text(), old, new)
