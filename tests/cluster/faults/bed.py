"""An installation in which policies move: its servers, the step at which a fault is given, and when it is over."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.kubernetes.cluster.storage.record import Names
from admc.kubernetes.inject.model import Installation, PodNeeds
from admc.kubernetes.inject.template import injected
from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import STEPS
from emitters.interception.pod import PodCaptures
from tests.cluster.faults.servers import SLOTS, Server, Servers, behind, ops, xds
from tests.cluster.faults.stored import StoredStates
from tests.cluster.node.machine import ADDRESS
from tests.cluster.traffic.drained import drain_after
from tests.cluster.traffic.mesh import SYSTEM, XDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.process import Running
    from tests.cluster.traffic.mesh import Mesh

RATE: Final = "20"
"""Requests a second of each of the two connections of a caller."""
REPLICAS: Final = 2
HELD_SECONDS: Final = 3.0
"""How long a proxy is held back after a fault."""
LONGEST_SECONDS: Final = 600.0
SENDER, RECEIVER = "web", "cart"
CAPTURED: Final = {SENDER: PodCaptures(frozenset(), frozenset((8081,))), RECEIVER: PodCaptures(frozenset((8081,)))}
"""What the plans of both sides need: so policies move without new pods."""


class Away(NamedTuple):
    """Requests fail while a proxy does not run."""

    pod: str
    """Of a caller; empty: of a receiver, which all callers may reach."""
    began: float
    ended: float


class Bed:
    def __init__(self, mesh: Mesh, drain: int) -> None:
        """`drain`: for how many seconds older connections may go on in a move."""
        self.mesh, self.drain = mesh, drain
        self.node = mesh.node
        self.servers = Servers(mesh.node.machine)
        self.side = "ingress"
        self.given = 0.0
        """When the fault was given."""
        self.held = ""
        """The pod that receives nothing from the servers."""
        self._address = ""
        self.notes: list[str] = []
        self.away: list[Away] = []
        self.proxy: Running | None = None
        """Between a server and the API server."""
        self.clock = mesh.folder / "clock"
        """By how much the clock of a server is wrong."""

    # ---- begin and end ----

    def begin(self) -> None:
        mesh = self.mesh
        self._drain_before = drain_after(self.drain)
        mesh.command = ("tests.cluster.traffic.drained", str(self.drain))
        mesh.begin()
        self.stored = StoredStates(self.node.server, Names(mesh.name, SYSTEM))
        self.servers.begin()
        mesh.workload(RECEIVER, "callee.py", "8081", port=8081, replicas=REPLICAS)
        mesh.workload(SENDER, "caller.py", RECEIVER, "8081", RATE, port=8080, replicas=REPLICAS)
        mesh.program(self.side, "1")
        self.serve()
        mesh.until(lambda: self.node.get("ConfigMap", f"admc-{mesh.name}", mesh.name), "the configuration of proxies")
        for name in (RECEIVER, SENDER):
            self._inject(name)
            mesh.rolled_out(name)
        mesh.until_programmed()

    def end(self) -> None:
        self.stored.close()
        self.servers.close()
        self.mesh.end()
        drain_after(self._drain_before)

    def _inject(self, name: str) -> None:
        """As `admc inject` does in the middle of a move: with what the plans of both sides need."""
        installation = Installation(self.mesh.name, f"{self.mesh.host}:{XDS}", "admc:test", "envoy:test")
        manifest = deepcopy(self.mesh.manifests[name])
        spec = manifest["spec"]
        made = injected(spec["template"], PodNeeds(f"life/{name}", CAPTURED[name], waits=True), installation)
        assert made.template is not None, made.findings
        spec["template"] = dict(made.template)
        self.node.apply(manifest)

    # ---- servers ----

    def serve(
        self, slot: int = 0, *, kubeconfig: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Server:
        name = f"admc-{len(self.servers.all) + 1}"
        running = self.mesh.serve(name, xds=xds(slot), ops=ops(slot), kubeconfig=kubeconfig, environment=environment)
        server = Server(running, slot, is_plain=kubeconfig is None and environment is None)
        self.servers.all.append(server)
        return server

    @property
    def active(self) -> Server:
        found = self.servers.active
        assert found is not None, "no server is active"
        return found

    def one_server(self) -> None:
        """Have one server that reads the cluster directly."""
        found = self.servers.active
        keeps = found if found is not None and found.is_plain else None
        self._end_all_but(keeps)
        if keeps is None:
            self.until_active(self.serve())

    def another_server(self, *, kubeconfig: Path | None = None, environment: Mapping[str, str] | None = None) -> Server:
        """One alone, in the place of all others."""
        self._end_all_but(None)
        server = self.serve(kubeconfig=kubeconfig, environment=environment)
        self.until_active(server)
        return server

    def with_standby(self) -> None:
        """One is active, and one stands by."""
        self.one_server()
        server = self.serve((self.active.slot + 1) % SLOTS)
        self.node.wait_for(lambda: self.has_logged(server, "kept_state_ready"), "the server that stands by")

    @property
    def standing_by(self) -> Server:
        return next(each for each in self.servers.running if each is not self.active)

    def _end_all_but(self, kept: Server | None) -> None:
        for each in self.servers.running:
            if each is not kept:
                each.running.terminate()

    def until_active(self, server: Server) -> None:
        self.node.wait_for(lambda: self.has_logged(server, "active"), f"{server.name} active")

    def has_logged(self, server: Server, event: str) -> bool:
        return any(each.server == server.name for each in self.servers.of(event))

    def until_in_sync(self) -> None:
        """All proxies are connected to the active server, and have what they are to have."""
        self.mesh.until(self._is_in_sync, "all proxies connected and in sync", LONGEST_SECONDS)

    def until_at_rest(self) -> None:
        """No connection is left that is older than the last move, and the state that is stored says so."""
        self.until_in_sync()
        self.mesh.until(self._is_at_rest, "no older connection", LONGEST_SECONDS)

    def _is_at_rest(self) -> bool:
        state = self.stored.found[-1].rollout if self.stored.found else None
        return state is not None and state.now.goal is None and len(state.may_have) == 1 and not state.kept

    def _is_in_sync(self) -> bool:
        active = self.servers.active
        status = None if active is None else self.servers.status(active.slot)
        if status is None:
            return False
        nodes = {row["service"]: len(row["nodes"]) for row in status["adms"] if row["in_sync"]}
        return all(nodes.get(name) == len(self.pods(name)) for name in (SENDER, RECEIVER))

    # ---- pods ----

    def pods(self, service: str) -> list[tuple[str, str]]:
        """Names and addresses."""
        found = self.node.pods(self.mesh.name, f"app={service}")
        return sorted((each["metadata"]["name"], each["status"].get("podIP", "")) for each in found)

    def kill_container(self, container: str) -> None:
        self.node.containers.ctr("task", "kill", "--signal", "SIGKILL", container)

    def until_all_call(self, since: float) -> None:
        """Each caller has sent requests since a time that met something."""

        def is_so() -> bool:
            calling = {each.pod for each in self.mesh.sent(since) if each.met is not None}
            return calling >= {name for name, _ in self.pods(SENDER)}

        self.mesh.until(is_so, "requests of all callers", LONGEST_SECONDS)

    # ---- a move, and the step in which the fault comes ----

    def move_until(self, step: StepName) -> float:
        """Let the policy go to the other side until a step is announced that one proxy does not get, and so cannot
        acknowledge; returns when it was announced."""
        since = time.monotonic()
        if step is STEPS[0]:
            self.hold(RECEIVER)
            self._go()
            return self._announced(step, since)
        self._go()
        before = STEPS[STEPS.index(step) - 1]
        # The held proxy has acknowledged the step before. What follows comes a second later, in `prepare` when older
        # connections are closed.
        pause = self.drain - 2.0 if before is STEPS[0] else 0.3
        time.sleep(max(0.0, self._announced(before, since) + pause - time.monotonic()))
        self.hold(RECEIVER if step is StepName.RECEIVERS else SENDER)
        return self._announced(step, since)

    def _go(self) -> None:
        self.side = "egress" if self.side == "ingress" else "ingress"
        self.mesh.program(self.side, "1")

    def _announced(self, step: StepName, since: float) -> float:
        def found() -> list[float]:
            return [each.at for each in self.servers.of("rollout_step", since) if each.fields["step"] == step]

        self.node.wait_for(found, f"step `{step}`", LONGEST_SECONDS)
        return found()[0]

    def hold(self, service: str) -> None:
        """From now on the packets of the servers to a pod of a service are lost."""
        self.held, self._address = self.pods(service)[0]
        self._rule("-I")

    def release(self) -> None:
        if self._address:
            self._rule("-D")
        self._address = ""

    def _rule(self, change: str) -> None:
        ports = ",".join(str(xds(slot)) for slot in range(SLOTS))
        rule = ["-s", ADDRESS, "-d", self._address, "-p", "tcp", "-m", "multiport", "--sports", ports, "-j", "DROP"]
        self.node.machine.run(["iptables", "--wait", "10", change, "OUTPUT", *rule])

    def until_others_follow(self) -> None:
        """All proxies have acknowledged the present step, except the one that is held back."""
        slot = self.active.slot
        self.node.wait_for(lambda: behind(self.servers.status(slot)) == [self.held], f"all but {self.held} follow")

    # ---- the fault ----

    def faulty(self) -> None:
        """The fault was given just now."""
        self.given = time.monotonic()

    def wait(self, seconds: float) -> None:
        """Let the fault last. The held proxy gets packets again after some seconds."""
        time.sleep(min(seconds, HELD_SECONDS))
        self.release()
        time.sleep(max(0.0, seconds - HELD_SECONDS))
