"""A server that takes nothing from files: the same as with files, and what only another environment can do."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING

import grpc  # type: ignore[import-untyped]
import pytest
from envoy.config.core.v3.base_pb2 import Node
from envoy.service.discovery.v3.ads_pb2_grpc import AggregatedDiscoveryServiceStub
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryRequest

from tests.serve.memory_environment import in_memory
from tests.serve.server_process import SECONDS
from tests.serve.test_server import client
from xds_server.resources.types import LISTENER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.serve.memory_environment import InMemory

PROGRAM = """\
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy tier = set_request_header(name: "x-tier", value: "silver") on web -> cart
"""
EXIT = 7


class Stream:
    """An open stream of a proxy, which has its listeners."""

    def __init__(self, channel: grpc.Channel, node: str) -> None:
        self._over = threading.Event()
        service = node.partition("-")[0]
        request = DiscoveryRequest(node=Node(id=node, cluster=service), type_url=LISTENER)

        def requests() -> Iterator[DiscoveryRequest]:
            yield request
            self._over.wait()

        self.call = AggregatedDiscoveryServiceStub(channel).StreamAggregatedResources(requests(), timeout=SECONDS)
        try:
            next(self.call)
        except grpc.RpcError:
            self._over.set()
            raise
        self.call.add_callback(self._over.set)

    @property
    def is_open(self) -> bool:
        return bool(self.call.is_active())

    def end(self) -> grpc.StatusCode:
        """The code with which the server ends it."""
        with contextlib.suppress(grpc.RpcError):
            for _ in self.call:
                pass
        code: grpc.StatusCode = self.call.code()
        return code


def why(server: InMemory) -> str:
    found: str = server.status()["server"]["why"]
    return found


def refused(server: InMemory, service: str = "web") -> grpc.StatusCode | None:
    """The code with which the server ends the stream of a client; None if it serves it."""
    with client(server.xds, service) as one:
        try:
            one.ask(LISTENER)
        except grpc.RpcError as error:
            return error.code()
    return None


@pytest.mark.long
def test_a_program_may_come_later_go_and_come_back(tmp_path: Path) -> None:
    with in_memory(tmp_path) as server:
        server.until(lambda: why(server) == "there is no program yet")
        assert server.get("/readyz")[0] == 503
        assert refused(server) is grpc.StatusCode.UNAVAILABLE
        assert not server.events("last_good_state_stays")

        server.give(files={"policies.adm": PROGRAM})
        first = server.until_event("compiled")["state"]
        server.until(lambda: server.get("/readyz")[0] == 200)
        assert refused(server) is None
        assert server.status()["server"]["source"] == "what a test gives"

        server.give(files=None)
        server.until(lambda: why(server) == "there is no program any more")
        assert server.until_event("last_good_state_stays")["state"] == first
        assert refused(server) is None
        assert any(adm["in_plan"] for adm in server.status()["adms"])

        server.give(files={"policies.adm": PROGRAM.replace("silver", "gold")})
        server.until_event("compiled", 2)
        server.until(lambda: "program" not in why(server) and "lead" not in why(server))
        assert server.stop() == 0


@pytest.mark.long
def test_files_change_all_at_once_and_the_last_good_program_stays(tmp_path: Path) -> None:
    (tmp_path / "more.adm").write_text('policy other = set_request_header(name: "a", value: "b") on web -> cart\n')
    using = PROGRAM + 'use "more.adm"\n'
    with in_memory(tmp_path) as server:
        server.give(files={"policies.adm": PROGRAM})
        first = server.until_event("compiled")["state"]
        server.give(files={"policies.adm": using})  # the file is on disk, and not among these
        finding = server.until_event("finding", 2)  # the first one: there is no program yet
        assert (finding["code"], finding["file"], finding["line"]) == ("ADM501", "policies.adm", 6)
        assert "cannot read `more.adm`: there is no such file" in finding["text"]
        assert server.until_event("last_good_state_stays")["state"] == first
        server.give(files={"policies.adm": using, "more.adm": (tmp_path / "more.adm").read_text()})
        server.until_event("compiled", 2)


@pytest.mark.long
def test_a_restarted_server_without_a_program_serves_the_stored_plan(tmp_path: Path) -> None:
    facts = json.dumps({"schema_version": 1, "services": {"cart": {"no_adm": "mirror pod"}}})
    with in_memory(tmp_path, "state") as server:
        server.give(files={"policies.adm": PROGRAM}, facts=facts)
        first = server.until_event("compiled")["state"]
        with client(server.xds, "web") as web:
            web.ask(LISTENER)
        server.stop()
    with in_memory(tmp_path, "state") as again:
        assert again.until_event("recalled")["state"] == first
        again.until(lambda: why(again) == "there is no program any more")
        again.until(lambda: again.get("/readyz")[0] == 200)
        assert refused(again) is None
        again.give(files={"policies.adm": PROGRAM}, facts=facts)
        assert again.until_event("compiled")["state"] == first
        again.until(lambda: "program" not in why(again))


@pytest.mark.long
def test_the_streams_of_a_pod_that_is_gone_end_and_no_others(tmp_path: Path) -> None:
    with in_memory(tmp_path) as server:
        server.give(files={"policies.adm": PROGRAM})
        server.until_event("compiled")
        with grpc.insecure_channel(server.xds) as channel:
            first, second, cart = (Stream(channel, node) for node in ("web-1", "web-2", "cart-1"))
            server.give(gone=["web-1"])
            assert first.end() is grpc.StatusCode.PERMISSION_DENIED
            assert [second.is_open, cart.is_open] == [True, True]
            for each in (second, cart):
                each.call.cancel()
            with pytest.raises(grpc.RpcError) as denied:
                Stream(channel, "web-1")
        assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert server.until_event("denied")["why"] == "the pod `web-1` is gone"
        assert not server.events("identities_read")


@pytest.mark.long
def test_a_server_that_does_not_lead_publishes_nothing_new_and_goes_on_when_it_leads(tmp_path: Path) -> None:
    with in_memory(tmp_path, "state") as server:
        server.give(files={"policies.adm": PROGRAM})
        server.until_event("compiled")
        server.until_event("published")
        stored = (tmp_path / "state" / "state.json").read_bytes()
        server.give(leads=False, files={"policies.adm": PROGRAM.replace("silver", "gold")})
        server.until(lambda: "another server may lead the proxies" in why(server))
        assert refused(server) is None
        assert len(server.events("published")) == 1
        assert (tmp_path / "state" / "state.json").read_bytes() == stored
        server.give(leads=True)
        server.until_event("compiled", 2)
        server.until_event("published", 2)
        server.until(lambda: "program" not in why(server) and "lead" not in why(server))


@pytest.mark.long
def test_the_environment_stops_the_server_with_an_exit_code(tmp_path: Path) -> None:
    with in_memory(tmp_path, "state") as server:
        server.give(files={"policies.adm": PROGRAM})
        server.until_event("compiled")
        server.give(leads=False, exit=EXIT)
        assert server.process.wait(60) == EXIT
        assert [event["event"] for event in server.events()][-2:] == ["draining", "stopped"]
