"""Names by chain, in a real Envoy: a listener whose chain changes keeps older connections on their own table."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import TYPE_CHECKING

import pytest
from google.protobuf import json_format

from admc.serve.compiling.snapshots import snapshot
from admc.testbed.echo import EchoServices, Endpoint
from admc.testbed.envoys import Envoys, envoy_binary
from dsl import load_text
from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.envoy import Mode, emit, passthrough
from emitters.envoy.bootstrap import xds_bootstrap
from solver.place import place
from tests.serve.rollout.envoy_bed import Server
from tests.testbed.callers import caller, http_connection, names_with_status, wait_for_answers
from tests.testbed.ports import free_port, program_port
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import LISTENER

if TYPE_CHECKING:
    from pathlib import Path

    from dsl.program import Program
    from emitters.envoy import AdmResources

ENVOY = envoy_binary()
DRAIN_SECONDS = 10
"""Envoy keeps the older version of a filter chain for so long, and then closes its connections."""
PORT = program_port()

PROGRAM = """
app chains
service shop { http web PORT  tcp plain 9090 }
service cart { http web PORT  tcp plain 9090 }
call shop -> cart:web, cart:plain
policy first = set_response_header(name: "x-first", value: "1") on shop -> cart:web
policy log   = access_log() on shop -> cart:plain
pin first at egress
pin log at egress
"""
CHANGED = (
    PROGRAM
    + """
policy second = set_response_header(name: "x-second", value: "1") on shop -> cart:web
policy limit  = connection_rate_limit(connections: 1000, per: 1s) on shop -> cart:plain
pin second at egress
pin limit at egress
"""
)


def program(text: str) -> Program:
    return load_text(text.replace("PORT", str(PORT)))


def emitted(text: str, addresses: Addresses) -> AdmResources:
    found = program(text)
    (made,) = emit(found, place(found), addresses, Mode.EXPLICIT, by_chain=True)
    return made


def with_older(new: Snapshot, old: Snapshot) -> Snapshot:
    """The new snapshot, with all of the old one that older connections may need."""
    older = [
        each
        for type_url, found in old.collections.items()
        for name, each in found.resources.items()
        if type_url != LISTENER and name not in new.of_type(type_url).resources
    ]
    newer = [each for found in new.collections.values() for each in found.resources.values()]
    return Snapshot.of([*newer, *older], elsewhere=new.elsewhere | old.elsewhere)


def test_a_changed_chain_has_names_of_its_own_and_changed_arguments_have_not() -> None:
    addresses = loopback(program(PROGRAM))
    old, new = emitted(PROGRAM, addresses), emitted(CHANGED, addresses)
    assert old.routes.keys().isdisjoint(new.routes)
    assert old.extensions.keys().isdisjoint(new.extensions)
    assert old.clusters.keys() == new.clusters.keys()
    other = emitted(PROGRAM.replace('value: "1"', 'value: "2"'), addresses)
    assert other.extensions.keys() == old.extensions.keys()
    assert other.listeners == old.listeners
    assert other.routes == old.routes
    assert other.extensions != old.extensions


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="needs Envoy")
def test_older_connections_keep_their_table_and_new_ones_have_theirs(tmp_path: Path, alone: None) -> None:
    assert ENVOY is not None
    addresses = loopback(program(PROGRAM))
    old, new = emitted(PROGRAM, addresses), emitted(CHANGED, addresses)
    own = addresses.service_addresses("cart")[0]
    web = Endpoint("cart", PORT, "http", own, PORT)
    plain = Endpoint("cart", 9090, "tcp", own, 9090)
    dialled = addresses.egress["shop", "cart"]
    server = Server()
    try:
        bootstrap = xds_bootstrap(old, ("127.0.0.1", server.port), admin=("127.0.0.1", free_port()))
        path = tmp_path / "shop.json"
        path.write_text(json_format.MessageToJson(bootstrap, preserving_proto_field_name=True))
        with (
            EchoServices((web, plain)),
            Envoys(tmp_path / "logs", ENVOY, ("--drain-time-s", str(DRAIN_SECONDS))) as envoys,
        ):
            first = snapshot(old)
            server.call(lambda: server.store.publish_all({"shop": first}))
            envoys.start({"shop": path})
            server.publish({"shop": first})
            envoy = envoys.running["shop"]

            def dial(port: int = PORT) -> socket.socket:
                return socket.create_connection((dialled, port), 10)

            kept = http_connection(dial)

            def headers() -> set[str]:
                kept.request("GET", "/")
                answer = kept.getresponse()
                answer.read()
                assert answer.status == 200
                return {name.lower() for name in answer.headers} & {"x-first", "x-second"}

            def tables() -> set[str]:
                dump = json.loads(envoy.admin_get("/config_dump?resource=dynamic_route_configs")[1])
                return {each["route_config"]["name"] for each in dump.get("configs", ())}

            assert headers() == {"x-first"}
            open_bytes = dial(9090)
            callers = [caller(dial, {}), caller(dial, {}, keep=False)]
            with callers[0], callers[1]:
                wait_for_answers(callers, 20)
                server.publish({"shop": with_older(snapshot(new), first)})
                assert headers() == {"x-first"}
                wait_for_answers(callers, 50)
                last = callers[1].answered[-1]
                assert (last.status, last.header("x-second")) == (200, ("1",))
                assert headers() == {"x-first"}
                assert tables() == {*old.routes, *new.routes}
            names_with_status(callers, 200)
            until = time.monotonic() + 3 * DRAIN_SECONDS
            while tables() != set(new.routes):
                assert time.monotonic() < until, tables()
                time.sleep(0.05)
            # The connection that was older is closed by then.
            with pytest.raises((http.client.HTTPException, OSError)):
                headers()
            while open_bytes.recv(1000):
                pass
            open_bytes.close()
    finally:
        server.close()


@pytest.mark.skipif(ENVOY is None, reason="needs Envoy")
def test_a_redirected_adm_takes_chains_and_connections_that_pass_by_name(tmp_path: Path, alone: None) -> None:
    assert ENVOY is not None
    found = program(CHANGED)
    addresses = Addresses(
        services={
            name: ServiceAddresses((f"10.96.0.{n}",), (f"10.1.0.{n}",)) for n, name in enumerate(("cart", "shop"), 1)
        }
    )
    (made,) = emit(found, place(found), addresses, Mode.REDIRECT, waiting=True, by_chain=True)
    passing = passthrough(found, addresses, by_chain=True)
    assert passing is not None
    server = Server()
    try:
        bootstrap = xds_bootstrap(made, ("127.0.0.1", server.port), admin=("127.0.0.1", free_port()))
        path = tmp_path / "shop.json"
        path.write_text(json_format.MessageToJson(bootstrap, preserving_proto_field_name=True))
        with Envoys(tmp_path / "logs", ENVOY, ("--drain-time-s", "1")) as envoys:
            first = snapshot(made)
            server.call(lambda: server.store.publish_all({"shop": first}))
            envoys.start({"shop": path})
            server.publish({"shop": first})
            envoy = envoys.running["shop"]
            assert envoy.stats()["listener_manager.total_listeners_active"] == 3
            server.publish({"shop": with_older(snapshot(passing), first)})
            server.publish({"shop": with_older(first, snapshot(passing))})
            until = time.monotonic() + 30
            while envoy.stats()["listener_manager.total_listeners_warming"]:
                assert time.monotonic() < until
                time.sleep(0.05)
            stats = envoy.stats()
            assert stats["listener_manager.listener_create_failure"] == 0
            proxies = [name for name in made.extensions if "passthrough" in name]
            assert len(proxies) == 2
    finally:
        server.close()
