"""A rollout with real redirection: pods get rules while connections are open, and services without an ADM pass on."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from admc.serve.compiling.snapshots import snapshot
from admc.serve.rollout.captures import captures
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.resources import Emitted
from admc.serve.rollout.retention import retained
from admc.serve.rollout.steps import steps
from dsl import load_text
from emitters.envoy import Mode, emit, passthrough
from emitters.hops import hops
from emitters.interception.pod import pod_captures
from solver.place import place
from tests.serve.rollout.envoy_bed import WAIT_SECONDS, Server
from tests.serve.traffic.pods import Pods
from tests.testbed.callers import caller, names_with_status, wait_for_workers
from tests.testbed.draining import DRAIN_SECONDS
from tests.testbed.mesh.mesh import Mesh
from tests.testbed.mesh.mesh import Mode as Between
from tests.testbed.mesh.needed import NEEDS_ROOT
from tests.testbed.mesh.needs import missing
from tests.testbed.mesh.source_ports import SourcePorts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.serve.rollout.model import Step
    from tests.testbed.callers import Caller
    from xds_server.resources.snapshot import Snapshot

KEY = b"a key of the server"
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


def program_text(side: str) -> str:
    return PROGRAM.replace("SIDE", side)


def placed(side: str) -> Placed:
    program = load_text(program_text(side))
    return Placed(program, place(program))


class Rollout:
    """Publishes to the proxies of a mesh, one at each replica. A service without an ADM gets a passthrough."""

    def __init__(self, pods: Pods, server: Server, mode: Mode = Mode.REDIRECT) -> None:
        self._pods, self._server, self._addresses, self._mode = pods, server, pods.mesh.addresses, mode
        services = pods.mesh.program.services
        self.names = [name for name in pods.mesh.layout.by_name if name.partition("/")[0] in services]
        passing = passthrough(pods.mesh.program, self._addresses, mode, by_chain=True)
        assert passing is not None
        self._passing = snapshot(passing)

    def rest(self, plan: Placed) -> None:
        made = emit(*plan, self._addresses, self._mode, waiting=True, by_chain=True)
        self._publish({each.service: snapshot(each) for each in made})

    def take(self, step: Step) -> None:
        made = Emitted(step, self._addresses, self._mode).at(step)
        self._publish({service: snapshot(each) for service, each in made.items()})

    def load(self, placed: Placed, *services: str) -> None:
        """Load the rules of a placement at all replicas of these services."""
        self._pods.load_placed(placed, *(name for name in self.names if name.partition("/")[0] in services))

    def wait_until_older_connections_are_closed(self) -> None:
        time.sleep(DRAIN_SECONDS)
        deadline = time.monotonic() + WAIT_SECONDS
        while any(map(self._pods.is_draining, self.names)):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _publish(self, made: Mapping[str, Snapshot]) -> None:
        new = {name: made.get(name, self._passing) for name in self._pods.mesh.program.services}
        before = {name: found for name in new if (found := self._server.store.current(name)) is not None}
        self._server.publish(retained(before, new, {}), len(self.names))


@pytest.mark.long
@pytest.mark.parametrize("sides", [("ingress", "egress"), pytest.param(("egress", "ingress"), marks=pytest.mark.long)])
def test_a_policy_moves_to_adms_that_were_not_there(sides: tuple[str, str], tmp_path: Path) -> None:
    if missing():
        pytest.skip("; ".join(missing()))
    old, new = placed(sides[0]), placed(sides[1])
    path = f"{tmp_path}/xds.sock"
    server = Server(f"unix:{path}")
    try:
        with Mesh(old.program, None, Between.NONE) as mesh:
            pods = Pods(mesh, tmp_path, path, program_text(sides[0]))
            rollout = Rollout(pods, server)
            for name in rollout.names:
                pods.start(name)
            rollout.rest(old)
            rollout.load(old, *old.program.services)
            address, ports = mesh.address("cart"), SourcePorts(mesh)

            def caller_at(pod: str, headers: Mapping[str, str]) -> Caller:
                return caller(lambda: ports.connect(pod, address, 8080), headers)

            passed = [caller_at("shop/0", {}), caller_at("shop/1", {})]
            forged = {"x-out": "1", "x-admc-met": "guess"}
            refused = [caller_at("shop/0", {"x-out": "1"}), caller_at("shop/1", forged)]
            callers = (*passed, *refused)
            with passed[0], passed[1], refused[0], refused[1]:
                wait_for_workers(callers)
                for name, step in steps(old, new, KEY).items():
                    rollout.take(step)
                    if name is StepName.PREPARE:
                        for service in captures(step.merged):
                            rollout.load(step.merged, service)
                        rollout.wait_until_older_connections_are_closed()
                    wait_for_workers(callers)
                rollout.rest(new)
                rollout.wait_until_older_connections_are_closed()
                wait_for_workers(callers)
            answers = [request for each in passed for request in each.answered]
            # Rules that are loaded at a running receiver cut open connections there, and the requests on them.
            cut = [request for request in answers if request.status != 200]
            assert len(cut) <= (len(passed) if new.placement.adms[0].service == "cart" else 0), cut[:5]
            names_with_status(refused, 403)
            seen = [each.seen for each in mesh.arrivals("cart")]
            assert {each.header("x-once") for each in seen} == {("1",)}
            assert not any(each.header("x-out") or each.header("x-admc-met") for each in seen)
            # New rules may cut a connection after the request arrived, and before its response.
            assert abs(len(seen) - len(answers)) <= sum(each.connections for each in passed)
    finally:
        server.close()


@pytest.mark.long
@NEEDS_ROOT
@pytest.mark.parametrize("sides", [("ingress", "egress"), pytest.param(("egress", "ingress"), marks=pytest.mark.long)])
def test_a_policy_moves_between_adms_of_pods_whose_rules_never_change(sides: tuple[str, str]) -> None:
    """They capture for both plans from the start, so no connection is cut."""
    if missing():
        pytest.skip("; ".join(missing()))
    old, new = placed(sides[0]), placed(sides[1])
    with tempfile.TemporaryDirectory(prefix="admc-pods-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = Server(f"unix:{folder}/xds.sock")
        (folder / "xds.sock").chmod(0o777)
        try:
            with Mesh(old.program, None, Between.NONE) as mesh:
                pods = Pods(mesh, folder, f"{folder}/xds.sock", program_text(sides[0]), Mode.POD)
                pods.load_for_good(
                    {service: pod_captures(taken) for plan in (old, new) for service, taken in hops(*plan).items()}
                )
                rollout = Rollout(pods, server, Mode.POD)
                for each in rollout.names:
                    pods.start(each)
                rollout.rest(old)
                address, ports = mesh.address("cart"), SourcePorts(mesh)

                def caller_at(pod: str, headers: Mapping[str, str]) -> Caller:
                    return caller(lambda: ports.connect(pod, address, 8080), headers)

                passed = [caller_at("shop/0", {}), caller_at("shop/1", {})]
                refused = [caller_at("shop/0", {"x-out": "1"}), caller_at("shop/1", {"x-out": "1", "x-admc-met": "a"})]
                wait_until_ready(pods, rollout.names)
                with passed[0], passed[1], refused[0], refused[1]:
                    wait_for_workers((*passed, *refused))
                    for step in steps(old, new, KEY).values():
                        rollout.take(step)
                        rollout.wait_until_older_connections_are_closed()
                        wait_for_workers((*passed, *refused))
                    rollout.rest(new)
                    rollout.wait_until_older_connections_are_closed()
                    wait_for_workers((*passed, *refused))
                answers = [request for each in passed for request in each.answered]
                assert len(answers) > 20
                assert {request.status for request in answers} == {200}
                names_with_status(refused, 403)
                seen = [each.seen for each in mesh.arrivals("cart")]
                assert {each.header("x-once") for each in seen} == {("1",)}
                assert len(seen) == len(answers)
        finally:
            server.close()


def wait_until_ready(pods: Pods, names: Sequence[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not all(map(pods.ready, names)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
