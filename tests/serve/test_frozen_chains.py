"""Connections on frozen filter chains, through a real server and a real Envoy.

A filter chain that changes takes new connections only. Older ones keep their chain until Envoy's drain time is over.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admc.serve.rollout.model import Placed
from admc.testbed.envoys import envoy_binary
from dsl import load
from solver.place import place
from tests.fidelity.tokens import BEARER, keys, token
from tests.serve.rollout import envoy_bed
from tests.serve.server_process import of, served
from tests.serve.test_server import write
from tests.serve.traffic.other_release import other_release
from tests.serve.traffic.upgrade import leave_out_snapshots
from tests.testbed.callers import http_connection
from tests.testbed.ports import free_port, program_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.serve.server_process import Served

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

SAVED_SECONDS = 2.0
"""By then the server has stored what proxies acknowledged."""
SEEN_SECONDS = 6.0
"""By then the server has seen which versions a proxy has that came back."""
SETTLE_SECONDS = 0.2
"""Envoy's main thread sends the ACK, and its workers follow."""
PORT = program_port()
ISSUER = "https://id.example.com"
PROGRAM = f"""\
app frozen
service shop {{ http {PORT} }}
service till {{ http {PORT} }}
service cart {{ http {PORT} }}
call shop, till -> cart
policy first = set_response_header(name: "x-first", value: "1") on {{shop, till}} -> cart
pin first at ingress
"""
SECOND = (
    'policy second = set_response_header(name: "x-second", value: "1") on {shop, till} -> cart\npin second at ingress\n'
)


class Guard(NamedTuple):
    before: str
    after: str
    status: int
    """The response to a request that the second version refuses and the first one admits."""


SHARED = "on {shop, till} -> cart"
GUARDS = {
    "allow": Guard(f"allow(callers: [shop, till]) {SHARED}", f"allow(callers: [till]) {SHARED}", 403),
    "jwt": Guard(
        f'jwt(issuer: "{ISSUER}", jwks: "keys.json") {SHARED}',
        f'jwt(issuer: "{ISSUER}", jwks: "keys.json", audiences: ["till"]) {SHARED}',
        403,
    ),
}


LANE = """\
"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
default_source_code: {inline_string: "assert(${kbps} > 0, 'too narrow')"}
"""
"""Envoy rejects it with 0."""
THIRD = """\
@ingress
kind slow_lane(kbps: int) for http template "lane.yaml"
policy third = slow_lane(kbps: KBPS) on {shop, till} -> cart
pin third at ingress
"""


def text(guard: str, more: str = "") -> str:
    return f"{PROGRAM}policy guard = {guard}\npin guard at ingress\n{more}"


@contextmanager
def serving(
    folder: Path, guard: str, drain: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Served, envoy_bed.Bed]]:
    """A server and the Envoy of `cart`."""
    with ExitStack() as stack:
        bed, serve = prepared(folder, guard, drain, monkeypatch, stack)
        with serve() as server:
            until_at_rest(server)
            yield server, bed


