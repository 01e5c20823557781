"""Plans that cannot be stored, folders that are removed, and identities meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

from admc.serve.files.state_dir import UNDER_WAY
from tests.serve.pki import Authority, Pair
from tests.serve.server_process import served
from tests.serve.small_disk import fill_disk, small_disk
from tests.serve.test_server import ENDPOINTS_FILE, PROGRAM, folder, write
from tests.serve.test_state_dir_failures import OPTIONS, text, tier
from xds_server.resources.types import LISTENER

if TYPE_CHECKING:
    from tests.serve.server_process import Served

pytestmark = pytest.mark.long

__all__ = ["folder"]

SERVERS, CLIENTS = Authority("servers"), Authority("clients")


def why(server: Served) -> str:
    found: str = server.status()["server"]["why"]
    return found


def swap(place: Path, away: Path, other: Path) -> None:
    """The server may poll between the two renames, and make the folder again: then this one is moved away, too."""
    for attempt in range(10):
        place.rename(away.with_name(f"{away.name}{attempt}"))
        with contextlib.suppress(OSError):
            other.rename(place)
            return
    raise AssertionError("the server is always faster")


def test_a_plan_that_a_full_disk_does_not_take_goes_into_force_by_itself_when_there_is_room(folder: Path) -> None:
    write(folder / "policies.adm", text(1))
    with served(folder, *OPTIONS, before=small_disk(folder / "state")) as server:
        disk = fill_disk(server, folder / "state")
        write(folder / "policies.adm", text(2))
        server.until(lambda: "`state`" in why(server))
        errors = server.metric("admc_kept_errors_total")
        server.until(lambda: server.metric("admc_kept_errors_total") > errors + 1)  # it is tried again
        assert tier(server) == "0001"
        assert server.get("/readyz")[0] == 200
        told = [item for item in server.events("finding") if item["about"] == "program"]
        assert [item["code"] for item in told] == ["ADM854"]  # said once
        assert "tries again until it can write to the folder" in told[0]["text"]
        # New addresses do not wait, and also apply to the plan that waits.
        more = json.loads(json.dumps(ENDPOINTS_FILE))
        more["services"]["cart"]["pods"].append("10.1.0.77")
        write(folder / "endpoints.json", json.dumps(more))
        server.until_event("located")
        assert tier(server) == "0001"
        (disk / "ballast").unlink()
        server.until(lambda: tier(server) == "0002")
        server.until(lambda: json.loads((disk / "state.json").read_text())["rollout"]["queued"] is None)
        # The plan is counted once it is in force, which is after it is stored.
        server.until(lambda: server.metric("admc_compiles_total") == 2.0)
        server.until(lambda: "`state`" not in why(server))


def test_newer_text_takes_the_place_of_a_plan_that_the_folder_does_not_take(folder: Path) -> None:
    write(folder / "policies.adm", text(1))
    with served(folder, *OPTIONS) as server:
        server.until((folder / "state" / "state.json").exists)
        (folder / "state" / UNDER_WAY).mkdir()
        write(folder / "policies.adm", text(2))
        server.until(lambda: "`state`" in why(server))
        write(folder / "policies.adm", text(3))
        errors = server.metric("admc_kept_errors_total")
        server.until(lambda: server.metric("admc_kept_errors_total") > errors + 2)
        assert tier(server) == "0001"
        (folder / "state" / UNDER_WAY).rmdir()
        server.until(lambda: tier(server) == "0003")
        server.until(lambda: "`state`" not in why(server))
        assert server.stop() == 0


def test_a_folder_that_is_removed_is_made_again_with_all_that_was_in_it(folder: Path) -> None:
    state = folder / "state"
    write(folder / "policies.adm", text(1))
    with served(folder, *OPTIONS) as server:
        server.until((state / "state.json").exists)
        # No proxy is connected that could acknowledge the change, so its rollout does not end.
        write(folder / "policies.adm", text(2))
        server.until((state / UNDER_WAY).exists)
        state.rename(folder / "gone")  # at once: the server may be writing
        server.until_event("kept_state_renewed")
        server.until(lambda: (state / "state.json").exists() and (state / UNDER_WAY).exists())
        assert server.metric("admc_kept_errors_total") >= 1.0
        (state / "state.json").unlink()
        server.until((state / "state.json").exists)
        server.until(lambda: "stor" not in why(server))
        # The server does not use files of the folder that has replaced its own.
        other = folder / "other"
        other.mkdir()
        (other / "state.json").write_text("{}")
        swap(state, folder / "away", other)
        server.until_event("kept_state_renewed", 2)
        server.until((state / "state.json").exists)
        server.until(lambda: json.loads((state / "state.json").read_text()) != {})
        server.stop(signal.SIGKILL)
    write(folder / "policies.adm", text(2) + "nonsense\n")
    with served(folder, *OPTIONS) as server:
        server.until_event("recalled")
        server.until(lambda: server.get("/readyz")[0] == 200)
        assert tier(server) == "0002"


def test_a_folder_that_another_server_uses_is_left_to_it_and_reported(folder: Path) -> None:
    state = folder / "state"
    with served(folder, *OPTIONS) as first:
        first.until((state / "state.json").exists)
        other = folder / "other"
        other.mkdir()
        with (other / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            swap(state, folder / "away", other)
            first.until(lambda: "another server keeps its state" in why(first))
            assert not (state / "state.json").exists()
            assert first.get("/readyz")[0] == 200
        first.until((state / "state.json").exists)
        first.until(lambda: why(first) == "")


# ---- who is who ----

IDENTITY = ("--identities", "identities.json", "--tls-cert", "server.crt", "--tls-key", "server.key",
            "--tls-client-ca", "clients.crt")  # fmt: skip
MORE = PROGRAM + "service till { http 8082 }\ncall till -> cart\n"


def uri(service: str) -> str:
    return f"spiffe://cluster.local/ns/default/sa/{service}"


def identities(*services: str) -> str:
    return json.dumps({"services": {name: [uri(name)] for name in services}})


@pytest.fixture
def secured(folder: Path) -> Path:
    (folder / "clients.crt").write_bytes(CLIENTS.certificate)
    SERVERS.issue(dns=("localhost",)).write(folder, "server")
    (folder / "identities.json").write_text(identities("web", "cart"))
    return folder


def admitted(server: Served, pair: Pair) -> str:
    """`OK`, or the status with which a client is turned away."""
    credentials = grpc.ssl_channel_credentials(SERVERS.certificate, pair.key, pair.certificate)
    options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    request = discovery_pb2.DiscoveryRequest(node=base_pb2.Node(id="one", cluster=""), type_url=LISTENER)
    with grpc.secure_channel(server.xds, credentials, options) as channel:
        stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel)
        stream = stub.StreamAggregatedResources(iter([request]), timeout=60)
        try:
            next(stream)
        except grpc.RpcError as error:
            return str(error.code().name)
        finally:
            stream.cancel()
    return "OK"


def test_new_identities_come_with_their_plan_and_revoked_ones_wait_for_nothing(secured: Path) -> None:
    web, cart, till = (CLIENTS.issue(uri(name)) for name in ("web", "cart", "till"))
    with served(secured, *OPTIONS, *IDENTITY, plaintext=False) as server:
        server.until((secured / "state" / "state.json").exists)
        assert [admitted(server, pair) for pair in (web, cart, till)] == ["OK", "OK", "PERMISSION_DENIED"]
        # The plan with the new service is correct, and cannot go into force now.
        (secured / "state" / UNDER_WAY).mkdir()
        write(secured / "policies.adm", MORE.replace("gold", "silver"))
        server.until(lambda: "`state`" in why(server))
        write(secured / "identities.json", identities("cart", "till"))
        server.until(lambda: admitted(server, web) == "PERMISSION_DENIED")
        assert admitted(server, cart) == "OK"
        assert admitted(server, till) == "PERMISSION_DENIED"
        (secured / "state" / UNDER_WAY).rmdir()
        server.until(lambda: admitted(server, till) == "OK")
        assert admitted(server, web) == "PERMISSION_DENIED"
        server.until(lambda: not any(word in why(server) for word in ("identities", "`state`")))


def test_a_revocation_does_not_wait_for_a_program_that_is_broken(secured: Path) -> None:
    web, cart = (CLIENTS.issue(uri(name)) for name in ("web", "cart"))
    with served(secured, *OPTIONS, *IDENTITY, plaintext=False) as server:
        server.until_event("compiled")
        # First the file, with the name of an unknown service: it may be a typing error, so nothing changes.
        write(secured / "identities.json", identities("cart", "till"))
        server.until(lambda: "`till`" in why(server))
        assert admitted(server, web) == "OK"
        # Then a program that may have it, and cannot be used.
        write(secured / "policies.adm", MORE + "nonsense\n")
        server.until(lambda: admitted(server, web) == "PERMISSION_DENIED")
        assert admitted(server, cart) == "OK"
        write(secured / "policies.adm", MORE)
        server.until_event("compiled", 2)
        server.until(lambda: "`till`" not in why(server))
        assert admitted(server, CLIENTS.issue(uri("till"))) == "OK"
