"""The one bootstrap of all pods: Envoy answers on the startup port when it has its configuration, and not before."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

import dsl
from emitters.addresses import Addresses, ServiceAddresses
from emitters.envoy import Mode, emit, passthrough
from emitters.envoy.bootstrap import pod
from emitters.envoy.messages.typed import to_json
from emitters.ports import INGRESS_PORT, PROBE_PORT, STARTUP_PORT, STOP_PORT
from solver.place import place
from tests.emitters.envoy.ads import Ads
from tests.emitters.envoy.pod_bed import NAME, TOKEN, envoy, get, until, write
from tests.emitters.envoy.support import ENVOY
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from emitters.envoy import AdmResources

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
PROGRAM = dsl.load_text("""\
app shop
service web    { http 80 }
service search { http 80 -> 8082  replicas 2 }
call web -> search
@ingress
policy quota = rate_limit(requests: 100, per: 1s) on web -> search
""")
ADDRESSES = Addresses(
    {
        "web": ServiceAddresses(("10.2.0.1", "fd02::1"), ("10.1.0.1", "fd01::1")),
        "search": ServiceAddresses(("10.2.0.2", "fd02::2"), ("10.1.0.2", "fd01::2")),
    }
)


def served() -> AdmResources:
    (found,) = emit(PROGRAM, place(PROGRAM), ADDRESSES, Mode.POD, waiting=True, by_chain=True)
    return found


def silent(seconds: float) -> bool:
    """Whether nothing answers for so long, neither at the startup port nor where connections are redirected to."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if get(STARTUP_PORT, "/ready") is not None or get(INGRESS_PORT, "/") is not None:
            return False
        time.sleep(0.1)
    return True


# Envoy by itself starts without its configuration after 15 s for clusters, and as long for listeners.
@pytest.mark.long
@pytest.mark.parametrize("seconds", [2.0, pytest.param(50.0, marks=pytest.mark.long)])
@pytest.mark.parametrize("withheld", [None, "listeners", "routes", "extensions"])
def test_envoy_has_started_when_it_is_configured(
    folder: Path, alone: None, withheld: str | None, seconds: float
) -> None:
    port = free_port()
    credentials = write(folder, port)
    with envoy(folder):
        if withheld is None:
            assert silent(seconds)
        else:
            with Ads(served(), port, credentials, withheld=(withheld,)) as partial:
                until(lambda: partial.node is not None)
                assert silent(seconds)
                assert partial.refused == []
        with Ads(served(), port, credentials) as whole:
            until(lambda: get(STARTUP_PORT, "/ready") is not None)
            assert get(STARTUP_PORT, "/ready") == (200, b"LIVE\n")
            assert get(STARTUP_PORT, "/ready", "::1") == (200, b"LIVE\n")
            answer = get(STARTUP_PORT, "/config_dump")
            assert answer is not None
            assert answer[0] == 404, "others see nothing there"
            assert whole.refused == []
            assert whole.node == ("search", "search-0")
            assert whole.tokens == [f"Bearer {TOKEN}"]
        assert get(STARTUP_PORT, "/ready") == (200, b"LIVE\n"), "a server that goes away ends nothing"


def test_an_adm_that_enforces_nothing_starts_at_once(folder: Path, alone: None) -> None:
    """It asks for its siblings, too, and a limit of theirs could come later."""
    port = free_port()
    credentials = write(folder, port)
    nothing = passthrough(PROGRAM, ADDRESSES, Mode.POD)
    assert nothing is not None
    began = time.monotonic()
    with Ads(nothing, port, credentials), envoy(folder):
        until(lambda: get(STARTUP_PORT, "/ready") == (200, b"LIVE\n"))
        assert time.monotonic() - began < 12, "it did not wait for an answer that does not come"


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_what_anyone_may_connect_to_keeps_no_connection_for_long(folder: Path, alone: None) -> None:
    """Neither one that says nothing, nor one with the beginning of a request."""
    port = free_port()
    credentials = write(folder, port)
    with Ads(served(), port, credentials), envoy(folder):
        until(lambda: get(STARTUP_PORT, "/ready") is not None)
        ports = (STARTUP_PORT, PROBE_PORT, STOP_PORT)
        opened = [socket.create_connection(("127.0.0.1", port), 30) for port in ports for _ in range(2)]
        for connection in opened[::2]:
            connection.sendall(b"GET / HTTP/1.1\r\nhost:")
        for connection in opened:
            with connection:
                while connection.recv(4096):
                    pass


def test_no_part_of_a_pods_configuration_needs_a_privilege() -> None:
    files = pod.pod_bootstrap(pod.server(NAME, 18000), ipv6=False)
    assert files.keys() == {"bootstrap.yaml", "xds-authority.yaml"}
    text = b"".join(files.values()).decode()
    assert "socket_options" not in text
    assert '"::"' not in text
    assert "/run/admc/config/ca.crt" in text
    assert "/run/admc/token/token" in text
    assert "/run/admc/config/xds-authority.yaml" in text
    for name in ("shop", "search", "node:"):
        assert name not in text, "it is the same for all services"
    resources = served()
    for kind in (resources.clusters, resources.listeners):
        for item in kind.values():
            assert "socket_options" not in str(to_json(item))


def test_what_the_ingress_listener_hands_over_has_an_address_of_its_own() -> None:
    clusters = {name: to_json(item) for name, item in served().clusters.items()}
    inbound = {name for name in clusters if name.startswith("ingress/")}
    assert len(inbound) == 2, "the port with a policy, and what passes through"
    both = {
        "source_address": {"address": "127.0.0.6", "port_value": 0},
        "extra_source_addresses": [{"address": {"address": "::6", "port_value": 0}}],
    }
    for name, cluster in clusters.items():
        assert cluster.get("upstream_bind_config") == (both if name in inbound else None)
    assert "siblings" in clusters
    one = Addresses(
        {name: ServiceAddresses(each.addresses[:1], each.pods[:1]) for name, each in ADDRESSES.services.items()}
    )
    (found,) = emit(PROGRAM, place(PROGRAM), one, Mode.POD)
    for name in inbound:
        bind = to_json(found.clusters[name])["upstream_bind_config"]
        assert bind == {"source_address": {"address": "127.0.0.6", "port_value": 0}}
