"""A program from its first apply to its end: each stage is done while callers send requests."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.rollout.model import StepName
from tests.cluster.traffic.counted import Count, count

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.traffic.mesh import Mesh

RATE = "20"
"""Requests a second of each of the two connections of a caller."""
QUIET_SECONDS = 3.0
LONGEST_SECONDS = 600.0
"""Of a move in which all pods are replaced; it waits for the earlier move's connections to be closed first."""
ONE, TWO = ("1",), ("2",)


class Stage(NamedTuple):
    what: str
    took: float
    began: float
    ended: float
    allowed: tuple[tuple[str, ...], ...]
    """What a request may have met; none: anything."""


@dataclass
class Life:
    mesh: Mesh
    stages: list[Stage] = field(default_factory=list)

    def stage(self, what: str, done: Callable[[], object], *allowed: tuple[str, ...]) -> None:
        """Do something under traffic, and a little longer."""
        began = time.monotonic()
        done()
        took = time.monotonic() - began
        time.sleep(QUIET_SECONDS)
        stage = Stage(what, took, began, time.monotonic(), allowed)
        self.stages.append(stage)
        print(f"{what}: {took:.1f} s, failed so far: {dict(self.count(stage).failed)}", flush=True)

    def run(self) -> None:
        mesh = self.mesh
        mesh.begin()
        mesh.workload("cart", "callee.py", "8081", port=8081)
        mesh.workload("web", "caller.py", "cart", "8081", RATE, port=8080)
        mesh.serve()
        self.stage("two services without a mesh", self.without, ())
        self.stage("the program is applied", self.applied, ())
        self.stage("pods are injected and replaced", self.injected, (), ONE)
        self.stage("the policy goes to the sender", lambda: self.moved("egress"), ONE)
        self.stage("the policy comes back to the receiver", lambda: self.moved("ingress"), ONE)
        self.stage("to the sender, and all pods are replaced", lambda: self.replaced("egress"), ONE)
        self.stage("to the receiver, and both scale from 2 to 4", lambda: self.scaled_up("ingress"), ONE)
        self.stage("its argument changes", self.changed, ONE, TWO)
        self.stage("both services scale to 2, 1 and 3", self.scaled, TWO)
        self.stage("the program is deleted", self.deleted, TWO)

    # ---- the stages ----

    def without(self) -> None:
        for name in ("cart", "web"):  # the application needs its receivers first
            self.mesh.deploy(name)
            self.mesh.rolled_out(name)

    def applied(self) -> None:
        self.mesh.program("ingress", "1")
        self.mesh.until(lambda: self.mesh.condition("Accepted")[0] == "True", "the program accepted")

    def injected(self) -> None:
        self.mesh.inject("cart", "web")
        self.mesh.rolled_out("cart", "web")
        self.mesh.until_programmed()

    def moved(self, side: str) -> None:
        """As a user does it: with a plan whose redirection pods lack, they are injected anew."""
        self.mesh.program(side, "1")
        self.mesh.until(self.mesh.has_new_plan, "the new plan")
        self.mesh.inject("cart", "web")
        self.mesh.rolled_out("cart", "web")
        self.mesh.until_programmed(LONGEST_SECONDS)

    def replaced(self, side: str) -> None:
        self._until_moving(side, StepName.SENDERS)
        self.mesh.restart("cart", "web")
        self.mesh.rolled_out("cart", "web")
        self.mesh.until_programmed(LONGEST_SECONDS)

    def scaled_up(self, side: str) -> None:
        self._until_moving(side, StepName.SENDERS)
        for name in ("cart", "web"):
            self.mesh.scale(name, 4)
        self.mesh.rolled_out("cart", "web")
        self.mesh.until_programmed(LONGEST_SECONDS)

    def changed(self) -> None:
        self.mesh.program("ingress", "2")
        self.mesh.until_programmed()

    def scaled(self) -> None:
        for number in (2, 1, 3):
            self.mesh.scale("cart", number)
            self.mesh.scale("web", number)
            self.mesh.rolled_out("cart", "web")

    def deleted(self) -> None:
        self.mesh.node.server.request("DELETE", "/apis/admc.dev/v1alpha1/programs/life")

    def _until_moving(self, side: str, step: StepName) -> None:
        """The policy is on its way to a side: the server has announced a step."""
        mesh = self.mesh
        assert mesh.server is not None
        before = len(mesh.events(mesh.server, "rollout_step"))
        mesh.program(side, "1")

        def is_announced() -> bool:
            assert mesh.server is not None
            return step in [each["step"] for each in mesh.events(mesh.server, "rollout_step")[before:]]

        mesh.until(is_announced, f"step `{step}`", LONGEST_SECONDS)

    # ---- what came of it ----

    def count(self, stage: Stage) -> Count:
        """A request that is under way is not counted yet."""
        return count(self.mesh.sent(stage.began, stage.ended), stage.allowed)

    def at_the_end(self, stage: Stage) -> int:
        """Failed requests in the last second of a caller whose pod goes: its proxy may end first."""
        last: dict[str, float] = {}
        for each in self.mesh.sent():
            last[each.pod] = each.began
        found = self.mesh.sent(stage.began, stage.ended)
        return sum(each.met is None and each.began > last[each.pod] - 1.0 for each in found)

    @property
    def wrong(self) -> int:
        """Requests that met the policy not once, or with another argument."""
        return sum(self.count(stage).wrong for stage in self.stages)

    @property
    def failed(self) -> Counter[str]:
        return sum((self.count(stage).failed for stage in self.stages), Counter())

    def print(self) -> None:
        print(f"{'stage':<45} {'took':>8} {'requests':>9} {'failed':>7} {'unenforced':>11} {'twice':>6} {'other':>6}")
        for stage in self.stages:
            found = self.count(stage)
            failed, wrong = found.failed.total(), f"{found.unenforced:>11} {found.twice:>6} {found.other:>6}"
            print(f"{stage.what:<45} {stage.took:>6.1f} s {found.requests:>9} {failed:>7} {wrong}")
            if failed:
                print(f"    {self.at_the_end(stage)} of these in the last second of a caller")
