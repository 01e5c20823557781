"""The same with real redirection: pods get rules while their connections are open, and proxies that only pass on."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING

import pytest
from google.protobuf import json_format

from admc.serve.build.snapshots import snapshot
from admc.testbed.envoys import envoy_binary
from admc.transition.driver import MARGIN_SECONDS
from admc.transition.model import Placed
from admc.transition.resources import keeping, resources
from admc.transition.steps import steps
from dsl import load_text
from emitters.envoy import Mode, emit, passthrough
from emitters.envoy.bootstrap import xds_bootstrap
from emitters.interception import Family, interceptions, restore_file
from solver.place import place
from tests.testbed.mesh.mesh import Mesh
from tests.testbed.mesh.mesh import Mode as Between
from tests.testbed.mesh.needs import missing
from tests.testbed.mesh.proxies import OPTIONS
from tests.transition.bed import DRAIN_SECONDS, DRAINING, WAIT_SECONDS, Server
from tests.transition.callers import SECONDS, Keeper, answered
from tests.transition.move import KEY, SIDES

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from admc.transition.model import Step

pytestmark = pytest.mark.long

PROGRAM = """
app move
service shop { http 8080  replicas 2 }
service cart { http 8080 }
call shop -> cart
policy once   = add_request_header(name: "x-once", value: "1") on shop -> cart
policy closed = deny() on shop -> cart when header("x-out") == "1"
pin once at SIDE
pin closed at SIDE
"""


def placed(side: str) -> Placed:
    program = load_text(PROGRAM.replace("SIDE", side))
    return Placed(program, place(program))


class Pods:
    """A mesh whose proxies, one at each replica, ask a server, and whose rules are loaded when a step says so."""

    def __init__(self, mesh: Mesh, server: Server, folder: Path, socket: str, middle: Step) -> None:
        self.mesh, self._server = mesh, server
        passing = passthrough(mesh.program, mesh.addresses)
        assert passing is not None
        self.passing = snapshot(passing)
        self._admin: dict[str, tuple[str, int]] = {}
        self._binary = envoy_binary()
        # In the middle every service has an ADM.
        told = resources(middle, mesh.addresses, Mode.REDIRECT)
        for pod in self.names():
            path = folder / f"{pod.replace('/', '-')}.json"
            bootstrap = xds_bootstrap(told[pod.partition("/")[0]], ("xds", 1))
            made = json.loads(json_format.MessageToJson(bootstrap, preserving_proto_field_name=True))
            (xds,) = (each for each in made["static_resources"]["clusters"] if each["name"] == "xds")
            xds["type"] = "STATIC"
            xds.pop("upstream_bind_config", None)
            (locality,) = xds["load_assignment"]["endpoints"]
            locality["lb_endpoints"] = [{"endpoint": {"address": {"pipe": {"path": socket}}}}]
            path.write_text(json.dumps(made))
            admin = made["admin"]["address"]["socket_address"]
            self._admin[pod] = (str(admin["address"]), int(admin["port_value"]))
            options = (*OPTIONS, "--service-node", pod, "--drain-time-s", str(DRAIN_SECONDS))
            assert self._binary is not None
            mesh.start(pod, self._binary, "-c", str(path), *options)

    def names(self) -> list[str]:
        return [pod for pod in self.mesh.layout.by_name if pod.partition("/")[0] in self.mesh.program.services]

    def load(self, placed: Placed, services: tuple[str, ...]) -> None:
        """The rules of a placement, at every replica of some services."""
        made = {one.service: one for one in interceptions(*placed, self.mesh.addresses)}
        for pod in self.names():
            name = pod.partition("/")[0]
            if name in services and name in made:
                for family, tool in ((Family.IPV4, "iptables"), (Family.IPV6, "ip6tables")):
                    rules = restore_file(made[name], family)
                    self.mesh.run(pod, f"{tool}-restore", "--noflush", text=rules)

    def take(self, step: Step) -> None:
        told = resources(step, self.mesh.addresses, Mode.REDIRECT)
        store = self._server.store
        names = self.mesh.program.services
        made = {name: snapshot(told[name]) if name in told else self.passing for name in names}
        published = {name: keeping(step, each, store.current(name)) for name, each in made.items()}
        self._server.publish(published, len(self.names()))
        for service in step.intercept:
            self.load(step.parts[service].placed, (service,))
        if step.drain:
            time.sleep(DRAIN_SECONDS + MARGIN_SECONDS)
            for pod in self.names():
                self._until_older_connections_are_closed(pod)

    def _until_older_connections_are_closed(self, pod: str) -> None:
        """A busy machine is later than that, and its proxy says so."""
        deadline = time.monotonic() + WAIT_SECONDS
        while any(self._draining(pod)):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _draining(self, pod: str) -> list[int]:
        service, _, replica = pod.partition("/")
        page = http.client.HTTPConnection(*self._admin[pod])
        page.sock = self.mesh.connect(service, *self._admin[pod], replica=int(replica), timeout=SECONDS)
        try:
            page.request("GET", "/stats?filter=^listener_manager.total_")
            said = dict(line.split(": ") for line in page.getresponse().read().decode().splitlines())
        finally:
            page.close()
        return [int(said[f"listener_manager.total_{name}"]) for name in ("listeners_warming", *DRAINING)]


def go_round(callers: Collection[Keeper]) -> None:
    """Wait until each has been answered twice from now on, one after the other, so that the workers of the proxies in
    between have taken over what is acknowledged; and for as long that there are more than a few answers."""
    wanted = [(caller, len(caller.answers) + 3) for caller in callers]  # one may be under way
    deadline = time.monotonic() + WAIT_SECONDS
    time.sleep(0.2)
    while any(len(caller.answers) < count for caller, count in wanted):
        assert time.monotonic() < deadline, "callers get no answers"
        time.sleep(0.01)


@SIDES
def test_a_policy_moves_to_adms_that_were_not_there(sides: tuple[str, str], tmp_path: Path) -> None:
    if missing():
        pytest.skip("; ".join(missing()))
    old, new = placed(sides[0]), placed(sides[1])
    path = f"{tmp_path}/xds.sock"
    server = Server(f"unix:{path}")
    try:
        with Mesh(old.program, None, Between.NONE) as mesh:
            first = {each.service: snapshot(each) for each in emit(*old, mesh.addresses, Mode.REDIRECT, waiting=True)}
            walked = steps(old, new, KEY)
            pods = Pods(mesh, server, tmp_path, path, walked[1])
            server.publish({name: first.get(name, pods.passing) for name in old.program.services}, len(pods.names()))
            pods.load(old, tuple(first))
            address = mesh.address("cart")

            def caller(replica: int, **headers: str) -> Keeper:
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                return Keeper(lambda: mesh.connect("shop", address, 8080, replica=replica), named)

            passed = [caller(0), caller(1)]
            refused = [caller(0, x_out="1"), caller(1, x_out="1", x_admc_met="guess")]
            with passed[0], passed[1], refused[0], refused[1]:
                for step in walked:
                    pods.take(step)
                    go_round((*passed, *refused))
                # Who has no ADM any more keeps its redirection until its pods are replaced, and passes everything on:
                # when the last rule is taken away, the kernel forgets what it had redirected.
                go_round((*passed, *refused))
            answers = [answer for keeper in passed for answer in keeper.answers]
            # Rules that are loaded at a receiver that runs cut what is open there, and with it what is under way.
            cut = [answer for answer in answers if answer[1] != 200]
            assert len(cut) <= (len(passed) if new.placement.adms[0].service == "cart" else 0), cut[:5]
            answered(refused, 403)
            seen = [each.seen for each in mesh.arrivals("cart")]
            assert {each.header("x-once") for each in seen} == {("1",)}
            assert not any(each.header("x-out") or each.header("x-admc-met") for each in seen)
            # A connection that new rules cut may have carried a request whose answer was lost.
            assert abs(len(seen) - len(answers)) <= sum(keeper.connections for keeper in passed)
    finally:
        server.close()
