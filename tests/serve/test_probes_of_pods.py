"""The probes of pods on their way from the cluster's document to the proxies: they are beside the plan, and change
nothing of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from admc.serve.compiling import snapshots
from admc.serve.compiling.address_changes import changed, changes
from admc.serve.compiling.address_deps import AddressIndex
from admc.serve.compiling.source import Source, State, read, with_endpoints
from admc.serve.publication.addresses import during, listed
from admc.serve.publication.plans import Planned, Plans
from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import Label
from emitters.addresses import from_json
from emitters.envoy import Mode
from emitters.envoy.bootstrap import pod
from emitters.envoy.bootstrap.xds_server import Server
from emitters.envoy.resources import PROBES
from emitters.errors import EmitError
from emitters.health_probes import Probe, ProbeKind, ServiceProbes, WrittenProbe, path, text_of
from emitters.ports import STARTUP_PORT
from tests.emitters.envoy.conftest import folder
from tests.emitters.envoy.pod_bed import envoy, get
from tests.emitters.envoy.support import ENVOY
from tests.emitters.envoy.test_health_probes import Web, ask
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER, ROUTES
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from xds_server.resources.snapshot import Snapshot

__all__ = ["folder"]
PROGRAM = """\
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
pin p at SIDE
"""
PODS = {"web": {"pods": ["10.1.0.2"]}, "cart": {"addresses": ["10.2.0.1"], "pods": ["10.1.0.3"]}}


def probe(name: str, port: int = 8081) -> Probe:
    return Probe(path(WrittenProbe(ProbeKind.HTTP, str(port), f"/{name}"), port, (), 1, 1), port, (), 1, 1)


LIVE, READY = probe("live"), probe("ready")


def document(**probes: tuple[Probe, ...]) -> bytes:
    texts = {name: text_of(ServiceProbes("127.0.0.1", some)) for name, some in probes.items()}
    return json.dumps({"services": PODS, **({"probes": texts} if texts else {})}).encode()


def state(content: bytes, side: str = "ingress", mode: Mode = Mode.POD) -> State:
    files = {"policies.adm": PROGRAM.replace("SIDE", side).encode()}
    result = read(Source(Path("policies.adm"), mode, files=files), (content,))
    assert result.state is not None, result.findings
    return result.state


def plans(content: bytes) -> tuple[Plans, Label]:
    made = Plans()
    return made, Label(made.put(Planned(state(content), None)))


def tables(snapshot: Snapshot) -> list[str]:
    """The paths of probes in a snapshot, by its clusters."""
    return [name for name in snapshot.of_type(CLUSTER).resources if name.startswith("/probe/")]


def test_each_service_has_the_probes_of_its_pods_with_an_adm_in_the_plan_or_without() -> None:
    made, label = plans(document(cart=(LIVE, READY), web=(probe("w", 8080),), gone=(LIVE,)))
    content = made.content(label, b"")
    assert tables(content.by_service["cart"]) == sorted([LIVE.path, READY.path])
    assert tables(content.by_service["web"]) == [probe("w", 8080).path]
    # A service that no plan has any more: its pods are still there, and their probes go on.
    assert tables(content.by_service["gone"]) == [LIVE.path]
    assert content.passthrough is not None
    for snapshot in (*content.by_service.values(), content.passthrough):
        assert PROBES in snapshot.of_type(ROUTES).resources, "every ADM asks for it before it starts"
        snapshot.check()


def test_other_probes_change_routes_and_clusters_alone_and_other_services_not_at_all() -> None:
    made, label = plans(document(cart=(LIVE,), web=(probe("w", 8080),)))
    before = made.content(label, b"").by_service
    assert made.content(label, b"").by_service["cart"] is before["cart"], "nothing is built twice"
    old = made[label.base].state
    new = with_endpoints(old, document(cart=(LIVE, READY), web=(probe("w", 8080),)))
    assert AddressIndex(new.program, new.placement).affected(old.addresses, new.addresses) == frozenset()
    made.relocate(Planned(new, None, snapshots.SnapshotSet({}, None)))
    after = made.content(label, b"").by_service
    assert after["web"] is before["web"]
    assert tables(after["cart"]) == sorted([LIVE.path, READY.path])
    differing = {
        kind
        for kind in after["cart"].collections
        if after["cart"].of_type(kind).version != before["cart"].of_type(kind).version
    }
    assert differing == {CLUSTER, ROUTES}
    for kind in (CLUSTER, ROUTES):
        held, new_ones = before["cart"].of_type(kind).resources, after["cart"].of_type(kind).resources
        assert {name for name in held if held[name].version != new_ones[name].version} <= {PROBES}
    made.relocate(Planned(with_endpoints(new, document()), None, snapshots.SnapshotSet({}, None)))
    assert tables(made.content(label, b"").by_service["cart"]) == []


def test_in_every_step_between_two_plans() -> None:
    made = Plans()
    old, new = (
        made.put(Planned(state(document(cart=(LIVE,), web=(READY,)), side), None)) for side in ("ingress", "egress")
    )
    made.compare(new)
    for step in StepName:
        content = made.content(Label(old, new, step, 1), bytes(32))
        assert tables(content.by_service["cart"]) == [LIVE.path]
        assert tables(content.by_service["web"]) == [READY.path]
        for snapshot in content.by_service.values():
            assert PROBES in snapshot.of_type(ROUTES).resources


def test_a_server_that_follows_files_knows_no_probes() -> None:
    content = document(cart=(LIVE,))
    with pytest.raises(EmitError, match="probes"):
        from_json(content)
    for mode in (Mode.EXPLICIT, Mode.REDIRECT):
        for snapshot in snapshots.snapshots(state(document(), mode=mode)).by_service.values():
            assert PROBES not in snapshot.of_type(ROUTES).resources


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"address":"127.0.0.1","probes":[{}]}', '{"address":"x","probes":0}']
)
def test_a_document_that_another_release_stored_is_a_finding(text: str) -> None:
    content = json.dumps({"services": {}, "probes": {"cart": text}}).encode()
    with pytest.raises(EmitError, match="endpoints file"):
        from_json(content, of_several=True)


def test_probes_are_sent_stored_and_kept_between_two_plans() -> None:
    old, new = state(document(cart=(LIVE,))), state(document(cart=(READY,), web=(LIVE,)))
    difference = changes(old.addresses, new.addresses)
    assert set(difference.probes) == {"cart", "web"}
    assert changed(old.addresses, difference) == new.addresses
    assert changed(new.addresses, changes(new.addresses, old.addresses)) == old.addresses
    assert during(old, new).addresses.probes == new.addresses.probes
    assert with_endpoints(old, listed(new)).addresses.probes == new.addresses.probes


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
async def test_a_rolling_update_with_other_probes_touches_no_listener(folder: Path, alone: None) -> None:
    made, label = plans(document(cart=(LIVE,)))
    store = SnapshotCache()
    server = XdsServer(store, lambda caller: caller.node.cluster)
    port = await server.start("127.0.0.1:0")
    for name, content in pod.pod_bootstrap(Server("127.0.0.1", port), ipv6=False).items():
        (folder / name).write_bytes(content)
    web = Web(8081)
    web.start()

    async def status(of: Probe) -> int:
        return int((await asyncio.to_thread(ask, of.path))[0])

    async def until(done: Callable[[], Any]) -> None:
        async with asyncio.timeout(30):
            while not await done():
                await asyncio.sleep(0.05)

    async def stat(name: str) -> int:
        answer = await asyncio.to_thread(get, 15000, f"/stats?filter=^{name}$")
        assert answer is not None
        return int(answer[1].decode().rpartition(": ")[2])

    async def started() -> bool:
        return await asyncio.to_thread(get, STARTUP_PORT, "/ready") is not None

    def publish(*probes: Probe) -> None:
        new = with_endpoints(made[label.base].state, document(cart=probes))
        made.relocate(Planned(new, None, snapshots.SnapshotSet({}, None)))
        store.publish("search", made.content(label, b"").by_service["cart"])

    store.publish("search", made.content(label, b"").by_service["cart"])
    try:
        with envoy(folder):
            await until(started)
            await until(lambda: is_status(status, LIVE, 200))
            assert await status(READY) == 404
            before = [
                await stat(f"listener_manager.{name}") for name in ("listener_modified", "listener_in_place_updated")
            ]
            publish(LIVE, READY)
            await until(lambda: is_status(status, READY, 200))
            assert await status(LIVE) == 200
            publish(READY)
            await until(lambda: is_status(status, LIVE, 404))
            assert await status(READY) == 200
            after = [
                await stat(f"listener_manager.{name}") for name in ("listener_modified", "listener_in_place_updated")
            ]
            assert after == before
            for kind in ("cluster_manager.cds", "listener_manager.lds", "http.probes.rds.probes"):
                assert await stat(f"{kind}.update_rejected") == 0

            async def cluster_is_gone() -> bool:
                answer = await asyncio.to_thread(get, 15000, "/clusters")
                assert answer is not None
                return LIVE.path not in answer[1].decode()

            await until(cluster_is_gone)
    finally:
        web.stop()
        await server.stop(0.1)


async def is_status(status: Any, of: Probe, wanted: int) -> bool:
    return bool(await status(of) == wanted)
