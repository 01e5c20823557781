"""Rules and Envoy together, where the networks of outside parties overlap with those of services.

The mesh of `tests/testbed` has no such networks; all other captured traffic is compared in `tests/fidelity/mesh`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dsl
from admc.testbed.envoys import LAUNCHER
from emitters.addresses import Addresses, ServiceAddresses
from emitters.envoy import Mode
from emitters.interception.tables import Family
from emitters.output import files
from solver.place import place
from tests.emitters.interception.namespaces import ELSEWHERE, NEEDS_ROOT, NODE, OTHER_POD, POD, SERVICE, Pair
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from collections.abc import Iterator

ENVOY = shutil.which("envoy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
pytestmark = [NEEDS_MESH, NEEDS_ROOT]

TEXT = """\
app sample
external internet { cidr "10.77.0.0/24"  cidr "fd77::/64" }
external office { http 82  cidr "10.77.0.0/16"  cidr "fd77::/16" }
external feed { http 83  host "feed.example" }
service front { http 80 -> 8080 }
service near { http 82 }
service far { http 83 }
call internet -> front
call front -> office, feed
policy tag_in = set_request_header(name: "x-in", value: "yes") on * -> front
policy tag_out = set_request_header(name: "x-out", value: "yes") on front -> {office, feed}
pin tag_in at ingress
pin tag_out at egress
"""
OWN_SERVICE = {Family.IPV4: "10.77.9.1", Family.IPV6: "fd77:9::1"}


def _both(*places: dict[Family, str]) -> tuple[str, ...]:
    return tuple(sorted(place[family] for place in places for family in Family))


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    program = dsl.load_text(TEXT)
    addresses = Addresses(
        services={
            "front": ServiceAddresses(_both(OWN_SERVICE), _both(POD)),
            "near": ServiceAddresses(_both(SERVICE), _both(OTHER_POD)),
            "far": ServiceAddresses(_both(SERVICE)),
        },
        externals={"internet": ("10.77.0.0/24", "fd77::/64")},
    )
    folder = tmp_path_factory.mktemp("mesh")
    for name, content in files(program, place(program), addresses, Mode.REDIRECT).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert ENVOY is not None
    with Pair(folder) as pair:
        pair.in_pod("sh", str(folder / "front" / "interception.sh"), "apply")
        command = ["ip", "netns", "exec", pair.pod, sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
        command += [ENVOY, "-c", str(folder / "front" / "bootstrap.yaml")]
        options = ["--base-id", str(os.getpid() % 60_000 + 1), "--concurrency", "1", "-l", "warn"]
        log = (folder / "envoy.log").open("w")
        envoy = subprocess.Popen([*command, *options], stdout=log, stderr=subprocess.STDOUT)
        try:
            for family in Family:
                _echo(pair, pair.pod, family, 8080)
                for port in (82, 83):
                    _echo(pair, pair.world, family, port)
                _until_ready(pair, family, envoy, folder / "envoy.log")
            yield pair
        finally:
            envoy.kill()
            envoy.wait()
            log.close()


def _until_ready(pair: Pair, family: Family, envoy: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(100):
        assert envoy.poll() is None, log.read_text()
        try:
            pair.connect(pair.world, family, POD[family], 8080).close()
        except ConnectionRefusedError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"envoy does not listen: {log.read_text()}")


def _echo(pair: Pair, namespace: str, family: Family, port: int) -> None:
    """A server that answers each request with the request that it got, and the address of its sender."""
    listener = pair.listen(namespace, family, port)
    listener.settimeout(None)

    def answer() -> None:
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            with connection:
                asked = b""
                while b"\r\n\r\n" not in asked and (more := connection.recv(4096)):
                    asked += more
                body = asked.lower() + f"peer: {peer[0]}".encode()
                head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
                connection.sendall(head.encode() + body)

    threading.Thread(target=answer, daemon=True).start()


def _ask(pair: Pair, namespace: str, family: Family, address: str, port: int) -> str:
    with pair.connect(namespace, family, address, port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: anything\r\nconnection: close\r\n\r\n")
        answered = b""
        while more := client.recv(4096):
            answered += more
    assert answered.startswith(b"HTTP/1.1 200"), answered
    return answered.decode()


@pytest.fixture(params=list(Family))
def family(request: pytest.FixtureRequest) -> Family:
    chosen: Family = request.param
    return chosen


@pytest.mark.parametrize(("places", "port"), [(ELSEWHERE, 82), (NODE, 82), (ELSEWHERE, 83)])
def test_an_outside_party_has_the_connections_to_unknown_addresses(
    mesh: Pair, family: Family, places: dict[Family, str], port: int
) -> None:
    assert "x-out: yes" in _ask(mesh, mesh.pod, family, places[family], port)


@pytest.mark.parametrize(("places", "port"), [(SERVICE, 82), (OTHER_POD, 82), (SERVICE, 83)])
def test_a_service_inside_an_outside_party_is_not_the_outside_party(
    mesh: Pair, family: Family, places: dict[Family, str], port: int
) -> None:
    answered = _ask(mesh, mesh.pod, family, places[family], port)
    assert "x-out" not in answered
    assert "host: anything" in answered
