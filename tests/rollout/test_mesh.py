"""A rollout with real redirection: pods get rules while their connections are open, and proxies that only pass on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from admc.rollout.model import Placed, StepName
from admc.rollout.resources import resources
from admc.rollout.retention import retained
from admc.rollout.steps import steps
from admc.serve.build.snapshots import snapshot
from dsl import load_text
from emitters.envoy import Mode, emit
from solver.place import place
from tests.rollout import pods as callers_and_pods
from tests.rollout.callers import Keeper, answered
from tests.rollout.envoy_bed import DRAIN_SECONDS, Server
from tests.testbed.mesh.mesh import Mesh
from tests.testbed.mesh.mesh import Mode as Between
from tests.testbed.mesh.needs import missing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from admc.rollout.model import Step
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


def placed(side: str) -> Placed:
    program = load_text(PROGRAM.replace("SIDE", side))
    return Placed(program, place(program))


class Pods(callers_and_pods.Pods):
    """A mesh whose proxies, one at each replica, follow a rollout."""

    def at_rest(self, plan: Placed) -> dict[str, Snapshot]:
        made = emit(*plan, self.mesh.addresses, Mode.REDIRECT, waiting=True, by_chain=True)
        return {each.service: snapshot(each) for each in made}

    def step(self, step: Step) -> dict[str, Snapshot]:
        made = resources(step, self.mesh.addresses, Mode.REDIRECT)
        return {service: snapshot(each) for service, each in made.items()}

    def publish(self, made: Mapping[str, Snapshot]) -> None:
        new = {name: made.get(name, self.passing) for name in self.mesh.program.services}
        store = self._server.store
        before = {name: found for name in new if (found := store.current(name)) is not None}
        self._server.publish(retained(before, new, {}), len(self.names()))

    def until_older_connections_are_closed(self) -> None:
        time.sleep(DRAIN_SECONDS)
        for pod in self.names():
            self._until_older_connections_are_closed(pod)


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_a_policy_moves_to_adms_that_were_not_there(sides: tuple[str, str], tmp_path: Path) -> None:
    if missing():
        pytest.skip("; ".join(missing()))
    old, new = placed(sides[0]), placed(sides[1])
    path = f"{tmp_path}/xds.sock"
    server = Server(f"unix:{path}")
    try:
        with Mesh(old.program, None, Between.NONE) as mesh:
            walked = steps(old, new, KEY)
            pods = Pods(mesh, server, tmp_path, path, walked[StepName.PREPARE])
            pods.publish(pods.at_rest(old))
            pods.load(old, tuple(old.program.services))
            address = mesh.address("cart")

            def caller(replica: int, **headers: str) -> Keeper:
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                return Keeper(lambda: mesh.connect("shop", address, 8080, replica=replica), named)

            passed = [caller(0), caller(1)]
            refused = [caller(0, x_out="1"), caller(1, x_out="1", x_admc_met="guess")]
            with passed[0], passed[1], refused[0], refused[1]:
                callers_and_pods.go_round((*passed, *refused))
                for name, step in walked.items():
                    pods.publish(pods.step(step))
                    if name is StepName.PREPARE:
                        for service in step.redirected:
                            pods.load(step.redirected[service], (service,))
                        pods.until_older_connections_are_closed()
                    callers_and_pods.go_round((*passed, *refused))
                pods.publish(pods.at_rest(new))
                pods.until_older_connections_are_closed()
                callers_and_pods.go_round((*passed, *refused))
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
