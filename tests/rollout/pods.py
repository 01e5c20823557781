"""A mesh with real redirection, whose pods get rules while their connections are open, and callers in it."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING

from google.protobuf import json_format

from admc.rollout.resources import resources
from admc.serve.build.snapshots import snapshot
from admc.testbed.envoys import envoy_binary
from emitters.envoy import Mode, passthrough
from emitters.envoy.bootstrap import xds_bootstrap
from emitters.interception import Family, interceptions, restore_file
from tests.rollout.callers import SECONDS, Keeper
from tests.rollout.envoy_bed import DRAIN_SECONDS, DRAINING, WAIT_SECONDS, Server
from tests.testbed.mesh.mesh import Mesh
from tests.testbed.mesh.proxies import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from admc.rollout.model import Placed, Step


class Pods:
    """A mesh whose proxies, one at each replica, ask a server, and whose rules are loaded when a step says so."""

    def __init__(self, mesh: Mesh, server: Server, folder: Path, socket: str, middle: Step) -> None:
        self.mesh, self._server = mesh, server
        passing = passthrough(mesh.program, mesh.addresses, by_chain=True)
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