def prepared(
    folder: Path, guard: str, drain: int, monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> tuple[envoy_bed.Bed, Callable[..., AbstractContextManager[Served]]]:
    """The Envoy of `cart`, and its server, which the caller starts, perhaps that of another working copy."""
    assert ENVOY is not None
    monkeypatch.setattr(envoy_bed, "DRAIN_SECONDS", drain)
    (folder / "keys.json").write_bytes(keys())
    (folder / "lane.yaml").write_text(LANE)
    program = folder / "policies.adm"
    program.write_text(text(guard))
    found = load(program)
    port = free_port()
    bed = stack.enter_context(envoy_bed.Bed(Placed(found, place(found)), folder, ENVOY, port))
    options = ("policies.adm", "--mode", "explicit", "--state", "state")
    return bed, lambda checkout=None: served(folder, *options, xds=f"127.0.0.1:{port}", before=of(checkout))


def change(server: Served, folder: Path, content: str, until: Callable[[Served], None] | None = None) -> None:
    """Write another program, and wait until the proxy has acknowledged it, or else."""
    before = server.status()["server"]["state"]
    write(folder / "policies.adm", content)
    server.until(lambda: server.status()["server"]["state"] != before)
    (until or until_at_rest)(server)


def until_rejected(server: Served) -> None:
    server.until(lambda: 'admc_xds_rejects_total{type="TypedExtensionConfig"} 1.0' in server.get("/metrics")[1])


def until_at_rest(server: Served) -> None:
    def acknowledged() -> bool:
        adms = server.status()["adms"]
        return bool(adms) and all(adm["in_sync"] and adm["nodes"] for adm in adms)

    server.until(acknowledged)
    time.sleep(SETTLE_SECONDS)


class Caller:
    """A connection of `shop` to `cart` that stays open."""

    def __init__(self, bed: envoy_bed.Bed) -> None:
        address = bed.addresses.service_addresses("cart")[0]
        own = bed.addresses.pod_addresses("shop")[0]
        self._connection = http_connection(lambda: socket.create_connection((address, PORT), 60, (own, 0)))

    def request(self, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
        """Send a request on this connection. A second connection is never opened."""
        assert self._connection.sock is not None, "Envoy has closed the connection"
        token_ = {"authorization": BEARER + token(ISSUER, "any")}
        self._connection.request("GET", "/", headers={**token_, **(headers or {})})
        with self._connection.getresponse() as response:  # it may be cut in the middle
            response.read()
        return response

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize("kind", GUARDS)
def test_a_revocation_reaches_connections_on_frozen_chains_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: None, kind: str
) -> None:
    guard = GUARDS[kind]
    drain = 40
    with serving(tmp_path, guard.before, drain, monkeypatch) as (server, bed):
        older = Caller(bed)
        assert older.request().getheader("x-first") == "1"
        change(server, tmp_path, text(guard.before, SECOND))
        frozen = time.monotonic()
        newer = Caller(bed)
        assert newer.request().getheader("x-second") == "1"
        response = older.request()
        assert (response.status, response.getheader("x-second")) == (200, None), "its chain is frozen"
        change(server, tmp_path, text(guard.after, SECOND))
        assert newer.request().status == guard.status
        assert older.request().status == guard.status
        # And in the other direction: the guard admits the caller again, and the rest of the chain is still frozen.
        change(server, tmp_path, text(guard.before, SECOND))
        response = older.request()
        assert (response.status, response.getheader("x-second")) == (200, None)
        assert time.monotonic() < frozen + drain, "the machine was too slow: the chain is no longer frozen"
        older.close()
        newer.close()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_revocation_in_a_plan_that_was_rejected_holds_for_frozen_chains_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: None, restarts: bool
) -> None:
    """Connections of two plans are open. The first one has another guard of that name. The proxy rejects the plan with
    the revocation, for another policy, and perhaps the server is killed then."""
    drain = 40
    guard = GUARDS["allow"]
    with ExitStack() as stack:
        bed, serve = prepared(tmp_path, guard.before + ' when path == "/other"', drain, monkeypatch, stack)
        server = stack.enter_context(serve())
        until_at_rest(server)
        oldest = Caller(bed)
        assert oldest.request().status == 200
        change(server, tmp_path, text(guard.before, SECOND))
        frozen = time.monotonic()
        older = Caller(bed)
        assert older.request().getheader("x-second") == "1"
        change(server, tmp_path, text(guard.after, SECOND + THIRD.replace("KBPS", "0")), until_rejected)
        assert older.request().status == 200, "the proxy has the revocation, which is a part of what it rejects"
        if restarts:
            time.sleep(SAVED_SECONDS)
            server.stop(signal.SIGKILL)
            server = stack.enter_context(serve())
            server.until_event("recalled")
            until_rejected(server)
        change(server, tmp_path, text(guard.after, SECOND + THIRD.replace("KBPS", "1")))
        newest = Caller(bed)
        assert newest.request().status == guard.status
        assert older.request().status == guard.status
        assert oldest.request().status == 200
        assert time.monotonic() < frozen + drain, "the machine was too slow: the chain is no longer frozen"
        for each in (oldest, older, newest):
            each.close()


@pytest.mark.parametrize("meanwhile", [False, True], ids=["later", "meanwhile"])
def test_a_revocation_reaches_connections_that_only_an_earlier_release_knew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: None, meanwhile: bool
) -> None:
    """As in a cluster, no snapshot is stored: the server sees the version of the older guard at the proxy.
    `meanwhile`: the program changes while no server runs."""
    drain = 40
    guard = GUARDS["allow"]
    with ExitStack() as stack:
        bed, serve = prepared(tmp_path, guard.before, drain, monkeypatch, stack)
        with serve(other_release(tmp_path)) as earlier:
            until_at_rest(earlier)
            older = Caller(bed)
            assert older.request().getheader("x-first") == "1"
            time.sleep(SAVED_SECONDS)
            assert earlier.stop() == 0
        leave_out_snapshots(tmp_path / "state" / "state.json")
        if meanwhile:
            write(tmp_path / "policies.adm", text(guard.after))
        server = stack.enter_context(serve())
        until_at_rest(server)
        replaced = time.monotonic()
        if not meanwhile:
            assert older.request().getheader("x-first") == "1"
            change(server, tmp_path, text(guard.after))
        newer = Caller(bed)
        assert newer.request().status == guard.status
        time.sleep(SEEN_SECONDS)
        assert older.request().status == guard.status
        assert time.monotonic() < replaced + drain, "the machine was too slow: the connection may be closed"
        older.close()
        newer.close()


def test_what_lasts_longer_than_the_drain_time_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: None
) -> None:
    drain = 10
    guard = GUARDS["allow"].before
    with serving(tmp_path, guard, drain, monkeypatch) as (server, bed):
        short, long = Caller(bed), Caller(bed)
        assert short.request().status == 200
        assert long.request().status == 200
        change(server, tmp_path, text(guard, SECOND))
        began = time.monotonic()
        assert short.request({"x-echo-delay": "1"}).status == 200
        with pytest.raises((http.client.HTTPException, OSError)):
            long.request({"x-echo-delay": "55"})
        short.close()
        long.close()
        assert time.monotonic() < began + 40
        # The server observes that, and keeps nothing for the older chain any more.
        server.until_event("rollout_over")
        server.until(lambda: not json.loads(server.get("/status.json")[1])["server"]["rollout"])
        newer = Caller(bed)
        assert newer.request().getheader("x-second") == "1"
        newer.close()
