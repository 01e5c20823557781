"""Files that are deleted, restored or too large, and those that change while no server runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import grpc
import pytest

from admc.compile.emit.emission import MAX_ENDPOINTS
from admc.serve.compiling import snapshots, source
from admc.serve.compiling.source import Source
from admc.serve.files.state_dir import open_state_dir
from admc.serve.rollout.diff import version as digest_of
from admc.serve.rollout.model import Placed
from admc.serve.rollout.rollout_state import Holding, Label, RolloutState, begun
from admc.serve.storage.position import Position
from admc.testbed.envoys import envoy_binary
from emitters.envoy import Mode
from tests.serve.rollout.envoy_bed import Bed
from tests.serve.rollout.move import once, phases, placed
from tests.serve.rollout.move import text as moving
from tests.serve.server_process import served
from tests.serve.test_server import ENDPOINTS_FILE, PROGRAM, client, folder, write
from tests.testbed.callers import caller
from tests.testbed.ports import free_port
from xds_server.resources.types import ENDPOINTS

if TYPE_CHECKING:
    from pathlib import Path

    from admc.serve.compiling.snapshots import SnapshotSet
    from admc.serve.storage.position import Recipe
    from tests.serve.server_process import Served

__all__ = ["folder"]

ENVOY = envoy_binary()
pytestmark = pytest.mark.long

SECRET = bytes(32)
EVEN = "egress/cart:8081/even"
TIER = "tier:set_request_header"


def pods(server: Served) -> bytes:
    """The pods of `cart` in the configuration of `web`."""
    with client(server.xds, "web") as web:
        (found,) = web.ask(ENDPOINTS, (EVEN,))
    content: bytes = found.value
    return content


def with_pod(pod: str) -> str:
    more = json.loads(json.dumps(ENDPOINTS_FILE))
    more["services"]["cart"]["pods"] = [pod]
    return json.dumps(more)


def test_a_used_file_may_vanish_and_come_back(folder: Path) -> None:
    with served(folder, "policies.adm") as server:
        server.until_event("compiled")
        state = server.status()["server"]["state"]
        (folder / "kinds.adm").rename(folder / "away")
        server.until(lambda: server.metric("admc_compile_errors_total") == 1.0)
        assert "kinds.adm" in server.events("finding")[-1]["text"]
        assert server.get("/readyz")[0] == 200
        (folder / "away").rename(folder / "kinds.adm")
        server.until(lambda: server.status()["server"]["why"] == "")
        assert server.status()["server"]["state"] == state


def test_an_endpoints_file_over_the_bound_is_refused_and_the_last_good_one_stays(folder: Path) -> None:
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        large = folder / "large"
        large.touch()
        os.truncate(large, MAX_ENDPOINTS + 1)
        large.replace(folder / "endpoints.json")
        server.until(lambda: server.metric("admc_endpoint_errors_total") == 1.0)
        assert "too large" in server.status()["server"]["why"]
        assert b"10.1.0.2" in pods(server)
        write(folder / "endpoints.json", with_pod("10.1.0.9"))
        server.until(lambda: server.status()["server"]["why"] == "" and b"10.1.0.9" in pods(server))


def test_addresses_that_changed_between_servers_are_published_though_the_program_has_errors(folder: Path) -> None:
    options = ("policies.adm", "--endpoints", "endpoints.json", "--state", "state")
    with served(folder, *options) as server:
        server.until_event("compiled")
        server.until((folder / "state" / "state.json").exists)
        assert b"10.1.0.2" in pods(server)
        server.stop(signal.SIGKILL)
    write(folder / "policies.adm", PROGRAM + "nonsense\n")
    write(folder / "endpoints.json", with_pod("10.1.0.9"))
    with served(folder, *options) as server:
        server.until_event("recalled")
        server.until_event("located")
        server.until_event("last_good_state_stays")
        server.until(lambda: server.get("/readyz")[0] == 200)
        assert b"10.1.0.9" in pods(server)


def test_no_stored_snapshot_is_published_before_the_first_compile(folder: Path) -> None:
    options = ("policies.adm", "--endpoints", "endpoints.json", "--state", "state")
    read = source.read(
        Source(folder / "policies.adm", Mode.REDIRECT), (json.dumps(ENDPOINTS_FILE).encode(),), with_recipe=True
    )
    assert read.state is not None
    assert read.recipe is not None
    with closing(open_state_dir(folder / "state")) as kept:
        name = digest_of(Placed(read.state.program, read.state.placement))
        position = Position(begun(name, SECRET), {name: read.recipe}, {})
        kept.save(position, snapshots.snapshots(read.state).by_service)
    # The last published snapshot may not have been stored when the server was killed.
    write(folder / "policies.adm", PROGRAM.replace("gold", "bronze"))
    with served(folder, *options) as server:
        server.until_event("recalled")
        told = b""
        while not told:
            with client(server.xds, "web") as web, contextlib.suppress(grpc.RpcError):
                told = web.filter_of(TIER)[0].value
        assert b"bronze" in told
        assert server.get("/readyz")[0] == 200


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_a_policy_that_changed_sides_between_servers_moves_step_by_step(tmp_path: Path) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(moving("ingress"))
    port = free_port()
    xds = f"127.0.0.1:{port}"
    options = ("policies.adm", "--mode", "explicit", "--state", "kept")
    assert ENVOY is not None
    with served(tmp_path, *options, xds=xds) as server, Bed(placed("ingress"), tmp_path, ENVOY, port) as bed:
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        passed, refused = [caller(shop, {}), caller(till, {})], [caller(shop, {"x-out": "1"})]
        server.until(lambda: all(adm["in_sync"] for adm in server.status()["adms"]))
        with passed[0], passed[1], refused[0]:
            server.until(lambda: all(each.answered for each in (*passed, *refused)))
            assert server.stop() == 0
            write(program, moving("egress"))
            with served(tmp_path, *options, xds=xds) as again:
                again.until_event("recalled")
                again.until_event("rollout_over")
                assert phases(again) == ["prepare", "senders", "receivers", "release", "plan"]
                counts = [len(each.answered) for each in (*passed, *refused)]
                again.until(lambda: all(len(k.answered) > n for k, n in zip((*passed, *refused), counts, strict=True)))
        once(bed, passed, refused)


class Made(NamedTuple):
    """What a server stores of a program at an address, and what it publishes."""

    name: str
    recipe: Recipe
    groups: SnapshotSet
    version: str
    """Of the state."""


def made(path: Path, text: str, pod: str) -> Made:
    write(path, text)
    read = source.read(Source(path, Mode.REDIRECT), (with_pod(pod).encode(),), with_recipe=True)
    assert read.state is not None
    assert read.recipe is not None
    name = digest_of(Placed(read.state.program, read.state.placement))
    return Made(name, read.recipe, snapshots.snapshots(read.state), read.state.version)


def test_an_acknowledged_snapshot_that_is_older_than_the_state_is_not_published_again(folder: Path) -> None:
    """The proxy had not acknowledged the newest snapshot when the server was killed, and the program has errors now."""
    older = made(folder / "policies.adm", PROGRAM, "10.1.0.2")
    newer = made(folder / "policies.adm", PROGRAM, "10.1.0.9")
    with closing(open_state_dir(folder / "state")) as kept:
        kept.save(Position(begun(newer.name, SECRET), {newer.name: newer.recipe}, {}), older.groups.by_service)
    write(folder / "endpoints.json", with_pod("10.1.0.9"))
    write(folder / "policies.adm", PROGRAM + "nonsense\n")
    with served(folder, "policies.adm", "--endpoints", "endpoints.json", "--state", "state") as server:
        server.until_event("last_good_state_stays")
        server.until(lambda: server.get("/readyz")[0] == 200)
        told = pods(server)
        assert b"10.1.0.9" in told
        assert b"10.1.0.2" not in told


def test_a_plan_that_waits_is_in_force_in_the_end_at_the_latest_addresses(folder: Path) -> None:
    """The server was killed while the plan waited, and the program has errors now."""
    first = made(folder / "policies.adm", PROGRAM, "10.1.0.2")
    second = made(folder / "policies.adm", PROGRAM.replace("gold", "silver"), "10.1.0.9")
    held = tuple(Holding(Label(each.name), frozenset(("web",)), proven=each is first) for each in (first, second))
    rollout = RolloutState(held[0].label, held, secret=SECRET, queued=second.name)
    plans = {each.name: each.recipe for each in (first, second)}
    with closing(open_state_dir(folder / "state")) as kept:
        kept.save(Position(rollout, plans, {}), first.groups.by_service)
    version = second.version
    write(folder / "policies.adm", PROGRAM + "nonsense\n")
    with served(folder, "policies.adm", "--state", "state") as server:
        server.until_event("last_good_state_stays")
        server.until(lambda: server.get("/readyz")[0] == 200)
        assert server.status()["server"]["state"] == version
        server.until(lambda: b"10.1.0.9" in pods(server))
        told_now = pods(server)
        assert b"10.1.0.9" in told_now
        assert b"10.1.0.2" not in told_now
        with client(server.xds, "web") as web:
            assert b"silver" in web.filter_of(TIER)[0].value
